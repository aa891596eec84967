//! Tests the lock of the broker, and what the requests of one turn share.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use lineshaft_broker::{Broker, EngineSetup, Millis, NewJob, Options, PutRefusal};

const NOW: Millis = Millis(1_000_000);

fn open() -> Broker {
    let disk = Arc::new(log::FaultDisk::new(1, 64 << 20));
    let options = Options::without_threads(disk, log::Settings::default());
    Broker::open(options, NOW).expect("the log is whole").0
}

#[test]
fn no_turn_begins_after_a_panic_in_a_turn() {
    let broker = open();
    let fails = |act: &dyn Fn()| catch_unwind(AssertUnwindSafe(act)).is_err();
    assert!(!fails(&|| drop(broker.turn(NOW))));
    assert!(fails(&|| {
        let _turn = broker.turn(NOW);
        panic!("a request is half done");
    }));
    assert!(fails(&|| drop(broker.turn(NOW))));
}

/// Takes a turn when it is dropped, like a session that is closed.
struct Closes<'a>(&'a Broker);

impl Drop for Closes<'_> {
    fn drop(&mut self) {
        drop(self.0.turn(NOW));
    }
}

#[test]
fn a_turn_during_a_panic_that_began_before_it_harms_nobody() {
    let broker = open();
    let failed = catch_unwind(AssertUnwindSafe(|| {
        let _closes = Closes(&broker);
        panic!("not during a turn");
    }));
    assert!(failed.is_err());
    drop(broker.turn(NOW));
}

#[test]
fn puts_of_one_turn_share_the_limit_of_memory_as_puts_of_many_do() {
    let accepted = |puts_per_turn: usize| {
        let broker = Broker::memory(EngineSetup::default(), NOW);
        let session = broker.turn(NOW).open_session(0);
        let limit = broker.memory_usage().used_bytes + 300_000;
        broker.set_memory_limit(Some(limit));
        let (mut ids, mut is_full) = (Vec::new(), false);
        while !is_full {
            let mut turn = broker.turn(NOW);
            for _ in 0..puts_per_turn {
                match turn.caller(session).put(NewJob::default(), [b'x'; 1000][..].into()).value {
                    Ok(id) => ids.push(id),
                    Err(refusal) => {
                        assert_eq!(refusal, PutRefusal::MemoryFull);
                        is_full = true;
                    }
                }
            }
        }
        let used = broker.memory_usage().used_bytes;
        assert!(used <= limit && used > limit - 5_000, "{used} of {limit}");
        // Within a turn, an end makes room for one more.
        let mut turn = broker.turn(NOW);
        turn.caller(session).finish(ids[0]).value.expect("anybody may finish a ready job");
        let mut put = || turn.caller(session).put(NewJob::default(), [b'x'; 1000][..].into()).value;
        put().expect("there is room");
        assert_eq!(put(), Err(PutRefusal::MemoryFull));
        ids.len()
    };
    assert_eq!(accepted(1000), accepted(1));
}
