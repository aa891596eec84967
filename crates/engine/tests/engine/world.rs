//! An engine under test, with short forms of requests.

use lineshaft_engine::{
    Choice, Clearing, Effects, Engine, EngineSetup, Event, GrabOrder, Handout, JobId, Millis,
    NewJob, Patience, ReadMode, Record, ReturnOrder, SessionId, State, Take, limits::Limits,
};

use crate::apply::Follower;

pub(crate) const START: Millis = Millis(1_000_000);

/// The units of work in a slice, in all these tests.
pub(crate) const SLICE_UNITS: u32 = 1000;

/// An engine with its outputs. `act` checks the invariants after each request.
pub(crate) struct World {
    pub(crate) engine: Engine,
    pub(crate) effects: Effects,
    /// Another engine that gets the records of each request.
    pub(crate) follower: Option<Follower>,
}

impl World {
    pub(crate) fn new() -> Self {
        let limits = Limits { slice_units: SLICE_UNITS };
        let setup = EngineSetup { limits, ..EngineSetup::default() };
        let (engine, effects) = (Engine::new(setup, START, 1), Effects::default());
        Self { engine, effects, follower: None }
    }

    pub(crate) fn open(&mut self) -> SessionId {
        self.engine.open_session(0, ReturnOrder::KeepPlace)
    }

    pub(crate) fn act<T>(&mut self, act: impl FnOnce(&mut Engine, &mut Effects) -> T) -> T {
        let known = self.effects.records.len();
        let result = act(&mut self.engine, &mut self.effects);
        if let Some(follower) = &mut self.follower {
            self.engine.note_children(&mut self.effects);
            follower.follow(&self.engine, &self.effects.records[known..]);
        }
        self.engine.check_invariants();
        result
    }

    pub(crate) fn put(
        &mut self,
        session: SessionId,
        priority: u32,
        delay_s: u32,
        ttr_s: u32,
    ) -> JobId {
        let job = NewJob { priority, delay_s, ttr_s };
        self.act(|engine, effects| engine.put(session, job, b"body"[..].into(), effects))
            .expect("no policy asks for anything")
    }

    pub(crate) fn take(&mut self, session: SessionId, patience: Patience) -> Take {
        self.act(|engine, effects| engine.take(session, Choice::Watched, patience, effects))
    }

    pub(crate) fn taken(&mut self, session: SessionId) -> JobId {
        match self.take(session, Patience::None) {
            Take::Granted(Handout { id, .. }) => id,
            other => panic!("wanted a job, got {other:?}"),
        }
    }

    pub(crate) fn release(
        &mut self,
        session: SessionId,
        id: JobId,
        priority: u32,
        delay_s: u32,
    ) -> bool {
        self.act(|engine, effects| engine.give_back(session, id, priority, delay_s, effects))
            .is_ok()
    }

    pub(crate) fn bury(&mut self, session: SessionId, id: JobId) -> bool {
        self.act(|engine, effects| engine.bury(session, id, 0, effects)).is_ok()
    }

    pub(crate) fn finish(&mut self, session: SessionId, id: JobId) -> bool {
        self.act(|engine, effects| engine.finish(session, id, effects)).is_ok()
    }

    pub(crate) fn close(&mut self, session: SessionId) {
        self.act(|engine, effects| engine.close_session(session, effects));
    }

    /// Removes a queue that has few jobs.
    pub(crate) fn remove(&mut self, queue: &[u8]) {
        let session = self.open();
        let removal = self.act(|engine, effects| engine.remove_queue(session, queue, effects));
        assert_eq!(removal, Clearing::Done);
        self.close(session);
    }

    /// Advances the time by this many milliseconds, and does all work that is due.
    pub(crate) fn pass(&mut self, millis: u64) {
        let now = Millis(self.engine.now().0 + millis);
        self.engine.set_time(now);
        while self.act(Engine::advance) {}
    }

    pub(crate) fn state(&self, id: JobId) -> Option<State> {
        self.engine.job_status(id).ok().map(|status| status.facts.state)
    }

    pub(crate) fn events(&mut self) -> Vec<(SessionId, String)> {
        let events = std::mem::take(&mut self.effects.events);
        let name = |event| match event {
            Event::Granted(handout) => format!("granted {}", handout.id),
            Event::TimedOut => "timed out".into(),
            Event::DeadlineSoon => "deadline soon".into(),
            Event::Kicked(_, count) => format!("kicked {count}"),
            Event::WorkToDo => "work to do".into(),
            Event::News { id, news, .. } => format!("{id}: {news:?}"),
            Event::Peeked { .. } => "looked".into(),
            Event::NoItem(_) => "none came".into(),
            Event::Cleared => "flushed".into(),
            Event::Room => "room".into(),
        };
        events.into_iter().map(|(session, event)| (session, name(event))).collect()
    }

    pub(crate) fn records(&mut self) -> Vec<Record> {
        std::mem::take(&mut self.effects.records)
    }
}

/// Takes a job as a worker.
pub(crate) fn grab(
    engine: &mut Engine,
    worker: SessionId,
    order: GrabOrder,
    effects: &mut Effects,
) -> Option<Handout> {
    engine.take(worker, Choice::Registered(order), Patience::None, effects).granted()
}

/// Takes the next job of one queue.
pub(crate) fn read(
    engine: &mut Engine,
    reader: SessionId,
    queue: &[u8],
    how: ReadMode,
    patience: Patience,
    effects: &mut Effects,
) -> Take {
    engine.take(reader, Choice::Queue(queue, how), patience, effects)
}

/// Takes the job with this number.
pub(crate) fn take_job(
    engine: &mut Engine,
    session: SessionId,
    id: JobId,
    effects: &mut Effects,
) -> Option<Handout> {
    engine.take(session, Choice::Job(id), Patience::None, effects).granted()
}
