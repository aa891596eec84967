//! Pauses by policy: a queue hands out no jobs until other rules are in force.

use lineshaft_engine::policy::{Rule, Rules, Setting};
use lineshaft_engine::{
    GrabOrder, Held, JobId, Patience, ReadMode, ReturnOrder, SessionId, State, Submit, Take,
};

use crate::world::{World, grab, read, take_job};

fn set_rules(world: &mut World, rules: Vec<Rule>) {
    let rules = Rules(rules);
    rules.check().expect("the rules can be obeyed");
    world.act(|e, fx| e.set_policies(rules, fx));
    world.pass(0);
}

fn pause(world: &mut World) {
    let reason = Setting::PauseReason(Some(b"maintenance"[..].into()));
    set_rules(world, vec![Rule::new(["*"], [Setting::Pause(true), reason])]);
}

fn resume(world: &mut World) {
    set_rules(world, Vec::new());
}

fn held(world: &World, queue: &[u8]) -> Option<Held> {
    world.engine.held_back(world.engine.queue_id(queue).expect("it exists"))
}

fn submit(world: &mut World, client: SessionId) -> JobId {
    let (body, reducer) = (b"work"[..].into(), &b""[..]);
    let (priority, due, unique, foreground) = (None, None, &b""[..], false);
    let submit = Submit { priority, due, unique, reducer, body, foreground };
    world.act(|e, fx| e.submit(client, b"q", submit, fx)).expect("no limit is set")
}

#[test]
fn a_paused_queue_takes_jobs_and_hands_none_out() {
    let mut world = World::new();
    let (session, waiter) = (world.open(), world.open());
    let held_before = world.put(session, 5, 0, 60);
    assert_eq!(world.taken(session), held_before);
    pause(&mut world);
    let id = world.put(session, 5, 0, 60);
    assert!(world.take(session, Patience::None).granted().is_none());
    assert!(matches!(world.take(waiter, Patience::Endless), Take::Waiting));
    assert_eq!(held(&world, b"default"), Some(Held::PausedByPolicy));
    // A job that a session has stays its job, and comes back as ever.
    assert!(world.release(session, held_before, 5, 0));
    assert_eq!(world.state(held_before), Some(State::Ready));
    // A client that names the job gets it.
    assert!(world.act(|e, fx| take_job(e, session, id, fx)).is_some());
    world.pass(10_000);
    assert!(world.events().is_empty());
    resume(&mut world);
    assert_eq!(world.events(), [(waiter, format!("granted {held_before}"))]);
    assert_eq!(held(&world, b"default"), Some(Held::Empty));
}

#[test]
fn the_pause_of_a_client_is_another_one() {
    let mut world = World::new();
    let session = world.open();
    let id = world.put(session, 5, 0, 60);
    world.act(|e, fx| e.pause(b"default", 20, fx)).expect("it exists");
    pause(&mut world);
    let stats = world.engine.queue_stats(world.engine.queue_id(b"default").expect("it exists"));
    assert_eq!((stats.pause_s, stats.paused_by_policy), (20, true));
    // Its end does not end the pause of the policy.
    world.act(|e, fx| e.pause(b"default", 0, fx)).expect("it exists");
    assert!(world.take(session, Patience::None).granted().is_none());
    world.act(|e, fx| e.pause(b"default", 20, fx)).expect("it exists");
    resume(&mut world);
    assert_eq!(held(&world, b"default"), Some(Held::Paused));
    world.pass(20_000);
    assert_eq!(world.taken(session), id);
}

#[test]
fn a_later_rule_lets_some_queues_go_on() {
    let mut world = World::new();
    let session = world.open();
    let all = Rule::new(["*"], [Setting::Pause(true)]);
    set_rules(&mut world, vec![all, Rule::new(["default"], [Setting::Pause(false)])]);
    let id = world.put(session, 5, 0, 60);
    assert_eq!(world.taken(session), id);
    submit(&mut world, session);
    assert_eq!(held(&world, b"q"), Some(Held::PausedByPolicy));
}

#[test]
fn a_worker_that_sleeps_is_woken_at_the_end() {
    let mut world = World::new();
    let client = world.open();
    let worker = world.engine.open_session(0, ReturnOrder::ToTail);
    world.act(|e, fx| e.register(worker, b"q", None, fx));
    pause(&mut world);
    let id = submit(&mut world, client);
    assert!(world.act(|e, fx| grab(e, worker, GrabOrder::NewestFirst, fx)).is_none());
    assert!(world.act(|e, _| e.sleep(worker)), "there is nothing to do");
    assert!(world.events().is_empty());
    resume(&mut world);
    assert_eq!(world.events(), [(worker, "work to do".into())]);
    let granted = world.act(|e, fx| grab(e, worker, GrabOrder::NewestFirst, fx));
    assert_eq!(granted.map(|handout| handout.id), Some(id));
}

#[test]
fn a_reader_waits_for_the_end() {
    let mut world = World::new();
    let (reader, waiter) = (world.open(), world.open());
    pause(&mut world);
    world.act(|e, fx| e.add(b"q", b"x"[..].into(), None, fx)).expect("no limit is set");
    let how = ReadMode::Finish;
    let now = world.act(|e, fx| read(e, reader, b"q", how, Patience::None, fx));
    assert!(now.granted().is_none());
    let waits = world.act(|e, fx| read(e, waiter, b"q", how, Patience::Endless, fx));
    assert!(matches!(waits, Take::Waiting));
    resume(&mut world);
    let events = world.events();
    assert_eq!(events.len(), 1, "{events:?}");
    assert!(events[0].0 == waiter && events[0].1.starts_with("granted"), "{events:?}");
}

#[test]
fn expiry_goes_on_while_a_queue_is_paused() {
    let mut world = World::new();
    let session = world.open();
    let age = Setting::AgeMax(Some(1000));
    set_rules(&mut world, vec![Rule::new(["*"], [Setting::Pause(true), age])]);
    let id = world.put(session, 5, 0, 60);
    world.pass(2_000);
    assert_eq!(world.state(id), None);
}
