//! What is kept of queues, with a log that is driven by hand.

use std::sync::Arc;

use lineshaft_broker::{Broker, Millis, NewJob, Options};

const NOW: Millis = Millis(1_000_000);

fn open(disk: &log::FaultDisk) -> Broker {
    let disk = Arc::new(disk.clone());
    let options = Options { disk, log: log::Settings::default(), clock: None };
    Broker::open(options, NOW).expect("the log is whole").0
}

#[test]
fn a_dropped_queue_stays_away_and_another_stays() {
    let disk = log::FaultDisk::new(1, 64 << 20);
    let broker = open(&disk);
    let mut turn = broker.turn(NOW);
    for name in [&b"kept"[..], b"dropped", b"used"] {
        turn.create_queue(name);
        turn.limit_queue(name, [1, 2, 3]).expect("it exists");
    }
    let session = turn.open_session(0);
    turn.use_queue(session, b"used");
    turn.put(session, NewJob::default(), b"x"[..].into()).expect("there is room");
    for name in [&b"dropped"[..], b"used"] {
        assert!(turn.drop_queue(name).expect("it exists").0);
    }
    assert!(turn.queue_stats(b"dropped").is_none());
    assert_eq!(turn.queue_stats(b"used").expect("a session uses it").ready, 0);
    drop(turn);
    broker.close(NOW).expect("the disk works");
    drop(broker);
    disk.restart();
    let broker = open(&disk);
    let turn = broker.turn(NOW);
    let names: Vec<&[u8]> = turn.queue_names().collect();
    assert_eq!(names, [&b"default"[..], b"kept"]);
    assert_eq!(turn.queue_facts(b"kept").expect("it exists").limits, [1, 2, 3]);
}
