//! Tests what becomes of jobs whose segment cannot be read, or only later: reclaim writes them to the
//! end of the log with their bodies in memory.

use lineshaft_broker::{Broker, JobId, Millis};

use crate::{NOW, body, open, open_without_limit, put, reclaim};

/// Puts 6,000 jobs, and finishes every second one. Returns all ids.
fn put_and_finish_half(broker: &Broker) -> Vec<JobId> {
    let ids = put(broker, 0..6000);
    let session = broker.turn(NOW).open_session(0);
    for id in ids.iter().skip(1).step_by(2) {
        broker.turn(NOW).caller(session).finish(*id).value.expect("nobody holds it");
    }
    ids
}

#[test]
fn stored_bodies_beside_a_bad_sector_are_written_again() {
    const FIRST: &str = "0000000001.seg";
    let disk = log::FaultDisk::new(1, 64 << 20);
    let broker = open(&disk);
    let ids = put(&broker, 0..6000);
    let session = broker.turn(NOW).open_session(0);
    let (mut kept, ended): (Vec<_>, Vec<_>) =
        ids.into_iter().enumerate().partition(|(number, _)| number % 5 == 0);
    for (_, id) in ended {
        broker.turn(NOW).caller(session).finish(id).value.expect("nobody holds it");
    }
    let bytes = disk.bytes(FIRST).expect("the first segment");
    let bad = bytes.windows(120).position(|bytes| bytes == body(505)).expect("it is there");
    disk.fail_sector(FIRST, bad as u64 + 60);
    let errors = reclaim(&broker, NOW);
    let [log::ReclaimError::Read { .. }, log::ReclaimError::Left { jobs, id, .. }] = &errors[..]
    else {
        panic!("{errors:?}")
    };
    let first_left = kept.iter().position(|(_, kept)| Some(kept.0) == *id).expect("it is there");
    let left: Vec<_> = kept.drain(first_left..first_left + *jobs as usize).collect();
    assert!((1..=4).contains(jobs) && left.iter().any(|(number, _)| *number == 505), "{left:?}");
    let mut turn = broker.turn(NOW);
    for (number, id) in &kept {
        assert_eq!(*turn.body(*id).expect("it was written again"), *body(*number as u64));
    }
    assert!(disk.names().contains(&FIRST.to_owned()), "it has the other jobs");
    turn.check_invariants();
    for (_, id) in left {
        turn.caller(session).finish(id).value.expect("nobody holds it");
    }
    drop(turn);
    assert!(reclaim(&broker, Millis(NOW.0 + 60_000)).is_empty());
    assert!(!disk.names().contains(&FIRST.to_owned()), "reclaim continues");
    for number in 2..broker.turn(NOW).log_stats().oldest_segment {
        assert!(!disk.names().contains(&format!("{number:010}.seg")));
    }
    broker.turn(NOW).check_invariants();
}

#[test]
fn a_rescue_writes_the_other_jobs_when_the_disk_works_again() {
    let disk = log::FaultDisk::new(1, 64 << 20);
    let broker = open(&disk);
    let ids = put_and_finish_half(&broker);
    disk.fail_reads(0..u64::MAX);
    assert_eq!(reclaim(&broker, NOW).len(), 2);
    disk.plan_nothing();
    assert!(reclaim(&broker, NOW).is_empty());
    assert_eq!(broker.turn(NOW).log_stats().oldest_segment, 1, "it waits");
    assert!(reclaim(&broker, Millis(NOW.0 + 60_000)).is_empty());
    assert!(broker.turn(NOW).log_stats().oldest_segment > 1);
    for (number, id) in ids.iter().enumerate().step_by(2) {
        let found = broker.turn(NOW).body(*id).expect("nothing is lost");
        assert_eq!(*found, *body(number as u64));
    }
    broker.turn(NOW).check_invariants();
}

#[test]
fn one_step_of_a_rescue_writes_few_jobs() {
    let disk = log::FaultDisk::new(1, 64 << 20);
    let broker = open_without_limit(&disk);
    put_and_finish_half(&broker);
    disk.fail_reads(0..u64::MAX);
    let step = || {
        broker.commit_step(NOW).expect("the disk can be written");
        broker.prepare_step().expect("the disk can be written");
        broker.reclaim_step(NOW)
    };
    let error = (0..1000).find_map(|_| step().err()).expect("the segment cannot be read");
    assert!(matches!(error, log::ReclaimError::Read { .. }), "{error}");
    let copied = || broker.turn(NOW).log_stats().records_copied;
    let begin = copied();
    let mut before = begin;
    while matches!(step(), Ok(true)) {
        let after = copied();
        assert!(after - before <= 128, "{} jobs in one step", after - before);
        before = after;
    }
    assert!(before - begin > 500, "{} jobs were written again", before - begin);
}

#[test]
fn a_rescue_waits_for_a_descriptor() {
    let disk = log::FaultDisk::new(1, 64 << 20);
    let broker = open(&disk);
    put_and_finish_half(&broker);
    broker.commit_step(NOW).expect("the disk works");
    disk.fail_reads(0..u64::MAX);
    let error = (0..1000).find_map(|_| broker.reclaim_step(NOW).err());
    assert!(matches!(error, Some(log::ReclaimError::Read { .. })), "{error:?}");
    disk.plan_nothing();
    disk.set_fail_opens(true);
    for _ in 0..1000 {
        broker.reclaim_step(NOW).expect("the bodies can be read later");
    }
    disk.set_fail_opens(false);
    assert!(reclaim(&broker, NOW).is_empty());
    assert!(broker.turn(NOW).log_stats().oldest_segment > 1, "reclaim continues");
    broker.turn(NOW).check_invariants();
}
