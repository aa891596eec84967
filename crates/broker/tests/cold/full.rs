//! Cold jobs at the limit of memory.

use super::*;

/// Starts again with cold jobs, also at the head of their queue.
fn with_cold_head() -> (Broker, Vec<JobId>) {
    let disk = log::FaultDisk::new(33, 64 << 20);
    let (broker, _, ids) = with_cold_jobs(&disk);
    broker.close(NOW).expect("the disk works");
    drop(broker);
    disk.restart();
    (open(&disk), ids)
}

#[test]
fn at_the_limit_one_block_is_loaded_at_a_time_and_what_nobody_needs_leaves_again() {
    let (broker, ids) = with_cold_head();
    let before = broker.cold_jobs();
    broker.set_memory_limit(Some(1));
    let session = broker.turn(NOW).open_session(0);
    for (taken, id) in (1..).zip(&ids[..5]) {
        assert!(!broker.turn(NOW).caller(session).is_at_hand(Need::Watched), "the head is cold");
        assert!(broker.load_step(NOW));
        let loaded = before - (taken - 1) - broker.cold_jobs();
        assert!((1..=256).contains(&loaded), "{loaded} jobs were loaded");
        assert_eq!(take(&broker, session), Some(*id));
        while broker.load_step(NOW) {}
        while broker.cool_step(NOW) {}
        assert_eq!(broker.cold_jobs(), before - taken);
        broker.turn(NOW).check_invariants();
    }
    broker.set_memory_limit(None);
    assert_eq!(take(&broker, session), Some(ids[5]));
    assert!(broker.cold_jobs() < before - 1000, "{} jobs are cold", broker.cold_jobs());
}
