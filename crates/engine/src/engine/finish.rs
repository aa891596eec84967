//! Finishing: a job ends, with success or with an error, and its watchers get the news.

use super::attempts::Failure;
use super::{Engine, NotFound};
use crate::effects::{Effects, News, Record};
use crate::ids::{JobId, JobSlot, LeaseId, QueueId, SessionId};
use crate::jobs::State;
use crate::milestones::JobEnd;
use crate::spans::LeaseEnd;

impl Engine {
    /// Finishes a job that this session holds, or that no session holds. Returns the queue of the
    /// job.
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
        // A client of another dialect can finish a job that has watchers. The watchers get the news
        // that the job is done.
        let is_holder = self.jobs[slot].lease().is_some();
        let why = if is_holder { JobEnd::Done } else { JobEnd::Deleted };
        self.finish_job(slot, why, &News::done(), effects);
        Ok(queue)
    }

    /// Finishes a job that this worker holds. The job's watchers get `news`.
    pub fn complete(
        &mut self,
        session: SessionId,
        id: JobId,
        news: &News,
        effects: &mut Effects,
    ) -> Result<(), NotFound> {
        let slot = self.held(session, id)?;
        self.finish_job(slot, JobEnd::Done, news, effects);
        Ok(())
    }

    /// Finishes the item of an open read.
    pub fn confirm(
        &mut self,
        holder: SessionId,
        lease: LeaseId,
        effects: &mut Effects,
    ) -> Result<(), NotFound> {
        let slot = self.held_by(holder, lease)?;
        self.finish_job(slot, JobEnd::Done, &News::done(), effects);
        Ok(())
    }

    /// A worker reports that a job that it holds has failed. A job that was made by a submit ends.
    /// Every other job is buried, because a worker of beanstalkd would also bury a failed job.
    pub fn fail(
        &mut self,
        session: SessionId,
        id: JobId,
        news: &News,
        effects: &mut Effects,
    ) -> Result<(), NotFound> {
        let slot = self.held(session, id)?;
        self.fail_attempt(slot, Failure::Reported(news), effects);
        Ok(())
    }

    /// Ends a job in any state on an operator's request. The job's watchers get the news that the
    /// job failed.
    pub fn cancel(&mut self, id: JobId, effects: &mut Effects) -> Result<QueueId, NotFound> {
        let slot = self.slot(id)?;
        let queue = self.jobs[slot].queue();
        self.end_job(slot, JobEnd::Deleted, &News::Fail, effects);
        Ok(queue)
    }

    /// Ends a job on a request, and sends the last news to its watchers. Every finish uses this
    /// function.
    pub(super) fn finish_job(
        &mut self,
        slot: JobSlot,
        why: JobEnd,
        news: &News,
        effects: &mut Effects,
    ) {
        self.queues[self.jobs[slot].queue()].count_finish();
        if self.jobs.have_unique_keys() {
            self.keep_claim(slot, effects);
        }
        self.end_job(slot, why, news, effects);
    }

    /// Ends a job, and sends the last news to its watchers. The news must wait until the log has
    /// the record of this end. The caller of the engine processes all records before the events. So
    /// the caller knows the log position of the record when it sends the news.
    pub(super) fn end_job(
        &mut self,
        slot: JobSlot,
        why: JobEnd,
        news: &News,
        effects: &mut Effects,
    ) {
        if self.is_observed {
            self.keep_result(slot, news);
        }
        self.send_last_news(slot, news, effects);
        self.remove_job(slot, why, effects);
    }

    pub(super) fn remove_job(&mut self, slot: JobSlot, why: JobEnd, effects: &mut Effects) {
        self.meter.count(1);
        if self.is_observed {
            self.observe_departure(slot, why, None);
            self.hide_older_result(slot);
        }
        match self.jobs[slot].state() {
            State::Leased if self.jobs[slot].lease().is_none() => {}
            State::Leased => self.end_lease(slot, LeaseEnd::JobEnded),
            State::Ready | State::Delayed | State::Buried => self.remove_from_list(slot),
        }
        let job = self.jobs.remove(slot);
        self.tally.ends += 1;
        self.queues[job.queue()].count_out(job.counted());
        self.note_room(job.queue());
        if job.is_logged() {
            let sync = self.queue_sync(job.queue());
            effects.records.push(Record::Finish { slot, id: job.id(), queue: job.queue(), sync });
        }
        self.drop_if_unwanted(job.queue(), effects);
    }
}
