//! Changed jobs that fill the memory of jobs are written again, so that they can become cold.

use super::*;

/// Much longer than the entry of a change.
const BODY: [u8; 1000] = [7; 1000];

/// Puts jobs.
fn put_all(broker: &Broker) -> (SessionId, Vec<JobId>) {
    let session = broker.turn(NOW).open_session(0);
    let mut ids = Vec::new();
    for number in 0..JOBS {
        let put = broker.turn(NOW).caller(session).put(NewJob::default(), BODY[..].into());
        ids.push(put.value.expect("there is room"));
        if number % 100 == 0 {
            work(broker);
        }
    }
    (session, ids)
}

/// Buries these jobs, which are in memory.
fn bury<'a>(broker: &Broker, session: SessionId, ids: impl Iterator<Item = &'a JobId>) {
    for id in ids {
        let mut turn = broker.turn(NOW);
        turn.caller(session).take_job(*id).value.expect("it is ready");
        turn.caller(session).bury(*id, 1).value.expect("the session holds it");
        drop(turn);
        if id.0 % 100 < 2 {
            work(broker);
        }
    }
    work(broker);
}

/// One step of reclaim, or of the pass that writes changed jobs again.
fn reclaim(broker: &Broker, now: Millis) -> bool {
    let has_worked = broker.reclaim_step(now).expect("the disk works");
    broker.commit_step(now).expect("the disk works");
    broker.prepare_step().expect("the disk works");
    has_worked
}

/// Does the work of the background at this moment.
fn work_behind(broker: &Broker, now: Millis) {
    while reclaim(broker, now) {}
    broker.commit_step(now).expect("the disk works");
    while broker.index_step().expect("the disk works") {}
    while broker.cool_step(now) {}
    broker.turn(now).check_invariants();
}

#[test]
fn changed_jobs_become_cold_although_they_make_little_garbage() {
    for restarts in [false, true] {
        let disk = log::FaultDisk::new(31, 64 << 20);
        let mut broker = open(&disk);
        let (session, ids) = put_all(&broker);
        bury(&broker, session, ids.iter());
        work_behind(&broker, NOW);
        assert_eq!(broker.cold_jobs(), 0, "no index describes them");
        if restarts {
            broker.close(NOW).expect("the disk works");
            drop(broker);
            disk.restart();
            broker = open(&disk);
            assert_eq!(broker.cold_jobs(), 0, "they have changed");
            work_behind(&broker, NOW);
        }
        for seconds in 1..6 {
            work_behind(&broker, Millis(NOW.0 + seconds * 1000));
        }
        let cold = broker.cold_jobs();
        assert!(cold > JOBS * 4 / 5, "{cold} jobs are cold");
        let now = Millis(NOW.0 + 6000);
        assert_eq!(broker.turn(now).totals().buried, JOBS);
        let session = broker.turn(now).open_session(0);
        while !broker.turn(now).caller(session).is_at_hand(Need::Used(State::Buried)) {
            assert!(broker.load_step(now));
        }
        let first = broker.turn(now).caller(session).first_used_id(State::Buried).value;
        assert_eq!(first.ok(), Some(ids[0]));
    }
}

#[test]
fn at_the_limit_a_cold_job_is_loaded_before_all_changed_jobs_are_written_again() {
    let disk = log::FaultDisk::new(34, 64 << 20);
    let broker = open(&disk);
    let (session, ids) = put_all(&broker);
    // Each segment keeps other jobs, so that reclaim need not begin.
    bury(&broker, session, ids[..4000].iter().step_by(2));
    work_behind(&broker, NOW);
    broker.set_memory_limit(Some(1));
    let now = Millis(NOW.0 + 1000);
    while broker.load_step(now) {}
    assert!(reclaim(&broker, now), "changed jobs are written again");
    let wanted = ids[3001];
    assert!(!broker.turn(now).caller(session).is_job_at_hand(wanted), "it is cold");
    let mut steps = 1;
    while !broker.load_step(now) {
        assert!(reclaim(&broker, now), "the load has waited for all of them");
        steps += 1;
    }
    // A step writes at most 128 jobs, and the load waits for 512.
    assert!(steps >= 4, "{steps} steps");
    assert!(broker.turn(now).caller(session).is_job_at_hand(wanted));
    assert!(reclaim(&broker, now), "some are left");
    broker.turn(now).check_invariants();
}

#[test]
fn passes_over_jobs_that_can_never_become_cold_become_rare() {
    let disk = log::FaultDisk::new(35, 64 << 20);
    let broker = open(&disk);
    let (session, ids) = put_all(&broker);
    for id in &ids {
        // A dead letter stays in memory.
        broker.turn(NOW).caller(session).set_aside_job(*id).value.expect("it is ready");
        if id.0 % 100 == 0 {
            work(&broker);
        }
    }
    work_behind(&broker, NOW);
    // Each of these passes is in vain. Between two of them, there is nothing to do.
    for seconds in [1, 3, 7, 15] {
        let now = Millis(NOW.0 + seconds * 1000);
        assert!(!reclaim(&broker, Millis(now.0 - 1)), "before {seconds} s");
        assert!(reclaim(&broker, now), "after {seconds} s");
        work_behind(&broker, now);
    }
    assert_eq!(broker.cold_jobs(), 0);
}

#[test]
fn changed_jobs_below_the_limit_of_records_are_not_written_again() {
    let disk = log::FaultDisk::new(36, 64 << 20);
    let broker = open(&disk);
    let (session, ids) = put_all(&broker);
    bury(&broker, session, ids.iter());
    // Find a limit that the records nearly reach.
    let (mut limit, mut lower) = (64 << 20, 64 << 20);
    broker.set_jobs_limit(Some(lower));
    while broker.index_step().expect("the disk works") {}
    while !broker.cool_step(NOW) {
        limit = lower;
        lower -= lower / 16;
        broker.set_jobs_limit(Some(lower));
    }
    broker.set_jobs_limit(Some(limit));
    work_behind(&broker, NOW);
    let at = |seconds: u64| Millis(NOW.0 + seconds * 1000);
    assert!(!reclaim(&broker, at(1)), "no job need become cold");
    broker.set_jobs_limit(Some(lower));
    assert!(!reclaim(&broker, at(2)), "perhaps the jobs change again soon");
    assert!(reclaim(&broker, at(3)));
    assert_eq!(broker.turn(at(3)).totals().buried, JOBS);
}
