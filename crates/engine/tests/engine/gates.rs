//! Limits of hand-outs by the policies `rate` and `concurrency`.

use std::num::NonZeroU32;

use lineshaft_engine::policy::{Per, Rate, Rule, Rules, Setting};
use lineshaft_engine::{
    Choice, GrabOrder, Held, JobId, Millis, Patience, ReadMode, ReturnOrder, SessionId, Submit,
    Take,
};

use crate::world::{START, World, grab};

fn rate(jobs: u32, per: Per, burst: u32) -> [Setting; 2] {
    let milli = NonZeroU32::new(jobs * 1000).expect("a rate");
    [Setting::Rate(Some(Rate { milli, per })), Setting::RateBurst(NonZeroU32::new(burst))]
}

fn slots(limit: u32) -> Setting {
    Setting::Concurrency(NonZeroU32::new(limit))
}

/// Puts these settings in force for all queues.
fn set(world: &mut World, settings: impl IntoIterator<Item = Setting>) {
    let rules = Rules(vec![Rule::new(["*"], settings)]);
    rules.check().expect("good rules");
    world.act(|engine, effects| engine.set_policies(rules, effects));
}

fn world(settings: impl IntoIterator<Item = Setting>) -> World {
    let mut world = World::new();
    set(&mut world, settings);
    world
}

fn take_now(world: &mut World, session: SessionId) -> Option<JobId> {
    world.take(session, Patience::None).granted().map(|handout| handout.id)
}

/// Takes and ends jobs until the queue hands out none.
fn drain(world: &mut World, session: SessionId) -> usize {
    let mut count = 0;
    while let Some(id) = take_now(world, session) {
        assert!(world.finish(session, id));
        count += 1;
    }
    count
}

fn held(world: &World) -> Option<Held> {
    world.engine.held_back(world.engine.queue_id(b"default").expect("it exists"))
}

fn at(world: &World) -> u64 {
    world.engine.now().0 - START.0
}

#[test]
fn a_bucket_begins_empty_and_fills_up_to_the_burst() {
    let mut world = world(rate(10, Per::Second, 3));
    let session = world.open();
    for _ in 0..20 {
        world.put(session, 0, 0, 60);
    }
    assert_eq!(
        (take_now(&mut world, session), held(&world)),
        (None, Some(Held::Rate { wait_ms: 100 }))
    );
    world.pass(99);
    assert_eq!(held(&world), Some(Held::Rate { wait_ms: 1 }));
    assert_eq!(drain(&mut world, session), 0);
    world.pass(1);
    assert_eq!(drain(&mut world, session), 1);
    world.pass(250);
    assert_eq!(drain(&mut world, session), 2);
    // The half of a token was not lost.
    world.pass(50);
    assert_eq!(drain(&mut world, session), 1);
    world.pass(60_000);
    assert_eq!(drain(&mut world, session), 3);
}

#[test]
fn a_rate_is_kept_exactly_however_long_it_takes() {
    // 7 in an hour: a token every 514,285 5/7 ms.
    let mut world = world(rate(7, Per::Hour, 2));
    let session = world.open();
    for _ in 0..71 {
        world.put(session, 0, 0, 0);
    }
    let mut moments = Vec::new();
    while at(&world) < 36_000_000 {
        let next = world.engine.next_deadline().expect("a token is due");
        world.pass(next.since(world.engine.now()));
        moments.extend(vec![at(&world); drain(&mut world, session)]);
    }
    assert_eq!(moments.len(), 70);
    assert_eq!((moments[0], moments[6], moments[69]), (514_286, 3_600_000, 36_000_000));
}

#[test]
fn the_timer_serves_those_who_wait_in_their_order_and_nobody_overtakes_them() {
    let mut world = world(rate(1, Per::Second, 1));
    let (producer, first, second) = (world.open(), world.open(), world.open());
    let ids = [0, 1, 2].map(|priority| world.put(producer, priority, 0, 0));
    for session in [first, second] {
        assert!(matches!(world.take(session, Patience::Endless), Take::Waiting));
    }
    assert_eq!(world.engine.next_deadline(), Some(Millis(START.0 + 1000)));
    // The token is there, but the timer has not looked yet.
    world.engine.set_time(Millis(START.0 + 1000));
    assert_eq!((take_now(&mut world, producer), held(&world)), (None, Some(Held::Serving)));
    world.pass(0);
    assert_eq!(world.events(), [(first, format!("granted {}", ids[0]))]);
    assert_eq!(world.engine.next_deadline(), Some(Millis(START.0 + 2000)));
    world.pass(1000);
    assert_eq!(world.events(), [(second, format!("granted {}", ids[1]))]);
    // Nobody waits, so the next one needs no timer.
    world.engine.set_time(Millis(START.0 + 3000));
    assert_eq!(take_now(&mut world, producer), Some(ids[2]));
}

#[test]
fn a_job_that_comes_back_takes_a_token_again() {
    let mut world = world(rate(1, Per::Second, 1));
    let session = world.open();
    let id = world.put(session, 0, 0, 60);
    world.pass(1000);
    assert_eq!(take_now(&mut world, session), Some(id));
    assert!(world.release(session, id, 0, 0));
    assert_eq!(take_now(&mut world, session), None);
    world.pass(1000);
    assert_eq!(take_now(&mut world, session), Some(id));
}

#[test]
fn a_take_by_number_asks_the_gates_too() {
    let mut world = world(rate(1, Per::Second, 1).into_iter().chain([slots(1)]));
    let session = world.open();
    let [ready, delayed] = [0, 9].map(|delay_s| world.put(session, 0, delay_s, 60));
    let take = |world: &mut World, id| {
        world
            .act(|e, fx| e.take(session, Choice::Job(id), Patience::None, fx))
            .granted()
            .map(|handout| handout.id)
    };
    assert_eq!([ready, delayed].map(|id| take(&mut world, id)), [None, None]);
    world.pass(1000);
    assert_eq!(take(&mut world, delayed), Some(delayed));
    world.pass(1000);
    // There is a token, but no slot.
    assert_eq!(
        (take(&mut world, ready), held(&world)),
        (None, Some(Held::Concurrency { limit: 1 }))
    );
    assert!(world.finish(session, delayed));
    assert_eq!(take(&mut world, ready), Some(ready));
}

#[test]
fn a_slot_is_held_until_the_lease_ends() {
    let mut world = world([slots(2)]);
    let session = world.open();
    for _ in 0..9 {
        world.put(session, 0, 0, 2);
    }
    let mut all = Vec::new();
    for turn in 0..4 {
        let (one, other) = (world.taken(session), world.taken(session));
        assert_eq!(
            (take_now(&mut world, session), held(&world)),
            (None, Some(Held::Concurrency { limit: 2 }))
        );
        match turn {
            0 => assert!(world.release(session, one, 1, 0) && world.bury(session, other)),
            1 => assert!(world.finish(session, one) && world.release(session, other, 1, 5)),
            // The jobs time out.
            2 => world.pass(2000),
            _ => world.close(session),
        }
        all.extend([one, other]);
    }
    let next = world.open();
    world.pass(0);
    assert!(take_now(&mut world, next).is_some());
    assert!(all.len() == 8 && all[4..6] == all[6..8], "{all:?}");
}

#[test]
fn a_slot_that_is_free_serves_those_who_wait() {
    let mut world = world([slots(1)]);
    let (holder, first, second) = (world.open(), world.open(), world.open());
    let ids = [0, 0, 0].map(|_| world.put(holder, 0, 0, 0));
    assert_eq!(world.taken(holder), ids[0]);
    for session in [first, second] {
        assert!(matches!(world.take(session, Patience::Endless), Take::Waiting));
    }
    assert!(world.finish(holder, ids[0]));
    // The holder asks before the timer looks, and does not overtake.
    assert_eq!(take_now(&mut world, holder), None);
    world.pass(0);
    assert_eq!(world.events(), [(first, format!("granted {}", ids[1]))]);
    assert!(world.finish(first, ids[1]));
    world.pass(0);
    assert_eq!(world.events(), [(second, format!("granted {}", ids[2]))]);
}

#[test]
fn sleepers_wake_when_the_gates_open_and_not_more_than_can_get_a_job() {
    let mut world = world(rate(2, Per::Second, 2));
    world.engine.set_wake_max(1);
    let client = world.open();
    let workers = [0, 1, 2].map(|_| world.engine.open_session(0, ReturnOrder::ToTail));
    for worker in workers {
        world.act(|e, fx| e.register(worker, b"q", None, fx));
        assert!(world.act(|e, _| e.sleep(worker)));
    }
    for key in [b"a", b"b", b"c"] {
        let (priority, body) = (None, b"work"[..].into());
        let submit =
            Submit { priority, due: None, unique: key, reducer: b"", body, foreground: true };
        world.act(|e, fx| e.submit(client, b"q", submit, fx)).expect("no limit is set");
    }
    let grabbed = |world: &mut World, worker| {
        world.act(|e, fx| grab(e, worker, GrabOrder::NewestFirst, fx)).is_some()
    };
    assert_eq!(world.events(), []);
    world.pass(500);
    assert_eq!(world.events(), [(workers[0], "work to do".into())]);
    // Before the worker looks, there is another token. The worker passes the wake on.
    world.pass(500);
    assert!(grabbed(&mut world, workers[0]));
    assert_eq!(world.events(), [(workers[1], "work to do".into())]);
    assert!(grabbed(&mut world, workers[1]) && !grabbed(&mut world, workers[0]));
    assert!(world.act(|e, _| e.sleep(workers[0])));
    world.pass(500);
    assert_eq!(world.events(), [(workers[2], "work to do".into())]);
    assert!(grabbed(&mut world, workers[2]));
}

#[test]
fn reads_of_items_ask_the_gates() {
    let mut world = world(rate(1, Per::Second, 1).into_iter().chain([slots(1)]));
    let reader = world.reader();
    let read = |world: &mut World, how, patience| {
        world.act(|e, fx| e.take(reader, Choice::Queue(b"i", how), patience, fx))
    };
    let open = ReadMode::Open { limit_ms: None };
    let client = world.open();
    world.act(|e, fx| e.use_queue(client, b"i", fx));
    for _ in 0..3 {
        world.put(client, 0, 0, 0);
    }
    assert!(matches!(read(&mut world, ReadMode::Finish, Patience::None), Take::Nothing(_)));
    // A peek waits like a read, but takes no token.
    assert!(matches!(read(&mut world, ReadMode::Peek, Patience::Millis(1000)), Take::Waiting));
    world.pass(1000);
    assert_eq!(world.events(), [(reader, "looked".into())]);
    assert!(matches!(read(&mut world, ReadMode::Finish, Patience::None), Take::Finished { .. }));
    assert!(matches!(read(&mut world, open, Patience::Millis(999)), Take::Waiting));
    world.pass(999);
    assert_eq!(world.events().len(), 1, "the wait is over before the token");
    world.pass(1);
    assert!(matches!(read(&mut world, open, Patience::None), Take::Granted(_)));
    world.pass(1000);
    assert!(matches!(read(&mut world, open, Patience::None), Take::Nothing(_)));
}

#[test]
fn a_reload_takes_tokens_and_slots_away_but_no_leases() {
    let mut world = world([]);
    let session = world.open();
    for _ in 0..20 {
        world.put(session, 0, 0, 0);
    }
    let taken = [0, 0, 0].map(|_| world.taken(session));
    set(&mut world, [slots(2)]);
    assert_eq!(held(&world), Some(Held::Concurrency { limit: 2 }));
    assert!(world.finish(session, taken[0]) && take_now(&mut world, session).is_none());
    assert!(world.finish(session, taken[1]));
    let next = world.taken(session);
    assert!(take_now(&mut world, session).is_none());

    // Somebody waits, and the reload makes room.
    let waiter = world.open();
    assert!(matches!(world.take(waiter, Patience::Endless), Take::Waiting));
    set(&mut world, [slots(3)]);
    world.pass(0);
    assert_eq!(world.events().len(), 1);
    assert!(world.finish(session, next) && world.finish(session, taken[2]));

    // A bucket keeps its whole tokens, as far as the new burst allows.
    set(&mut world, rate(10, Per::Second, 5));
    world.pass(450);
    set(&mut world, rate(60, Per::Minute, 5));
    assert_eq!(drain(&mut world, session), 4);
    world.pass(4000);
    set(&mut world, rate(60, Per::Minute, 2));
    assert_eq!(drain(&mut world, session), 2);
    set(&mut world, []);
    world.pass(0);
    assert_eq!(held(&world), None);
}

#[test]
fn a_queue_that_comes_again_begins_with_an_empty_bucket() {
    let mut world = world(rate(1, Per::Second, 9));
    let session = world.open();
    world.act(|e, _| e.watch(session, b"short"));
    world.act(|e, fx| e.ignore(session, b"default", fx)).expect("it watches another one");
    let other = world.open();
    world.act(|e, fx| e.use_queue(other, b"short", fx));
    world.put(other, 0, 0, 0);
    world.pass(9000);
    assert_eq!(drain(&mut world, session), 1);
    world.close(session);
    world.close(other);
    assert_eq!(world.engine.queue_id(b"short"), None);
    let session = world.open();
    world.act(|e, _| e.watch(session, b"short"));
    world.act(|e, fx| e.use_queue(session, b"short", fx));
    world.put(session, 0, 0, 0);
    assert_eq!(drain(&mut world, session), 0);
}

#[test]
fn a_server_that_takes_over_begins_with_empty_buckets() {
    let mut world = world(rate(1, Per::Second, 9));
    let session = world.open();
    for _ in 0..3 {
        world.put(session, 0, 0, 0);
    }
    // A follower runs no timers.
    world.engine.set_time(Millis(START.0 + 60_000));
    world.engine.empty_buckets();
    world.pass(999);
    assert_eq!(drain(&mut world, session), 0);
    world.pass(1);
    assert_eq!(drain(&mut world, session), 1);
}
