//! The work of searches for the next job: a session can have thousands of queues.

use lineshaft_engine::limits::{INDIVISIBLE_UNITS_MAX, REGISTRATIONS_MAX};
use lineshaft_engine::{
    Choice, GrabOrder, JobId, Need, NewJob, Patience, ReturnOrder, SessionId, Take,
};

use crate::world::World;

/// The number of queues that the session has.
const QUEUES: u64 = REGISTRATIONS_MAX as u64;

/// Maximum units of one search.
const SEARCH: u64 = QUEUES + QUEUES / 100;

/// Makes a job of a queue cold, and pauses the queue. Until then, the world has no job.
fn put_cold(world: &mut World, queue: &[u8]) {
    let client = world.open();
    world.put_many(client, queue, 1, NewJob::default());
    let slot = world.engine.slot(JobId(1)).expect("the job exists");
    world.engine.cool(&[slot]).expect("the job can be cold");
    world.engine.pause(queue, 100, &mut world.effects).expect("the queue exists");
}

#[test]
fn a_worker_of_many_paused_functions_is_searched_for_twice_at_most() {
    let mut world = World::new();
    put_cold(&mut world, b"other");
    let (client, worker) = (world.open(), world.engine.open_session(0, ReturnOrder::ToTail));
    for number in 0..QUEUES {
        let name = format!("f{number}");
        world.engine.register(worker, name.as_bytes(), None, &mut world.effects);
        // One function has no job, so fewer functions could supply a job than the worker has.
        if number > 0 {
            world.put_many(client, name.as_bytes(), 1, NewJob::default());
            world.engine.pause(name.as_bytes(), 100, &mut world.effects).expect("it exists");
        }
    }
    assert!(world.engine.needs_sweeps());
    let cost = world.cost(|engine, fx| {
        assert_eq!(engine.clear_way(worker, Need::Registered, fx), None);
        let order = Choice::Registered(GrabOrder::NewestFirst);
        let take = engine.take(worker, order, Patience::None, fx);
        assert!(matches!(take, Take::Nothing(_)));
    });
    assert!((QUEUES..=2 * SEARCH).contains(&cost), "{cost} to take no job");
    let cost = world.cost(|engine, fx| {
        assert_eq!(engine.clear_way(worker, Need::Sleep, fx), None);
        assert!(engine.sleep(worker));
    });
    assert!((QUEUES..=2 * SEARCH + QUEUES).contains(&cost), "{cost} to sleep");
    assert!(cost <= INDIVISIBLE_UNITS_MAX, "{cost}");
    world.engine.check_invariants();
}

/// Makes a session that watches many queues. One of them is paused, and has a cold job.
fn watcher(world: &mut World) -> SessionId {
    let name = format!("q{}", QUEUES - 1);
    put_cold(world, name.as_bytes());
    let watcher = world.open();
    world.watch_many(watcher, QUEUES as u32);
    watcher
}

/// The units of a take from the watched queues that finds no job.
fn cost_of_vain_take(world: &mut World, watcher: SessionId, patience: Patience) -> u64 {
    world.cost(|engine, fx| {
        assert_eq!(engine.clear_way(watcher, Need::Watched, fx), None);
        let take = engine.take(watcher, Choice::Watched, patience, fx);
        assert!(matches!(take, Take::Waiting | Take::Nothing(_)));
    })
}

#[test]
fn a_take_from_many_empty_queues_looks_at_one_bit_of_each() {
    let mut world = World::new();
    let watcher = watcher(&mut world);
    let cost = cost_of_vain_take(&mut world, watcher, Patience::None);
    assert!((QUEUES / 100..=QUEUES / 20).contains(&cost), "{cost} to take no job");
    // The wait needs a place in the line of each queue.
    let cost = cost_of_vain_take(&mut world, watcher, Patience::Millis(1000));
    assert!((QUEUES..=QUEUES + QUEUES / 20).contains(&cost), "{cost} to begin a wait");
    world.engine.check_invariants();
}

#[test]
fn a_take_from_many_paused_queues_looks_at_each_of_them_twice() {
    let mut world = World::new();
    let watcher = watcher(&mut world);
    let client = world.open();
    for number in 0..QUEUES - 1 {
        let name = format!("q{number}");
        world.put_many(client, name.as_bytes(), 1, NewJob::default());
        world.engine.pause(name.as_bytes(), 100, &mut world.effects).expect("it exists");
    }
    let cost = cost_of_vain_take(&mut world, watcher, Patience::Millis(1000));
    assert!((3 * QUEUES..=3 * QUEUES + QUEUES / 20).contains(&cost), "{cost}");
    assert!(cost <= INDIVISIBLE_UNITS_MAX, "{cost}");
    world.engine.check_invariants();
}
