//! Tests of the table of queues, without an engine.

use super::*;
use crate::ids::JobId;
use crate::jobs::{Draft, JobKind};
use crate::policy::Unsent;
use crate::wall::When;

const NOW: Millis = Millis(1000);

fn queues() -> Queues {
    Queues::new(NameHash::new(7))
}

/// Adds a queue that stays in existence without jobs or users.
fn kept(queues: &mut Queues, name: &[u8]) -> QueueId {
    let id = queues.insert(name, NOW);
    queues.set_kept(id, true);
    queues.check_invariants();
    id
}

/// Makes a job of a queue. The job becomes ready at `due`.
fn job(queue: QueueId, id: u64, due: Millis) -> Job {
    let draft = Draft {
        priority: 5,
        due: When::At(due),
        delay_s: 0,
        ttr_s: 60,
        unsent: Unsent::NOTHING,
        expires: None,
        reducer: None,
        foreground: false,
        body: b"body"[..].into(),
    };
    Job::new((JobId(id), queue, JobKind::Logged), NOW, (due, None), draft)
}

fn add_to_list(queues: &mut Queues, slot: u32, job: &Job) {
    queues[job.queue()].count_in(job.counted());
    queues.add_to_list(JobSlot(slot), job);
    queues.check_invariants();
}

fn remove_from_list(queues: &mut Queues, slot: u32, job: &Job) {
    queues.remove_from_list(JobSlot(slot), job);
    queues[job.queue()].count_out(job.counted());
    queues.check_invariants();
}

#[test]
fn a_queue_is_found_by_its_name_and_age_until_it_is_removed() {
    let mut queues = queues();
    let (first, second) = (kept(&mut queues, b"one"), kept(&mut queues, b"Two"));
    assert_eq!((queues.find(b"one"), queues.find(b"two")), (Some(first), None));
    assert_eq!(queues.in_any_case(b"tWo"), [second]);
    assert_eq!(queues.ids().collect::<Vec<_>>(), [first, second]);
    queues.remove(second);
    queues.check_invariants();
    assert!(queues.find(b"Two").is_none() && queues.in_any_case(b"two").is_empty());
    queues.remove(first);
    assert_eq!((queues.len(), queues.bytes()), (0, 0));
}

#[test]
fn a_queue_supplies_while_it_has_both_a_worker_and_a_ready_job() {
    let mut queues = queues();
    let id = kept(&mut queues, b"one");
    let (ready, delayed) = (job(id, 1, NOW), job(id, 2, Millis(2000)));
    queues.add_worker(id, true);
    add_to_list(&mut queues, 8, &delayed);
    assert!(queues.supplying().is_empty(), "a delayed job is not to be had");
    add_to_list(&mut queues, 7, &ready);
    assert!(queues.supplying().contains(&id));
    remove_from_list(&mut queues, 7, &ready);
    assert!(queues.supplying().is_empty());
    add_to_list(&mut queues, 7, &ready);
    assert!(queues.remove_worker(id), "it was the last one");
    queues.check_invariants();
    assert!(queues.supplying().is_empty());
    queues.add_worker(id, true);
    queues.check_invariants();
    assert!(queues.supplying().contains(&id), "the job was there before the worker");
}

#[test]
fn delayed_jobs_come_out_when_they_are_due() {
    let mut queues = queues();
    let id = kept(&mut queues, b"one");
    let (late, soon) = (job(id, 1, Millis(3000)), job(id, 2, Millis(2000)));
    add_to_list(&mut queues, 1, &late);
    add_to_list(&mut queues, 2, &soon);
    assert_eq!(queues[id].pop_due(Millis(1999)), None);
    assert_eq!(queues[id].pop_due(Millis(2000)), Some(JobSlot(2)));
    assert_eq!(queues[id].pop_delayed(), Some(JobSlot(1)));
}

#[test]
fn a_child_and_its_parent_find_each_other_whichever_comes_first() {
    for parent_first in [true, false] {
        let mut queues = queues();
        let parent = parent_first.then(|| kept(&mut queues, b"p"));
        let child = queues.insert(b"p+a", NOW);
        assert!(queues.link_child(child, NOW));
        let parent = parent.unwrap_or_else(|| kept(&mut queues, b"p"));
        assert!(queues[parent].extension().is_some_and(Extension::parent));
        assert!(queues.children(b"p").is_some_and(|children| children.contains(&child)));
        assert_eq!(queues.take_unlogged_children(), [child], "the log does not know it yet");
        queues.unmark(child);
        queues.check_invariants();
        assert!(queues.children(b"p").is_none());
    }
}

#[test]
fn a_name_without_a_plus_has_no_parent() {
    let mut queues = queues();
    let id = kept(&mut queues, b"plain");
    assert!(!queues.link_child(id, NOW));
    queues.check_invariants();
    assert!(queues[id].extension().is_none());
}

#[test]
fn queues_of_items_are_listed_by_name() {
    let mut queues = queues();
    for name in [&b"b"[..], b"a", b"c"] {
        let id = queues.insert(name, NOW);
        queues.mark_items(id, NOW);
    }
    queues.check_invariants();
    let behind = |name| queues.items_behind(name).map(|(name, _)| name[0]).collect::<Vec<_>>();
    assert_eq!(behind(None), b"abc");
    assert_eq!(behind(Some(&b"a"[..])), b"bc");
}
