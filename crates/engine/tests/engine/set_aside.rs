//! An operator sets jobs aside by hand.

use lineshaft_engine::policy::{DeadTarget, Setting};
use lineshaft_engine::{
    Death, DeathCause, JobId, JobStatus, Millis, NewJob, Record, SetAsideRefused, State, Submit,
};

use crate::dead_letters::{cause, death, queue_of, to, world};
use crate::world::{START, World};

impl World {
    fn set_aside(&mut self, id: JobId) -> Result<(), SetAsideRefused> {
        self.act(|e, fx| e.set_aside_job(id, fx))
    }
}

fn status(world: &World, id: JobId) -> JobStatus {
    world.engine.job_status(id).expect("it exists")
}

#[test]
fn jobs_that_nobody_holds_move_to_the_queue_of_dead_letters_and_come_back() {
    let mut world = world([to("dead.{name}")]);
    let session = world.open();
    let buried = world.put(session, 7, 0, 60);
    world.taken(session);
    world.bury(session, buried);
    let ready = world.put(session, 7, 0, 60);
    let delayed = world.put(session, 7, 100, 60);
    world.pass(500);
    world.records();
    let moved = Death {
        died: Millis(START.0 + 500),
        until: Some(Millis(START.0 + 500 + 14 * 86_400_000)),
        cause: DeathCause::Operator,
        attempts: 0,
        origin: b"default"[..].into(),
        worker: Box::default(),
        error: Box::default(),
    };
    for id in [ready, delayed, buried] {
        assert_eq!(world.set_aside(id), Ok(()));
        let rerouted = world.records().into_iter().find_map(|record| match record {
            Record::Rerouted { id, is_requested, .. } => Some((id, is_requested)),
            _ => None,
        });
        assert_eq!(rerouted, Some((id, true)), "a client waits for this record");
        assert_eq!(death(&world, id), Some(moved.clone()));
        assert_eq!(queue_of(&world, id), "dead.default");
        assert_eq!(world.state(id), Some(State::Ready));
        assert_eq!(world.set_aside(id), Err(SetAsideRefused::DeadAlready));
    }
    assert_eq!(status(&world, ready).facts.created, START);
    for id in [ready, delayed, buried] {
        world.act(|e, fx| e.redrive(id, fx)).expect("it is dead");
        assert_eq!((queue_of(&world, id), death(&world, id)), ("default".into(), None));
        assert_eq!(world.taken(session), id);
    }
}

#[test]
fn a_letter_is_buried_in_its_queue_if_the_policy_says_so() {
    let mut world = world([]);
    let session = world.open();
    let buried = world.put(session, 7, 0, 60);
    world.taken(session);
    world.bury(session, buried);
    let delayed = world.put(session, 7, 100, 60);
    let ready = world.put(session, 7, 0, 60);
    let other = world.put(session, 7, 0, 60);
    world.taken(session);
    world.bury(session, ready);
    world.act(|e, fx| e.kick_job(ready, fx)).expect("it is buried");
    for id in [ready, delayed, buried] {
        assert_eq!(world.set_aside(id), Ok(()));
        assert_eq!(cause(&world, id), Some((DeathCause::Operator, 0, String::new())));
        assert_eq!(world.state(id), Some(State::Buried));
    }
    // They are buried in the order in which they were set aside, and a delay does not end that.
    world.pass(101_000);
    assert_eq!(world.taken(session), other);
    world.act(|e, fx| e.kick(session, 1, fx));
    assert_eq!((world.state(ready), death(&world, ready)), (Some(State::Ready), None));
    world.act(|e, fx| e.redrive(delayed, fx)).expect("it is dead");
    assert_eq!(world.taken(session), ready);
    assert_eq!(world.taken(session), delayed);
}

#[test]
fn a_job_stays_as_it_is_if_it_cannot_be_set_aside() {
    let mut world = world([]);
    let session = world.open();
    let held = world.put(session, 7, 0, 60);
    world.taken(session);
    assert_eq!(world.set_aside(held), Err(SetAsideRefused::Leased));
    assert_eq!(world.set_aside(JobId(99)), Err(SetAsideRefused::NotFound));
    for (foreground, expected) in [(true, Err(SetAsideRefused::Awaited)), (false, Ok(()))] {
        let submit = Submit {
            priority: Some(1),
            due: None,
            unique: b"",
            reducer: b"",
            body: b"work"[..].into(),
            foreground,
        };
        let id = world.act(|e, fx| e.submit(session, b"q", submit, fx)).expect("it has room");
        assert_eq!(world.set_aside(id), expected);
    }
    for none in [Setting::DeadQueue(DeadTarget::Drop), Setting::DeadJobsMax(0)] {
        let mut world = crate::dead_letters::world([none]);
        let session = world.open();
        let id = world.put(session, 7, 0, 60);
        assert_eq!(world.set_aside(id), Err(SetAsideRefused::NotKept));
        assert_eq!(world.taken(session), id);
    }
}

#[test]
fn too_many_letters_end_the_oldest_one() {
    let mut world = world([Setting::DeadJobsMax(2)]);
    let session = world.open();
    let ids = [7; 3].map(|priority| world.put(session, priority, 0, 60));
    for id in ids {
        world.pass(1);
        assert_eq!(world.set_aside(id), Ok(()));
    }
    let states = ids.map(|id| world.state(id));
    assert_eq!(states, [None, Some(State::Buried), Some(State::Buried)]);
}

#[test]
fn a_letter_gives_its_key_up() {
    let mut world = world([Setting::UniqueBy(Some("body".parse().expect("it is a key")))]);
    let session = world.open();
    let put = |world: &mut World| {
        let job = NewJob { priority: 7, delay_s: 0, ttr_s: 60 };
        world.act(|e, fx| e.put(session, job, b"same"[..].into(), fx))
    };
    let first = put(&mut world).expect("no job has the key");
    assert_eq!(world.set_aside(first), Ok(()));
    put(&mut world).expect("the letter has no key");
}
