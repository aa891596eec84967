//! Submitted jobs with keys: a submit finds the job with its key although the job is cold.

use lineshaft_broker::{Body, Submit};

use super::unreadable::{Files, at};
use super::*;

const QUEUE: &[u8] = b"resize";
/// The number of a job that is in a full segment, far from the head.
const FAR: u64 = 3500;

fn submit(broker: &Broker, session: SessionId, unique: &[u8]) -> JobId {
    let (body, due, reducer) = (Body::from(&[7; 150][..]), None, &b""[..]);
    let submit = Submit { priority: None, due, unique, reducer, body, foreground: false };
    broker.turn(NOW).caller(session).submit(QUEUE, submit).value.expect("there is room")
}

fn key(number: u64) -> Vec<u8> {
    format!("key {number}").into_bytes()
}

/// Submits jobs with the keys 0 to [`JOBS`], and makes most of them cold. Every tenth job has no key.
fn with_cold_keys(disk: &log::FaultDisk) -> (Broker, Arc<Events>, SessionId, Vec<JobId>) {
    let broker = open(disk);
    let events = Arc::new(Events::default());
    broker.add_mailbox(events.clone());
    let session = broker.turn(NOW).open_worker_session(0);
    let mut ids = Vec::new();
    for number in 0..JOBS {
        let key = if number % 10 == 9 { Vec::new() } else { key(number) };
        ids.push(submit(&broker, session, &key));
        if number % 100 == 0 {
            work(&broker);
        }
    }
    work(&broker);
    cool(&broker);
    (broker, events, session, ids)
}

/// Waits for the job with this key, if it is cold. Returns whether it was.
fn load(broker: &Broker, session: SessionId, queue: Option<&[u8]>, key: &[u8]) -> bool {
    let mut was_cold = false;
    while !broker.turn(NOW).caller(session).is_key_at_hand(queue, key) {
        assert!(broker.load_step(NOW), "the job with the key is loaded");
        was_cold = true;
    }
    was_cold
}

fn finish(broker: &Broker, session: SessionId, id: JobId) {
    while !broker.turn(NOW).caller(session).is_job_at_hand(id) {
        assert!(broker.load_step(NOW));
    }
    broker.turn(NOW).caller(session).cancel(id).value.expect("no worker has it");
}

/// Checks that submits join the jobs with their keys. Most of these jobs are cold.
fn check_keys(broker: &Broker, session: SessionId, ids: &[JobId]) {
    let mut cold = 0;
    for number in (0..JOBS).step_by(998) {
        let key = key(number);
        cold += u32::from(load(broker, session, Some(QUEUE), &key));
        assert_eq!(submit(broker, session, &key), ids[number as usize], "joins the job");
    }
    assert!(cold > 2, "{cold} of the jobs were cold");
    let far = key(FAR);
    assert!(!load(broker, session, Some(b"other"), &far), "a key of another queue");
    assert!(load(broker, session, None, &far), "the job is cold");
    assert_eq!(broker.turn(NOW).find_key(&far).value.ok(), Some(ids[FAR as usize]));
    for unknown in [&b"new"[..], b"", b"-"] {
        assert!(!load(broker, session, Some(QUEUE), unknown), "{unknown:?} waits for nothing");
    }
    broker.turn(NOW).check_invariants();
}

#[test]
fn a_submit_joins_a_cold_job_with_its_key_also_after_a_restart() {
    for is_killed in [false, true] {
        let disk = log::FaultDisk::new(41, 64 << 20);
        let (broker, _, session, ids) = with_cold_keys(&disk);
        check_keys(&broker, session, &ids);
        cool(&broker);
        if !is_killed {
            broker.close(NOW).expect("the disk works");
        }
        drop(broker);
        disk.restart();

        let broker = open(&disk);
        broker.add_mailbox(Arc::new(Events::default()));
        assert!(broker.cold_jobs() > JOBS / 3, "a start leaves jobs cold");
        broker.turn(NOW).check_invariants();
        let session = broker.turn(NOW).open_worker_session(0);
        check_keys(&broker, session, &ids);
    }
}

#[test]
fn a_key_is_free_again_when_its_job_has_ended() {
    let disk = log::FaultDisk::new(42, 64 << 20);
    let (broker, _, session, ids) = with_cold_keys(&disk);
    let far = key(FAR);
    assert!(load(&broker, session, Some(QUEUE), &far));
    finish(&broker, session, ids[FAR as usize]);
    assert!(!load(&broker, session, Some(QUEUE), &far));
    assert!(submit(&broker, session, &far) > ids[JOBS as usize - 1]);
    broker.turn(NOW).check_invariants();
}

#[test]
fn keys_stay_when_reclaim_copies_their_jobs() {
    let disk = log::FaultDisk::new(43, 64 << 20);
    let (broker, _, session, ids) = with_cold_keys(&disk);
    for id in ids.iter().filter(|id| id.0 % 7 != 0) {
        finish(&broker, session, *id);
        if id.0 % 100 == 1 {
            work(&broker);
        }
    }
    work(&broker);
    let first = broker.turn(NOW).log_stats().oldest_segment;
    while broker.reclaim_step(NOW).expect("the disk works") {
        work(&broker);
        while broker.index_step().expect("the disk works") {}
        while broker.cool_step(NOW) {}
    }
    assert!(broker.turn(NOW).log_stats().oldest_segment > first, "segments were given up");
    broker.turn(NOW).check_invariants();
    for (number, id) in (0..JOBS).zip(&ids).filter(|(number, _)| number % 10 != 9).step_by(40) {
        load(&broker, session, Some(QUEUE), &key(number));
        let joined = submit(&broker, session, &key(number));
        assert_eq!(joined == *id, id.0 % 7 == 0, "job {number} has not ended");
    }
    broker.turn(NOW).check_invariants();
}

#[test]
fn a_submit_does_not_repeat_a_job_that_cannot_be_read() {
    let disk = log::FaultDisk::new(44, 64 << 20);
    let (broker, events, session, ids) = with_cold_keys(&disk);
    let segment = broker.turn(NOW).log_stats().oldest_segment + 1;
    let files = Files::damage(&disk, segment);
    // The queue continues without the jobs that cannot be read.
    let worker = broker.turn(NOW).open_session(0);
    broker.turn(NOW).caller(worker).watch(QUEUE);
    let mut seconds = 0;
    while broker.turn(NOW).log_stats().unreadable_jobs == 0 {
        if broker.turn(at(seconds)).caller(worker).is_at_hand(Need::Watched) {
            let Take::Granted(job) = broker.turn(NOW).caller(worker).take(Patience::None).value
            else {
                panic!("the queue has jobs");
            };
            broker.turn(NOW).caller(worker).finish(job.id).value.expect("the session holds it");
        } else if !broker.load_step(at(seconds)) {
            seconds += 1;
        }
    }
    let lost = (0..JOBS).zip(&ids).filter(|(number, _)| number % 10 != 9).find(|(number, _)| {
        let mut turn = broker.turn(at(seconds));
        // A search for a key that no cold job has begins no load.
        !turn.caller(session).is_key_at_hand(Some(QUEUE), &key(*number))
    });
    let (number, id) = lost.expect("a job is not in memory");
    events.0.lock().expect("no panic").clear();
    while broker.load_step(at(seconds)) {}
    let told = events.0.lock().expect("no panic").pop();
    assert!(matches!(told, Some((who, Event::Unreadable)) if who == session), "{told:?}");
    files.repair();
    while broker.load_step(at(seconds + 60)) {}
    assert_eq!(broker.turn(NOW).log_stats().unreadable_jobs, 0);
    load(&broker, session, Some(QUEUE), &key(number));
    assert_eq!(submit(&broker, session, &key(number)), *id);
    broker.turn(NOW).check_invariants();
}
