//! Cold jobs at the limit of memory.

use lineshaft_broker::limits::FULL_MEMORY_LEASES;
use lineshaft_broker::{GrabOrder, Refusal};

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
        let left = broker.cold_jobs();
        while broker.load_step(NOW) {}
        assert_eq!(broker.cold_jobs(), left, "nobody waits for the next block");
        while broker.cool_step(NOW) {}
        assert_eq!(broker.cold_jobs(), before - taken);
        broker.turn(NOW).check_invariants();
    }
    broker.set_memory_limit(None);
    assert_eq!(take(&broker, session), Some(ids[5]));
    assert!(broker.cold_jobs() < before - 1000, "{} jobs are cold", broker.cold_jobs());
}

#[test]
fn at_the_limit_a_session_that_holds_many_jobs_gets_no_other_one_beside_cold_jobs() {
    let (broker, ids) = with_cold_head();
    let [holder, other] = [(); 2].map(|()| broker.turn(NOW).open_session(0));
    broker.set_memory_limit(Some(1));
    let (held, ids) = ids.split_at(FULL_MEMORY_LEASES);
    for id in held {
        assert_eq!(take_at(&broker, holder, NOW), Some(*id));
    }
    // The next job is in memory now, because it is in the same block.
    for patience in [Patience::None, Patience::Millis(5), Patience::Endless] {
        let mut turn = broker.turn(NOW);
        assert!(turn.caller(holder).is_at_hand(Need::Watched), "no load is needed");
        let taken = turn.caller(holder).take(patience).value;
        assert!(matches!(taken, Take::Nothing(_) | Take::DeadlineSoon), "{taken:?}");
    }
    let named = broker.turn(NOW).caller(holder).take_job(ids[0]).value;
    assert_eq!(named.err(), Some(Refusal::MemoryFull));
    assert_eq!(take(&broker, other), Some(ids[0]), "it holds no job");
    broker.turn(NOW).caller(holder).finish(held[0]).value.expect("it holds the job");
    assert_eq!(take_at(&broker, holder, NOW), Some(ids[1]));
    broker.set_memory_limit(None);
    assert_eq!(take_at(&broker, holder, NOW), Some(ids[2]), "there is memory again");
    broker.turn(NOW).check_invariants();
}

#[test]
fn at_the_limit_a_worker_that_holds_many_jobs_stays_awake_beside_cold_jobs() {
    let (broker, ids) = with_cold_head();
    let worker = broker.turn(NOW).open_worker_session(0);
    broker.turn(NOW).caller(worker).use_queue(b"other");
    let put = broker.turn(NOW).caller(worker).put(NewJob::default(), b"another"[..].into());
    let other = put.value.expect("there is room");
    broker.set_memory_limit(Some(1));
    broker.turn(NOW).caller(worker).register(b"default", None);
    let grab = || {
        while !broker.turn(NOW).caller(worker).is_at_hand(Need::Registered) {
            assert!(broker.load_step(NOW));
        }
        let mut turn = broker.turn(NOW);
        let mut caller = turn.caller(worker);
        let taken = caller.take_registered(GrabOrder::NewestFirst).value;
        taken.map(|assignment| assignment.handout.id)
    };
    for id in &ids[..FULL_MEMORY_LEASES] {
        assert_eq!(grab(), Some(*id));
    }
    assert_eq!(grab(), None);
    let mut turn = broker.turn(NOW);
    assert!(turn.caller(worker).is_at_hand(Need::Sleep), "no load is needed");
    assert!(!turn.caller(worker).sleep(), "nothing would wake it");
    // The newest registration comes first.
    turn.caller(worker).register(b"other", None);
    drop(turn);
    assert_eq!(grab(), Some(other), "its queue has no cold jobs");
    assert_eq!(grab(), None);
    for id in &ids[..2] {
        broker.turn(NOW).caller(worker).finish(*id).value.expect("it holds the job");
    }
    assert_eq!(grab(), Some(ids[FULL_MEMORY_LEASES]));
    broker.turn(NOW).check_invariants();
}
