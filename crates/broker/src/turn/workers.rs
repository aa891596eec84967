//! Workers, as Gearman has them: they register for queues, sleep, are woken, grab jobs and report on them.

use engine::{Body, GrabOrder, JobId, News, NotFound, SessionId, Tags};

use super::holds_logged;
use crate::{Denied, Grant, Refusal, Turn};

/// A job that a worker was given.
#[derive(Debug)]
pub struct Grabbed<'a> {
    /// The hand-out.
    pub grant: Grant,
    /// The queue it comes from.
    pub queue: &'a [u8],
    /// What it was submitted with; empty for a job of another dialect.
    pub tags: Tags<'a>,
}

impl Turn<'_> {
    /// The session can work on jobs of this queue, at most so long on each.
    pub fn register(&mut self, session: SessionId, queue: &[u8], limit_ms: Option<u64>) {
        let core = &mut *self.core;
        core.engine.register(session, queue, limit_ms, &mut core.effects);
        core.apply_effects();
    }

    /// It cannot any more; jobs of the queue that it holds are given back.
    pub fn unregister(&mut self, session: SessionId, queue: &[u8]) {
        let core = &mut *self.core;
        core.engine.unregister(session, queue, &mut core.effects);
        core.apply_effects();
    }

    /// The same for all of its queues. True if it has more than one slice of work allows: to be called
    /// again, before anything else is asked for this session.
    pub fn unregister_all(&mut self, session: SessionId) -> bool {
        let core = &mut *self.core;
        let more = core.engine.unregister_all(session, &mut core.effects);
        core.apply_effects();
        more
    }

    /// Names of the queues that a session is registered for, newest first, as often as it
    /// registered.
    pub fn registrations(&self, session: SessionId) -> impl Iterator<Item = &[u8]> {
        let engine = &self.core.engine;
        engine.registrations(session).map(|queue| engine.queue_name(queue))
    }

    /// The registration of a session behind this rank, newest first: the name of its queue, and its own
    /// rank. Before the newest is no rank.
    pub fn next_registration(
        &mut self,
        session: SessionId,
        behind: Option<i64>,
    ) -> Option<(&[u8], i64)> {
        let engine = &mut self.core.engine;
        let (queue, rank) = engine.next_registration(session, behind)?;
        Some((engine.queue_name(queue), rank))
    }

    /// The next job for a worker, if there is one; it is awake from now on.
    pub fn grab(&mut self, session: SessionId, order: GrabOrder) -> Option<Grabbed<'_>> {
        let core = &mut *self.core;
        let grabbed = core.engine.grab(session, order, &mut core.effects);
        core.apply_effects();
        let handout = grabbed?;
        let slot = handout.job;
        let grant = core.grant(handout);
        let queue = core.engine.queue_name(core.engine.queue_of(slot));
        let tags = core.engine.tags(slot).unwrap_or_default();
        Some(Grabbed { grant, queue, tags })
    }

    /// A worker has nothing to do. True: it sleeps, [`crate::Event::WorkToDo`] will come. False:
    /// there is work for it.
    pub fn sleep(&mut self, session: SessionId) -> bool {
        self.core.engine.sleep(session)
    }

    /// Passes data or a warning of a job's worker on to its watchers.
    pub fn report(&mut self, session: SessionId, id: JobId, news: &News) -> Result<(), Denied> {
        let core = &mut *self.core;
        let reported = core.engine.report(session, id, news, &mut core.effects);
        core.apply_effects();
        reported.map_err(|NotFound| core.denial(id))
    }

    /// Whether news that was told is on its way to the many watchers of a job. See [`Turn::tell_more`].
    pub fn has_pending_news(&self) -> bool {
        self.core.engine.has_pending_news()
    }

    /// Tells a slice of that; true if more is left, which is told in any case.
    pub fn tell_more(&mut self) -> bool {
        let core = &mut *self.core;
        let is_left = core.engine.tell_more(&mut core.effects);
        core.apply_effects();
        is_left
    }

    /// Notes a job's progress, and passes the worker's words on to its watchers.
    pub fn progress(
        &mut self,
        session: SessionId,
        id: JobId,
        progress: (u32, u32),
        words: &Body,
    ) -> Result<(), Denied> {
        let core = &mut *self.core;
        let noted = core.engine.progress(session, id, progress, words, &mut core.effects);
        core.apply_effects();
        noted.map_err(|NotFound| core.denial(id))
    }

    /// A worker is done with a job; `news` is what its watchers hear.
    pub fn complete(&mut self, session: SessionId, id: JobId, news: &News) -> Result<(), Denied> {
        let core = &mut *self.core;
        let completed = core.engine.complete(session, id, news, &mut core.effects);
        core.apply_effects();
        completed.map_err(|NotFound| core.denial(id))
    }

    /// A worker failed at a job: one that was submitted ends, one of another dialect is buried.
    pub fn fail(&mut self, session: SessionId, id: JobId, news: &News) -> Result<(), Refusal> {
        let core = self.core_for_update(|engine| {
            // One of another dialect is buried, which takes room; the end of any other makes room.
            let is_submitted = engine.slot(id).is_ok_and(|slot| engine.tags(slot).is_some());
            !is_submitted && holds_logged(engine, session, id)
        })?;
        let failed = core.engine.fail(session, id, news, &mut core.effects);
        core.apply_effects();
        failed.map_err(|NotFound| core.denial(id).into())
    }

    /// How many sleeping workers one job wakes; 0, as at the start, for all.
    pub fn set_wake_max(&mut self, wake_max: u32) {
        self.core.engine.set_wake_max(wake_max);
    }

    /// Submitted jobs fail after so many lost attempts; 0, as at the start, for never.
    pub fn set_attempts_max(&mut self, attempts_max: u32) {
        self.core.engine.set_attempts_max(attempts_max);
    }
}
