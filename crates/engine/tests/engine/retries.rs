//! Retries of failed jobs, by the policy `retries`.

use lineshaft_engine::policy::{Backoff, Rule, Rules, Setting};
use lineshaft_engine::{
    Choice, GrabOrder, JobId, LeaseId, Millis, News, Patience, ReadMode, ReturnOrder, SessionId,
    State, Submit, Take,
};

use crate::apply::Follower;
use crate::world::{START, World, grab};

const BACKGROUND: bool = false;
const FOREGROUND: bool = true;

/// Rules for all queues: the time before a retry begins with a second, without jitter.
fn rules(limit: u32, more: impl IntoIterator<Item = Setting>) -> Rules {
    let mut settings = vec![
        Setting::Retries(true),
        Setting::RetryLimit(limit),
        Setting::RetryBase(1000),
        Setting::RetryJitter(0),
    ];
    settings.extend(more);
    Rules(vec![Rule::new(["*"], settings)])
}

/// A world with these rules, in which a follower gets all records.
fn world(limit: u32, more: impl IntoIterator<Item = Setting>) -> World {
    let mut world = World::new();
    world.follower = Some(Follower::new());
    world.act(|e, fx| e.set_policies(rules(limit, more), fx));
    world.pass(0);
    world
}

/// The state of a job, the milliseconds until it is ready, and how often it has failed. The facts
/// of the follower must be the same.
fn seen(world: &World, id: JobId) -> (State, u64, u32) {
    let status = world.engine.job_status(id).expect("it exists");
    let follower = &world.follower.as_ref().expect("it follows").engine;
    let followed = follower.job_status(id).expect("the follower has it").facts;
    if status.facts.state != State::Leased {
        assert_eq!((followed.attempts, followed.due), (status.facts.attempts, status.facts.due));
    }
    (status.facts.state, status.time_left_ms, status.facts.attempts)
}

fn submit(world: &mut World, client: SessionId, foreground: bool) -> JobId {
    let submit = Submit {
        priority: None,
        due: None,
        unique: b"key",
        reducer: b"",
        body: b"work"[..].into(),
        foreground,
    };
    world.act(|e, fx| e.submit(client, b"q", submit, fx)).expect("no limit is set")
}

fn worker(world: &mut World) -> SessionId {
    let worker = world.engine.open_session(0, ReturnOrder::ToTail);
    world.act(|e, fx| e.register(worker, b"q", None, fx));
    worker
}

fn grabbed(world: &mut World, worker: SessionId) -> Option<JobId> {
    world.act(|e, fx| grab(e, worker, GrabOrder::NewestFirst, fx)).map(|handout| handout.id)
}

#[test]
fn each_failure_doubles_the_delay_and_the_last_one_buries() {
    let mut world = world(3, []);
    let session = world.open();
    let id = world.put(session, 7, 0, 2);
    for (failures, wait) in [(1, 1000), (2, 2000), (3, 4000)] {
        assert_eq!(world.taken(session), id);
        world.pass(2000);
        assert_eq!(seen(&world, id), (State::Delayed, wait, failures));
        world.pass(wait - 1);
        assert_eq!(world.state(id), Some(State::Delayed));
        world.pass(1);
        assert_eq!(world.state(id), Some(State::Ready));
    }
    assert_eq!(world.taken(session), id);
    world.pass(2000);
    assert_eq!(seen(&world, id), (State::Buried, 0, 4));
    let facts = world.engine.job_status(id).expect("it exists").facts;
    assert_eq!((facts.counters.failures, facts.counters.timeouts), (4, 4));
    assert_eq!((facts.counters.buries, facts.priority), (0, 7));
    // A kick begins again.
    world.act(|e, fx| e.kick_job(id, fx)).expect("it is buried");
    assert_eq!(seen(&world, id), (State::Ready, 0, 0));
    assert_eq!(world.taken(session), id);
    world.pass(2000);
    assert_eq!(seen(&world, id), (State::Delayed, 1000, 1));
    // A kick of a delayed job does not.
    world.act(|e, fx| e.kick_job(id, fx)).expect("it is delayed");
    assert_eq!(seen(&world, id), (State::Ready, 0, 1));
}

#[test]
fn a_release_fails_and_the_longer_delay_wins() {
    let mut world = world(2, []);
    let session = world.open();
    let id = world.put(session, 7, 0, 60);
    world.taken(session);
    assert!(world.release(session, id, 3, 0));
    assert_eq!(seen(&world, id), (State::Delayed, 1000, 1));
    world.pass(1000);
    world.taken(session);
    assert!(world.release(session, id, 4, 10));
    assert_eq!(seen(&world, id), (State::Delayed, 10_000, 2));
    world.pass(10_000);
    world.taken(session);
    assert!(world.release(session, id, 5, 10));
    assert_eq!(seen(&world, id), (State::Buried, 0, 3));
    let facts = world.engine.job_status(id).expect("it exists").facts;
    assert_eq!((facts.counters.releases, facts.counters.failures, facts.priority), (3, 0, 5));
}

#[test]
fn releases_and_disconnects_count_unless_the_policy_says_otherwise() {
    let off = [Setting::RetryRelease(false), Setting::RetryDisconnect(false)];
    let mut world = world(0, off);
    let session = world.open();
    let id = world.put(session, 7, 0, 5);
    for _ in 0..3 {
        assert_eq!(world.taken(session), id);
        assert!(world.release(session, id, 7, 0));
        assert_eq!(seen(&world, id), (State::Ready, 0, 0));
        let other = world.open();
        assert_eq!(world.taken(other), id);
        world.close(other);
        assert_eq!(seen(&world, id), (State::Ready, 0, 0));
    }
    // The limit is 0: the first failure buries.
    world.taken(session);
    world.pass(5000);
    assert_eq!(seen(&world, id), (State::Buried, 0, 1));
}

#[test]
fn gearmans_own_limit_ends_no_job_with_the_policy() {
    let mut world = world(8, [Setting::RetryDisconnect(false)]);
    world.engine.set_attempts_max(1);
    let client = world.open();
    let id = submit(&mut world, client, BACKGROUND);
    for _ in 0..3 {
        let worker = worker(&mut world);
        assert_eq!(grabbed(&mut world, worker), Some(id));
        world.close(worker);
        assert_eq!(seen(&world, id), (State::Ready, 0, 0));
    }
}

#[test]
fn without_a_delay_a_job_is_ready_at_once_and_keeps_its_place() {
    let mut world = world(1, [Setting::RetryBackoff(Backoff::None)]);
    let (session, holder) = (world.open(), world.open());
    let (first, second) = (world.put(session, 7, 0, 60), world.put(session, 7, 0, 60));
    assert_eq!(world.taken(holder), first);
    world.close(holder);
    assert_eq!(seen(&world, first), (State::Ready, 0, 1));
    assert_eq!([world.taken(session), world.taken(session)], [first, second]);
}

#[test]
fn a_waiter_gets_the_job_when_its_delay_is_over() {
    let mut world = world(1, []);
    let (holder, waiter) = (world.open(), world.open());
    let id = world.put(holder, 7, 0, 60);
    world.taken(holder);
    assert!(matches!(world.take(waiter, Patience::Endless), Take::Waiting));
    world.close(holder);
    world.pass(999);
    assert!(world.events().is_empty());
    world.pass(1);
    assert_eq!(world.events(), [(waiter, format!("granted {id}"))]);
}

#[test]
fn a_background_job_that_fails_is_tried_again_by_another_worker() {
    let mut world = world(1, []);
    let client = world.open();
    let first = worker(&mut world);
    let id = submit(&mut world, client, BACKGROUND);
    assert_eq!(submit(&mut world, client, FOREGROUND), id, "it joins");
    assert_eq!(grabbed(&mut world, first), Some(id));
    let failed = News::Exception(b"boom"[..].into());
    world.act(|e, fx| e.fail(first, id, &failed, fx)).expect("it is held");
    assert_eq!(seen(&world, id), (State::Delayed, 1000, 1));
    assert!(world.events().is_empty(), "the client waits for the next attempt");
    assert_eq!(submit(&mut world, client, BACKGROUND), id, "a delayed job keeps its key");
    world.pass(1000);
    assert_eq!(grabbed(&mut world, first), Some(id));
    world.act(|e, fx| e.fail(first, id, &failed, fx)).expect("it is held");
    assert_eq!(seen(&world, id), (State::Buried, 0, 2));
    let news = world.events();
    assert_eq!(news.len(), 1, "{news:?}");
    assert!(news[0].0 == client && news[0].1.contains("Exception"), "{news:?}");
    assert_ne!(submit(&mut world, client, BACKGROUND), id, "a buried job gives up its key");
}

#[test]
fn a_lost_worker_counts_and_its_job_goes_behind_the_others() {
    let mut world = world(1, []);
    let client = world.open();
    let id = submit(&mut world, client, BACKGROUND);
    let lost = worker(&mut world);
    assert_eq!(grabbed(&mut world, lost), Some(id));
    world.close(lost);
    assert_eq!(seen(&world, id), (State::Delayed, 1000, 1));
    let cannot = worker(&mut world);
    let other = world.put(client, 1024, 0, 60);
    assert!(other > id);
    world.pass(1000);
    assert_eq!(grabbed(&mut world, cannot), Some(id));
    world.act(|e, fx| e.unregister(cannot, b"q", fx));
    assert_eq!(seen(&world, id), (State::Buried, 0, 2));
}

#[test]
fn a_foreground_job_fails_as_without_the_policy() {
    let mut world = world(5, []);
    let client = world.open();
    let worker = worker(&mut world);
    let id = submit(&mut world, client, FOREGROUND);
    assert_eq!(grabbed(&mut world, worker), Some(id));
    world.act(|e, fx| e.fail(worker, id, &News::Fail, fx)).expect("it is held");
    assert_eq!(world.state(id), None);
    assert_eq!(world.events(), [(client, format!("{id}: Fail"))]);
}

#[test]
fn a_job_of_another_dialect_is_retried_when_a_worker_reports_a_failure() {
    let mut world = world(1, []);
    let client = world.open();
    world.act(|e, fx| e.use_queue(client, b"q", fx));
    let id = world.put(client, 7, 0, 60);
    let worker = worker(&mut world);
    for (state, wait, failures) in [(State::Delayed, 1000, 1), (State::Buried, 0, 2)] {
        assert_eq!(grabbed(&mut world, worker), Some(id));
        world.act(|e, fx| e.fail(worker, id, &News::Fail, fx)).expect("it is held");
        assert_eq!(seen(&world, id), (state, wait, failures));
        world.pass(wait);
    }
}

fn open_read(world: &mut World, reader: SessionId, queue: &[u8]) -> (JobId, LeaseId) {
    let how = ReadMode::Open { limit_ms: None };
    let take = |e: &mut lineshaft_engine::Engine, fx: &mut lineshaft_engine::Effects| {
        e.take(reader, Choice::Queue(queue, how), Patience::None, fx)
    };
    match world.act(take) {
        Take::Granted(handout) => (handout.id, handout.lease),
        other => panic!("wanted an item, got {other:?}"),
    }
}

#[test]
fn an_aborted_item_of_a_child_is_retried_in_the_child() {
    let mut world = world(1, []);
    let reader = world.engine.open_reader(0);
    let nothing = |e: &mut lineshaft_engine::Engine, fx: &mut lineshaft_engine::Effects| {
        e.take(reader, Choice::Queue(b"q+c", ReadMode::Peek), Patience::None, fx)
    };
    assert!(matches!(world.act(nothing), Take::Nothing(_)));
    world.act(|e, fx| e.add(None, b"q", b"item"[..].into(), None, fx)).expect("there is room");
    let (id, lease) = open_read(&mut world, reader, b"q+c");
    world.act(|e, fx| e.give_back_item(reader, lease, fx)).expect("it is held");
    assert_eq!(seen(&world, id), (State::Delayed, 1000, 1));
    let (other, _) = open_read(&mut world, reader, b"q");
    assert_ne!(other, id, "the parent has its own copy");
    world.pass(1000);
    let (again, _) = open_read(&mut world, reader, b"q+c");
    assert_eq!(again, id);
    world.close(reader);
    assert_eq!(seen(&world, id), (State::Buried, 0, 2));
    assert_eq!(seen(&world, other), (State::Delayed, 1000, 1));
}

#[test]
fn a_move_and_a_restart_of_the_policy_change_what_counts() {
    let mut world = world(2, []);
    let session = world.open();
    let id = world.put(session, 7, 0, 60);
    world.taken(session);
    world.release(session, id, 7, 0);
    // Without the policy, a failed job is ready at once. The number of failures stays.
    world.act(|e, fx| e.set_policies(Rules::default(), fx));
    world.pass(1000);
    world.taken(session);
    world.release(session, id, 7, 0);
    assert_eq!(seen(&world, id), (State::Ready, 0, 1));
    // In another queue, the job begins again.
    world.act(|e, fx| e.move_job(id, b"elsewhere", fx)).expect("it is ready");
    assert_eq!(seen(&world, id), (State::Ready, 0, 0));
    assert_eq!(world.engine.now(), Millis(START.0 + 1000));
}
