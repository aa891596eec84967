//! Tests the limit of memory, where the broker tells the engine that the memory is full.

use std::sync::Arc;

use lineshaft_broker::policy::{DeadTarget, Rule, Rules, Setting};
use lineshaft_broker::{Broker, GrabOrder, Millis, News, Options, PutRefusal, Submit};

const NOW: Millis = Millis(1_000_000);

/// The bytes of jobs that fit into the limit.
const ROOM_BYTES: u64 = 1_000_000;

fn open(disk: &log::FaultDisk) -> Broker {
    let disk = Arc::new(disk.clone());
    let options = Options::without_threads(disk, log::Settings::default());
    Broker::open(options, NOW).expect("the log is whole").0
}

fn work(broker: &Broker) {
    broker.commit_step(NOW).expect("the disk works");
    broker.prepare_step().expect("the disk works");
}

#[test]
fn failures_at_the_limit_of_memory_leave_little_more_than_the_jobs() {
    let disk = log::FaultDisk::new(1, 64 << 20);
    let broker = open(&disk);
    let dead = [
        Setting::Retries(true),
        Setting::RetryLimit(0),
        Setting::DeadQueue(DeadTarget::Queue(b"dead.{name}"[..].into())),
    ];
    let mut turn = broker.turn(NOW);
    let _ = turn.set_policies(Rules(vec![Rule::new(["*"], dead)]));
    let worker = turn.open_session(0);
    let function = [b'f'; 1000];
    turn.caller(worker).register(&function, None);
    drop(turn);
    let limit = broker.memory_usage().used_bytes + ROOM_BYTES;
    broker.set_memory_limit(Some(limit));
    let mut jobs = 0;
    let refusal = loop {
        let mut turn = broker.turn(NOW);
        let submit = Submit {
            priority: None,
            due: None,
            unique: b"",
            reducer: b"",
            body: b"x"[..].into(),
            foreground: false,
        };
        let submitted = turn.caller(worker).submit(&function, submit);
        drop(turn);
        match submitted.value {
            Ok(_) => jobs += 1,
            Err(refusal) => break refusal,
        }
        if jobs % 64 == 0 {
            work(&broker);
        }
    };
    assert!(refusal == PutRefusal::MemoryFull && jobs > 1000, "{refusal:?} after {jobs} jobs");
    let news = News::Exception(vec![b'x'; 1024].into());
    for number in 0..jobs {
        let mut turn = broker.turn(NOW);
        let mut caller = turn.caller(worker);
        let taken = caller.take_registered(GrabOrder::NewestFirst).value;
        let id = taken.expect("there are more jobs").handout.id;
        caller.fail(id, &news).value.expect("the worker holds it");
        drop(turn);
        if number % 64 == 0 {
            work(&broker);
        }
    }
    let used = broker.memory_usage().used_bytes;
    assert!(used < limit + ROOM_BYTES, "{used} bytes of {limit}");
    let turn = broker.turn(NOW);
    assert_eq!(turn.queue_stats(&function).map(|stats| stats.buried), Some(jobs));
}
