//! Jobs whose clients wait for the outcome, as in Gearman.

use engine::{Engine, JobCursor, JobId, JobSlot, NotFound, SessionId, Submit, Tags, WorkProgress};

use crate::{Answer, PutRefusal, Turn};

/// A row in the listing of submitted jobs.
#[derive(Debug)]
pub struct SubmittedJob<'a> {
    /// Its number.
    pub id: JobId,
    /// Its tags.
    pub tags: Tags<'a>,
    /// Number of lost attempts.
    pub failures: u32,
    /// Whether it is in the log.
    pub is_durable: bool,
}

impl Turn<'_> {
    /// Submits a job, or joins an unfinished job with the same key.
    pub fn submit(
        &mut self,
        session: SessionId,
        queue: &[u8],
        submit: Submit<'_>,
    ) -> Answer<Result<JobId, PutRefusal>> {
        let body_bytes = self.core.engine.submit_bytes(queue, &submit);
        let admitted = self.admit(body_bytes, |engine| {
            // A foreground job is not in the log, but the jobs that it feeds are.
            if submit.foreground {
                engine.feeds_others(queue)
            } else {
                engine.puts_are_logged(queue)
            }
        });
        if let Err(refusal) = admitted {
            return Answer::at_once(Err(refusal));
        }
        if !self.admits_queue(queue) {
            return Answer::at_once(Err(PutRefusal::NoNewQueue));
        }
        let core = &mut *self.core;
        let submitted = core.engine.submit(session, queue, submit, &mut core.effects);
        core.apply_effects();
        match submitted {
            Ok(id) => {
                // Also for a joined job.
                let slot = core.engine.slot(id).ok();
                let own = slot.map(|slot| core.ledger.after_job(&core.engine, slot));
                Answer::new(Ok(id), own.unwrap_or_default().max(core.ledger.last))
            }
            Err(refused) => core.refusal(refused),
        }
    }

    /// The progress of a job. The reply waits until the job, or its end, is durable.
    pub fn work_progress(&self, id: JobId) -> Answer<Result<WorkProgress, NotFound>> {
        let engine = &self.core.engine;
        let progress = engine.slot(id).map(|slot| engine.work_progress(slot));
        Answer::new(progress, self.core.after_id(id))
    }

    /// The unfinished job with this key, in any queue.
    pub fn find_key(&self, unique: &[u8]) -> Answer<Result<JobId, NotFound>> {
        match self.core.engine.find_key(unique) {
            Some(id) => Answer::new(Ok(id), self.core.after_id(id)),
            None => Answer::new(Err(NotFound), self.core.ledger.after_ended()),
        }
    }

    /// Cancels a job for an operator; its watchers learn that it failed.
    pub fn cancel(&mut self, id: JobId) -> Answer<Result<(), NotFound>> {
        let core = &mut *self.core;
        let cancelled = core.engine.cancel(id, &mut core.effects);
        core.apply_effects();
        // It does not exist now, whether it was cancelled or not there.
        Answer::new(cancelled.map(|_| ()), core.ledger.after_ended())
    }

    /// Moves the cursor to the next submitted job, and returns it.
    pub fn next_submitted(&mut self, cursor: &mut JobCursor) -> Option<SubmittedJob<'_>> {
        let engine = &mut self.core.engine;
        let slot = engine.next_submitted(cursor)?;
        Some(SubmittedJob::at(engine, slot))
    }

    /// All submitted jobs, for tests and the simulator.
    pub fn submitted_jobs(&self) -> impl Iterator<Item = SubmittedJob<'_>> {
        let engine = &self.core.engine;
        engine.submitted_jobs().map(|slot| SubmittedJob::at(engine, slot))
    }
}

impl<'a> SubmittedJob<'a> {
    fn at(engine: &'a Engine, slot: JobSlot) -> Self {
        Self {
            id: engine.id_of(slot),
            tags: engine.tags(slot).unwrap_or_default(),
            failures: engine.facts(slot).counters.failures,
            is_durable: engine.is_durable(slot),
        }
    }
}
