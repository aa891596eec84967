//! Finishing: a job ends, well or not, and whoever watches it hears of it.

use super::{Engine, NotFound};
use crate::effects::{Effects, News, Record};
use crate::ids::{JobId, JobSlot, LeaseId, QueueId, SessionId};
use crate::jobs::State;

impl Engine {
    /// Ends a job that nobody holds, or that this session holds. The queue it was in.
    pub fn finish(
        &mut self,
        session: SessionId,
        id: JobId,
        effects: &mut Effects,
    ) -> Result<QueueId, NotFound> {
        let slot = self.slot(id)?;
        let held_by_other = self.jobs[slot].lease().is_some_and(|lease| lease.holder != session);
        if held_by_other {
            return Err(NotFound);
        }
        let queue = self.jobs[slot].queue();
        // Whoever watches a job that another dialect deletes hears that it is done.
        self.finish_job(slot, &News::done(), effects);
        Ok(queue)
    }

    /// The worker is done with a job that it holds; `news` is what its watchers hear.
    pub fn complete(
        &mut self,
        session: SessionId,
        id: JobId,
        news: &News,
        effects: &mut Effects,
    ) -> Result<(), NotFound> {
        let slot = self.held(session, id)?;
        self.finish_job(slot, news, effects);
        Ok(())
    }

    /// Ends the item of an open read.
    pub fn confirm(
        &mut self,
        holder: SessionId,
        lease: LeaseId,
        effects: &mut Effects,
    ) -> Result<(), NotFound> {
        let slot = self.held_by(holder, lease)?;
        self.finish_job(slot, &News::done(), effects);
        Ok(())
    }

    /// The worker failed at a job that it holds. One that was submitted for its outcome ends; one
    /// that another dialect put is set aside, as its own workers would do.
    pub fn fail(
        &mut self,
        session: SessionId,
        id: JobId,
        news: &News,
        effects: &mut Effects,
    ) -> Result<(), NotFound> {
        let slot = self.held(session, id)?;
        if self.jobs[slot].is_submitted() {
            self.finish_job(slot, news, effects);
        } else {
            self.tell_end(slot, news, effects);
            let priority = self.jobs[slot].priority();
            self.bury(session, id, priority, effects)?;
        }
        Ok(())
    }

    /// Ends a job on an operator's request, wherever it is; its watchers hear that it failed.
    pub fn cancel(&mut self, id: JobId, effects: &mut Effects) -> Result<QueueId, NotFound> {
        let slot = self.slot(id)?;
        let queue = self.jobs[slot].queue();
        self.end_job(slot, &News::Fail, effects);
        Ok(queue)
    }

    /// Ends a job on request, well or not, with news for its watchers: where every finish ends.
    pub(super) fn finish_job(&mut self, slot: JobSlot, news: &News, effects: &mut Effects) {
        self.queues[self.jobs[slot].queue()].count_finish();
        self.end_job(slot, news, effects);
    }

    /// Ends a job with news for its watchers. (Records are taken over before the news, so that what
    /// the news waits for is known then.)
    pub(super) fn end_job(&mut self, slot: JobSlot, news: &News, effects: &mut Effects) {
        self.tell_end(slot, news, effects);
        self.remove_job(slot, effects);
    }

    pub(super) fn remove_job(&mut self, slot: JobSlot, effects: &mut Effects) {
        self.meter.count(1);
        match self.jobs[slot].state() {
            State::Leased if self.jobs[slot].lease().is_none() => {}
            State::Leased => self.end_lease(slot),
            State::Ready | State::Delayed | State::Buried => self.remove_from_list(slot),
        }
        let job = self.jobs.remove(slot);
        self.tally.ends += 1;
        self.queues[job.queue()].count_out(job.share());
        if job.is_logged() {
            let sync = self.queue_sync(job.queue());
            effects.records.push(Record::Finish(slot, job.queue(), sync));
        }
        self.drop_if_unwanted(job.queue(), effects);
    }
}
