//! The requests of a [`Turn`] that Gearman makes: workers that register, grab and sleep; jobs that
//! are submitted for their outcome.

use engine::{
    GrabOrder, JobCursor, JobId, Manner, News, NotFound, Outlook, QueueFacts, QueueId, SessionId,
    Submit, Tags,
};

use crate::turn::holds_logged;
use crate::{AddRefusal, Body, Clearing, Denied, Grant, Position, Refusal, Turn};

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

/// A row in the listing of submitted jobs.
#[derive(Debug)]
pub struct SubmittedJob<'a> {
    /// Its number.
    pub id: JobId,
    /// What it was submitted with.
    pub tags: Tags<'a>,
    /// How many attempts at it were lost.
    pub failures: u32,
    /// Whether it is in the log.
    pub is_durable: bool,
}

impl Turn<'_> {
    /// Opens a session whose lost jobs go behind all others of their priority.
    pub fn open_worker_session(&mut self, mailbox: usize) -> SessionId {
        self.core.engine.open_session(mailbox as u32, Manner::ToTheTail)
    }

    // --- Workers ---

    /// The session can work on jobs of this queue, at most so long on each.
    pub fn register(&mut self, session: SessionId, queue: &[u8], limit_ms: Option<u64>) {
        let core = &mut *self.core;
        core.engine.register(session, queue, limit_ms, &mut core.effects);
        core.settle();
    }

    /// It cannot any more; jobs of the queue that it holds are given back.
    pub fn unregister(&mut self, session: SessionId, queue: &[u8]) {
        let core = &mut *self.core;
        core.engine.unregister(session, queue, &mut core.effects);
        core.settle();
    }

    /// The same for all of its queues. True if it has more than one slice of work allows: to be called
    /// again, before anything else is asked for this session.
    pub fn unregister_all(&mut self, session: SessionId) -> bool {
        let core = &mut *self.core;
        let more = core.engine.unregister_all(session, &mut core.effects);
        core.settle();
        more
    }

    /// Names of the queues that a session is registered for, newest first, as often as it
    /// registered.
    pub fn registrations(&self, session: SessionId) -> impl Iterator<Item = &[u8]> {
        let engine = &self.core.engine;
        engine.registrations(session).map(|queue| engine.queue_name(queue))
    }

    /// The next job for a worker, if there is one; it is awake from now on.
    pub fn grab(&mut self, session: SessionId, order: GrabOrder) -> Option<Grabbed<'_>> {
        let core = &mut *self.core;
        let grabbed = core.engine.grab(session, order, &mut core.effects);
        core.settle();
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
        core.settle();
        reported.map_err(|NotFound| core.denial(id))
    }

    /// Whether news that was told is on its way to the many watchers of a job. See [`Turn::tell_more`].
    pub fn has_untold_news(&self) -> bool {
        self.core.engine.has_untold_news()
    }

    /// Tells a slice of that; true if more is left, which is told in any case.
    pub fn tell_more(&mut self) -> bool {
        let core = &mut *self.core;
        let is_left = core.engine.tell_more(&mut core.effects);
        core.settle();
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
        core.settle();
        noted.map_err(|NotFound| core.denial(id))
    }

    /// A worker is done with a job; `news` is what its watchers hear.
    pub fn complete(&mut self, session: SessionId, id: JobId, news: &News) -> Result<(), Denied> {
        let core = &mut *self.core;
        let completed = core.engine.complete(session, id, news, &mut core.effects);
        core.settle();
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
        core.settle();
        failed.map_err(|NotFound| core.denial(id).into())
    }

    // --- Clients ---

    /// Submits a job, or joins an equal one that is unfinished.
    pub fn submit(
        &mut self,
        session: SessionId,
        queue: &[u8],
        submit: Submit<'_>,
    ) -> Result<(JobId, Position), AddRefusal> {
        let body_bytes = self.core.engine.submit_bytes(queue, &submit);
        self.admit(body_bytes, |engine| {
            // A foreground job is not in the log, but what it feeds is.
            if submit.foreground {
                engine.feeds_others(queue)
            } else {
                engine.puts_are_logged(queue)
            }
        })?;
        if !self.admits_queue(queue) {
            return Err(AddRefusal::NoNewQueue);
        }
        let core = &mut *self.core;
        let submitted = core.engine.submit(session, queue, submit, &mut core.effects);
        core.settle();
        let id = submitted.map_err(|refused| core.refusal(refused))?;
        // Also for one that was joined.
        let slot = core.engine.slot(id).ok();
        let own = slot.map(|slot| core.ledger.after_job(&core.engine, slot)).unwrap_or_default();
        Ok((id, own.max(core.ledger.last)))
    }

    /// What is known of a job, which may be told when the job is durable. So may its end.
    pub fn outlook(&self, id: JobId) -> Result<(Outlook, Position), Denied> {
        let core = &*self.core;
        let slot = core.engine.slot(id).map_err(|NotFound| core.denial(id))?;
        Ok((core.engine.outlook(slot), core.ledger.after_job(&core.engine, slot)))
    }

    /// The unfinished job with this key, in any queue.
    pub fn find_key(&self, unique: &[u8]) -> Result<JobId, Denied> {
        let found = self.core.engine.find_key(unique);
        found.ok_or_else(|| Denied(self.core.ledger.after_ended()))
    }

    /// Ends a job on an operator's request; its watchers hear that it failed.
    pub fn cancel(&mut self, id: JobId) -> Result<Position, Denied> {
        let core = &mut *self.core;
        let cancelled = core.engine.cancel(id, &mut core.effects);
        core.settle();
        cancelled.map(|_| core.ledger.after_ended()).map_err(|NotFound| core.denial(id))
    }

    // --- Queues ---

    /// The queue exists from now on.
    pub fn create_queue(&mut self, name: &[u8]) -> Position {
        let core = &mut *self.core;
        core.engine.create_queue(name, &mut core.effects);
        core.settle();
        self.after_named(name)
    }

    /// Removes a queue and its jobs. `None`: it has workers, or jobs in somebody's hands.
    pub fn drop_queue(
        &mut self,
        session: SessionId,
        name: &[u8],
    ) -> Result<Option<Clearing>, Denied> {
        let core = &mut *self.core;
        let dropped = core.engine.drop_queue(session, name, &mut core.effects);
        core.settle();
        match dropped {
            Ok(removal) => Ok(removal.map(|removal| core.cleared(removal))),
            Err(NotFound) => Err(Denied(core.ledger.after_removal())),
        }
    }

    /// Whether the removal of a queue has begun and is not over.
    pub fn is_being_removed(&self, queue: QueueId) -> bool {
        self.core.engine.is_being_removed(queue)
    }

    /// Limits the unfinished jobs of a queue by [`engine::Band`]; 0 for no limit.
    pub fn limit_queue(&mut self, name: &[u8], limits: [u32; 3]) -> Result<Position, Refusal> {
        let core = self.core_for_update(|engine| engine.queue_id(name).is_some())?;
        let limited = core.engine.limit_queue(name, limits, &mut core.effects);
        core.settle();
        let after = self.after_named(name);
        limited.map(|()| after).map_err(|NotFound| Refusal::NotFound(after))
    }

    /// Whether the queue of this name is kept, and its limits; if it exists.
    pub fn queue_facts(&self, name: &[u8]) -> Option<QueueFacts> {
        let engine = &self.core.engine;
        engine.queue_id(name).map(|queue| engine.queue_facts(queue))
    }

    /// What an answer waits for that rests on whether there is a queue of this name, and is kept.
    pub fn after_named(&self, name: &[u8]) -> Position {
        let queue: Option<QueueId> = self.core.engine.queue_id(name);
        let ledger = &self.core.ledger;
        queue.map_or(ledger.after_gone(), |queue| ledger.after_queue(queue))
    }

    /// Queues whose names differ from this one in the case of ASCII letters at most, oldest first.
    pub fn queues_alike(&mut self, name: &[u8]) -> Vec<QueueId> {
        self.core.engine.queues_alike(name)
    }

    /// The submitted job behind the cursor, which moves there.
    pub fn next_submitted(&mut self, cursor: &mut JobCursor) -> Option<SubmittedJob<'_>> {
        let engine = &mut self.core.engine;
        let slot = engine.next_submitted(cursor)?;
        Some(SubmittedJob {
            id: engine.id_of(slot),
            tags: engine.tags(slot).unwrap_or_default(),
            failures: engine.facts(slot).counters.failures,
            is_durable: engine.is_durable(slot),
        })
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

    /// All jobs that were submitted for their outcome, for tests and the simulator: number, tags, failed attempts, and whether
    /// they are durable.
    pub fn submitted_jobs(&self) -> impl Iterator<Item = (JobId, Tags<'_>, u32, bool)> {
        let engine = &self.core.engine;
        engine.submitted_jobs().map(|slot| {
            let failures = engine.facts(slot).counters.failures;
            let tags = engine.tags(slot).unwrap_or_default();
            (engine.id_of(slot), tags, failures, engine.is_durable(slot))
        })
    }

    // --- Settings ---

    /// How many sleeping workers one job wakes; 0, as at the start, for all.
    pub fn set_wake_max(&mut self, wake_max: u32) {
        self.core.engine.set_wake_max(wake_max);
    }

    /// Submitted jobs fail after so many lost attempts; 0, as at the start, for never.
    pub fn set_attempts_max(&mut self, attempts_max: u32) {
        self.core.engine.set_attempts_max(attempts_max);
    }
}
