//! Clients that submit jobs and can wait for their outcome, as in Gearman.

use engine::{Engine, JobId, NotFound, Submit};

use crate::admission::{not_admitted, put_bytes};
use crate::{Answer, Caller, PutRefusal};

/// # Jobs with an outcome: for their clients
impl Caller<'_> {
    /// Submits a job, or joins an unfinished job with the same key.
    pub fn submit(
        &mut self,
        queue: &[u8],
        submit: Submit<'_>,
    ) -> Answer<Result<JobId, PutRefusal>> {
        let body_bytes = self.core.engine.submit_bytes(queue, &submit);
        let bytes = put_bytes(&self.core.engine, |_| queue, body_bytes);
        let is_logged = |engine: &Engine| {
            // The log does not get a foreground job itself, but it gets the job's copies in other
            // queues.
            if submit.foreground {
                engine.feeds_others(queue)
            } else {
                engine.puts_are_logged(queue)
            }
        };
        let admitted = self.shared.admit(self.core, bytes, is_logged, |engine| {
            engine.submit_makes_no_job(queue, &submit)
        });
        if let Err(refusal) = admitted {
            return not_admitted(self.core, refusal);
        }
        if !self.shared.admits_queue(self.core, queue) {
            return self.shared.no_new_queue();
        }
        let core = &mut *self.core;
        let submitted = core.engine.submit(self.session, queue, submit, &mut core.effects);
        core.apply_effects();
        match submitted {
            Ok(id) => {
                // A joined job was put by an earlier request, so the reply waits for that job's
                // position, too.
                let slot = core.engine.slot(id).ok();
                let own = slot.map(|slot| core.ledger.after_job(&core.engine, slot));
                Answer::new(Ok(id), own.unwrap_or_default().max(core.ledger.last))
            }
            Err(refused) => self.shared.refusal(core, refused),
        }
    }

    /// Cancels a job for an operator. The job's watchers get the news that the job failed.
    pub fn cancel(&mut self, id: JobId) -> Answer<Result<(), NotFound>> {
        let core = &mut *self.core;
        let cancelled = core.engine.cancel(id, &mut core.effects);
        core.apply_effects();
        // The job has ended, by this request or earlier. So the reply waits until the end of the
        // job is durable.
        Answer::new(cancelled.map(|_| ()), core.ledger.after_ended())
    }
}
