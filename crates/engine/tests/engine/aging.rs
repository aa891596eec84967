//! Aging: jobs become more urgent while they wait, by the policy `aging`.

use std::num::NonZeroU32;

use lineshaft_engine::policy::{Aging, Rule, Rules, Setting};
use lineshaft_engine::{Engine, EngineSetup, JobId, Millis, NewJob, Patience, SessionId, Take};

use crate::lanes::{put_with, set, take_now, world};
use crate::world::{START, World};

const MINUTE: u64 = 60_000;

fn aging(steps: u32, per_ms: u32) -> Setting {
    let number = |number| NonZeroU32::new(number).expect("a number from 1 on");
    Setting::Aging(Some(Aging { steps: number(steps), per_ms: number(per_ms) }))
}

/// One step in each minute.
fn slowly() -> [Setting; 1] {
    [aging(1, 60_000)]
}

fn put(world: &mut World, session: SessionId, priority: u32) -> JobId {
    put_with(world, session, NewJob { priority, ttr_s: 600, delay_s: 0 }, "x-1")
}

#[test]
fn a_job_that_has_waited_long_enough_comes_before_a_flood() {
    let mut world = world(slowly());
    let session = world.open();
    let patient = put(&mut world, session, 10);
    for _ in 0..10 {
        let urgent = put(&mut world, session, 0);
        assert_eq!(take_now(&mut world, session), Some(urgent));
        assert!(world.finish(session, urgent));
        world.pass(MINUTE);
    }
    world.pass(1);
    let urgent = put(&mut world, session, 0);
    assert_eq!(take_now(&mut world, session), Some(patient));
    assert_eq!(take_now(&mut world, session), Some(urgent));
    // Clients see the priority that they gave.
    let slot = world.engine.slot(patient).expect("the job exists");
    assert_eq!(world.engine.facts(slot).priority, 10);
}

#[test]
fn the_number_can_pass_below_zero_in_its_own_queue() {
    let mut world = world(slowly());
    let session = world.open();
    let old = put(&mut world, session, 1);
    world.pass(5 * MINUTE);
    let new = put(&mut world, session, 0);
    world.pass(5 * MINUTE);
    assert_eq!([0; 2].map(|_| take_now(&mut world, session)), [old, new].map(Some));
}

#[test]
fn several_steps_in_a_time() {
    let mut world = world([aging(5, 2000)]);
    let session = world.open();
    let old = put(&mut world, session, 10);
    world.pass(3999);
    let early = put(&mut world, session, 0);
    assert_eq!(take_now(&mut world, session), Some(early));
    world.pass(2);
    let late = put(&mut world, session, 0);
    assert_eq!([0; 2].map(|_| take_now(&mut world, session)), [old, late].map(Some));
}

#[test]
fn a_job_that_becomes_ready_again_begins_to_wait_anew() {
    let mut world = world(slowly());
    let session = world.open();
    let old = put(&mut world, session, 3);
    world.pass(2 * MINUTE);
    assert_eq!(take_now(&mut world, session), Some(old));
    assert!(world.release(session, old, 3, 0));
    let new = put(&mut world, session, 2);
    assert_eq!([0; 2].map(|_| take_now(&mut world, session)), [new, old].map(Some));
}

#[test]
fn a_reload_and_a_restart_order_the_jobs_that_are_there() {
    let mut world = World::new();
    let session = world.open();
    let old = put(&mut world, session, 5);
    world.pass(6 * MINUTE);
    let new = put(&mut world, session, 0);
    set(&mut world, slowly());
    world.pass(0);
    assert_eq!(take_now(&mut world, session), Some(old));
    assert!(world.act(|e, fx| e.give_back(session, old, 5, 1, fx)).is_ok());
    set(&mut world, []);
    world.pass(MINUTE);
    assert_eq!([0; 2].map(|_| take_now(&mut world, session)), [new, old].map(Some));

    let mut world = crate::lanes::world(slowly());
    let session = world.open();
    let old = put(&mut world, session, 5);
    world.pass(6 * MINUTE);
    let new = put(&mut world, session, 0);
    let mut engine = Engine::new(EngineSetup::default(), world.engine.now(), 1);
    for slot in world.engine.logged_slots() {
        let facts = world.engine.facts(slot);
        engine.restore(b"default", &facts, None, world.engine.body(slot)).expect("possible facts");
    }
    engine.restore_policies(world.engine.policies().clone());
    let mut world = World::new();
    world.engine = engine;
    world.pass(0);
    let session = world.open();
    assert_eq!([0; 2].map(|_| take_now(&mut world, session)), [old, new].map(Some));
}

#[test]
fn the_number_also_counts_among_several_queues() {
    let mut world = World::new();
    let rules = Rules(vec![Rule::new(["aged"], slowly())]);
    world.act(|engine, effects| engine.set_policies(rules, effects));
    let session = world.open();
    world.act(|e, _| e.watch(session, b"aged"));
    world.act(|e, fx| e.use_queue(session, b"aged", fx));
    let aged = put(&mut world, session, 3);
    world.act(|e, fx| e.use_queue(session, b"default", fx));
    let plain = put(&mut world, session, 1);
    world.pass(2 * MINUTE - 1);
    assert_eq!(take_now(&mut world, session), Some(plain));
    assert!(world.release(session, plain, 1, 0));
    world.pass(1);
    assert_eq!(take_now(&mut world, session), Some(aged));
}

#[test]
fn those_who_wait_get_the_aged_job() {
    let mut world = world(slowly());
    let (producer, waiter) = (world.open(), world.open());
    let old = put(&mut world, producer, 3);
    world.pass(9 * MINUTE);
    set(&mut world, slowly().into_iter().chain([Setting::Pause(true)]));
    put(&mut world, producer, 0);
    assert!(matches!(world.take(waiter, Patience::Endless), Take::Waiting));
    set(&mut world, slowly());
    world.pass(0);
    assert_eq!(world.events(), [(waiter, format!("granted {old}"))]);
}

#[test]
fn with_fairness_the_keys_share_within_a_period_or_across_all_priorities() {
    let fair = || Setting::FairKey(Some("until:-".parse().expect("it is a key")));
    // The moments of a period are whole multiples of it.
    let rest = MINUTE - START.0 % MINUTE;
    for across in [false, true] {
        let settings = [fair(), Setting::FairAcross(across)].into_iter().chain(slowly());
        let mut world = world(settings);
        let session = world.open();
        world.pass(rest);
        let job = NewJob { priority: 5, ttr_s: 600, delay_s: 0 };
        let [a1, a2, a3] = ["a-1", "a-2", "a-3"].map(|body| {
            world.pass(1);
            put_with(&mut world, session, job, body)
        });
        let b1 = put_with(&mut world, session, job, "b-1");
        world.pass(MINUTE);
        let b2 = put_with(&mut world, session, job, "b-2");
        let wanted = if across { [a1, b1, a2, b2, a3] } else { [a1, b1, a2, a3, b2] };
        assert_eq!([0; 5].map(|_| take_now(&mut world, session)), wanted.map(Some));
    }
}

#[test]
fn the_largest_numbers_keep_their_order() {
    let mut world = world([aging(1000, 7 * 24 * 3_600_000)]);
    let session = world.open();
    world.engine.set_time(Millis(1 << 43));
    let least = put(&mut world, session, u32::MAX);
    let less = put(&mut world, session, u32::MAX - 1);
    assert_eq!([0; 2].map(|_| take_now(&mut world, session)), [less, least].map(Some));
}
