//! Defaults of a policy for what clients do not send: ttr, priority, delay.

use lineshaft_engine::policy::{Rule, Rules, Setting, Unsent};
use lineshaft_engine::{
    Choice, GrabOrder, JobId, Millis, NewJob, Patience, ReadMode, ReturnOrder, SessionId, State,
    Submit, When,
};

use crate::apply::Follower;
use crate::world::{World, grab, read};

const DEFAULTS: [Setting; 3] = [Setting::Ttr(Some(7)), Setting::Priority(5), Setting::Delay(3)];

/// A world with these rules, in which a follower gets all records.
fn world(rules: impl IntoIterator<Item = Rule>) -> World {
    let mut world = World::new();
    world.follower = Some(Follower::new());
    let rules = Rules(rules.into_iter().collect());
    rules.check().expect("the rules can be obeyed");
    world.act(|e, fx| e.set_policies(rules, fx));
    world.pass(0);
    world
}

/// The state, priority, delay and ttr of a job. The follower must have the same.
fn seen(world: &World, id: JobId) -> (State, u32, u32, u32) {
    let facts = world.engine.job_status(id).expect("it exists").facts;
    let follower = &world.follower.as_ref().expect("it follows").engine;
    let followed = follower.job_status(id).expect("the follower has it").facts;
    assert_eq!(
        (followed.priority, followed.delay_s, followed.ttr_s, followed.due),
        (facts.priority, facts.delay_s, facts.ttr_s, facts.due)
    );
    (facts.state, facts.priority, facts.delay_s, facts.ttr_s)
}

fn submit(
    world: &mut World,
    client: SessionId,
    (priority, due): (Option<u32>, Option<When>),
    foreground: bool,
) -> JobId {
    let body = b"work"[..].into();
    let submit = Submit { priority, due, unique: b"", reducer: b"", body, foreground };
    world.act(|e, fx| e.submit(client, b"q", submit, fx)).expect("no limit is set")
}

#[test]
fn a_put_that_says_everything_keeps_it() {
    let mut world = world([Rule::new(["*"], DEFAULTS)]);
    let session = world.open();
    let id = world.put(session, 1024, 0, 60);
    assert_eq!(seen(&world, id), (State::Ready, 1024, 0, 60));
}

#[test]
fn each_value_that_was_not_sent_comes_from_the_policy() {
    let mut world = world([Rule::new(["*"], DEFAULTS)]);
    let session = world.open();
    for (unsent, expected) in [
        (Unsent::ALL, (State::Delayed, 5, 3, 7)),
        (Unsent { ttr: true, ..Unsent::NOTHING }, (State::Ready, 9, 0, 7)),
        (Unsent { priority: true, ..Unsent::NOTHING }, (State::Ready, 5, 0, 60)),
        (Unsent { delay: true, ..Unsent::NOTHING }, (State::Delayed, 9, 3, 60)),
    ] {
        let job = NewJob { priority: 9, delay_s: 0, ttr_s: 60 };
        let put = |e: &mut lineshaft_engine::Engine, fx: &mut _| {
            e.put_partly(session, job, unsent, b"x"[..].into(), fx)
        };
        let id = world.act(put).expect("no limit is set");
        assert_eq!(seen(&world, id), expected, "{unsent:?}");
    }
}

#[test]
fn without_a_policy_a_put_has_what_its_dialect_says() {
    let mut world = world([]);
    let (session, client) = (world.open(), world.open());
    let job = NewJob { priority: 9, delay_s: 2, ttr_s: 60 };
    let id = world
        .act(|e, fx| e.put_partly(session, job, Unsent::ALL, b"x"[..].into(), fx))
        .expect("no limit is set");
    assert_eq!(seen(&world, id), (State::Delayed, 9, 2, 60));
    let id = submit(&mut world, client, (None, None), false);
    assert_eq!(seen(&world, id), (State::Ready, 1024, 0, 0));
}

#[test]
fn a_submit_has_the_ttr_of_the_policy_and_its_own_priority_and_time() {
    let mut world = world([Rule::new(["q"], DEFAULTS)]);
    let client = world.open();
    let plain = submit(&mut world, client, (None, None), false);
    assert_eq!(seen(&world, plain), (State::Delayed, 5, 3, 7));
    let urgent = submit(&mut world, client, (Some(1), None), false);
    assert_eq!(seen(&world, urgent), (State::Delayed, 1, 3, 7));
    let now = world.engine.now();
    let timed = submit(&mut world, client, (None, Some(When::At(now))), false);
    assert_eq!(seen(&world, timed), (State::Ready, 5, 0, 7));
    // Its client waits, so it is not delayed.
    let watched = submit(&mut world, client, (None, None), true);
    let facts = world.engine.job_status(watched).expect("it exists").facts;
    assert_eq!((facts.state, facts.priority, facts.ttr_s), (State::Ready, 5, 7));
}

#[test]
fn a_ttr_from_the_policy_ends_the_lease_of_a_worker() {
    let mut world = world([Rule::new(["q"], [Setting::Ttr(Some(7))])]);
    let client = world.open();
    let id = submit(&mut world, client, (None, None), false);
    let worker = world.engine.open_session(0, ReturnOrder::ToTail);
    world.act(|e, fx| e.register(worker, b"q", None, fx));
    let granted = world.act(|e, fx| grab(e, worker, GrabOrder::NewestFirst, fx));
    assert_eq!(granted.map(|handout| handout.id), Some(id));
    world.pass(6_999);
    assert_eq!(world.state(id), Some(State::Leased));
    world.pass(1);
    assert_eq!(world.state(id), Some(State::Ready));
}

#[test]
fn an_item_has_what_the_policy_says_and_waits_for_its_delay() {
    let mut world = world([Rule::new(["q"], DEFAULTS)]);
    let reader = world.open();
    world.act(|e, fx| e.add(None, b"q", b"x"[..].into(), None, fx)).expect("no limit is set");
    let look = |e: &mut lineshaft_engine::Engine, fx: &mut _| {
        read(e, reader, b"q", ReadMode::Open { limit_ms: None }, Patience::None, fx).granted()
    };
    assert!(world.act(look).is_none());
    world.pass(3_000);
    let handout = world.act(look).expect("it is due");
    let facts = world.engine.job_status(handout.id).expect("it exists").facts;
    assert_eq!((facts.priority, facts.ttr_s), (5, 7));
    world.pass(7_000);
    assert_eq!(world.state(handout.id), Some(State::Ready), "the ttr is over");
}

#[test]
fn each_queue_of_a_route_has_its_own_defaults() {
    let copied = Setting::CopyTo([b"copy"[..].into()].into());
    let mut world = world([
        Rule::new(["q"], [copied, Setting::Priority(5)]),
        Rule::new(["copy"], [Setting::Ttr(Some(9)), Setting::Delay(1)]),
    ]);
    let client = world.open();
    let first = submit(&mut world, client, (None, None), false);
    assert_eq!(seen(&world, first), (State::Ready, 5, 0, 0));
    let copy = JobId(first.0 + 1);
    assert_eq!(seen(&world, copy), (State::Delayed, 1024, 1, 9));
    // The copy of a foreground job is not a foreground job.
    let watched = submit(&mut world, client, (None, None), true);
    assert_eq!(seen(&world, JobId(watched.0 + 1)), (State::Delayed, 1024, 1, 9));
}

#[test]
fn other_defaults_change_no_job_that_is_there() {
    let mut world = world([Rule::new(["q"], DEFAULTS)]);
    let client = world.open();
    let id = submit(&mut world, client, (None, None), false);
    let rules = Rules(vec![Rule::new(["q"], [Setting::Ttr(Some(1)), Setting::Priority(1)])]);
    world.act(|e, fx| e.set_policies(rules, fx));
    world.pass(0);
    assert_eq!(seen(&world, id), (State::Delayed, 5, 3, 7));
    let due = world.engine.job_status(id).expect("it exists").facts.due;
    assert_eq!(due, Millis(world.engine.now().0 + 3_000));
    let watching = world.open();
    world.act(|e, _| e.watch(watching, b"q"));
    world.pass(3_000);
    let taken = world.act(|e, fx| e.take(watching, Choice::Watched, Patience::None, fx));
    assert_eq!(taken.granted().map(|handout| handout.id), Some(id));
}
