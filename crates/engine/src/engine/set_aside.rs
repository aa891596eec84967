//! An operator sets a job aside by hand: it becomes a dead letter, as if it had failed too often.

use super::Engine;
use super::attempts::LastWords;
use crate::effects::{Effects, News};
use crate::ids::JobId;
use crate::jobs::{DeathCause, JobKind, State};
use crate::policy::{DeadTarget, Name};

/// Why a job was not set aside. Nothing has changed.
#[derive(Copy, Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum SetAsideRefused {
    /// The job does not exist.
    #[error("the job does not exist")]
    NotFound,
    /// A session holds the job.
    #[error("a worker holds the job")]
    Leased,
    /// The job is a dead letter already.
    #[error("the job is a dead letter already")]
    DeadAlready,
    /// The job exists only as long as a client waits for its outcome.
    #[error("a client waits for the job")]
    Awaited,
    /// The policy of its queue keeps no dead letters.
    #[error("the policy of the queue keeps no dead letters")]
    NotKept,
}

impl Engine {
    /// Makes a ready, delayed or buried job a dead letter, as the policy of its queue says.
    pub fn set_aside_job(
        &mut self,
        id: JobId,
        effects: &mut Effects,
    ) -> Result<(), SetAsideRefused> {
        self.meter.begin_request();
        self.check_set_aside(id)?;
        let slot = self.slot(id).map_err(|_| SetAsideRefused::NotFound)?;
        let last = LastWords::default();
        self.set_aside(slot, DeathCause::Operator, last, &News::Fail, effects);
        Ok(())
    }

    /// Says why [`Engine::set_aside_job`] would not set a job aside now, or the name of the queue that
    /// would get it. `None`: it would be buried in its queue.
    pub fn check_set_aside(&self, id: JobId) -> Result<Option<Name>, SetAsideRefused> {
        let slot = self.slot(id).map_err(|_| SetAsideRefused::NotFound)?;
        let job = &self.jobs[slot];
        if job.state() == State::Leased {
            return Err(SetAsideRefused::Leased);
        }
        if job.death().is_some() {
            return Err(SetAsideRefused::DeadAlready);
        }
        // Its client would get the news that it has failed, and the job would end without a client.
        if job.kind() == JobKind::Watched {
            return Err(SetAsideRefused::Awaited);
        }
        let dead = self.policy_of(job.queue()).map(|policy| policy.dead.clone());
        let dead = dead.unwrap_or_default();
        // A failed job ends here. But an operator who sets a job aside wants to keep it.
        if dead.target == DeadTarget::Drop || dead.jobs_max == 0 {
            return Err(SetAsideRefused::NotKept);
        }
        Ok(self.queue_for_dead(job.queue(), &dead.target))
    }
}
