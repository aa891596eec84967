//! Moves of jobs to other queues: at the request of a client, because a job expired, or because the name
//! of its queue stands for another queue now.

use super::Engine;
use crate::effects::{Effects, Record};
use crate::engine::Refused;
use crate::ids::{JobId, JobSlot, Millis, QueueId};
use crate::jobs::State;
use crate::milestones::JobEnd;

/// Why a job was not moved. Nothing has changed.
#[derive(Copy, Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum MoveRefused {
    /// The job does not exist.
    #[error("the job does not exist")]
    NotFound,
    /// A session holds the job.
    #[error("a worker holds the job")]
    Leased,
    /// The job is in this queue already.
    #[error("the job is in this queue already")]
    SameQueue,
    /// The queue stores no jobs: its name is an alias, or its policy has `fanout_only`.
    #[error("the queue stores no jobs")]
    StoresNothing,
    /// The queue has no room for the job.
    #[error(transparent)]
    NoRoom(#[from] Refused),
}

/// Why a job moves to another queue and counts as put there.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(super) enum MoveCause {
    /// A client asks for it.
    Requested,
    /// The job has expired.
    Expired,
    /// The name of its queue stands for the other queue now.
    Renamed,
}

impl Engine {
    /// Moves a ready, delayed or buried job to the queue of this name, as if a client put it there
    /// now. A delayed job keeps its due time, and a buried job becomes ready. The limits of the
    /// queue apply, but no other job ends to make room: an operator who moves jobs does not expect
    /// that. The children and copies of the queue do not get the job. Makes the queue if it does
    /// not exist.
    pub fn move_job(
        &mut self,
        id: JobId,
        to: &[u8],
        effects: &mut Effects,
    ) -> Result<(), MoveRefused> {
        self.meter.begin_request();
        let slot = self.slot(id).map_err(|_| MoveRefused::NotFound)?;
        let job = &self.jobs[slot];
        let (state, from, body_bytes) = (job.state(), job.queue(), job.body_len());
        if state == State::Leased {
            return Err(MoveRefused::Leased);
        }
        if self.queue_id(to) == Some(from) {
            return Err(MoveRefused::SameQueue);
        }
        if self.alias(to).is_some() || self.look_up_policy(to).fanout_only {
            return Err(MoveRefused::StoresNothing);
        }
        if self.key_is_taken(slot, to) {
            return Err(Refused::Duplicate.into());
        }
        let to = self.queue_or_create(to);
        if let Err(refused) = self.check_room(to, body_bytes) {
            self.drop_if_unwanted(to, effects);
            return Err(refused.into());
        }
        self.remove_from_list(slot);
        if state == State::Buried {
            let job = &mut self.jobs[slot];
            job.set_due(self.now);
            job.count(|counters| &mut counters.kicks);
            self.change_state(slot, State::Ready);
        }
        self.reroute(slot, to, MoveCause::Requested, effects);
        Ok(())
    }

    /// Moves a ready or delayed job to another queue, as if a client put it there now. The job must
    /// be in no list. It gets a new order number. The children and copies of the new queue do not
    /// get the job.
    pub(super) fn reroute(
        &mut self,
        slot: JobSlot,
        to: QueueId,
        why: MoveCause,
        effects: &mut Effects,
    ) {
        let from = self.jobs[slot].queue();
        if self.is_observed {
            let end = match why {
                MoveCause::Requested | MoveCause::Renamed => JobEnd::Moved,
                MoveCause::Expired => JobEnd::Expired,
            };
            self.observe_departure(slot, end, Some(to));
        }
        if why != MoveCause::Renamed {
            self.jobs.forget_expiry(slot);
        } else if self.jobs[slot].expires().is_some() {
            // Only a queue with an extension looks whether its jobs expire.
            self.ensure_extension(to);
        }
        self.relocate(slot, to, self.now, why == MoveCause::Requested, effects);
        self.enlist(slot, effects);
        self.drop_if_unwanted(from, effects);
    }

    /// Moves a job without a lease to another queue, as if a client put it there at the moment
    /// `created`. Its expiry stays. The job must be in no list, and the caller adds it to one.
    /// `is_requested`: see [`Record::Rerouted`].
    pub(super) fn relocate(
        &mut self,
        slot: JobSlot,
        to: QueueId,
        created: Millis,
        is_requested: bool,
        effects: &mut Effects,
    ) {
        self.meter.count(1);
        let job = &self.jobs[slot];
        let (from, is_logged, share) = (job.queue(), job.is_logged(), job.counted());
        let body_bytes = job.body_len();
        // The move does not change whether the log has the job, for two reasons. A job that is only
        // in memory stays there, because no request has checked that the log has room for it. A job
        // in the log stays in the log, because its body may be only in the log.
        self.jobs.set_queue(slot, to, created);
        self.queues[from].count_out(share);
        self.note_room(from);
        let target = &mut self.queues[to];
        target.count_in(share);
        target.count_put(body_bytes);
        if is_logged {
            let (id, sync) = (self.jobs[slot].id(), self.queue_sync(from));
            effects.records.push(Record::Rerouted { slot, id, from, sync, is_requested });
        }
    }
}
