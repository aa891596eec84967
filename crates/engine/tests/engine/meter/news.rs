//! The work of news: one job can have thousands of watchers.

use lineshaft_engine::limits;
use lineshaft_engine::policy::{Rule, Setting};
use lineshaft_engine::{
    Body, Clearing, Event, GrabOrder, JobId, Millis, News, Refused, ReturnOrder, SessionId, Submit,
};

use super::{FEW, SLICE, foreground, slices_until_idle};
use crate::world::{START, World, grab};

/// Submits a job with the maximum number of watchers to the queue `f`. Returns its watchers.
fn submit_watched(world: &mut World) -> Vec<SessionId> {
    let join = |world: &mut World, client| {
        world.engine.submit(client, b"f", foreground(b"key"), &mut world.effects)
    };
    let per_client = limits::ATTACHMENTS_MAX as usize;
    let clients: Vec<_> = (0..limits::WATCHERS_MAX / per_client).map(|_| world.open()).collect();
    for client in &clients {
        for _ in 0..per_client {
            assert_eq!(join(world, *client), Ok(JobId(1)));
        }
    }
    let late = world.open();
    assert_eq!(join(world, late), Err(Refused::QueueFull));
    clients
}

/// Makes a job with the maximum number of watchers. Returns the worker that holds the job, the
/// job's number, and the job's watchers.
fn watched_by_many(world: &mut World) -> (SessionId, JobId, Vec<SessionId>) {
    let worker = world.engine.open_session(0, ReturnOrder::ToTail);
    let clients = submit_watched(world);
    world.engine.register(worker, b"f", None, &mut world.effects);
    let grabbed = grab(&mut world.engine, worker, GrabOrder::NewestFirst, &mut world.effects);
    world.events();
    (worker, grabbed.expect("it is ready").id, clients)
}

#[test]
fn a_job_has_a_bounded_number_of_watchers_that_are_notified_in_slices() {
    let mut world = World::new();
    let (worker, id, _) = watched_by_many(&mut world);
    let some = News::Data(Body::from(&b"x"[..]));
    let end = News::Complete(Body::from(&b"y"[..]));
    let cost = world.cost(|engine, fx| engine.report(worker, id, &some, fx).expect("it holds it"));
    assert!(cost <= SLICE + FEW, "{cost}");
    let cost = world.cost(|engine, fx| engine.complete(worker, id, &end, fx).expect("as above"));
    assert!(cost <= SLICE + FEW, "{cost}");
    world.engine.check_invariants();
    let (mut slices, mut events) = (0, Vec::new());
    let mut more = true;
    while more {
        events.append(&mut world.effects.events);
        let cost = world.cost(|engine, fx| more = engine.advance(fx));
        world.engine.check_invariants();
        assert!(cost <= SLICE + FEW, "{cost}");
        slices += 1;
    }
    events.append(&mut world.effects.events);
    assert!(slices > 10, "{slices}");
    assert!(!world.engine.has_pending_news());
    let news = events.into_iter().map(|(_, event)| match event {
        Event::News { news, .. } => news,
        other => panic!("{other:?}"),
    });
    let mut wanted = vec![some; limits::WATCHERS_MAX];
    wanted.resize(2 * limits::WATCHERS_MAX, end);
    assert_eq!(news.collect::<Vec<_>>(), wanted, "all hear the end behind the data");
}

#[test]
fn watchers_can_leave_before_they_are_notified_and_the_worker_helps_to_notify() {
    let mut world = World::new();
    let (worker, id, clients) = watched_by_many(&mut world);
    let watcher = world.open();
    let other = Submit { unique: b"", ..foreground(b"") };
    let other = world.engine.submit(watcher, b"g", other, &mut world.effects).expect("it is new");
    world.engine.register(worker, b"g", None, &mut world.effects);
    let grabbed = grab(&mut world.engine, worker, GrabOrder::NewestFirst, &mut world.effects);
    assert_eq!(grabbed.map(|grabbed| grabbed.id), Some(other));
    world.events();
    world.engine.complete(worker, id, &News::Fail, &mut world.effects).expect("it holds it");
    // The news of this job must wait, because the watchers of the other job do not have their news
    // yet.
    world.engine.complete(worker, other, &News::Fail, &mut world.effects).expect("it holds it");
    let mut events = world.effects.events.iter();
    assert!(events.all(|(session, _)| *session == clients[0]), "the others come later");
    for session in [clients[0], clients[5]] {
        world.engine.close_session(session, &mut world.effects);
        world.engine.check_invariants();
    }
    while world.engine.send_more_news(&mut world.effects) {
        world.engine.check_invariants();
    }
    world.engine.check_invariants();
    let received = world.effects.events.iter().filter(|(session, _)| *session == watcher);
    assert_eq!(received.count(), 1);
}

/// Submits many jobs with one watcher each to the queue `f`.
fn submit_many(world: &mut World) {
    let client = world.open();
    for _ in 0..5 * SLICE {
        let submitted = world.engine.submit(client, b"f", foreground(b""), &mut world.effects);
        submitted.expect("no limit is set");
    }
}

#[test]
fn a_removal_ends_few_leased_jobs_at_once_although_news_of_them_waits() {
    let mut world = World::new();
    let client = world.open();
    let (worker, ..) = watched_by_many(&mut world);
    submit_many(&mut world);
    while grab(&mut world.engine, worker, GrabOrder::NewestFirst, &mut world.effects).is_some() {}
    let mut removal = Clearing::Done;
    let cost = world.cost(|engine, fx| removal = engine.remove_queue(client, b"f", fx));
    assert_eq!(removal, Clearing::Waiting);
    assert!(cost <= SLICE + FEW, "{cost}");
    assert!(slices_until_idle(&mut world) > 10);
    assert_eq!(world.engine.totals().leased, 0);
}

#[test]
fn a_sweep_ends_few_jobs_at_once_although_news_of_them_waits() {
    let mut world = World::new();
    world.policies([Rule::new(["f"], [Setting::AgeMax(Some(10))])]);
    submit_watched(&mut world);
    submit_many(&mut world);
    world.engine.set_time(Millis(START.0 + 11));
    assert!(slices_until_idle(&mut world) > 10);
    assert_eq!(world.engine.totals().ready, 0);
}
