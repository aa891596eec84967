//! Changed jobs that fill the memory of jobs are written again, so that they can become cold.

use super::*;

/// Much longer than the entry of a change.
const BODY: [u8; 1000] = [7; 1000];

/// Puts jobs, and buries all of them.
fn bury_all(broker: &Broker) -> Vec<JobId> {
    let session = broker.turn(NOW).open_session(0);
    let mut ids = Vec::new();
    for number in 0..JOBS {
        let put = broker.turn(NOW).caller(session).put(NewJob::default(), BODY[..].into());
        ids.push(put.value.expect("there is room"));
        if number % 100 == 0 {
            work(broker);
        }
    }
    for id in &ids {
        assert_eq!(take_at(broker, session, NOW), Some(*id));
        broker.turn(NOW).caller(session).bury(*id, 1).value.expect("the session holds it");
        if id.0 % 100 == 0 {
            work(broker);
        }
    }
    work(broker);
    ids
}

/// Does the work of the background at this moment.
fn work_behind(broker: &Broker, now: Millis) {
    while broker.reclaim_step(now).expect("the disk works") {
        broker.commit_step(now).expect("the disk works");
        broker.prepare_step().expect("the disk works");
    }
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
        let ids = bury_all(&broker);
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
        assert!(cold > JOBS * 9 / 10, "{cold} jobs are cold");
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
