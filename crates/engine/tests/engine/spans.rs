//! Spans: the waits and leases of jobs, for traces.

use lineshaft_engine::{JobBody, LeaseEnd, SpanKind};

use crate::items::resident;
use crate::world::World;

const WAIT: SpanKind = SpanKind::Wait;

/// Takes the spans: what the job did, and for how long.
fn spans(world: &mut World) -> Vec<(SpanKind, u64)> {
    let (spans, dropped) = world.engine.take_spans();
    assert_eq!(dropped, 0);
    spans.iter().map(|span| (span.kind, span.to.0 - span.from.0)).collect()
}

#[test]
fn each_wait_and_each_lease_is_a_span() {
    let mut world = World::new();
    world.engine.note_spans();
    let session = world.open();
    let id = world.put(session, 0, 0, 60);
    world.pass(300);
    assert_eq!(world.taken(session), id);
    world.pass(40);
    assert!(world.release(session, id, 0, 0));
    assert_eq!(spans(&mut world), [(WAIT, 300), (SpanKind::Lease(LeaseEnd::GivenBack), 40)]);
    // A wait begins when the job becomes ready: with the release, and after a delay.
    world.pass(7);
    world.taken(session);
    assert!(world.bury(session, id));
    assert_eq!(spans(&mut world), [(WAIT, 7), (SpanKind::Lease(LeaseEnd::Buried), 0)]);
    let late = world.put(session, 0, 1, 2);
    world.pass(1_500);
    assert_eq!(world.taken(session), late);
    world.pass(2_000);
    assert_eq!(spans(&mut world), [(WAIT, 500), (SpanKind::Lease(LeaseEnd::Lost), 2_000)]);
    world.taken(session);
    assert!(world.finish(session, late));
    let (spans, _) = world.engine.take_spans();
    let last = &spans[1];
    assert_eq!(last.kind, SpanKind::Lease(LeaseEnd::JobEnded));
    assert_eq!((last.job, &*last.queue, last.takes), (late, &b"default"[..], 2));
    assert_eq!(resident(&last.body), "body");
    assert_eq!(spans[0].lease, last.lease, "the wait names the lease that it led to");
}

#[test]
fn an_item_that_is_read_for_good_has_no_lease() {
    let mut world = World::new();
    world.engine.note_spans();
    assert!(world.add("items", "body"));
    world.pass(20);
    world.get("items").unwrap();
    let (spans, _) = world.engine.take_spans();
    let [wait] = &spans[..] else { panic!("{spans:?}") };
    assert_eq!((wait.kind, wait.lease, wait.to.0 - wait.from.0), (WAIT, None, 20));
    assert!(matches!(wait.body, JobBody::Resident(_)));
}

#[test]
fn without_a_reader_there_are_no_spans() {
    let mut world = World::new();
    let session = world.open();
    let id = world.put(session, 0, 0, 60);
    world.taken(session);
    assert!(world.finish(session, id));
    assert_eq!(spans(&mut world), []);
}
