//! Unique jobs whose puts replace the bodies of jobs.

use lineshaft_engine::policy::{OnDuplicate, Rule, Setting, WhenFull};
use lineshaft_engine::{JobId, Record, Refused, State};

use crate::items::resident;
use crate::unique::{FOREGROUND, all, by, world};
use crate::world::World;

fn replacing() -> [Setting; 1] {
    [Setting::OnDuplicate(OnDuplicate::ReplaceBody)]
}

fn body_of(world: &World, id: JobId) -> String {
    resident(&world.engine.body(world.engine.slot(id).expect("it exists")))
}

#[test]
fn a_put_can_replace_the_body_of_a_job_that_no_worker_has() {
    let mut world = all(by("prefix:1"), replacing());
    let session = world.open();
    let id = world.put_with(session, "a old", 5, 60);
    let other = world.put_with(session, "b", 5, 0);
    world.records();
    assert_eq!(world.put_with(session, "a new and longer", 1, 0), id);
    let slot = world.engine.slot(id).unwrap();
    assert_eq!(world.records(), [Record::Replaced(slot, id), Record::Known(slot, id)]);
    assert_eq!(body_of(&world, id), "a new and longer");
    assert_eq!(world.facts(id), (5, State::Delayed), "it keeps its place");
    world.pass(60_000);
    assert_eq!(world.put_with(session, "a", 5, 0), id);
    let queue = world.engine.queue_id(b"default").unwrap();
    assert_eq!(world.engine.queue_stats(queue).ready_bytes, 2);
    assert_eq!([(); 2].map(|()| world.taken(session)), [id, other]);
    // The worker has the old body.
    world.records();
    assert_eq!(world.put_with(session, "a later", 5, 0), id);
    assert_eq!(body_of(&world, id), "a");
    assert_eq!(world.records(), [Record::Known(slot, id)]);
    assert!(world.bury(session, id));
    assert_eq!(world.put_with(session, "a buried", 5, 0), id);
    assert_eq!((body_of(&world, id), world.facts(id).1), ("a buried".into(), State::Buried));
}

#[test]
fn a_longer_body_needs_room_like_a_put() {
    let limits = [Setting::BytesMax(Some(10)), Setting::JobsMax(Some(2))];
    let mut world = all(by("prefix:1"), replacing().into_iter().chain(limits));
    let session = world.open();
    let [first, second] = ["a", "b23456789"].map(|body| world.put_body(session, body).unwrap());
    // Both limits are reached, but without the second job there would be room.
    assert_eq!(world.put_body(session, "b234567890"), Ok(second));
    assert_eq!(world.put_body(session, "a2"), Err(Refused::QueueFull));
    assert_eq!(body_of(&world, first), "a");
    assert_eq!(world.put_body(session, "A"), Err(Refused::QueueFull));
    assert_eq!(world.put_body(session, "b"), Ok(second), "a shorter body needs no room");
    assert_eq!(world.put_body(session, "a2"), Ok(first));
}

#[test]
fn a_longer_body_drops_the_oldest_job_even_if_it_is_its_own() {
    let limits = [Setting::BytesMax(Some(4)), Setting::WhenFull(WhenFull::DropOldest)];
    let mut world = all(by("prefix:1"), replacing().into_iter().chain(limits));
    let session = world.open();
    let ids = ["a2", "b", "c"].map(|body| world.put_body(session, body).unwrap());
    assert_eq!(world.put_body(session, "c234"), Ok(ids[2]), "the others have 3 bytes");
    // The others have 6 bytes, and one of them goes.
    assert_eq!(world.put_body(session, "b2"), Ok(ids[1]));
    assert_eq!(ids.map(|id| world.state(id).is_some()), [false, true, true]);
    // Now it is the oldest itself.
    let new = world.put_body(session, "b234").unwrap();
    assert!(new > ids[2]);
    assert_eq!(ids.map(|id| world.state(id).is_some()), [false; 3]);
    assert_eq!(body_of(&world, new), "b234");
}

#[test]
fn a_body_that_is_a_key_for_gearman_stays() {
    let mut world = all(by("prefix:1"), replacing());
    let client = world.open();
    let id = world.submit_key(client, ("-", "a one"), !FOREGROUND).unwrap();
    assert_eq!(world.submit_key(client, ("", "a two"), !FOREGROUND), Ok(id));
    assert_eq!(body_of(&world, id), "a one");
}

#[test]
fn a_job_of_watchers_gets_the_body_of_the_put_that_makes_it_last() {
    let mut world = all(by("prefix:1"), replacing());
    let client = world.open();
    let id = world.submit_key(client, ("1", "a one"), FOREGROUND).unwrap();
    world.records();
    assert_eq!(world.submit_key(client, ("2", "a two"), !FOREGROUND), Ok(id));
    let slot = world.engine.slot(id).unwrap();
    assert_eq!(world.records()[..], [Record::Put(slot, id), Record::Known(slot, id)]);
    assert_eq!(body_of(&world, id), "a two");
}

#[test]
fn each_queue_that_replaces_a_body_writes_it_again() {
    let alias = Setting::Alias(["p", "q", "plain", "p"].map(|name| name.as_bytes().into()).into());
    let copies = Setting::CopyTo([b"q"[..].into(), b"plain"[..].into()].into());
    let replaces = || [by("prefix:1")].into_iter().chain(replacing());
    let bodies = |world: &World, name: &[u8]| world.engine.bodies_of_put(name);
    let mut world = world([
        Rule::new(["p"], replaces().chain([copies])),
        Rule::new(["q"], replaces()),
        Rule::new(["all"], [alias]),
    ]);
    // The queues do not have to exist.
    assert_eq!([&b"all"[..], b"p", b"plain"].map(|name| bodies(&world, name)), [3, 3, 1]);
    let session = world.open();
    world.uses(session, "q");
    assert_eq!(bodies(&world, b"q"), 1, "it goes to one queue only");
    world.uses(session, "all");
    world.put_body(session, "a first").unwrap();
    world.records();
    world.put_body(session, "a second").unwrap();
    let replaced = |record: &&Record| matches!(record, Record::Replaced(..));
    assert_eq!(world.records().iter().filter(replaced).count(), 2);
    world.rules([Rule::new(["p", "q"], [by("prefix:1")])]);
    assert_eq!(bodies(&world, b"p"), 1);
}
