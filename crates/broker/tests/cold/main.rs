//! Tests cold jobs: they leave the memory when the log has an index of their segment, and are loaded
//! again when a client needs them. Writes, index files, loads and reclaim happen only when a test
//! calls the function for them.

mod ahead;
mod corners;
mod expiry;
mod faults;
mod full;
mod keys;
mod listing;
mod lists;
mod moves;
mod rewrite;
mod unreadable;

use std::sync::{Arc, Mutex};

use lineshaft_broker::{
    Answer, Broker, Event, JobId, Mailbox, Millis, Need, NewJob, Options, Patience, SessionId,
    State, Take,
};

const NOW: Millis = Millis(1_000_000);
const JOBS: u64 = 6000;

fn open(disk: &log::FaultDisk) -> Broker {
    open_with(disk, 100)
}

/// Opens a broker that leaves this many jobs at the head of each queue in memory.
fn open_with(disk: &log::FaultDisk, head_jobs: usize) -> Broker {
    open_at(disk, head_jobs, NOW)
}

fn open_at(disk: &log::FaultDisk, head_jobs: usize, now: Millis) -> Broker {
    Broker::open(open_options(disk, head_jobs), now).expect("the log is whole").0
}

fn open_options(disk: &log::FaultDisk, head_jobs: usize) -> Options {
    let log = log::Settings { segment_bytes: 256 << 10, ..log::Settings::default() };
    let options = Options::without_threads(Arc::new(disk.clone()), log);
    Options { jobs_bytes_max: Some(0), head_jobs, ..options }
}

/// Keeps the events of its sessions.
#[derive(Default)]
struct Events(Mutex<Vec<(SessionId, Event)>>);

impl Mailbox for Events {
    fn deliver(&self, session: SessionId, event: Answer<Event>) {
        self.0.lock().expect("no test panics with the lock").push((session, event.value));
    }

    fn released(&self) {}

    fn alarm(&self, _at: Millis) {}
}

fn work(broker: &Broker) {
    broker.commit_step(NOW).expect("the disk works");
    broker.prepare_step().expect("the disk works");
}

/// Puts jobs into the default queue, and makes most of them cold.
fn with_cold_jobs(disk: &log::FaultDisk) -> (Broker, Arc<Events>, Vec<JobId>) {
    let broker = open(disk);
    let events = Arc::new(Events::default());
    broker.add_mailbox(events.clone());
    let session = broker.turn(NOW).open_session(0);
    let ids = put_jobs(&broker, session, |_| NewJob::default());
    cool(&broker);
    (broker, events, ids)
}

/// Puts [`JOBS`] jobs into the queue that the session uses.
fn put_jobs(broker: &Broker, session: SessionId, job: impl Fn(u64) -> NewJob) -> Vec<JobId> {
    let mut ids = Vec::new();
    for number in 0..JOBS {
        let body = format!("{number:04}").repeat(25).into_bytes();
        let put = broker.turn(NOW).caller(session).put(job(number), (&body[..]).into());
        ids.push(put.value.expect("there is room"));
        if number % 100 == 0 {
            work(broker);
        }
    }
    work(broker);
    ids
}

fn cool(broker: &Broker) {
    while broker.index_step().expect("the disk works") {}
    while broker.cool_step(NOW) {}
    broker.turn(NOW).check_invariants();
    assert!(broker.cold_jobs() > JOBS / 2, "{} jobs are cold", broker.cold_jobs());
}

/// Takes a job. Loads jobs if the take needs one of them.
fn take_at(broker: &Broker, session: SessionId, now: Millis) -> Option<JobId> {
    while !broker.turn(now).caller(session).is_at_hand(Need::Watched) {
        assert!(broker.load_step(now), "the job that the session needs is loaded");
    }
    match broker.turn(now).caller(session).take(Patience::None).value {
        Take::Granted(handout) => Some(handout.id),
        Take::Nothing(_) => None,
        other => panic!("wanted a job, got {other:?}"),
    }
}

/// Takes and finishes a job.
fn take(broker: &Broker, session: SessionId) -> Option<JobId> {
    let id = take_at(broker, session, NOW)?;
    broker.turn(NOW).caller(session).finish(id).value.expect("the session holds it");
    Some(id)
}

#[test]
fn cold_jobs_come_back_in_order_also_after_a_restart() {
    let disk = log::FaultDisk::new(1, 64 << 20);
    let (broker, _, ids) = with_cold_jobs(&disk);
    let session = broker.turn(NOW).open_session(0);
    for id in &ids[..2000] {
        assert_eq!(take(&broker, session), Some(*id));
        if id.0 % 100 == 0 {
            work(&broker);
            while broker.load_step(NOW) {}
        }
    }
    assert!(broker.turn(NOW).totals().ready == JOBS - 2000, "cold jobs count as ready");
    broker.close(NOW).expect("the disk works");
    drop(broker);
    disk.restart();
    let broker = open(&disk);
    assert!(broker.cold_jobs() > JOBS / 3, "a start leaves jobs cold");
    broker.turn(NOW).check_invariants();
    let session = broker.turn(NOW).open_session(0);
    let taken: Vec<JobId> = std::iter::from_fn(|| take(&broker, session)).collect();
    assert_eq!(taken, &ids[2000..]);
    broker.turn(NOW).check_invariants();
}

#[test]
fn turns_that_put_jobs_rest_while_the_upkeep_is_behind() {
    let disk = log::FaultDisk::new(1, 64 << 20);
    let broker = open(&disk);
    broker.add_mailbox(Arc::new(Events::default()));
    let session = broker.turn(NOW).open_session(0);
    let rests_after_put = || {
        let mut turn = broker.turn(NOW);
        let body = &b"one more"[..];
        turn.caller(session).put(NewJob::default(), body.into()).value.expect("there is room");
        turn.rests()
    };
    put_jobs(&broker, session, |_| NewJob::default());
    assert_eq!(rests_after_put(), 0, "the upkeep has not begun");
    broker.cool_step(NOW);
    let behind = rests_after_put();
    assert!(behind > 0, "several segments have no index");
    assert_eq!(broker.turn(NOW).rests(), 0, "this turn has put no job");
    assert!(broker.index_step().expect("the disk works"));
    assert_eq!(rests_after_put(), behind - 1);
    cool(&broker);
    assert_eq!(rests_after_put(), 0, "the upkeep is not behind");
}

#[test]
fn a_job_is_found_by_its_number_while_it_is_cold() {
    let disk = log::FaultDisk::new(2, 64 << 20);
    let (broker, events, ids) = with_cold_jobs(&disk);
    let session = broker.turn(NOW).open_session(0);
    let wanted = ids[ids.len() / 2];
    let peek = |broker: &Broker| broker.turn(NOW).caller(session).peek(wanted).value.is_ok();
    assert!(!peek(&broker), "the job is cold");
    assert!(!broker.turn(NOW).caller(session).is_job_at_hand(wanted));
    assert!(broker.load_step(NOW));
    let mut delivered = events.0.lock().expect("no test panics with the lock");
    assert!(matches!(delivered.pop(), Some((who, Event::Loaded)) if who == session));
    drop(delivered);
    assert!(broker.turn(NOW).caller(session).is_job_at_hand(wanted) && peek(&broker));
    broker.turn(NOW).caller(session).finish(wanted).value.expect("no session holds it");
    // The second look for a job that does not exist ends, although no load finds it.
    assert!(!broker.turn(NOW).caller(session).is_job_at_hand(wanted));
    assert!(broker.load_step(NOW));
    assert!(broker.turn(NOW).caller(session).is_job_at_hand(wanted) && !peek(&broker));
    broker.turn(NOW).check_invariants();
}

#[test]
fn reclaim_loads_cold_jobs_before_it_copies_them() {
    let disk = log::FaultDisk::new(3, 64 << 20);
    let (broker, _, ids) = with_cold_jobs(&disk);
    let session = broker.turn(NOW).open_session(0);
    // Finish most jobs, so that reclaim copies the others.
    for id in ids.iter().filter(|id| id.0 % 10 != 0) {
        let mut finished = false;
        while !finished {
            finished = broker.turn(NOW).caller(session).is_job_at_hand(*id);
            assert!(finished || broker.load_step(NOW));
        }
        broker.turn(NOW).caller(session).finish(*id).value.expect("no session holds it");
        if id.0 % 100 == 1 {
            work(&broker);
        }
    }
    work(&broker);
    while broker.index_step().expect("the disk works") {}
    while broker.cool_step(NOW) {}
    let first = broker.turn(NOW).log_stats().oldest_segment;
    while broker.reclaim_step(NOW).expect("the disk works") {
        work(&broker);
    }
    assert!(broker.turn(NOW).log_stats().oldest_segment > first, "segments were given up");
    broker.turn(NOW).check_invariants();
    let session = broker.turn(NOW).open_session(0);
    let left: Vec<JobId> = std::iter::from_fn(|| take(&broker, session)).collect();
    let wanted: Vec<JobId> = ids.into_iter().filter(|id| id.0 % 10 == 0).collect();
    assert_eq!(left, wanted);
}

#[test]
fn cold_jobs_count_as_ready_jobs_of_their_queue() {
    let disk = log::FaultDisk::new(4, 64 << 20);
    let (broker, _, ids) = with_cold_jobs(&disk);
    let turn = broker.turn(NOW);
    let stats = turn.queue_stats(b"default").expect("it exists");
    assert_eq!((stats.ready, stats.ready_bytes), (JOBS, JOBS * 100));
    assert_eq!(turn.log_stats().cold_jobs, turn.log_stats().stored_jobs);
    assert!(turn.job_status(ids[0]).value.is_ok_and(|job| job.facts.state == State::Ready));
}
