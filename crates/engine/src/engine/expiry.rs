//! Jobs that expire: by their own moment, or by the age that the queue's policy allows.
//!
//! Only the head of a queue is looked at, on each request for it and when the time comes
//! (spec kestrel 3.2): one that stands behind a job that lives longer stays until it is the head.

use super::Engine;
use crate::effects::{Effects, News, Record};
use crate::ids::{JobSlot, Millis, QueueId};
use crate::jobs::JobKind;
use crate::limits::{HELD_CHORES_REST_MS, PUT_ENDS_MAX, SWEEP_REST_MS};
use crate::queues::Queue;

impl Engine {
    /// After this moment the job is not handed out any more.
    fn ends_after(&self, slot: JobSlot) -> Option<Millis> {
        let job = &self.jobs[slot];
        let age_max = self.policy_of(job.queue()).and_then(|policy| policy.age_max_ms);
        let aged = age_max.map(|age| Millis(job.ready_since().0.saturating_add(age)));
        [job.expires(), aged].into_iter().flatten().min()
    }

    pub(super) fn is_expired(&self, slot: JobSlot) -> bool {
        self.ends_after(slot).is_some_and(|last| last < self.now)
    }

    /// Whether the next job of a queue has expired.
    pub(super) fn head_is_expired(&self, queue: &Queue) -> bool {
        // Where jobs can expire, a queue has an extension.
        queue.extension().is_some() && queue.first_ready().is_some_and(|slot| self.is_expired(slot))
    }

    /// When the head of a queue expires, or it is looked at again for it.
    pub(super) fn next_expiry(&self, queue: &Queue) -> Option<Millis> {
        let extension = queue.extension()?;
        let (_, slot) = queue.ready().first()?;
        let last = self.ends_after(JobSlot(slot))?;
        Some(Millis(last.0.saturating_add(1)).max(extension.sweep_rests_until))
    }

    /// When the sweep of a queue goes on that rests before an expired head.
    pub(super) fn sweep_rest_ends(&self, queue: &Queue) -> Option<Millis> {
        let rest_ends = queue.extension()?.sweep_rests_until;
        (rest_ends > self.now && self.head_is_expired(queue)).then_some(rest_ends)
    }

    /// Whether somebody waits for the head of a queue that can be had: an expired job in front of it
    /// went otherwise than by a sweep, which would have served them.
    pub(super) fn has_unserved_waiters(&self, queue: &Queue) -> bool {
        let is_awaited =
            !queue.waiters().is_empty() || self.wake_max == 0 && !queue.sleepers().is_empty();
        is_awaited
            && queue.extension().is_some()
            && !queue.ready().is_empty()
            && self.may_serve_line(queue)
            && !self.head_is_expired(queue)
    }

    /// Ends expired jobs at the head of a queue before a request looks at it. If there are more
    /// than one request can be made to wait for, the head is an expired one still.
    pub(super) fn sweep_head(&mut self, id: QueueId, effects: &mut Effects) {
        self.sweep(id, usize::MAX, effects);
    }

    /// Ends up to `max` expired jobs at the head of a queue, which must not vanish for it; how many. A slice of
    /// work at most, but in any case as many as a put may end: what becomes of a put does not depend on the work
    /// that was done for others of the same request. Where none is in front any more, whoever waits comes before
    /// the one who asks.
    pub(super) fn sweep(&mut self, id: QueueId, max: usize, effects: &mut Effects) -> usize {
        if !self.head_is_expired(&self.queues[id]) {
            if self.has_unserved_waiters(&self.queues[id]) {
                self.serve_waiters(id, effects);
            }
            return 0;
        }
        self.queues[id].hold();
        let mut count = 0;
        while count < max
            && (count < PUT_ENDS_MAX || !self.meter.request_is_spent())
            && let Some((_, slot)) = self.queues[id].ready().first()
            && self.is_expired(JobSlot(slot))
        {
            self.expire(JobSlot(slot), effects);
            count += 1;
        }
        self.release_swept(id, effects);
        count
    }

    /// What stood in front is gone from a queue that was held meanwhile.
    fn release_swept(&mut self, id: QueueId, effects: &mut Effects) {
        if !self.queues[id].is_paused() {
            // Somebody may have waited for what stood behind.
            self.serve_waiters(id, effects);
        }
        self.queues[id].release();
        self.arm_queue(id);
    }

    /// Ends a ready job that somebody asks for, wherever it stands in its queue, if it has expired;
    /// whether it had.
    pub(super) fn expire_if_due(&mut self, slot: JobSlot, effects: &mut Effects) -> bool {
        let id = self.jobs[slot].queue();
        if self.queues[id].extension().is_none() || !self.is_expired(slot) {
            return false;
        }
        self.queues[id].hold();
        self.expire(slot, effects);
        self.release_swept(id, effects);
        self.drop_if_unwanted(id, effects);
        true
    }

    /// How many expired jobs one sweep of a queue removes at most.
    pub(super) fn sweep_max(&self, id: QueueId) -> usize {
        let sweep = self.policy_of(id).and_then(|policy| policy.expire_sweep);
        // One at least: a timer that removed none would come again at once.
        sweep.map_or(usize::MAX, |sweep| (sweep as usize).max(1))
    }

    /// The timer of a queue has come: what expired goes, as much as one sweep may and the slice of work
    /// allows.
    pub(super) fn sweep_in_time(&mut self, id: QueueId, effects: &mut Effects) {
        let Some(extension) = self.queues[id].extension() else { return };
        if extension.sweep_rests_until > self.now {
            return;
        }
        if self.chores.is_held() {
            // Whoever keeps the records has enough for now.
            let rest = Millis(self.now.0.saturating_add(HELD_CHORES_REST_MS));
            if let Some(extension) = self.queues[id].extension_mut() {
                extension.sweep_rests_until = rest;
            }
            return;
        }
        let sweep_max = self.sweep_max(id);
        let count = self.sweep(id, sweep_max, effects);
        let rest = Millis(self.now.0.saturating_add(SWEEP_REST_MS));
        if count == sweep_max
            // Somebody waits for what stands behind.
            && self.queues[id].waiters().is_empty()
            && let Some(extension) = self.queues[id].extension_mut()
        {
            extension.sweep_rests_until = rest;
        }
    }

    /// Somebody begins to wait for a job of a queue: what expired in front of it goes at once.
    pub(super) fn resume_sweep(&mut self, id: QueueId) {
        if let Some(extension) = self.queues[id].extension_mut() {
            extension.sweep_rests_until = Millis(0);
            self.arm_queue(id);
        }
    }

    /// A ready job has expired: it ends, or goes to the queue that its policy names for it.
    pub(super) fn expire(&mut self, slot: JobSlot, effects: &mut Effects) {
        self.meter.count(1);
        let from = self.jobs[slot].queue();
        let Some(extension) = self.queues[from].extension_mut() else { return };
        extension.expired += 1;
        let (target, items) = (extension.policy().expire_to.clone(), extension.items());
        let Some(target) = target else { return self.end_job(slot, &News::Fail, effects) };
        let to =
            if items { self.item_queue(&target, effects) } else { self.queue_or_create(&target) };
        let body_bytes = self.jobs[slot].body().len();
        if to != from && self.make_room(to, body_bytes, effects).is_ok() {
            self.reroute(slot, to, effects);
        } else {
            if let Some(extension) = self.queues[from].extension_mut() {
                extension.discarded += 1;
            }
            self.end_job(slot, &News::Fail, effects);
            self.drop_if_unwanted(to, effects);
        }
    }

    /// A ready job goes to the tail of another queue, as if it were put there now. Nothing that
    /// queue feeds gets it.
    fn reroute(&mut self, slot: JobSlot, to: QueueId, effects: &mut Effects) {
        self.remove_from_list(slot);
        let job = &self.jobs[slot];
        let (from, was, share) = (job.queue(), job.kind(), job.share());
        let body_bytes = job.body().len();
        // One that was never promised to outlive the process is not made to: nobody asked whether the
        // log has room for its body.
        let kind = if was == JobKind::Logged { self.kind_in(to) } else { was };
        self.jobs.set_kind(slot, kind);
        self.jobs.set_queue(slot, to, self.now);
        self.queues[from].count_out(share);
        let target = &mut self.queues[to];
        target.count_in(share);
        target.count_put(body_bytes);
        match (was, kind) {
            (JobKind::Logged, JobKind::Logged) => {
                let (id, asked) = (self.jobs[slot].id(), self.queue_sync(from));
                effects.records.push(Record::Rerouted(slot, id, from, asked));
            }
            (JobKind::Logged, JobKind::Memory | JobKind::Watched) => {
                effects.records.push(Record::Finish(slot, from, self.queue_sync(from)));
            }
            (JobKind::Memory | JobKind::Watched, _) => {}
        }
        self.deliver_or_list(slot, effects);
        self.drop_if_unwanted(from, effects);
    }

    /// Ends the expired jobs at the head of a queue, as many as its policy lets one sweep remove and
    /// one request may; how many. The others go by themselves. `None`: there is no such queue.
    pub fn flush_expired(&mut self, name: &[u8], effects: &mut Effects) -> Option<u64> {
        self.meter.begin_request();
        let id = self.queue_id(name)?;
        let count = self.sweep(id, self.sweep_max(id), effects);
        self.drop_if_unwanted(id, effects);
        Some(count as u64)
    }
}
