//! Tests of the table of jobs, without an engine.

use super::*;
use crate::policy::Unsent;
use crate::wall::When;

const QUEUE: QueueId = QueueId(0);
const NOW: Millis = Millis(1000);

fn jobs() -> Jobs {
    Jobs::new(NameHash::new(7), 1)
}

fn draft() -> Draft {
    Draft {
        priority: 5,
        due: When::At(NOW),
        delay_s: 0,
        ttr_s: 60,
        unsent: Unsent::NOTHING,
        expires: None,
        reducer: None,
        foreground: false,
        body: b"body"[..].into(),
    }
}

/// Adds a job that is put at `NOW`. It becomes ready at `due`.
fn put(jobs: &mut Jobs, due: Millis) -> JobSlot {
    let id = jobs.deal_id();
    let slot = jobs.insert(Job::new((id, QUEUE, JobKind::Logged), NOW, (due, None), draft()));
    jobs.check_invariants();
    slot
}

fn joins(jobs: &Jobs, queue: QueueId, unique: &[u8]) -> Vec<JobSlot> {
    let found = jobs.with_key_in(queue, unique, b"").filter_map(|(_, slot)| slot);
    found.filter(|slot| jobs.is_same(*slot, unique, b"")).collect()
}

#[test]
fn a_job_is_found_by_its_number_until_it_is_removed() {
    let mut jobs = jobs();
    let (first, second) = (put(&mut jobs, NOW), put(&mut jobs, NOW));
    assert_eq!((jobs.find(JobId(1)), jobs.find(JobId(2))), (Some(first), Some(second)));
    assert_eq!(jobs.counts().ready, 2);
    assert_eq!(jobs.remove(first).id(), JobId(1));
    jobs.check_invariants();
    assert_eq!((jobs.find(JobId(1)), jobs.counts().ready), (None, 1));
    jobs.remove(second);
    jobs.check_invariants();
    assert_eq!(jobs.bytes(), 0);
}

#[test]
fn a_key_is_free_while_its_job_is_set_aside() {
    let mut jobs = jobs();
    let slot = put(&mut jobs, NOW);
    jobs.set_unique(slot, b"key");
    assert_eq!(joins(&jobs, QUEUE, b"key"), [slot]);
    jobs.set_state(slot, State::Leased);
    jobs[slot].set_lease(Some(Lease {
        id: crate::ids::LeaseId(1),
        holder: crate::ids::SessionId(1),
        until: NOW,
    }));
    jobs.check_invariants();
    assert_eq!(joins(&jobs, QUEUE, b"key"), [slot]);
    jobs[slot].set_lease(None);
    jobs.deal_buried_order(slot);
    jobs.set_state(slot, State::Buried);
    jobs.check_invariants();
    assert!(joins(&jobs, QUEUE, b"key").is_empty());
    jobs.set_state(slot, State::Ready);
    jobs.check_invariants();
    assert_eq!(joins(&jobs, QUEUE, b"key"), [slot]);
}

#[test]
fn a_key_goes_with_its_job_to_another_queue() {
    let mut jobs = jobs();
    let slot = put(&mut jobs, NOW);
    jobs.set_unique(slot, b"key");
    jobs.set_queue(slot, QueueId(3), NOW);
    jobs.check_invariants();
    assert!(joins(&jobs, QUEUE, b"key").is_empty());
    assert_eq!(joins(&jobs, QueueId(3), b"key"), [slot]);
    assert_eq!(jobs[slot].order(), 2, "it is the last there");
}

#[test]
fn a_body_as_the_key_joins_equal_bodies_only() {
    let mut jobs = jobs();
    let slot = put(&mut jobs, NOW);
    jobs.set_unique(slot, b"-");
    jobs.check_invariants();
    let joins = |body: &[u8]| {
        let mut found = jobs.with_key_in(QUEUE, b"-", body).filter_map(|(_, slot)| slot);
        found.any(|slot| jobs.is_same(slot, b"-", body))
    };
    assert!(joins(b"body") && !joins(b"other"));
    assert_eq!(jobs.with_key(b"-").count(), 0, "it is not a key of its own");
}

#[test]
fn a_body_that_is_a_key_is_hashed_only_when_the_job_gets_the_key() {
    let mut jobs = jobs();
    let slot = put(&mut jobs, NOW);
    jobs.set_unique(slot, b"-");
    assert_eq!(jobs.keys.len(), 1);
    // No request changes such a body. But with another body, a new hash would not find the entry.
    jobs.replace_body(slot, b"other"[..].into());
    jobs.deal_buried_order(slot);
    jobs.set_state(slot, State::Buried);
    assert_eq!(jobs.keys.len(), 0, "the entry of the first body is found");
    jobs.set_state(slot, State::Ready);
    jobs.replace_body(slot, b"body"[..].into());
    jobs.check_invariants();
    assert!(jobs.with_key_in(QUEUE, b"-", b"body").eq([(JobId(1), Some(slot))]));
    jobs.set_queue(slot, QueueId(3), NOW);
    jobs.remove(slot);
    assert_eq!((jobs.keys.len(), jobs.bytes()), (0, 0));
}

#[test]
fn a_job_of_the_log_whose_body_is_its_key_is_found() {
    let mut jobs = jobs();
    let draft = Draft { reducer: Some(Box::default()), ..draft() };
    let id = jobs.deal_id();
    let put = Job::new((id, QUEUE, JobKind::Logged), NOW, (NOW, None), draft);
    for state in [State::Ready, State::Buried] {
        let facts = put.facts(None, PutKeys::default(), None);
        let tags = Some(Tags { unique: b"-", reducer: b"" });
        let job = Job::restored(QUEUE, &facts, state, (NOW, None), tags, put.body());
        let slot = jobs.insert(job);
        jobs.check_invariants();
        if state == State::Buried {
            assert!(!jobs.with_key_in(QUEUE, b"-", b"body").any(|(id, _)| id == JobId(1)));
            jobs.set_state(slot, State::Ready);
        }
        assert!(jobs.with_key_in(QUEUE, b"-", b"body").eq([(JobId(1), Some(slot))]));
        jobs.remove(slot);
    }
}

#[test]
fn the_key_of_a_cold_job_stays_in_the_index() {
    let mut jobs = jobs();
    let slot = put(&mut jobs, NOW);
    jobs.set_unique(slot, b"key");
    let job = jobs.cool(slot);
    assert!(jobs.with_key_in(QUEUE, b"key", b"").eq([(JobId(1), None)]));
    assert!(jobs.with_key(b"key").eq([(JobId(1), None)]));
    assert_eq!(jobs.bytes(), bytes::KEY_BYTES);
    jobs.check_invariants();
    let slot = jobs.insert(job);
    jobs.check_invariants();
    assert!(jobs.with_key(b"key").eq([(JobId(1), Some(slot))]) && !jobs.have_cold_keys());
    jobs.remove(slot);
    assert_eq!((jobs.bytes(), jobs.with_key(b"key").count()), (0, 0));
}

#[test]
fn a_delayed_job_goes_by_the_wall_clock_until_it_is_due() {
    let mut jobs = jobs();
    let (delayed, ready) = (put(&mut jobs, Millis(2000)), put(&mut jobs, NOW));
    jobs.set_wall_time(delayed, Millis(9));
    jobs.set_wall_time(ready, Millis(9));
    jobs.check_invariants();
    assert_eq!((jobs.wall_time(delayed), jobs.wall_time(ready)), (Some(Millis(9)), None));
    assert_eq!(jobs.next_by_wall(None), Some((delayed, Millis(9))));
    assert_eq!(jobs.next_by_wall(Some(delayed)), None);
    jobs.set_state(delayed, State::Ready);
    jobs.check_invariants();
    assert!(!jobs.go_by_wall());
}

#[test]
fn unlogged_jobs_are_counted_unless_they_are_set_aside() {
    let mut jobs = jobs();
    let slot = put(&mut jobs, NOW);
    jobs.set_kind(slot, JobKind::Memory);
    jobs.check_invariants();
    assert_eq!(jobs.unlogged(), 1);
    jobs.set_state(slot, State::Leased);
    jobs.deal_buried_order(slot);
    jobs.set_state(slot, State::Buried);
    jobs.check_invariants();
    assert_eq!(jobs.unlogged(), 0);
}

#[test]
fn numbers_above_all_that_came_back_are_dealt() {
    let mut jobs = jobs();
    jobs.raise_id(10);
    assert_eq!(jobs.deal_id(), JobId(10));
    let slot = put(&mut jobs, NOW);
    jobs.remove(slot);
    assert_eq!(jobs.next_id(), 12, "no number is dealt twice");
}
