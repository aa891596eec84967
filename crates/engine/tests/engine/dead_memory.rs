//! The memory of dead letters. Failures are never refused, so a letter must not be much larger than its job.

use lineshaft_engine::{JobId, News, State};

use crate::dead_letters::{death, queue_of, submitted, to, world};
use crate::world::World;

/// Lets a worker fail with an exception. Returns the job.
fn fail(world: &mut World) -> JobId {
    let (id, worker) = submitted(world);
    let news = News::Exception(b"no route to host"[..].into());
    world.act(|engine, fx| engine.fail(worker, id, &news, fx)).expect("it is held");
    id
}

/// Where a dead letter is, and the lengths of what the worker and its error left.
fn letter(world: &World, id: JobId) -> (String, Option<State>, (usize, usize)) {
    let death = death(world, id).expect("it has failed");
    (queue_of(world, id), world.state(id), (death.worker.len(), death.error.len()))
}

#[test]
fn while_the_memory_is_full_a_failure_keeps_no_text_and_makes_no_queue() {
    let mut world = world([to("dead.{name}")]);
    world.engine.note_full_memory(true);
    let first = fail(&mut world);
    assert_eq!(letter(&world, first), ("q".into(), Some(State::Buried), (0, 0)));
    world.engine.note_full_memory(false);
    let second = fail(&mut world);
    assert_eq!(letter(&world, second), ("dead.q".into(), Some(State::Ready), (10, 16)));
    world.engine.note_full_memory(true);
    let third = fail(&mut world);
    assert_eq!(letter(&world, third), ("dead.q".into(), Some(State::Ready), (0, 0)));
    world.act(|engine, fx| engine.redrive(first, fx)).expect("it is dead");
    assert_eq!(world.state(first), Some(State::Ready));
}

#[test]
fn an_operator_may_make_the_queue_of_dead_letters_although_the_memory_is_full() {
    // The owner has asked whether there is room for it.
    let mut world = world([to("dead")]);
    world.engine.note_full_memory(true);
    let session = world.open();
    let id = world.put(session, 7, 0, 60);
    assert_eq!(world.engine.check_set_aside(id), Ok(Some(b"dead"[..].into())));
    world.act(|engine, fx| engine.set_aside_job(id, fx)).expect("it is ready");
    assert_eq!(queue_of(&world, id), "dead");
}

#[test]
fn letters_from_one_queue_share_its_name() {
    const LETTERS: u64 = 100;
    let mut world = world([to("dead")]);
    let name = [b'q'; 8000];
    let session = world.open();
    world.act(|engine, fx| engine.use_queue(session, &name, fx));
    world.act(|engine, _| engine.watch(session, &name));
    let ids: Vec<JobId> = (0..LETTERS).map(|_| world.put(session, 7, 0, 60)).collect();
    for id in &ids {
        assert_eq!(world.taken(session), *id);
    }
    let before = world.engine.memory_bytes();
    for id in &ids {
        assert!(world.release(session, *id, 7, 0));
    }
    let full = before + LETTERS * 500;
    assert!(world.engine.memory_bytes() < full);
    // The follower has them as the log has them.
    let follower = world.follower.as_ref().expect("it follows");
    assert!(follower.engine.memory_bytes() < full);
    for id in &ids {
        assert!(world.finish(session, *id));
    }
    assert!(world.engine.memory_bytes() < before);
}
