//! Giving back: a leased job returns to its queue, or its holder buries it. This file also has the
//! kick of one job.

use super::attempts::Failure;
use super::{Engine, NotFound};
use crate::effects::{Effects, News, Record};
use crate::ids::{JobId, JobSlot, LeaseId, SessionId};
use crate::jobs::State;
use crate::milestones::JobEnd;
use crate::spans::LeaseEnd;

impl Engine {
    /// Gives back a job that this session holds. The job becomes ready, or delayed if `delay_s` is
    /// not 0. The job keeps its place among the jobs of its priority.
    pub fn give_back(
        &mut self,
        session: SessionId,
        id: JobId,
        priority: u32,
        delay_s: u32,
        effects: &mut Effects,
    ) -> Result<JobSlot, NotFound> {
        let slot = self.held(session, id)?;
        self.fail_attempt(slot, Failure::Released { priority, delay_s }, effects);
        Ok(slot)
    }

    /// Ends the lease of a job that this session holds, because its time is over: the owner of the session
    /// gave its client less time than the ttr.
    pub fn time_out(
        &mut self,
        session: SessionId,
        id: JobId,
        effects: &mut Effects,
    ) -> Result<(), NotFound> {
        let slot = self.held(session, id)?;
        self.fail_attempt(slot, Failure::TimedOut, effects);
        Ok(())
    }

    /// Gives back the item of an open read. The item returns to its old place in the queue. In two
    /// cases the item ends instead. Either the item has used up its attempts, or it exists only for
    /// its watchers and has no watcher left.
    pub fn give_back_item(
        &mut self,
        holder: SessionId,
        lease: LeaseId,
        effects: &mut Effects,
    ) -> Result<(), NotFound> {
        let slot = self.held_by(holder, lease)?;
        self.fail_attempt(slot, Failure::Aborted, effects);
        Ok(())
    }

    /// Buries a job that this session holds.
    pub fn bury(
        &mut self,
        session: SessionId,
        id: JobId,
        priority: u32,
        effects: &mut Effects,
    ) -> Result<JobSlot, NotFound> {
        let slot = self.held(session, id)?;
        // A worker of another dialect can bury a job that has watchers. The watchers get the news
        // that the job failed.
        self.send_last_news(slot, &News::Fail, effects);
        self.bury_held(slot, LeaseEnd::Buried, priority, effects);
        Ok(slot)
    }

    /// Buries a leased job whose watchers have got their last news. If the job exists only for its
    /// watchers, it ends instead.
    pub(super) fn bury_held(
        &mut self,
        slot: JobSlot,
        end: LeaseEnd,
        priority: u32,
        effects: &mut Effects,
    ) {
        self.tally.buries += 1;
        if self.jobs[slot].is_abandoned() {
            return self.remove_job(slot, JobEnd::Abandoned, effects);
        }
        self.end_lease(slot, end);
        self.jobs.deal_buried_order(slot);
        let job = &mut self.jobs[slot];
        job.set_priority(priority);
        job.count(|counters| &mut counters.buries);
        self.change_state(slot, State::Buried);
        self.note(Record::Update, slot, effects);
        self.add_to_list(slot);
    }

    /// Makes a delayed or buried job ready.
    pub fn kick_job(&mut self, id: JobId, effects: &mut Effects) -> Result<JobSlot, NotFound> {
        let slot = self.slot(id)?;
        match self.jobs[slot].state() {
            State::Delayed | State::Buried => {}
            State::Ready | State::Leased => return Err(NotFound),
        }
        self.remove_from_list(slot);
        self.kick_delisted(slot, effects);
        Ok(slot)
    }

    /// Makes a delayed or buried job ready. The caller has already removed the job from its list.
    pub(super) fn kick_delisted(&mut self, slot: JobSlot, effects: &mut Effects) {
        let job = &self.jobs[slot];
        // A dead letter of another queue stays one: only a redrive brings it back.
        if job.state() == State::Buried && job.death().is_none_or(|death| death.origin.is_empty()) {
            self.jobs.revive(slot);
        }
        let job = &mut self.jobs[slot];
        job.set_due(self.now);
        job.count(|counters| &mut counters.kicks);
        self.change_state(slot, State::Ready);
        self.note(Record::Update, slot, effects);
        self.deliver_or_list(slot, effects);
    }
}
