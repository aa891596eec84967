//! Tests how the broker assigns ids while the log is slow to reserve them.

use std::sync::Arc;

use lineshaft_broker::{Broker, Millis, NewJob, Options};

const NOW: Millis = Millis(1_000_000);

#[test]
fn numbers_are_not_dealt_again_after_a_sync_that_took_long() {
    let disk = log::FaultDisk::new(1, 64 << 20);
    let open = || {
        let options = Options::without_threads(Arc::new(disk.clone()), log::Settings::default());
        Broker::open(options, NOW).expect("the log is whole").0
    };
    let put = |broker: &Broker| {
        let mut turn = broker.turn(NOW);
        let session = turn.open_session(0);
        turn.caller(session).put(NewJob::default(), b"x"[..].into()).value.expect("there is room")
    };
    let broker = open();
    // The log gets no entry for these changes. So only the lack of ids can make the broker
    // congested.
    let deal = |broker: &Broker| {
        for _ in 0..1 << 12 {
            let mut turn = broker.turn(NOW);
            for _ in 0..1 << 10 {
                turn.skip_job_id();
            }
            drop(turn);
            if broker.congested() {
                return;
            }
        }
    };
    deal(&broker);
    assert!(broker.congested(), "the log has not reserved as many");
    broker.commit_step(NOW).expect("the disk works");
    assert!(!broker.congested(), "now it has");
    deal(&broker);
    assert!(broker.congested(), "it has reserved no more");
    let last = put(&broker);
    drop(broker);
    disk.restart();
    let next = put(&open());
    assert!(next > last, "{next} comes after {last}");
}
