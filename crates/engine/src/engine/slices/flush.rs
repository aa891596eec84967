//! Flushes queues: ends all their ready jobs, in slices.

use crate::chores::{Chore, FlushWork};
use crate::effects::{Effects, News};
use crate::engine::Engine;
use crate::ids::{QueueId, SessionId};
use crate::jobs::JobList;
use crate::milestones::JobEnd;
use crate::policy::Name;
use crate::sessions::Waiting;

/// The immediate result of a flush, or of the removal of a queue.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum Clearing {
    /// The operation is done.
    Done,
    /// The operation continues in slices. [`crate::Event::Cleared`] follows.
    Waiting,
}

impl Engine {
    /// Ends all ready jobs of a queue. An expired job can move to another queue instead, as the
    /// policy says.
    pub fn flush(&mut self, session: SessionId, name: &[u8], effects: &mut Effects) -> Clearing {
        let Some(left) = self.begin_flush(name) else { return Clearing::Done };
        let work = FlushWork { all: false, queue: name.into(), left };
        self.start_flush(session, work, effects)
    }

    /// Flushes all queues of items.
    pub fn flush_all(&mut self, session: SessionId, effects: &mut Effects) -> Clearing {
        let Some(queue) = self.queues.items_behind(None).next().map(|(name, _)| Name::from(name))
        else {
            return Clearing::Done;
        };
        let left = self.begin_flush(&queue).unwrap_or_default();
        self.start_flush(session, FlushWork { all: true, queue, left }, effects)
    }

    fn begin_flush(&mut self, name: &[u8]) -> Option<u64> {
        if self.alias(name).is_some() {
            // The alias hides a queue of the same name.
            return None;
        }
        let id = self.queue_id(name)?;
        let queue = &mut self.queues[id];
        if let Some(extension) = queue.extension_mut() {
            extension.flushes += 1;
        }
        Some(u64::from(queue.counts().ready))
    }

    fn start_flush(
        &mut self,
        session: SessionId,
        work: FlushWork,
        effects: &mut Effects,
    ) -> Clearing {
        debug_assert!(!self.is_waiting(session));
        self.meter.begin_request();
        let mut chore = Chore::Flush { session, work };
        if !self.step(&mut chore, effects) {
            return Clearing::Done;
        }
        self.sessions.begin_wait(session, Waiting::Clearing);
        self.chores.push(chore);
        Clearing::Waiting
    }

    /// Does one slice of a flush. Returns true if work is left.
    pub(in crate::engine) fn flush_slice(
        &mut self,
        work: &mut FlushWork,
        effects: &mut Effects,
    ) -> bool {
        let mut jobs_left = self.meter.step_jobs();
        loop {
            work.left = match self.queue_id(&work.queue) {
                Some(id) => self.flush_some(id, work.left, &mut jobs_left, effects),
                None => 0,
            };
            if work.left > 0 {
                return true;
            }
            if !work.all {
                return false;
            }
            let next = self.queues.items_behind(Some(&work.queue)).next();
            let Some(next) = next.map(|(name, _)| Name::from(name)) else { return false };
            work.queue = next;
            work.left = self.begin_flush(&work.queue.clone()).unwrap_or_default();
            self.meter.count(1);
            if jobs_left == 0 || self.meter.request_is_spent() {
                return true;
            }
        }
    }

    /// Ends up to `left` ready jobs of a queue, as many as the slice allows. Returns the number of
    /// jobs that the flush must still end.
    fn flush_some(
        &mut self,
        id: QueueId,
        mut left: u64,
        jobs_left: &mut u32,
        effects: &mut Effects,
    ) -> u64 {
        self.renew_same_as(id);
        self.queues[id].hold();
        while left > 0
            && *jobs_left > 0
            && !self.meter.request_is_spent()
            && let Some(slot) = self.queues[id].first_ready()
        {
            if self.is_expired(slot) {
                self.expire(slot, effects);
            } else {
                self.end_job(slot, JobEnd::Flushed, &News::Fail, effects);
            }
            left -= 1;
            *jobs_left -= 1;
        }
        if left > 0 && self.queues[id].head_is_cold() {
            let (_, state) = self.queues[id].cold_head();
            self.rest_for_load(JobList { queue: id, state });
        } else if self.queues[id].ready().is_empty() {
            left = 0;
        }
        self.queues[id].release();
        self.drop_if_unwanted(id, effects);
        left
    }
}
