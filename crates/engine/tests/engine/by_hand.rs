//! An operator buries and reschedules jobs that no session holds.

use std::num::NonZeroU32;

use lineshaft_engine::policy::{Order, Setting};
use lineshaft_engine::{
    Counters, Engine, JobFacts, JobId, Millis, NotFound, Patience, Record, State, Submit, Take,
};

use crate::dead_letters::world;
use crate::world::World;

impl World {
    fn bury_by_hand(&mut self, id: JobId, priority: u32) -> Result<(), NotFound> {
        self.act(|e, fx| e.bury_job(id, priority, fx))
    }

    fn reschedule(&mut self, id: JobId, priority: u32, delay_s: u32) -> Result<(), NotFound> {
        self.act(|e, fx| e.reschedule_job(id, priority, delay_s, fx))
    }

    /// Whether the last requests noted a change of this job that a client waits for.
    fn has_noted(&mut self, id: JobId) -> bool {
        let records = self.records();
        records.iter().any(|record| matches!(record, Record::Update(_, of) if *of == id))
    }
}

/// The facts of a job that no session holds. The follower must have the same.
fn facts(world: &World, id: JobId) -> JobFacts {
    let facts = |engine: &Engine| engine.job_status(id).expect("it exists").facts;
    let follower = &world.follower.as_ref().expect("it follows").engine;
    assert_eq!(facts(follower), facts(&world.engine));
    facts(&world.engine)
}

#[test]
fn a_job_is_buried_although_nobody_takes_it() {
    let mut world = world([]);
    let session = world.open();
    let ready = world.put(session, 7, 0, 60);
    let delayed = world.put(session, 7, 100, 60);
    for id in [delayed, ready, delayed] {
        assert_eq!(world.bury_by_hand(id, 3), Ok(()));
        assert!(world.has_noted(id));
        let job = facts(&world, id);
        assert_eq!((job.state, job.priority), (State::Buried, 3));
        assert_eq!((job.counters.takes, job.attempts, job.death), (0, 0, None));
    }
    assert_eq!(facts(&world, delayed).counters.buries, 2);
    // The delay does not end this.
    world.pass(101_000);
    assert!(matches!(world.take(session, Patience::None), Take::Nothing(_)));
    world.act(|e, fx| e.kick(session, 1, fx));
    assert_eq!(world.taken(session), ready, "the other one was buried once more behind it");
}

#[test]
fn a_job_is_rescheduled_without_a_failed_attempt() {
    // The first failure would make it a dead letter.
    let mut world = world([]);
    let session = world.open();
    let id = world.put(session, 7, 0, 60);
    for (priority, delay_s, state) in [
        (5, 0, State::Ready),
        (5, 10, State::Delayed),
        (4, 20, State::Delayed),
        (4, 0, State::Ready),
    ] {
        assert_eq!(world.reschedule(id, priority, delay_s), Ok(()));
        assert!(world.has_noted(id));
        let job = facts(&world, id);
        assert_eq!((job.state, job.priority, job.delay_s), (state, priority, delay_s));
        assert_eq!((job.attempts, job.counters, job.death), (0, Counters::default(), None));
        let left_ms = world.engine.job_status(id).expect("it exists").time_left_ms;
        assert_eq!(left_ms, u64::from(delay_s) * 1000, "no time is added");
    }
    let other = world.put(session, 5, 0, 60);
    let buried = world.put(session, 1, 0, 60);
    assert_eq!(world.bury_by_hand(buried, 1), Ok(()));
    assert_eq!(world.reschedule(buried, 1, 2), Ok(()));
    assert_eq!(facts(&world, buried).state, State::Delayed);
    assert_eq!(world.taken(session), id, "it is more urgent now");
    world.pass(2000);
    assert_eq!(world.taken(session), buried);
    assert_eq!(world.taken(session), other);
}

#[test]
fn a_ready_job_that_gets_another_priority_keeps_its_age() {
    let mut world = world([]);
    let session = world.open();
    let (ready, delayed) = (world.put(session, 7, 0, 60), world.put(session, 7, 9, 60));
    world.pass(500);
    for id in [ready, delayed] {
        assert_eq!(world.reschedule(id, 5, 0), Ok(()));
    }
    assert_eq!(facts(&world, ready).due, Millis(0));
    assert_eq!(facts(&world, delayed).due, world.engine.now());
}

#[test]
fn no_limit_of_a_queue_holds_back_a_change_by_hand() {
    let slots = Setting::Concurrency(NonZeroU32::new(1));
    for more in [None, Some(Setting::ConcurrencyOrder(Order::Strict))] {
        let mut world = world([slots.clone()].into_iter().chain(more));
        let session = world.open();
        let held = world.put(session, 7, 0, 60);
        let (first, second) = (world.put(session, 7, 0, 60), world.put(session, 7, 0, 60));
        assert_eq!(world.taken(session), held);
        assert!(matches!(world.take(session, Patience::None), Take::Nothing(_)));
        assert_eq!(world.bury_by_hand(second, 7), Ok(()));
        assert_eq!(world.reschedule(first, 7, 5), Ok(()));
        assert_eq!(world.reschedule(second, 7, 0), Ok(()));
        let states = [first, second].map(|id| facts(&world, id).state);
        assert_eq!(states, [State::Delayed, State::Ready]);
        assert!(world.finish(session, held));
        world.pass(0);
        assert_eq!(world.taken(session), second);
    }
}

#[test]
fn a_waiting_session_gets_a_rescheduled_job_at_once() {
    let mut world = world([]);
    let session = world.open();
    let id = world.put(session, 7, 100, 60);
    assert!(matches!(world.take(session, Patience::Endless), Take::Waiting));
    assert_eq!(world.reschedule(id, 7, 0), Ok(()));
    assert_eq!(world.events(), [(session, format!("granted {id}"))]);
    for refused in [world.bury_by_hand(id, 7), world.reschedule(id, 7, 0)] {
        assert_eq!(refused, Err(NotFound), "the session holds it");
    }
    assert_eq!(world.bury_by_hand(JobId(99), 7), Err(NotFound));
}

#[test]
fn a_job_that_only_its_client_keeps_ends_when_it_is_buried() {
    let mut world = world([]);
    let client = world.open();
    let submit = Submit {
        priority: Some(7),
        due: None,
        unique: b"",
        reducer: b"",
        body: b"work"[..].into(),
        foreground: true,
    };
    let id = world.act(|e, fx| e.submit(client, b"q", submit, fx)).expect("it has room");
    assert_eq!(world.reschedule(id, 3, 5), Ok(()));
    assert_eq!(world.state(id), Some(State::Delayed));
    assert_eq!(world.bury_by_hand(id, 3), Ok(()));
    assert_eq!(world.state(id), None);
    assert_eq!(world.events(), [(client, format!("{id}: Fail"))]);
}
