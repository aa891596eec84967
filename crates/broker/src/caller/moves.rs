//! Moves of jobs to other queues, and to a queue of dead letters and back.

use engine::{ClaimKey, JobId, Millis, MoveRefused, RedriveRefused, Refused, SetAsideRefused};

use crate::{Answer, Caller, Position, PutRefusal};

/// Why a job was not moved. The job is unchanged.
#[derive(Copy, Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum MoveRefusal {
    /// The job does not exist.
    #[error("the job does not exist")]
    NotFound,
    /// A worker has the job.
    #[error("a worker has the job")]
    Leased,
    /// The job is in this queue already.
    #[error("the job is in this queue already")]
    SameQueue,
    /// The queue stores no jobs.
    #[error("the queue stores no jobs: it is an alias, or its policy has `fanout_only`")]
    StoresNothing,
    /// The server would also refuse to put the job into this queue.
    #[error(transparent)]
    Put(#[from] PutRefusal),
}

/// Why a dead letter was not brought back. The job is unchanged.
#[derive(Copy, Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum RedriveRefusal {
    /// See [`RedriveRefused`].
    #[error(transparent)]
    Refused(#[from] RedriveRefused),
    /// The server would also refuse to put the job into the queue that it came from.
    #[error(transparent)]
    Put(#[from] PutRefusal),
}

/// Why a job was not set aside. The job is unchanged.
#[derive(Copy, Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum SetAsideRefusal {
    /// See [`SetAsideRefused`].
    #[error(transparent)]
    Refused(#[from] SetAsideRefused),
    /// The server would also refuse to put the job into the queue of dead letters.
    #[error(transparent)]
    Put(#[from] PutRefusal),
}

/// # Moves to other queues
impl Caller<'_> {
    /// Moves a ready, delayed or buried job to another queue, as if a client put it there now. A
    /// delayed job keeps its due time, and a buried job becomes ready. The limits of the queue apply.
    /// The children and copies of the queue do not get the job. Makes the queue if it does not
    /// exist. A draining server still moves jobs, because a move adds no job.
    pub fn move_job(&mut self, id: JobId, to: &[u8]) -> Answer<Result<(), MoveRefusal>> {
        let refused = |refusal: PutRefusal| Answer::at_once(Err(refusal.into()));
        if let Err(refusal) = self.admit_move(id) {
            return refused(refusal);
        }
        let core = &mut *self.core;
        if !self.shared.admits_queue(core, to) {
            return refused(PutRefusal::NoNewQueue);
        }
        let moved = core.engine.move_job(id, to, &mut core.effects);
        core.apply_effects();
        let (refusal, after) = match moved {
            // A waiting client may have got the job, and may have finished it.
            Ok(()) => return Answer::new(Ok(()), core.after_id(id)),
            Err(MoveRefused::NotFound) => (MoveRefusal::NotFound, core.after_id(id)),
            Err(MoveRefused::Leased) => (MoveRefusal::Leased, core.after_id(id)),
            Err(MoveRefused::SameQueue) => (MoveRefusal::SameQueue, core.after_id(id)),
            Err(MoveRefused::StoresNothing) => (MoveRefusal::StoresNothing, Position::NONE),
            // The jobs that fill the queue can come from any session.
            Err(MoveRefused::NoRoom(Refused::QueueFull)) => {
                (PutRefusal::QueueFull.into(), core.ledger.after_all())
            }
            Err(MoveRefused::NoRoom(Refused::TooBig)) => {
                (PutRefusal::TooBig.into(), Position::NONE)
            }
            Err(MoveRefused::NoRoom(Refused::Duplicate)) => {
                (PutRefusal::Duplicate.into(), core.ledger.after_all())
            }
        };
        Answer::new(Err(refusal), after)
    }

    /// Makes a ready, delayed or buried job a dead letter, as the policy of its queue says. The limits of
    /// the queue of dead letters do not apply. But an operator's request makes no queue for which the
    /// server has no room.
    pub fn set_aside_job(&mut self, id: JobId) -> Answer<Result<(), SetAsideRefusal>> {
        if let Err(refusal) = self.admit_move(id) {
            return Answer::at_once(Err(refusal.into()));
        }
        let core = &mut *self.core;
        let target = match core.engine.check_set_aside(id) {
            Ok(target) => target,
            Err(refused) => return Answer::new(Err(refused.into()), core.after_id(id)),
        };
        if target.is_some_and(|name| !self.shared.admits_queue(core, &name)) {
            return Answer::at_once(Err(PutRefusal::NoNewQueue.into()));
        }
        let done = core.engine.set_aside_job(id, &mut core.effects);
        core.apply_effects();
        // A waiting client may have got the letter, and may have finished it.
        Answer::new(done.map_err(SetAsideRefusal::from), core.after_id(id))
    }

    /// Brings a dead letter back to the queue that it came from, or makes a buried job ready. The job
    /// can fail as often as a new job.
    pub fn redrive(&mut self, id: JobId) -> Answer<Result<(), RedriveRefusal>> {
        if let Err(refusal) = self.admit_move(id) {
            return Answer::at_once(Err(refusal.into()));
        }
        if let Err(refusal) = self.check_redrive(id) {
            return Answer::new(Err(refusal), self.core.after_id(id));
        }
        let core = &mut *self.core;
        let done = core.engine.redrive(id, &mut core.effects);
        core.apply_effects();
        Answer::new(done.map_err(RedriveRefusal::from), core.after_id(id))
    }

    /// Says why [`Caller::redrive`] would not bring a job back now.
    pub fn check_redrive(&self, id: JobId) -> Result<(), RedriveRefusal> {
        let core = &*self.core;
        core.engine.check_redrive(id)?;
        let origin = core.engine.origin_after_redrive(id);
        if origin.is_some_and(|origin| !self.shared.has_room_for_queue(core, origin)) {
            return Err(PutRefusal::NoNewQueue.into());
        }
        Ok(())
    }

    /// The key that a job would have after a redrive: see `Engine::key_after_redrive`.
    pub fn key_after_redrive(&self, id: JobId) -> Option<ClaimKey> {
        self.core.engine.key_after_redrive(id)
    }

    /// Whether the server and its log admit a move of this job now. A job that is only in memory needs
    /// no room in the log.
    fn admit_move(&self, id: JobId) -> Result<(), PutRefusal> {
        let core = &*self.core;
        if core.engine.writes_blocked() {
            return Err(PutRefusal::WritesBlocked);
        }
        let is_logged = |id| core.engine.slot(id).is_ok_and(|slot| core.engine.is_durable(slot));
        if core.lacks_room(1, |_| is_logged(id)) {
            return Err(PutRefusal::LogFull);
        }
        Ok(())
    }

    /// The next dead letter of this queue, after the one that this function returned before. Skips
    /// those that workers have.
    pub fn next_dead_letter(
        &self,
        queue: &[u8],
        after: Option<(Millis, JobId)>,
    ) -> Option<(Millis, JobId)> {
        let engine = &self.core.engine;
        engine.next_dead_letter(engine.shown_queue_id(queue)?, after)
    }
}
