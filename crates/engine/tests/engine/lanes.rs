//! Limits for each key, by the policies `rate.key` and `concurrency.key`.

use std::num::NonZeroU32;

use lineshaft_engine::policy::{Per, Rate, Rule, Rules, Setting};
use lineshaft_engine::{
    Choice, GrabOrder, Held, JobId, Millis, NewJob, Patience, ReadMode, ReturnOrder, SessionId,
    Submit, Take,
};

use crate::apply::Follower;
use crate::world::{SLICE_UNITS, START, World, grab};

fn slots(limit: u32) -> [Setting; 2] {
    let key = "until:-".parse().expect("it is a key");
    [Setting::Concurrency(NonZeroU32::new(limit)), Setting::ConcurrencyKey(Some(key))]
}

fn rate(jobs: u32, burst: u32) -> [Setting; 3] {
    let milli = NonZeroU32::new(jobs * 1000).expect("a rate");
    let key = "until:-".parse().expect("it is a key");
    [
        Setting::Rate(Some(Rate { milli, per: Per::Second })),
        Setting::RateBurst(NonZeroU32::new(burst)),
        Setting::RateKey(Some(key)),
    ]
}

/// Puts these settings in force for all queues.
pub(crate) fn set(world: &mut World, settings: impl IntoIterator<Item = Setting>) {
    let rules = Rules(vec![Rule::new(["*"], settings)]);
    rules.check().expect("good rules");
    world.act(|engine, effects| engine.set_policies(rules, effects));
}

pub(crate) fn world(settings: impl IntoIterator<Item = Setting>) -> World {
    let mut world = World::new();
    world.follower = Some(Follower::new());
    set(&mut world, settings);
    world
}

/// Puts a job whose key is the text before `-`.
pub(crate) fn put(world: &mut World, session: SessionId, body: &str) -> JobId {
    put_with(world, session, NewJob { ttr_s: 60, ..NewJob::default() }, body)
}

pub(crate) fn put_with(world: &mut World, session: SessionId, job: NewJob, body: &str) -> JobId {
    let body = body.as_bytes().into();
    world.act(|e, fx| e.put(session, job, body, fx)).expect("no limit is set")
}

pub(crate) fn take_now(world: &mut World, session: SessionId) -> Option<JobId> {
    world.take(session, Patience::None).granted().map(|handout| handout.id)
}

pub(crate) fn held(world: &World) -> Option<Held> {
    world.engine.held_back(world.engine.queue_id(b"default").expect("it exists"))
}

#[test]
fn each_key_has_its_own_slots_and_the_others_pass() {
    let mut world = world(slots(2));
    let session = world.open();
    let [a1, a2, a3, b1, a4, none] =
        ["a-1", "a-2", "a-3", "b-1", "a-4", "no key"].map(|body| put(&mut world, session, body));
    for wanted in [a1, a2, b1, none] {
        assert_eq!(take_now(&mut world, session), Some(wanted));
    }
    assert_eq!(take_now(&mut world, session), None);
    assert_eq!(held(&world), Some(Held::KeyConcurrency { limit: 2 }));
    assert!(world.finish(session, b1));
    assert_eq!(take_now(&mut world, session), None, "a slot of another key does not help");
    assert!(world.finish(session, a2));
    assert_eq!(take_now(&mut world, session), Some(a3));
    assert!(world.release(session, a1, 0, 0));
    assert_eq!(take_now(&mut world, session), Some(a1), "it keeps its place");
    assert!(world.bury(session, a1));
    assert_eq!(take_now(&mut world, session), Some(a4));
    assert_eq!((take_now(&mut world, session), held(&world)), (None, Some(Held::Empty)));
}

#[test]
fn priorities_come_before_the_order_of_puts_also_between_keys() {
    let mut world = world(slots(1));
    let session = world.open();
    let job = |priority| NewJob { priority, ttr_s: 60, ..NewJob::default() };
    let late = put_with(&mut world, session, job(9), "a-late");
    let soon = put_with(&mut world, session, job(5), "a-soon");
    let next = put_with(&mut world, session, job(7), "b-next");
    assert_eq!(take_now(&mut world, session), Some(soon));
    assert_eq!(take_now(&mut world, session), Some(next));
    assert!(world.finish(session, soon));
    assert_eq!(take_now(&mut world, session), Some(late));
}

#[test]
fn a_slot_that_is_free_serves_the_session_that_waited_longest() {
    let mut world = world(slots(1));
    let (holder, first, second) = (world.open(), world.open(), world.open());
    let ids = ["a-1", "a-2", "a-3"].map(|body| put(&mut world, holder, body));
    assert_eq!(take_now(&mut world, holder), Some(ids[0]));
    for session in [first, second] {
        assert!(matches!(world.take(session, Patience::Endless), Take::Waiting));
    }
    assert!(world.finish(holder, ids[0]));
    // The holder asks before the timer looks, and does not overtake.
    assert_eq!(take_now(&mut world, holder), None);
    world.pass(0);
    assert_eq!(world.events(), [(first, format!("granted {}", ids[1]))]);
    // A job of another key goes to the other one at once.
    let other = put(&mut world, holder, "b-1");
    assert_eq!(world.events(), [(second, format!("granted {other}"))]);
}

#[test]
fn each_key_has_its_own_bucket_which_fills_while_the_key_is_unused() {
    let mut world = world(rate(1, 2));
    let session = world.open();
    let a = ["a-1", "a-2", "a-3", "a-4"].map(|body| put(&mut world, session, body));
    assert_eq!(take_now(&mut world, session), None);
    assert_eq!(held(&world), Some(Held::KeyRate { wait_ms: 1000 }));
    world.pass(1000);
    assert_eq!(take_now(&mut world, session), Some(a[0]));
    assert_eq!(take_now(&mut world, session), None);
    world.pass(5000);
    // The key `b` is new, so it has all tokens that it can have.
    let b = ["b-1", "b-2", "b-3"].map(|body| put(&mut world, session, body));
    for wanted in [a[1], a[2], b[0], b[1]] {
        assert_eq!(take_now(&mut world, session), Some(wanted));
    }
    assert_eq!(take_now(&mut world, session), None);
    world.pass(999);
    assert_eq!(take_now(&mut world, session), None);
    world.pass(1);
    assert_eq!([0, 0, 0].map(|_| take_now(&mut world, session)), [Some(a[3]), Some(b[2]), None]);
}

#[test]
fn the_timer_hands_out_a_job_at_the_moment_of_its_token() {
    let mut world = world(rate(1, 1).into_iter().chain(slots(1)));
    let (producer, first, second) = (world.open(), world.open(), world.open());
    let ids = ["a-1", "a-2"].map(|body| put(&mut world, producer, body));
    for session in [first, second] {
        assert!(matches!(world.take(session, Patience::Endless), Take::Waiting));
    }
    assert_eq!(world.engine.next_deadline(), Some(Millis(START.0 + 1000)));
    world.pass(1000);
    assert_eq!(world.events(), [(first, format!("granted {}", ids[0]))]);
    world.pass(1000);
    assert_eq!(world.events(), [], "there is a token, but no slot");
    assert!(world.finish(first, ids[0]));
    world.pass(0);
    assert_eq!(world.events(), [(second, format!("granted {}", ids[1]))]);
    world.pass(60_000);
    assert!(world.finish(second, ids[1]));
    world.pass(60_000);
    assert_eq!(world.engine.next_deadline(), None, "no key needs a look any more");
}

#[test]
fn a_take_by_number_asks_the_key() {
    let mut world = world(slots(1));
    let session = world.open();
    let [a1, a2, b] = ["a-1", "a-2", "b-1"].map(|body| put(&mut world, session, body));
    let delay = NewJob { delay_s: 9, ttr_s: 60, priority: 0 };
    let delayed = put_with(&mut world, session, delay, "a-3");
    let take = |world: &mut World, id| {
        let take = world.act(|e, fx| e.take(session, Choice::Job(id), Patience::None, fx));
        take.granted().map(|handout| handout.id)
    };
    assert_eq!(take(&mut world, a2), Some(a2));
    assert_eq!([a1, delayed, b].map(|id| take(&mut world, id)), [None, None, Some(b)]);
    assert!(world.finish(session, a2));
    world.pass(0);
    assert_eq!([delayed, a1].map(|id| take(&mut world, id)), [Some(delayed), None]);
}

#[test]
fn workers_and_readers_ask_the_keys_too() {
    let mut world = world(slots(1));
    world.engine.set_wake_max(1);
    let client = world.open();
    let workers = [0, 1].map(|_| world.engine.open_session(0, ReturnOrder::ToTail));
    for worker in workers {
        world.act(|e, fx| e.register(worker, b"q", None, fx));
        assert!(world.act(|e, _| e.sleep(worker)));
    }
    let submit = |world: &mut World, body: &str| {
        let body = body.as_bytes().into();
        let submit = Submit {
            priority: None,
            due: None,
            unique: b"",
            reducer: b"",
            body,
            foreground: false,
        };
        world.act(|e, fx| e.submit(client, b"q", submit, fx)).expect("no limit is set")
    };
    let grabbed = |world: &mut World, worker| {
        let job = world.act(|e, fx| grab(e, worker, GrabOrder::NewestFirst, fx));
        job.map(|job| job.id)
    };
    let ids = ["a-1", "a-2"].map(|body| submit(&mut world, body));
    assert_eq!(world.events().len(), 2, "each job that could be taken wakes a worker");
    assert_eq!(grabbed(&mut world, workers[0]), Some(ids[0]));
    assert_eq!(grabbed(&mut world, workers[1]), None);
    assert!(world.act(|e, _| e.sleep(workers[1])));
    assert!(world.finish(workers[0], ids[0]));
    world.pass(0);
    assert_eq!(world.events(), [(workers[1], "work to do".into())]);
    assert_eq!(grabbed(&mut world, workers[1]), Some(ids[1]));

    let reader = world.reader();
    world.act(|e, fx| e.use_queue(client, b"i", fx));
    for body in ["a-1", "a-2", "b-1"] {
        put(&mut world, client, body);
    }
    let read = |world: &mut World, how| {
        world.act(|e, fx| e.take(reader, Choice::Queue(b"i", how), Patience::None, fx))
    };
    let open = ReadMode::Open { limit_ms: None };
    let body_of = |take: Take| {
        let (_, body) = take.item()?;
        body.resident().map(|body| body.to_vec())
    };
    assert_eq!(body_of(read(&mut world, open)), Some(b"a-1".to_vec()));
    assert_eq!(body_of(read(&mut world, ReadMode::Peek)), Some(b"b-1".to_vec()));
    assert_eq!(body_of(read(&mut world, ReadMode::Finish)), Some(b"b-1".to_vec()));
    assert_eq!(body_of(read(&mut world, ReadMode::Finish)), None);
}

#[test]
fn a_reload_sorts_the_jobs_in_slices_and_holds_them_back_meanwhile() {
    let jobs = 5 * SLICE_UNITS;
    let mut world = World::new();
    let session = world.open();
    set(&mut world, slots(1));
    let keys: Vec<JobId> =
        (0..jobs).map(|n| put(&mut world, session, &format!("{}-x", n % 50))).collect();
    for settings in [vec![], slots(2).to_vec(), rate(1, 1).to_vec(), slots(1).to_vec()] {
        let wanted = match settings.len() {
            0 => jobs as usize,
            2 if settings[0] == slots(2)[0] => 100,
            2 => 50,
            _ => 0,
        };
        let before = world.engine.work_done();
        set(&mut world, settings);
        assert!(world.engine.work_done() - before < u64::from(2 * SLICE_UNITS));
        if wanted < jobs as usize {
            assert_eq!(held(&world), Some(Held::Sorting));
            assert_eq!(take_now(&mut world, session), None);
        }
        world.pass(0);
        let taken: Vec<JobId> = std::iter::from_fn(|| take_now(&mut world, session)).collect();
        assert_eq!(taken.len(), wanted);
        assert!(taken.iter().zip(&keys).all(|(taken, id)| taken == id), "in their order");
        for id in taken {
            assert!(world.release(session, id, 0, 0));
        }
    }
    // Jobs that come and go while the queue sorts its jobs.
    set(&mut world, slots(3));
    let (gone, new) = (keys[4999], put(&mut world, session, "new-1"));
    assert!(world.act(|e, fx| e.finish(session, gone, fx)).is_ok());
    set(&mut world, []);
    set(&mut world, slots(50));
    world.pass(0);
    let taken: Vec<JobId> = std::iter::from_fn(|| take_now(&mut world, session)).collect();
    assert!(taken.len() == 2501 && taken.contains(&new));
}

#[test]
fn a_reload_that_changes_only_the_expression_of_the_keys_empties_the_buckets() {
    let mut world = world(rate(1, 2));
    let session = world.open();
    put(&mut world, session, "a-1");
    world.pass(5000);
    let mut settings = rate(1, 2);
    settings[2] = Setting::RateKey("prefix:1".parse().ok());
    set(&mut world, settings);
    world.pass(0);
    let id = put(&mut world, session, "a-2");
    assert_eq!(take_now(&mut world, session), None, "no key may go twice as fast for a moment");
    assert_eq!(held(&world), Some(Held::KeyRate { wait_ms: 1000 }));
    world.pass(1000);
    assert!(take_now(&mut world, session).is_some());
    assert!(take_now(&mut world, session) == Some(id), "it has a key of its own by now");
    assert_eq!(take_now(&mut world, session), None);
}

#[test]
fn jobs_that_were_there_before_the_policy_have_the_empty_key() {
    let mut world = World::new();
    let session = world.open();
    let [a, b, c] = ["a-1", "b-1", "c-1"].map(|body| put(&mut world, session, body));
    assert_eq!(take_now(&mut world, session), Some(a));
    set(&mut world, slots(1));
    let new = put(&mut world, session, "a-2");
    // The lease of `a` began before the policy, so it does not count.
    assert_eq!(take_now(&mut world, session), Some(b));
    assert_eq!(take_now(&mut world, session), Some(new));
    assert_eq!(take_now(&mut world, session), None);
    assert!(world.finish(session, a));
    assert_eq!(take_now(&mut world, session), None);
    assert!(world.finish(session, b));
    assert_eq!(take_now(&mut world, session), Some(c));
}

#[test]
fn keys_that_are_not_used_cost_no_memory() {
    let mut world = world(rate(10, 2));
    world.follower = None;
    let session = world.open();
    let before = world.engine.memory_bytes();
    for round in 0..50 {
        for key in 0..20 {
            put(&mut world, session, &format!("{round}.{key}-x"));
        }
        world.pass(200);
        while let Some(id) = take_now(&mut world, session) {
            assert!(world.finish(session, id));
        }
    }
    assert!(world.engine.memory_bytes() > before, "the buckets of the last keys are not full");
    world.pass(1000);
    assert_eq!(world.engine.memory_bytes(), before);
}

#[test]
fn a_server_that_takes_over_begins_with_empty_buckets_for_all_keys() {
    let mut world = world(rate(1, 9));
    world.follower = None;
    let session = world.open();
    put(&mut world, session, "a-1");
    world.engine.set_time(Millis(START.0 + 60_000));
    let ids = ["b-1", "b-2"].map(|body| put(&mut world, session, body));
    world.engine.empty_buckets();
    assert_eq!((take_now(&mut world, session), held(&world)), (None, Some(Held::Sorting)));
    world.pass(999);
    assert_eq!(take_now(&mut world, session), None);
    world.pass(1);
    let taken = [0, 0, 0].map(|_| take_now(&mut world, session));
    assert_eq!((taken[1], taken[2]), (Some(ids[0]), None));
}

/// A follower has no timers, so it can have a walk over the queues that has not ended.
#[test]
fn a_takeover_in_the_middle_of_a_walk_opens_the_lanes() {
    let mut world = world(rate(1, 9));
    world.follower = None;
    let session = world.open();
    put(&mut world, session, "a-1");
    for number in 0..2 * SLICE_UNITS {
        let queue = format!("queue{number}");
        world.act(|e, fx| e.use_queue(session, queue.as_bytes(), fx));
        put(&mut world, session, "b-1");
    }
    // The walk has visited the first queue, and must visit most of the others.
    set(&mut world, rate(1, 8));
    world.engine.set_time(Millis(START.0 + 60_000));
    world.engine.empty_buckets();
    world.pass(0);
    assert_ne!(held(&world), Some(Held::Sorting));
    world.pass(1000);
    assert!(take_now(&mut world, session).is_some());
}

#[test]
fn limits_that_come_back_while_lanes_are_dropped_count_at_once() {
    let mut world = world(slots(1));
    world.follower = None;
    let session = world.open();
    for _ in 0..2 * SLICE_UNITS {
        put(&mut world, session, "a-1");
    }
    world.pass(0);
    set(&mut world, []);
    set(&mut world, slots(1));
    assert_eq!((take_now(&mut world, session), held(&world)), (None, Some(Held::Sorting)));
    world.pass(0);
    assert!(take_now(&mut world, session).is_some());
    assert_eq!(take_now(&mut world, session), None);
}
