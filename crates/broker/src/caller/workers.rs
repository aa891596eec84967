//! Workers, as in Gearman. A worker registers for queues, sleeps until a job wakes it, takes jobs,
//! and reports on them.

use engine::{Body, Choice, GrabOrder, Handout, JobId, Need, News, NotFound, Patience, Tags, Take};

use super::holds_logged;
use crate::{Answer, Caller, Position, Refusal};

/// A job for a worker.
#[derive(Debug)]
pub struct Assignment<'a> {
    /// The job.
    pub handout: Handout,
    /// The name under which the worker has registered for the job's queue.
    pub queue: &'a [u8],
    /// The job's tags. They are empty for a job of another dialect.
    pub tags: Tags<'a>,
}

/// # Jobs with an outcome: for their workers
impl Caller<'_> {
    /// Registers the session for jobs of this queue, with a time limit per job.
    pub fn register(&mut self, queue: &[u8], limit_ms: Option<u64>) {
        let core = &mut *self.core;
        core.engine.register(self.session, queue, limit_ms, &mut core.effects);
        core.apply_effects();
    }

    /// Removes the session's registration for this queue, and gives back the jobs of this queue
    /// that the session holds.
    pub fn unregister(&mut self, queue: &[u8]) {
        let core = &mut *self.core;
        core.engine.unregister(self.session, queue, &mut core.effects);
        core.apply_effects();
    }

    /// Like [`Caller::unregister`], for all queues of the session. If one slice of work was not
    /// enough, returns true. Then call `unregister_all` again before any other request of the
    /// session.
    pub fn unregister_all(&mut self) -> bool {
        let core = &mut *self.core;
        let more = core.engine.unregister_all(self.session, &mut core.effects);
        core.apply_effects();
        more
    }

    /// Takes the next job of the registered queues, if any. If the worker was asleep, it is now
    /// awake. At the limit of memory, a worker that holds many jobs gets no other one of a queue with cold
    /// jobs.
    pub fn take_registered(&mut self, order: GrabOrder) -> Answer<Option<Assignment<'_>>> {
        let choice = Choice::Registered(order);
        let must_finish = self.must_finish_first(choice);
        let core = &mut *self.core;
        if must_finish {
            core.engine.decline(self.session, &mut core.effects);
            core.apply_effects();
            return Answer::at_once(None);
        }
        let taken = core.take(self.session, choice, Patience::None, |_, _| Position::NONE);
        let Answer { value: Take::Granted(handout), after } = taken else {
            return Answer::at_once(None);
        };
        let queue = core.engine.queue_of(handout.job);
        let queue = core.engine.registered_name(self.session, queue);
        let tags = core.engine.tags(handout.job).unwrap_or_default();
        Answer::new(Some(Assignment { handout, queue, tags }), after)
    }

    /// Puts a worker to sleep, if there is no job for it. Returns whether the worker sleeps now.
    /// [`crate::Event::WorkToDo`] will wake a sleeping worker.
    pub fn sleep(&mut self) -> bool {
        if self.is_refused_for(Need::Sleep) {
            // There is a job for it, which it must not take yet. It stays awake, because nothing would wake
            // it when it has finished its jobs. Until then it can ask again and again, and in vain.
            return false;
        }
        self.core.engine.sleep(self.session)
    }

    /// Passes data or a warning from a job's worker to the job's watchers.
    pub fn report(&mut self, id: JobId, news: &News) -> Answer<Result<(), NotFound>> {
        let core = &mut *self.core;
        let reported = core.engine.report(self.session, id, news, &mut core.effects);
        let after = core.apply_effects();
        core.done(id, reported, after)
    }

    /// Stores a job's progress, and passes the worker's text to the job's watchers.
    pub fn progress(
        &mut self,
        id: JobId,
        progress: (u32, u32),
        words: &Body,
    ) -> Answer<Result<(), NotFound>> {
        let core = &mut *self.core;
        let noted = core.engine.progress(self.session, id, progress, words, &mut core.effects);
        let after = core.apply_effects();
        core.done(id, noted, after)
    }

    /// Completes a job that this worker holds. The job's watchers get `news`.
    pub fn complete(&mut self, id: JobId, news: &News) -> Answer<Result<(), NotFound>> {
        let core = &mut *self.core;
        let completed = core.engine.complete(self.session, id, news, &mut core.effects);
        let after = core.apply_effects();
        core.done(id, completed, after)
    }

    /// Fails a job that this worker holds. A submitted job ends, and its watchers get `news`. A job
    /// of another dialect, and a dead letter, is buried.
    pub fn fail(&mut self, id: JobId, news: &News) -> Answer<Result<(), Refusal>> {
        let core = &mut *self.core;
        let lacks_room = core.lacks_room(1, |engine| {
            // A job of another dialect, or a dead letter, is buried, which needs room. Another
            // submitted job ends, which makes room.
            let ends = engine.slot(id).is_ok_and(|slot| engine.ends_when_failed(slot));
            !ends && holds_logged(engine, self.session, id)
        });
        if lacks_room {
            return Answer::at_once(Err(Refusal::LogFull));
        }
        let failed = core.engine.fail(self.session, id, news, &mut core.effects);
        let after = core.apply_effects();
        core.done(id, failed, after)
    }
}
