//! Moves of jobs to other queues.

use lineshaft_engine::policy::{Rule, Setting, WhenFull};
use lineshaft_engine::{
    Event, JobId, Millis, MoveRefused, NewJob, Patience, Record, Refused, SessionId, State, Submit,
    When,
};

use crate::world::{START, World};

impl World {
    fn move_to(&mut self, id: JobId, to: &str) -> Result<(), MoveRefused> {
        self.act(|engine, fx| engine.move_job(id, to.as_bytes(), fx))
    }

    fn put_in(&mut self, session: SessionId, queue: &str, job: NewJob) -> JobId {
        self.act(|engine, fx| engine.use_queue(session, queue.as_bytes(), fx));
        self.act(|engine, fx| engine.put(session, job, b"body"[..].into(), fx)).expect("has room")
    }

    fn queue_of(&self, id: JobId) -> String {
        let status = self.engine.job_status(id).expect("it exists");
        String::from_utf8_lossy(self.engine.queue_name(status.queue)).into_owned()
    }

    fn watch_only(&mut self, session: SessionId, queue: &str) {
        self.act(|engine, _| engine.watch(session, queue.as_bytes()));
        self.act(|engine, fx| engine.ignore(session, b"default", fx));
    }
}

fn job() -> NewJob {
    NewJob { ttr_s: 60, ..NewJob::default() }
}

#[test]
fn a_moved_job_is_the_last_of_its_priority() {
    let mut world = World::new();
    let session = world.open();
    let moved = world.put_in(session, "a", job());
    let second = world.put_in(session, "b", job());
    world.act(|engine, fx| engine.use_queue(session, b"default", fx));
    world.records();
    world.pass(500);
    assert_eq!(world.move_to(moved, "b"), Ok(()));
    assert!(matches!(
        world.records()[..],
        [Record::Rerouted { id, is_requested: true, .. }, Record::QueueGone(_)] if id == moved
    ));
    assert_eq!(world.engine.queue_id(b"a"), None, "nothing keeps the old queue");
    let third = world.put_in(session, "b", job());
    world.watch_only(session, "b");
    assert_eq!([(); 3].map(|()| world.taken(session)), [second, moved, third]);
    let created = world.engine.job_status(moved).expect("it exists").facts.created;
    assert_eq!(created, Millis(START.0 + 500));
}

#[test]
fn a_waiting_worker_gets_a_moved_job() {
    let mut world = World::new();
    let [client, worker] = [world.open(), world.open()];
    world.watch_only(worker, "b");
    world.take(worker, Patience::Endless);
    let id = world.put_in(client, "a", job());
    assert_eq!(world.move_to(id, "b"), Ok(()));
    assert!(matches!(&world.effects.events[..], [(session, Event::Granted(handout))]
        if *session == worker && handout.id == id));
    assert_eq!(world.move_to(id, "c"), Err(MoveRefused::Leased));
}

#[test]
fn a_delayed_job_keeps_its_due_time_and_a_buried_job_becomes_ready() {
    let mut world = World::new();
    let session = world.open();
    let delayed = world.put_in(session, "a", NewJob { delay_s: 10, ..job() });
    let buried = world.put_in(session, "a", job());
    world.watch_only(session, "a");
    assert_eq!(world.taken(session), buried);
    world.bury(session, buried);
    world.pass(4_000);
    for id in [delayed, buried] {
        assert_eq!(world.move_to(id, "b"), Ok(()));
        assert_eq!(world.queue_of(id), "b");
    }
    assert_eq!(world.state(buried), Some(State::Ready));
    assert_eq!(world.engine.job_status(buried).expect("it exists").facts.counters.kicks, 1);
    world.pass(5_999);
    assert_eq!(world.state(delayed), Some(State::Delayed));
    world.pass(1);
    assert_eq!(world.state(delayed), Some(State::Ready));
    // A worker of the new queue takes both.
    world.watch_only(session, "b");
    assert_eq!([world.taken(session), world.taken(session)], [buried, delayed]);
}

#[test]
fn a_due_time_of_the_wall_clock_stays_one() {
    let mut world = World::new();
    let client = world.open();
    let due = Some(When::Wall(Millis(START.0 + 7_200_000)));
    let submit = Submit {
        priority: Some(1),
        due,
        unique: b"key",
        reducer: b"",
        body: b"x"[..].into(),
        foreground: false,
    };
    let id = world.act(|e, fx| e.submit(client, b"a", submit, fx)).expect("there is room");
    assert_eq!(world.move_to(id, "b"), Ok(()));
    world.act(|engine, _| engine.set_wall_ahead(3_600_000));
    world.pass(3_599_999);
    assert_eq!(world.state(id), Some(State::Delayed));
    world.pass(1);
    assert_eq!(world.state(id), Some(State::Ready));
    // A submit with the same key joins the job in its new queue.
    let again = Submit { due: None, body: b"y"[..].into(), ..submit_of(b"key") };
    let joined = world.act(|e, fx| e.submit(client, b"b", again, fx)).expect("there is room");
    assert_eq!(joined, id);
}

fn submit_of(unique: &[u8]) -> Submit<'_> {
    Submit {
        priority: Some(1),
        due: None,
        unique,
        reducer: b"",
        body: b"x"[..].into(),
        foreground: false,
    }
}

#[test]
fn the_limits_of_the_new_queue_apply() {
    let mut world = World::new();
    let session = world.open();
    world.policies([
        Rule::new(["one", "drops"], [Setting::JobsMax(Some(1))]),
        Rule::new(["drops"], [Setting::WhenFull(WhenFull::DropOldest)]),
        Rule::new(["small"], [Setting::ItemBytesMax(Some(3))]),
    ]);
    let jobs = [(); 4].map(|()| world.put_in(session, "a", job()));
    assert_eq!(world.move_to(jobs[0], "one"), Ok(()));
    assert_eq!(world.move_to(jobs[1], "one"), Err(MoveRefused::NoRoom(Refused::QueueFull)));
    assert_eq!(world.move_to(jobs[1], "small"), Err(MoveRefused::NoRoom(Refused::TooBig)));
    assert_eq!(world.engine.queue_id(b"small"), None, "a refused move makes no queue");
    assert_eq!((world.queue_of(jobs[1]), world.state(jobs[1])), ("a".into(), Some(State::Ready)));
    assert_eq!(world.move_to(jobs[2], "drops"), Ok(()));
    // A put would end a job of this queue to make room.
    assert_eq!(world.move_to(jobs[3], "drops"), Err(MoveRefused::NoRoom(Refused::QueueFull)));
    assert_eq!((world.queue_of(jobs[2]), world.queue_of(jobs[3])), ("drops".into(), "a".into()));
}

#[test]
fn a_move_goes_to_one_queue_only() {
    let mut world = World::new();
    let session = world.open();
    world.policies([
        Rule::new(["alias"], [Setting::Alias([b"b"[..].into()].into())]),
        Rule::new(["only"], [Setting::FanoutOnly(true)]),
        Rule::new(["b"], [Setting::CopyTo([b"copy"[..].into()].into())]),
    ]);
    world.get("b+child");
    let id = world.put_in(session, "a", job());
    for name in ["alias", "only"] {
        assert_eq!(world.move_to(id, name), Err(MoveRefused::StoresNothing), "{name}");
    }
    assert_eq!(world.move_to(id, "a"), Err(MoveRefused::SameQueue));
    assert_eq!(world.move_to(id, "b"), Ok(()));
    assert_eq!(world.stats("b+child").items, 0);
    assert_eq!(world.engine.queue_id(b"copy"), None);
    assert_eq!(world.engine.totals().ready, 1);
    world.finish(session, id);
    assert_eq!(world.move_to(id, "c"), Err(MoveRefused::NotFound));
}
