//! Strict order, by the policy `concurrency.order`: the jobs of a key, or of the whole queue, one after
//! the other.

use std::num::NonZeroU32;

use lineshaft_engine::policy::{
    Aging, DeadTarget, Order, Per, Rate, Rule, Rules, RulesError, Setting,
};
use lineshaft_engine::{
    Choice, Engine, EngineSetup, Held, JobId, NewJob, Patience, ReturnOrder, SessionId, Take,
};

use crate::lanes::{held, put, put_with, set, take_now, world};
use crate::world::World;

/// One job of each key at one time, in order.
fn groups(limit: u32) -> Vec<Setting> {
    let key = "until:-".parse().expect("it is a key");
    [vec![Setting::ConcurrencyKey(Some(key))], whole(limit)].concat()
}

/// One job of the queue at one time, in order.
fn whole(limit: u32) -> Vec<Setting> {
    let limit = Setting::Concurrency(NonZeroU32::new(limit));
    vec![limit, Setting::ConcurrencyOrder(Order::Strict)]
}

fn by_number(world: &mut World, session: SessionId, id: JobId) -> bool {
    let take = world.act(|e, fx| e.take(session, Choice::Job(id), Patience::None, fx));
    take.granted().is_some()
}

#[test]
fn a_delayed_job_holds_back_the_jobs_of_its_key_and_no_other() {
    let mut world = world(groups(1));
    let session = world.open();
    let [a1, a2, b1] = ["a-1", "a-2", "b-1"].map(|body| put(&mut world, session, body));
    assert_eq!(take_now(&mut world, session), Some(a1));
    assert!(world.release(session, a1, 1024, 5));
    assert_eq!(take_now(&mut world, session), Some(b1));
    assert_eq!((take_now(&mut world, session), held(&world)), (None, Some(Held::Order)));
    world.pass(5000);
    assert_eq!(take_now(&mut world, session), Some(a1));
    assert_eq!(held(&world), Some(Held::KeyConcurrency { limit: 1 }));
    assert!(world.finish(session, a1));
    assert_eq!(take_now(&mut world, session), Some(a2));
}

#[test]
fn nothing_overtakes_a_job_that_comes_back() {
    let mut world = world(groups(1));
    let session = world.open();
    let a1 = put(&mut world, session, "a-1");
    assert_eq!(take_now(&mut world, session), Some(a1));
    let urgent = NewJob { priority: 0, ttr_s: 60, ..NewJob::default() };
    let a2 = put_with(&mut world, session, urgent, "a-2");
    assert!(world.release(session, a1, 2000, 1));
    assert_eq!(take_now(&mut world, session), None);
    world.pass(1000);
    assert_eq!(take_now(&mut world, session), Some(a1), "it has begun, so it comes first");
    assert!(world.release(session, a1, 2000, 0));
    assert_eq!(take_now(&mut world, session), Some(a1));
    // Not even a worker that gives its jobs back to the tail changes this.
    let worker = world.engine.open_session(0, ReturnOrder::ToTail);
    assert!(world.release(session, a1, 2000, 0));
    assert!(by_number(&mut world, worker, a1));
    world.close(worker);
    world.pass(0);
    assert_eq!(take_now(&mut world, session), Some(a1));
    assert!(world.finish(session, a1));
    assert_eq!(take_now(&mut world, session), Some(a2));
}

#[test]
fn the_key_is_free_when_its_first_job_is_buried_deleted_or_dead() {
    let retries = [
        Setting::Retries(true),
        Setting::RetryLimit(0),
        Setting::RetryRelease(false),
        Setting::DeadQueue(DeadTarget::Queue(b"dead"[..].into())),
    ];
    let mut world = world(groups(1).into_iter().chain(retries));
    let session = world.open();
    let ids = [1, 2, 3, 4, 5].map(|n| put(&mut world, session, &format!("a-{n}")));
    assert_eq!(take_now(&mut world, session), Some(ids[0]));
    assert!(world.bury(session, ids[0]));
    assert_eq!(take_now(&mut world, session), Some(ids[1]));
    assert!(world.release(session, ids[1], 1024, 60));
    assert_eq!(take_now(&mut world, session), None);
    // A client deletes the delayed job.
    assert!(world.act(|e, fx| e.finish(session, ids[1], fx)).is_ok());
    world.pass(0);
    assert_eq!(take_now(&mut world, session), Some(ids[2]));
    // The ttr is over, and the policy allows no retry.
    world.pass(60_000);
    assert_eq!(take_now(&mut world, session), Some(ids[3]));
    assert!(world.release(session, ids[3], 1024, 60));
    // A kick ends the delay.
    assert!(world.act(|e, fx| e.kick_job(ids[3], fx)).is_ok());
    assert_eq!(take_now(&mut world, session), Some(ids[3]));
    assert!(world.finish(session, ids[3]));
    // The buried job was handed out before, so it comes first again.
    assert!(world.act(|e, fx| e.kick_job(ids[0], fx)).is_ok());
    assert_eq!(take_now(&mut world, session), Some(ids[0]));
    assert_eq!(take_now(&mut world, session), None);
    assert!(world.finish(session, ids[0]));
    assert_eq!(take_now(&mut world, session), Some(ids[4]));
}

#[test]
fn without_a_key_the_whole_queue_has_one_order() {
    let mut world = world(whole(1));
    let (session, waiter) = (world.open(), world.open());
    let [a, b] = ["a-1", "b-1"].map(|body| put(&mut world, session, body));
    assert_eq!(take_now(&mut world, session), Some(a));
    assert_eq!(
        (take_now(&mut world, session), held(&world)),
        (None, Some(Held::Concurrency { limit: 1 }))
    );
    assert!(world.release(session, a, 0, 2));
    assert!(matches!(world.take(waiter, Patience::Endless), Take::Waiting));
    assert_eq!(held(&world), Some(Held::Order));
    world.pass(2000);
    assert_eq!(world.events(), [(waiter, format!("granted {a}"))]);
    assert!(world.finish(waiter, a));
    assert_eq!(take_now(&mut world, waiter), Some(b));
}

#[test]
fn a_strict_order_with_two_slots_has_two_jobs_under_way() {
    let mut world = world(groups(2));
    let session = world.open();
    let ids = [1, 2, 3, 4].map(|n| put(&mut world, session, &format!("a-{n}")));
    assert_eq!(take_now(&mut world, session), Some(ids[0]));
    assert_eq!(take_now(&mut world, session), Some(ids[1]));
    assert!(world.release(session, ids[0], 1024, 60));
    assert_eq!((take_now(&mut world, session), held(&world)), (None, Some(Held::Order)));
    assert!(world.finish(session, ids[1]));
    assert_eq!(take_now(&mut world, session), Some(ids[2]));
    assert_eq!(take_now(&mut world, session), None);
    world.pass(60_000);
    // The ttr of the third job is over, too. Those that have begun come first, in their order.
    assert_eq!(take_now(&mut world, session), Some(ids[0]));
    assert_eq!(take_now(&mut world, session), Some(ids[2]));
    assert_eq!(take_now(&mut world, session), None);
}

#[test]
fn a_delayed_put_holds_back_nothing() {
    let mut world = world(groups(1));
    let session = world.open();
    let later = NewJob { delay_s: 9, ttr_s: 60, priority: 0 };
    let delayed = put_with(&mut world, session, later, "a-1");
    let a2 = put(&mut world, session, "a-2");
    assert_eq!(take_now(&mut world, session), Some(a2));
    world.pass(9000);
    assert_eq!(take_now(&mut world, session), None);
    assert!(world.finish(session, a2));
    assert_eq!(take_now(&mut world, session), Some(delayed));
}

#[test]
fn a_take_by_number_gets_only_the_first_job_of_a_key() {
    let mut world = world(groups(1));
    let session = world.open();
    let [a1, a2, b] = ["a-1", "a-2", "b-1"].map(|body| put(&mut world, session, body));
    assert_eq!([a2, b, a1].map(|id| by_number(&mut world, session, id)), [false, true, true]);
    assert!(world.release(session, a1, 1024, 60));
    // The delayed job has the slot itself.
    assert_eq!([a2, a1].map(|id| by_number(&mut world, session, id)), [false, true]);
    assert!(world.finish(session, a1));
    world.pass(0);
    assert!(by_number(&mut world, session, a2));
}

#[test]
fn a_token_and_the_slot_are_needed() {
    let key = "until:-".parse().expect("it is a key");
    let rate = [
        Setting::Rate(NonZeroU32::new(1000).map(|milli| Rate { milli, per: Per::Second })),
        Setting::RateBurst(NonZeroU32::new(2)),
        Setting::RateKey(Some(key)),
    ];
    let mut world = world(groups(1).into_iter().chain(rate));
    let session = world.open();
    let [a1, a2] = ["a-1", "a-2"].map(|body| put(&mut world, session, body));
    world.pass(2000);
    assert_eq!(take_now(&mut world, session), Some(a1));
    assert!(world.release(session, a1, 1024, 0));
    assert_eq!(take_now(&mut world, session), Some(a1));
    assert!(world.finish(session, a1));
    assert_eq!(take_now(&mut world, session), None);
    assert_eq!(held(&world), Some(Held::KeyRate { wait_ms: 1000 }));
    world.pass(1000);
    assert_eq!(take_now(&mut world, session), Some(a2));
}

#[test]
fn a_reload_counts_the_jobs_that_are_delayed() {
    let mut world = World::new();
    let session = world.open();
    let ids = [1, 2].map(|n| put(&mut world, session, &format!("-{n}")));
    assert_eq!(take_now(&mut world, session), Some(ids[0]));
    assert!(world.release(session, ids[0], 1024, 30));
    for settings in [groups(1), whole(1), groups(1)] {
        set(&mut world, settings);
        world.pass(0);
        assert_eq!((take_now(&mut world, session), held(&world)), (None, Some(Held::Order)));
    }
    let loose = groups(1).into_iter().take(2);
    set(&mut world, loose);
    world.pass(0);
    assert_eq!(take_now(&mut world, session), Some(ids[1]));
    assert!(world.release(session, ids[1], 1024, 0));
    set(&mut world, groups(1));
    world.pass(30_000);
    assert_eq!(take_now(&mut world, session), Some(ids[0]));
    assert_eq!(take_now(&mut world, session), None);
}

#[test]
fn a_reload_counts_the_leases_that_are_there_if_the_whole_queue_has_one_order() {
    let aging = Setting::Aging(Some(Aging { steps: NonZeroU32::MIN, per_ms: NonZeroU32::MIN }));
    for before in [vec![], groups(5), vec![aging]] {
        let mut world = world(before);
        let session = world.open();
        let ids = [1, 2, 3, 4].map(|n| put(&mut world, session, &format!("{n}-")));
        assert_eq!(take_now(&mut world, session), Some(ids[0]));
        assert_eq!(take_now(&mut world, session), Some(ids[1]));
        set(&mut world, whole(2));
        world.pass(0);
        let nothing = (None, Some(Held::Concurrency { limit: 2 }));
        assert_eq!((take_now(&mut world, session), held(&world)), nothing);
        // A reload to the same order, or to another limit, counts them once.
        set(&mut world, whole(1));
        world.pass(0);
        assert!(world.finish(session, ids[0]));
        world.pass(0);
        assert_eq!(take_now(&mut world, session), None);
        assert!(world.release(session, ids[1], 1024, 0));
        world.pass(0);
        assert_eq!(take_now(&mut world, session), Some(ids[1]));
        assert!(world.finish(session, ids[1]));
        world.pass(0);
        assert_eq!(take_now(&mut world, session), Some(ids[2]));
        assert_eq!(take_now(&mut world, session), None);
    }
}

/// The engine after a restart: it has the facts of the jobs, and the rules.
fn restarted(before: &Engine) -> World {
    let mut engine = Engine::new(EngineSetup::default(), before.now(), 1);
    for slot in before.logged_slots() {
        let name = before.queue_name(before.queue_of(slot));
        let (facts, tags) = (before.facts(slot), before.tags(slot));
        engine.restore(name, &facts, tags, before.body(slot)).expect("possible facts");
    }
    engine.restore_policies(before.policies().clone());
    let mut world = World::new();
    world.engine = engine;
    world
}

#[test]
fn a_restart_keeps_the_order_of_each_key() {
    let mut world = world(groups(1));
    let session = world.open();
    let [a1, b1] = ["a-1", "b-1"].map(|body| put(&mut world, session, body));
    let urgent = NewJob { priority: 0, ttr_s: 60, ..NewJob::default() };
    assert_eq!(take_now(&mut world, session), Some(a1));
    assert_eq!(take_now(&mut world, session), Some(b1));
    let [a2, b2] = ["a-2", "b-2"].map(|body| put_with(&mut world, session, urgent, body));
    assert!(world.release(session, a1, 1024, 60));
    world.pass(1000);
    let mut world = restarted(&world.engine);
    world.pass(0);
    let session = world.open();
    assert_eq!(take_now(&mut world, session), Some(b1), "a worker held it when the server ended");
    assert_eq!((take_now(&mut world, session), held(&world)), (None, Some(Held::Order)));
    assert!(world.finish(session, b1));
    assert_eq!(take_now(&mut world, session), Some(b2));
    world.pass(59_000);
    assert_eq!(take_now(&mut world, session), Some(a1));
    assert!(world.finish(session, a1));
    assert_eq!(take_now(&mut world, session), Some(a2));
}

#[test]
fn a_server_that_takes_over_keeps_the_order() {
    let mut world = world(groups(1));
    let session = world.open();
    let [a1, a2] = ["a-1", "a-2"].map(|body| put(&mut world, session, body));
    assert_eq!(take_now(&mut world, session), Some(a1));
    assert!(world.release(session, a1, 1024, 60));
    let follower = world.follower.take().expect("the world has one");
    let mut world = World::new();
    world.engine = follower.engine;
    world.engine.empty_buckets();
    world.pass(0);
    let session = world.open();
    assert_eq!((take_now(&mut world, session), held(&world)), (None, Some(Held::Order)));
    world.pass(60_000);
    assert_eq!(take_now(&mut world, session), Some(a1));
    assert!(world.finish(session, a1));
    assert_eq!(take_now(&mut world, session), Some(a2));
}

#[test]
fn a_strict_order_needs_its_limit_and_its_key() {
    let check = |settings: Vec<Setting>| Rules(vec![Rule::new(["*"], settings)]).check();
    let key = || Some("body".parse().expect("it is a key"));
    assert!(check(whole(1)).is_ok() && check(groups(3)).is_ok());
    let alone = vec![Setting::ConcurrencyOrder(Order::Strict)];
    assert_eq!(check(alone), Err(RulesError::StrictWithoutLimit { line: 0 }));
    let beside = [whole(1), vec![Setting::RateKey(key())]].concat();
    assert_eq!(check(beside), Err(RulesError::StrictWithoutKey { line: 0 }));
}

#[test]
fn a_buried_job_that_a_client_names_is_as_urgent_as_if_it_was_kicked() {
    let aging = Aging { steps: NonZeroU32::MIN, per_ms: NonZeroU32::new(1000).expect("not 0") };
    let job = |priority, ttr_s| NewJob { priority, ttr_s, ..NewJob::default() };
    // The deadline of the buried job is behind this moment, or before the other job was ready.
    for (ttr_s, other_priority, is_first) in [(100, 20, true), (1, 5, false)] {
        let mut world = world([whole(1), vec![Setting::Aging(Some(aging))]].concat());
        let session = world.open();
        let buried = put_with(&mut world, session, job(5, ttr_s), "a");
        assert_eq!(take_now(&mut world, session), Some(buried));
        assert!(world.act(|e, fx| e.bury(session, buried, 5, fx)).is_ok());
        world.pass(5000);
        let other = put_with(&mut world, session, job(other_priority, 60), "b");
        assert_eq!(take_now(&mut world, session), Some(other));
        assert!(world.release(session, other, other_priority, 0));
        world.pass(5000);
        assert_eq!(by_number(&mut world, session, buried), is_first, "ttr {ttr_s}");
    }
}
