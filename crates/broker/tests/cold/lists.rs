//! Delayed and buried jobs that are cold.

use lineshaft_broker::{Kick, Peeked};

use super::*;

/// The delay of the jobs of these tests in seconds.
const DELAY_S: u32 = 100;
const DUE: Millis = Millis(NOW.0 + DELAY_S as u64 * 1000);

/// Puts delayed jobs, and makes most of them cold. Their priorities descend, so the last put is the
/// most urgent job.
fn with_delayed_jobs(disk: &log::FaultDisk) -> (Broker, Vec<JobId>) {
    let broker = open_with(disk, 0);
    broker.add_mailbox(Arc::new(Events::default()));
    let session = broker.turn(NOW).open_session(0);
    let ids = put_jobs(&broker, session, |number| NewJob {
        priority: (JOBS - number) as u32,
        delay_s: DELAY_S,
        ..NewJob::default()
    });
    cool(&broker);
    (broker, ids)
}

fn advance(broker: &Broker, now: Millis) {
    while broker.turn(now).advance() {}
}

#[test]
fn delayed_jobs_become_ready_without_a_load_and_can_become_cold_again() {
    let disk = log::FaultDisk::new(21, 64 << 20);
    let (broker, ids) = with_delayed_jobs(&disk);
    let before = broker.cold_jobs();
    advance(&broker, DUE);
    let totals = broker.turn(DUE).totals();
    assert_eq!((totals.ready, totals.delayed), (JOBS, 0));
    assert_eq!(broker.cold_jobs(), before, "nothing was loaded");
    broker.turn(DUE).check_invariants();
    let session = broker.turn(DUE).open_session(0);
    let mut expected = ids.iter().rev();
    while broker.cold_jobs() == before {
        assert_eq!(take_at(&broker, session, DUE).as_ref(), expected.next());
    }
    let after_loads = broker.cold_jobs();
    while broker.cool_step(DUE) {}
    assert!(broker.cold_jobs() > after_loads, "jobs that have become ready become cold again");
    broker.turn(DUE).check_invariants();
    while let Some(id) = take_at(&broker, session, DUE) {
        assert_eq!(Some(&id), expected.next());
    }
    assert_eq!(expected.next(), None);
}

#[test]
fn cold_delayed_jobs_outlive_a_restart() {
    for due_at_start in [false, true] {
        let disk = log::FaultDisk::new(22, 64 << 20);
        let (broker, ids) = with_delayed_jobs(&disk);
        let later = Millis(DUE.0 + 5000);
        broker.close(if due_at_start { later } else { NOW }).expect("the disk works");
        drop(broker);
        disk.restart();
        let broker = open_at(&disk, 0, if due_at_start { later } else { NOW });
        assert!(broker.cold_jobs() > JOBS / 2, "a start leaves jobs cold");
        if !due_at_start {
            let session = broker.turn(NOW).open_session(0);
            assert_eq!(take_at(&broker, session, NOW), None);
            assert_eq!(broker.turn(NOW).totals().delayed, JOBS);
        }
        advance(&broker, later);
        let session = broker.turn(later).open_session(0);
        let taken: Vec<JobId> = std::iter::from_fn(|| take_at(&broker, session, later)).collect();
        assert!(taken.iter().eq(ids.iter().rev()), "all jobs, the most urgent first");
        broker.turn(later).check_invariants();
    }
}

#[test]
fn delayed_jobs_are_in_memory_when_they_are_due() {
    let disk = log::FaultDisk::new(23, 64 << 20);
    let (broker, _) = with_delayed_jobs(&disk);
    let before = broker.cold_jobs();
    advance(&broker, Millis(DUE.0 - 1001));
    assert!(!broker.load_step(Millis(DUE.0 - 1001)), "it is too early");
    let mut now = Millis(DUE.0 - 1000);
    while broker.cold_jobs() > 0 {
        advance(&broker, now);
        assert!(broker.load_step(now), "{} of {before} jobs are cold", broker.cold_jobs());
        now.0 += 1;
    }
    assert!(now < DUE);
    assert_eq!(broker.turn(now).totals().ready, 0);
    advance(&broker, DUE);
    assert_eq!(broker.turn(DUE).totals().ready, JOBS);
}

#[test]
fn all_sessions_that_wait_for_a_block_are_told_in_their_order() {
    let disk = log::FaultDisk::new(25, 64 << 20);
    let (broker, ids) = with_delayed_jobs(&disk);
    let events = Arc::new(Events::default());
    let mailbox = broker.add_mailbox(events.clone());
    let is_at_hand = |session: SessionId| {
        broker.turn(NOW).caller(session).is_at_hand(Need::Used(State::Delayed))
    };
    let sessions: Vec<SessionId> =
        (0..1000).map(|_| broker.turn(NOW).open_session(mailbox)).collect();
    assert!(sessions.iter().all(|session| !is_at_hand(*session)), "the first job is cold");
    while broker.load_step(NOW) {}
    let told = events.0.lock().expect("no test panics with the lock");
    assert!(told.iter().map(|(session, _)| session).eq(&sessions), "{} were told", told.len());
    assert!(told.iter().all(|(_, event)| matches!(event, Event::Loaded)));
    drop(told);
    assert!(is_at_hand(sessions[0]));
    let first = broker.turn(NOW).caller(sessions[0]).peek_used(State::Delayed).value;
    assert!(matches!(first, Ok(Peeked { id, .. }) if id == ids[0]));
}

#[test]
fn buried_jobs_become_cold_when_reclaim_has_copied_them() {
    let disk = log::FaultDisk::new(24, 64 << 20);
    let (broker, events, ids) = with_cold_jobs(&disk);
    let session = broker.turn(NOW).open_session(0);
    for (number, id) in (0..).zip(&ids) {
        assert_eq!(take_at(&broker, session, NOW), Some(*id));
        let mut turn = broker.turn(NOW);
        if number % 10 < 4 {
            turn.caller(session).bury(*id, 1).value.expect("the session holds it");
        } else {
            turn.caller(session).finish(*id).value.expect("the session holds it");
        }
        drop(turn);
        if number % 100 == 0 {
            work(&broker);
        }
    }
    work(&broker);
    assert_eq!(broker.cold_jobs(), 0);
    while broker.reclaim_step(NOW).expect("the disk works") {
        work(&broker);
    }
    while broker.index_step().expect("the disk works") {}
    while broker.cool_step(NOW) {}
    let (buried, cold) = (JOBS * 4 / 10, broker.cold_jobs());
    assert!(cold > buried / 4, "{cold} of {buried} jobs are cold");
    assert_eq!(broker.turn(NOW).totals().buried, buried);
    broker.turn(NOW).check_invariants();

    while !broker.turn(NOW).caller(session).is_at_hand(Need::Used(State::Buried)) {
        assert!(broker.load_step(NOW));
    }
    let first = broker.turn(NOW).caller(session).peek_used(State::Buried).value;
    assert!(matches!(first, Ok(Peeked { id, .. }) if id == ids[0]));
    let kick = broker.turn(NOW).caller(session).kick(buried).value.expect("there is room");
    let mut kicked = if let Kick::Done(count) = kick { Some(count) } else { None };
    while kicked.is_none() {
        while broker.load_step(NOW) {}
        advance(&broker, NOW);
        work(&broker);
        let mut delivered = events.0.lock().expect("no test panics with the lock");
        kicked = delivered.iter().find_map(|(_, event)| match event {
            Event::Kicked(count) => Some(*count),
            _ => None,
        });
        delivered.clear();
    }
    assert_eq!(kicked, Some(buried));
    let expected = ids.iter().enumerate().filter(|(number, _)| number % 10 < 4);
    for (_, id) in expected {
        assert_eq!(take(&broker, session), Some(*id));
    }
}
