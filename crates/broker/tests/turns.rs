//! Tests the lock of the broker.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use lineshaft_broker::{Broker, Millis, Options};

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
