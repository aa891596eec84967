//! Workers, as in Gearman: they register for queues, sleep, are woken, grab jobs and report on
//! them.

use engine::{
    Body, Choice, GrabOrder, Handout, JobId, News, NotFound, Patience, SessionId, Tags, Take,
};

use super::holds_logged;
use crate::{Answer, Position, Refusal, Turn};

/// A job for a worker.
#[derive(Debug)]
pub struct Assignment<'a> {
    /// The job.
    pub handout: Handout,
    /// Its queue.
    pub queue: &'a [u8],
    /// Its tags; empty for a job of another dialect.
    pub tags: Tags<'a>,
}

impl Turn<'_> {
    /// Registers the session for jobs of this queue, with a time limit per job.
    pub fn register(&mut self, session: SessionId, queue: &[u8], limit_ms: Option<u64>) {
        let core = &mut *self.core;
        core.engine.register(session, queue, limit_ms, &mut core.effects);
        core.apply_effects();
    }

    /// Removes the registration, and gives back the session's jobs of the queue.
    pub fn unregister(&mut self, session: SessionId, queue: &[u8]) {
        let core = &mut *self.core;
        core.engine.unregister(session, queue, &mut core.effects);
        core.apply_effects();
    }

    /// The same for all of its queues. Returns true if one slice of work was not enough: then it
    /// must be called again before any other request of this session.
    pub fn unregister_all(&mut self, session: SessionId) -> bool {
        let core = &mut *self.core;
        let more = core.engine.unregister_all(session, &mut core.effects);
        core.apply_effects();
        more
    }

    /// Names of the queues that a session is registered for, newest first, once per registration.
    pub fn registrations(&self, session: SessionId) -> impl Iterator<Item = &[u8]> {
        let engine = &self.core.engine;
        engine.registrations(session).map(|queue| engine.queue_name(queue))
    }

    /// The session's next registration after this rank, newest first: the name of its queue, and
    /// its rank. `None` as rank starts at the newest.
    pub fn next_registration(
        &mut self,
        session: SessionId,
        behind: Option<i64>,
    ) -> Option<(&[u8], i64)> {
        let engine = &mut self.core.engine;
        let (queue, rank) = engine.next_registration(session, behind)?;
        Some((engine.queue_name(queue), rank))
    }

    /// Takes the next job of the registered queues, if any. The worker is awake from now on.
    pub fn take_registered(
        &mut self,
        session: SessionId,
        order: GrabOrder,
    ) -> Answer<Option<Assignment<'_>>> {
        let core = &mut *self.core;
        let choice = Choice::Registered(order);
        let taken = core.take(session, choice, Patience::None, |_, _| Position::NONE);
        let Answer { value: Take::Granted(handout), after } = taken else {
            return Answer::at_once(None);
        };
        let queue = core.engine.queue_name(core.engine.queue_of(handout.job));
        let tags = core.engine.tags(handout.job).unwrap_or_default();
        Answer::new(Some(Assignment { handout, queue, tags }), after)
    }

    /// Puts a worker to sleep. Returns true if it sleeps, and [`crate::Event::WorkToDo`] will come;
    /// false if there is work for it.
    pub fn sleep(&mut self, session: SessionId) -> bool {
        self.core.engine.sleep(session)
    }

    /// Passes data or a warning from a job's worker to its watchers.
    pub fn report(
        &mut self,
        session: SessionId,
        id: JobId,
        news: &News,
    ) -> Answer<Result<(), NotFound>> {
        let core = &mut *self.core;
        let reported = core.engine.report(session, id, news, &mut core.effects);
        let after = core.apply_effects();
        core.done(id, reported, after)
    }

    /// Whether news are still being delivered to many watchers. See [`Turn::tell_more`].
    pub fn has_pending_news(&self) -> bool {
        self.core.engine.has_pending_news()
    }

    /// Delivers a slice of these news. Returns true if more are left; they are delivered in any
    /// case.
    pub fn tell_more(&mut self) -> bool {
        let core = &mut *self.core;
        let is_left = core.engine.send_more_news(&mut core.effects);
        core.apply_effects();
        is_left
    }

    /// Stores a job's progress, and passes the worker's text to its watchers.
    pub fn progress(
        &mut self,
        session: SessionId,
        id: JobId,
        progress: (u32, u32),
        words: &Body,
    ) -> Answer<Result<(), NotFound>> {
        let core = &mut *self.core;
        let noted = core.engine.progress(session, id, progress, words, &mut core.effects);
        let after = core.apply_effects();
        core.done(id, noted, after)
    }

    /// Completes a worker's job; its watchers get `news`.
    pub fn complete(
        &mut self,
        session: SessionId,
        id: JobId,
        news: &News,
    ) -> Answer<Result<(), NotFound>> {
        let core = &mut *self.core;
        let completed = core.engine.complete(session, id, news, &mut core.effects);
        let after = core.apply_effects();
        core.done(id, completed, after)
    }

    /// Fails a worker's job: a submitted job ends, one of another dialect is buried.
    pub fn fail(
        &mut self,
        session: SessionId,
        id: JobId,
        news: &News,
    ) -> Answer<Result<(), Refusal>> {
        let core = &mut *self.core;
        let lacks_room = core.lacks_room(1, |engine| {
            // A job of another dialect is buried, which needs room; the end of any other makes
            // room.
            let is_submitted = engine.slot(id).is_ok_and(|slot| engine.tags(slot).is_some());
            !is_submitted && holds_logged(engine, session, id)
        });
        if lacks_room {
            return Answer::at_once(Err(Refusal::LogFull));
        }
        let failed = core.engine.fail(session, id, news, &mut core.effects);
        let after = core.apply_effects();
        core.done(id, failed, after)
    }

    /// Sets how many sleeping workers a job wakes; 0, the default, means all.
    pub fn set_wake_max(&mut self, wake_max: u32) {
        self.core.engine.set_wake_max(wake_max);
    }

    /// Sets after how many lost attempts submitted jobs fail; 0, the default, means never.
    pub fn set_attempts_max(&mut self, attempts_max: u32) {
        self.core.engine.set_attempts_max(attempts_max);
    }
}
