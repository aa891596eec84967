//! Finishing: a job ends, successfully or not, and its watchers get the news.

use super::{Engine, NotFound};
use crate::effects::{Effects, News, Record};
use crate::ids::{JobId, JobSlot, LeaseId, QueueId, SessionId};
use crate::jobs::State;

impl Engine {
    /// Ends a job that has no holder, or that this session holds. Returns the queue of the job.
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
        // If another dialect deletes a watched job, its watchers learn that the job is done.
        self.finish_job(slot, &News::done(), effects);
        Ok(queue)
    }

    /// The worker is done with a job that it holds. The job's watchers get `news`.
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

    /// The worker failed at a job that it holds. A job that was submitted for its outcome ends. A
    /// job that another dialect put is buried, as the workers of that dialect would do.
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
            self.send_last_news(slot, news, effects);
            let priority = self.jobs[slot].priority();
            self.bury(session, id, priority, effects)?;
        }
        Ok(())
    }

    /// Ends a job of any state on an operator's request. Its watchers learn that it failed.
    pub fn cancel(&mut self, id: JobId, effects: &mut Effects) -> Result<QueueId, NotFound> {
        let slot = self.slot(id)?;
        let queue = self.jobs[slot].queue();
        self.end_job(slot, &News::Fail, effects);
        Ok(queue)
    }

    /// Ends a job on request, successfully or not, with news for its watchers. Every finish ends
    /// here.
    pub(super) fn finish_job(&mut self, slot: JobSlot, news: &News, effects: &mut Effects) {
        self.queues[self.jobs[slot].queue()].count_finish();
        self.end_job(slot, news, effects);
    }

    /// Ends a job with news for its watchers. The caller processes records before events, so it
    /// knows the position that the news must wait for.
    pub(super) fn end_job(&mut self, slot: JobSlot, news: &News, effects: &mut Effects) {
        self.send_last_news(slot, news, effects);
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
        self.queues[job.queue()].count_out(job.counted());
        if job.is_logged() {
            let sync = self.queue_sync(job.queue());
            effects.records.push(Record::Finish(slot, job.queue(), sync));
        }
        self.drop_if_unwanted(job.queue(), effects);
    }
}
