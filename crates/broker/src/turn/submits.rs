//! Jobs whose clients wait for the outcome, as in Gearman.

use engine::{JobCursor, JobId, NotFound, SessionId, Submit, Tags, WorkProgress};

use crate::{Denied, Position, PutRefusal, Turn};

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
    ) -> Result<(JobId, Position), PutRefusal> {
        let body_bytes = self.core.engine.submit_bytes(queue, &submit);
        self.admit(body_bytes, |engine| {
            // A foreground job is not in the log, but the jobs that it feeds are.
            if submit.foreground {
                engine.feeds_others(queue)
            } else {
                engine.puts_are_logged(queue)
            }
        })?;
        if !self.admits_queue(queue) {
            return Err(PutRefusal::NoNewQueue);
        }
        let core = &mut *self.core;
        let submitted = core.engine.submit(session, queue, submit, &mut core.effects);
        core.apply_effects();
        let id = submitted.map_err(|refused| core.refusal(refused))?;
        // Also for a joined job.
        let slot = core.engine.slot(id).ok();
        let own = slot.map(|slot| core.ledger.after_job(&core.engine, slot)).unwrap_or_default();
        Ok((id, own.max(core.ledger.last)))
    }

    /// The status of a job. Its reply waits until the job, or its end, is durable.
    pub fn work_progress(&self, id: JobId) -> Result<(WorkProgress, Position), Denied> {
        let core = &*self.core;
        let slot = core.engine.slot(id).map_err(|NotFound| core.denial(id))?;
        Ok((core.engine.work_progress(slot), core.ledger.after_job(&core.engine, slot)))
    }

    /// The unfinished job with this key, in any queue.
    pub fn find_key(&self, unique: &[u8]) -> Result<JobId, Denied> {
        let found = self.core.engine.find_key(unique);
        found.ok_or_else(|| Denied(self.core.ledger.after_ended()))
    }

    /// Cancels a job for an operator; its watchers learn that it failed.
    pub fn cancel(&mut self, id: JobId) -> Result<Position, Denied> {
        let core = &mut *self.core;
        let cancelled = core.engine.cancel(id, &mut core.effects);
        core.apply_effects();
        cancelled.map(|_| core.ledger.after_ended()).map_err(|NotFound| core.denial(id))
    }

    /// Moves the cursor to the next submitted job, and returns it.
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

    /// All submitted jobs, for tests and the simulator: id, tags, lost attempts, and whether they
    /// are durable.
    pub fn submitted_jobs(&self) -> impl Iterator<Item = (JobId, Tags<'_>, u32, bool)> {
        let engine = &self.core.engine;
        engine.submitted_jobs().map(|slot| {
            let failures = engine.facts(slot).counters.failures;
            let tags = engine.tags(slot).unwrap_or_default();
            (engine.id_of(slot), tags, failures, engine.is_durable(slot))
        })
    }
}
