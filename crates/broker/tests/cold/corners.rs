//! Corners: expired heads in front of cold jobs, policies that need all jobs, searches for one job,
//! and passes that gain nothing.

use lineshaft_broker::policy::{Rule, Rules, Setting, WhenFull};
use lineshaft_broker::{Body, JobId, Need, NewJob, Patience, ReadMode, Take, When};

use super::*;

fn drop_oldest(jobs: u64) -> Rules {
    let settings = [Setting::JobsMax(Some(jobs)), Setting::WhenFull(WhenFull::DropOldest)];
    Rules(vec![Rule::new(["default"], settings)])
}

fn put(broker: &Broker, session: SessionId) -> JobId {
    let put = broker.turn(NOW).caller(session).put(NewJob::default(), Body::from(&b"new"[..]));
    put.value.expect("there is room")
}

/// Takes all jobs.
fn drain(broker: &Broker) -> Vec<JobId> {
    let session = broker.turn(NOW).open_session(0);
    std::iter::from_fn(|| take(broker, session)).collect()
}

#[test]
fn a_take_waits_for_the_cold_job_behind_expired_ones() {
    let disk = log::FaultDisk::new(5, 64 << 20);
    let broker = open_with(&disk, 0);
    broker.add_mailbox(Arc::new(Events::default()));
    // A sweep removes one expired item, then rests. So expired items stay at the head for a while.
    let slow = Rules(vec![Rule::new(["default"], [Setting::ExpireSweep(Some(1))])]);
    let _ = broker.turn(NOW).set_policies(slow);
    let session = broker.turn(NOW).open_session(0);
    let at = Millis(NOW.0 + 1000);
    for _ in 0..4 {
        let expires = Some(When::At(at));
        let added = broker.turn(NOW).caller(session).add(b"default", b"i"[..].into(), expires);
        added.value.expect("there is room");
    }
    let ids = put_jobs(&broker, session, |_| NewJob { priority: 2000, ..NewJob::default() });
    cool(&broker);

    let late = Millis(at.0 + 1);
    broker.turn(late).caller(session).register(b"default", None);
    for need in [Need::Watched, Need::Registered, Need::Queue(b"default")] {
        assert!(!broker.turn(late).caller(session).is_at_hand(need), "{need:?}");
    }
    while broker.load_step(late) {}
    let mut turn = broker.turn(late);
    let read = turn.caller(session).read(b"default", ReadMode::Peek, Patience::None);
    assert!(matches!(read.value, Ok(Take::Peeked { id, .. }) if id == ids[0]));
}

#[test]
fn a_put_drops_the_oldest_job_although_it_was_cold_before_the_start() {
    let disk = log::FaultDisk::new(6, 64 << 20);
    let (broker, _, ids) = with_cold_jobs(&disk);
    let _ = broker.turn(NOW).set_policies(drop_oldest(JOBS));
    broker.close(NOW).expect("the disk works");
    drop(broker);
    disk.restart();
    let broker = open(&disk);
    broker.add_mailbox(Arc::new(Events::default()));
    let session = broker.turn(NOW).open_session(0);
    let new = put(&broker, session);
    let mut left = ids[1..].to_vec();
    left.push(new);
    assert_eq!(drain(&broker), left);
}

#[test]
fn a_policy_that_drops_the_oldest_job_applies_when_all_jobs_are_loaded() {
    let disk = log::FaultDisk::new(7, 64 << 20);
    let (broker, _, ids) = with_cold_jobs(&disk);
    let session = broker.turn(NOW).open_session(0);
    let _ = broker.turn(NOW).set_policies(drop_oldest(JOBS));
    let early = put(&broker, session);
    assert_eq!(broker.turn(NOW).totals().ready, JOBS + 1, "no job is dropped too early");
    while broker.cold_jobs() > 0 {
        assert!(broker.load_step(NOW), "all jobs are loaded");
    }
    while broker.cool_step(NOW) {}
    assert_eq!(broker.cold_jobs(), 0);
    let late = put(&broker, session);
    let mut left = ids[2..].to_vec();
    left.extend([early, late]);
    assert_eq!(drain(&broker), left);
}

#[test]
fn a_policy_applies_at_once_although_its_bounds_wait_for_cold_jobs() {
    let disk = log::FaultDisk::new(14, 64 << 20);
    let (broker, _, _) = with_cold_jobs(&disk);
    let session = broker.turn(NOW).open_session(0);
    let mut rules = drop_oldest(JOBS);
    let paused = [Setting::Pause(true), Setting::AgeMax(Some(1000))];
    rules.0.push(Rule::new(["default"], paused));
    let _ = broker.turn(NOW).set_policies(rules);
    let taken = broker.turn(NOW).caller(session).take(Patience::None).value;
    assert!(matches!(taken, Take::Nothing(_)), "the queue is paused");
    put(&broker, session);
    assert_eq!(broker.turn(NOW).totals().ready, JOBS + 1, "no job is dropped too early");
    while broker.cold_jobs() > 0 {
        assert!(broker.load_step(NOW), "all jobs are loaded");
    }
    put(&broker, session);
    assert_eq!(broker.turn(NOW).totals().ready, JOBS, "the put has dropped two jobs");
    broker.turn(NOW).check_invariants();
}

#[test]
fn a_job_in_memory_that_is_too_old_by_a_new_policy_is_not_taken_while_others_are_cold() {
    let disk = log::FaultDisk::new(15, 64 << 20);
    let (broker, _, _) = with_cold_jobs(&disk);
    let session = broker.turn(NOW).open_session(0);
    let late = Millis(NOW.0 + 1001);
    let rules = Rules(vec![Rule::new(["default"], [Setting::AgeMax(Some(1000))])]);
    let mut turn = broker.turn(late);
    let _ = turn.set_policies(rules);
    let taken = turn.caller(session).take(Patience::None).value;
    assert!(matches!(taken, Take::Nothing(_)), "{taken:?}");
    turn.check_invariants();
}

#[test]
fn a_job_that_a_session_searches_for_stays_in_memory_until_its_next_request() {
    let disk = log::FaultDisk::new(8, 64 << 20);
    let (broker, _, ids) = with_cold_jobs(&disk);
    let session = broker.turn(NOW).open_session(0);
    let wanted = ids[ids.len() / 2];
    assert!(!broker.turn(NOW).caller(session).is_job_at_hand(wanted));
    while broker.load_step(NOW) {}
    while broker.cool_step(NOW) {}
    assert!(broker.turn(NOW).caller(session).is_job_at_hand(wanted));
    assert!(broker.turn(NOW).caller(session).peek(wanted).value.is_ok());
    broker.turn(NOW).check_invariants();
    let never_dealt = JobId(1 << 40);
    assert!(broker.turn(NOW).caller(session).is_job_at_hand(never_dealt), "no search is needed");
}

#[test]
fn a_search_ends_with_its_session() {
    let disk = log::FaultDisk::new(13, 64 << 20);
    let (broker, events, ids) = with_cold_jobs(&disk);
    while broker.load_step(NOW) {}
    let wanted = ids[ids.len() / 2];
    let search = || {
        let mut turn = broker.turn(NOW);
        let session = turn.open_session(0);
        assert!(!turn.caller(session).is_job_at_hand(wanted));
        session
    };
    let (cold, reads) = (broker.cold_jobs(), disk.reads());
    for _ in 0..100 {
        let session = search();
        broker.turn(NOW).close_session(session);
    }
    assert!(!broker.load_step(NOW), "nobody waits for the job");
    assert_eq!((broker.cold_jobs(), disk.reads()), (cold, reads));

    // The search also ends while it waits for the next try.
    disk.fail_reads(0..u64::MAX);
    let session = search();
    assert!(broker.load_step(NOW), "the read fails");
    broker.turn(NOW).close_session(session);
    disk.plan_nothing();
    assert!(!broker.load_step(Millis(NOW.0 + 1000)), "nobody waits for the next try");
    assert_eq!(broker.cold_jobs(), cold);

    events.0.lock().expect("no test panics with the lock").clear();
    let sessions = [search(), search(), search()];
    broker.turn(NOW).close_session(sessions[1]);
    while broker.load_step(NOW) {}
    let woken = events.0.lock().expect("no test panics with the lock");
    assert!(woken.iter().all(|(_, event)| matches!(event, Event::Loaded)), "{woken:?}");
    assert!(woken.iter().map(|(who, _)| *who).eq([sessions[0], sessions[2]]), "{woken:?}");
}

#[test]
fn blocks_of_short_queues_are_not_read_again_and_again() {
    let disk = log::FaultDisk::new(9, 64 << 20);
    let broker = open_with(&disk, 2 * JOBS as usize);
    broker.add_mailbox(Arc::new(Events::default()));
    let session = broker.turn(NOW).open_session(0);
    put_jobs(&broker, session, |_| NewJob::default());
    while broker.index_step().expect("the disk works") {}
    let reads = disk.reads();
    while broker.cool_step(NOW) {}
    assert_eq!((broker.cold_jobs(), disk.reads()), (0, reads));
}

#[test]
fn blocks_of_a_queue_that_is_gone_are_not_read_for_the_queue_that_its_name_stands_for() {
    let disk = log::FaultDisk::new(12, 64 << 20);
    let broker = open(&disk);
    broker.add_mailbox(Arc::new(Events::default()));
    let session = broker.turn(NOW).open_session(0);
    broker.turn(NOW).caller(session).use_queue(b"old");
    put_jobs(&broker, session, |_| NewJob::default());
    while broker.index_step().expect("the disk works") {}
    broker.turn(NOW).caller(session).use_queue(b"default");
    let same_as = Setting::SameAs(Some(b"new"[..].into()));
    let _ = broker.turn(NOW).set_policies(Rules(vec![Rule::new(["old"], [same_as])]));
    let later = Millis(NOW.0 + 1);
    while broker.turn(later).advance() {
        work(&broker);
    }
    work(&broker);
    let turn = broker.turn(later);
    assert_eq!(turn.queue_stats(b"new").map(|stats| stats.ready), Some(JOBS));
    assert!(turn.queue_names().all(|name| name != b"old"));
    drop(turn);
    let reads = disk.reads();
    while broker.cool_step(later) {}
    assert_eq!((broker.cold_jobs(), disk.reads()), (0, reads));
}

#[test]
fn blocks_whose_jobs_have_ended_or_changed_are_read_once() {
    let disk = log::FaultDisk::new(10, 64 << 20);
    let broker = open(&disk);
    broker.add_mailbox(Arc::new(Events::default()));
    let session = broker.turn(NOW).open_session(0);
    put_jobs(&broker, session, |_| NewJob::default());
    // A job that was taken before differs from its entry in the log.
    let mut turn = broker.turn(NOW);
    let mut held = Vec::new();
    while let Take::Granted(handout) = turn.caller(session).take(Patience::None).value {
        held.push(handout.id);
    }
    for id in held {
        turn.caller(session).give_back(id, 0, 0).value.expect("the session holds it");
    }
    drop(turn);
    work(&broker);
    while broker.index_step().expect("the disk works") {}
    while broker.cool_step(NOW) {}
    let reads = disk.reads();
    while broker.cool_step(NOW) {}
    assert_eq!((broker.cold_jobs(), disk.reads()), (0, reads));
}

#[test]
fn jobs_become_cold_after_the_limit_is_set_at_runtime() {
    let disk = log::FaultDisk::new(11, 64 << 20);
    let log = log::Settings { segment_bytes: 256 << 10, ..log::Settings::default() };
    let options = Options::without_threads(Arc::new(disk.clone()), log);
    let (broker, _) = Broker::open(Options { head_jobs: 100, ..options }, NOW).expect("it is new");
    broker.add_mailbox(Arc::new(Events::default()));
    let session = broker.turn(NOW).open_session(0);
    let ids = put_jobs(&broker, session, |_| NewJob::default());
    assert!(!broker.index_step().expect("the disk works"), "there is no limit yet");
    broker.set_jobs_limit(Some(0));
    cool(&broker);
    broker.set_jobs_limit(None);
    assert_eq!(drain(&broker), ids);
}
