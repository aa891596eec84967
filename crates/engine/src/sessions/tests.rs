//! Tests of the table of sessions, without an engine.

use std::num::NonZeroU64;

use super::*;
use crate::ids::{JobSlot, Millis};

const QUEUE: QueueId = QueueId(0);

fn open(sessions: &mut Sessions) -> SessionId {
    let session = sessions.open(9, ReturnOrder::KeepPlace, QUEUE);
    sessions.check_invariants();
    session
}

fn registration(queue: u32) -> Registration {
    Registration { queue: QueueId(queue), limit_ms: NonZeroU64::new(1000) }
}

#[test]
fn the_number_of_a_closed_session_names_no_session() {
    let mut sessions = Sessions::new(1);
    let first = open(&mut sessions);
    assert!(sessions.remove(first).is_some());
    let second = open(&mut sessions);
    assert_eq!(Sessions::place_of(first), Sessions::place_of(second));
    assert!(sessions.find(first).is_none() && sessions.remove(first).is_none());
    assert_eq!(sessions.at(Sessions::place_of(first)), second);
    sessions.remove(second);
    assert_eq!((sessions.len(), sessions.bytes()), (0, 0));
}

#[test]
fn only_those_who_wait_for_a_job_are_counted() {
    let mut sessions = Sessions::new(1);
    let (first, second) = (open(&mut sessions), open(&mut sessions));
    let ticket = sessions.deal_ticket();
    sessions.begin_wait(first, Waiting::Job { ticket, until: NEVER });
    sessions.begin_wait(second, Waiting::Kick);
    sessions.check_invariants();
    assert_eq!(sessions.waiting(), 1);
    assert!(matches!(sessions.end_wait(first), Some(Waiting::Job { .. })));
    assert!(matches!(sessions.end_wait(second), Some(Waiting::Kick)));
    assert!(sessions.end_wait(second).is_none());
    sessions.check_invariants();
    assert_eq!(sessions.waiting(), 0);
}

#[test]
fn a_held_job_is_found_by_its_lease_and_by_its_deadline() {
    let mut sessions = Sessions::new(5);
    let session = open(&mut sessions);
    sessions[session].hold_by_lease();
    let lease = sessions.deal_lease();
    let (slot, deadline) = (JobSlot(3), Millis(2000));
    sessions[session].hold(QUEUE, lease, deadline, slot);
    sessions.check_invariants();
    assert_eq!(lease, LeaseId(5));
    assert_eq!(sessions[session].held_by(lease), Some(slot));
    assert_eq!(sessions[session].first_overdue(Millis(1999)), None);
    assert_eq!(sessions[session].margin_begins(), Some(Millis(1000)));
    sessions[session].move_deadline(lease, deadline, Millis(3000), slot);
    sessions.check_invariants();
    assert_eq!(sessions[session].first_overdue(deadline), None);
    assert_eq!(sessions[session].first_overdue(Millis(3000)), Some(slot));
    sessions[session].let_go(QUEUE, lease, Millis(3000), slot);
    sessions.check_invariants();
    assert_eq!(sessions[session].held_by(lease), None);
}

#[test]
fn watches_joins_and_registrations_are_charged_once() {
    let mut sessions = Sessions::new(1);
    let session = open(&mut sessions);
    let before = sessions.bytes();
    assert!(sessions.watch(session, QueueId(1)) && !sessions.watch(session, QueueId(1)));
    sessions.join(session, JobId(4));
    sessions.join(session, JobId(4));
    assert!(sessions.register(session, registration(2)));
    assert!(!sessions.register(session, registration(2)), "it comes first again");
    sessions.check_invariants();
    assert!(sessions.ignore(session, QueueId(1)) && !sessions.ignore(session, QueueId(1)));
    sessions.part(session, JobId(4));
    assert_eq!(
        sessions.unregister(session, QueueId(2)),
        Some(RemovedRegistration { listed: None })
    );
    assert_eq!(sessions.unregister(session, QueueId(2)), None);
    sessions.check_invariants();
    assert_eq!(sessions.bytes(), before);
}

#[test]
fn attachments_to_several_jobs_are_counted() {
    let mut sessions = Sessions::new(1);
    let session = open(&mut sessions);
    for (job, joins) in [(4, 1), (5, 2), (4, 3), (6, 4)] {
        sessions.join(session, JobId(job));
        sessions.check_invariants();
        assert_eq!(sessions[session].joins(), joins);
    }
    for (job, joins) in [(4, 2), (4, 2), (7, 2), (5, 1)] {
        sessions.part(session, JobId(job));
        sessions.check_invariants();
        assert_eq!(sessions[session].joins(), joins);
    }
    sessions.remove(session);
    assert_eq!(sessions.bytes(), 0, "the end also gives back what is left");
}

#[test]
fn the_newest_registration_is_tried_first_until_it_is_moved_to_the_end() {
    let mut sessions = Sessions::new(1);
    let session = open(&mut sessions);
    for queue in [1, 2, 3] {
        sessions.register(session, registration(queue));
    }
    let order = |sessions: &Sessions| {
        let worker = sessions[session].worker().expect("it registered");
        worker.by_rank().map(|(_, found)| found.queue.0).collect::<Vec<_>>()
    };
    assert_eq!(order(&sessions), [3, 2, 1]);
    let worker = sessions[session].worker_mut().expect("it registered");
    let (rank, _) = worker.next_behind(None).expect("it registered");
    worker.move_to_end(rank);
    sessions.check_invariants();
    assert_eq!(order(&sessions), [2, 1, 3]);
    sessions.register(session, registration(1));
    sessions.check_invariants();
    assert_eq!(order(&sessions), [1, 2, 3]);
    let worker = sessions[session].worker().expect("it registered");
    let first = worker.first_of([QueueId(3), QueueId(2), QueueId(7)].iter());
    assert_eq!(first.map(|(_, found)| found.queue), Some(QueueId(2)));
}

#[test]
fn a_worker_that_wakes_up_knows_for_which_queue() {
    let mut sessions = Sessions::new(1);
    let session = open(&mut sessions);
    sessions.register(session, registration(1));
    let worker = sessions[session].worker_mut().expect("it registered");
    assert_eq!(worker.fall_asleep().into_iter().collect::<Vec<_>>(), [QueueId(1)]);
    worker.list(QueueId(1), 6);
    assert!(worker.is_asleep() && worker.fall_asleep().is_empty(), "it is listed already");
    assert!(worker.unlist(QueueId(1)));
    assert!(!worker.unlist(QueueId(1)), "it is awake");
    assert_eq!(worker.look(), Some(QueueId(1)));
    assert_eq!(worker.look(), None);
    sessions.check_invariants();
}
