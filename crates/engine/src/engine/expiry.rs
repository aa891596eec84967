//! Expiry: a job expires at its own moment, or at the age that the queue's policy allows.
//!
//! The engine looks only at the head of a queue, on each request for the head and when the head's
//! time comes (spec kestrel 3.2). An expired job behind a job that lives longer stays until it is
//! the head.

use super::Engine;
use crate::effects::{Effects, News, Record};
use crate::ids::{JobSlot, Millis, QueueId};
use crate::jobs::JobKind;
use crate::limits::{HELD_CHORES_REST_MS, PUT_ENDS_MAX, SWEEP_REST_MS};
use crate::queues::Queue;

impl Engine {
    /// The last moment at which the engine hands out the job.
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
        // A queue in which jobs can expire has an extension.
        queue.extension().is_some() && queue.first_ready().is_some_and(|slot| self.is_expired(slot))
    }

    /// The moment at which the head of a queue expires. If the sweep of the queue rests until a
    /// later moment, that later moment.
    pub(super) fn next_expiry(&self, queue: &Queue) -> Option<Millis> {
        let extension = queue.extension()?;
        let (_, slot) = queue.ready().first()?;
        let last = self.ends_after(JobSlot(slot))?;
        Some(Millis(last.0.saturating_add(1)).max(extension.sweep_rests_until))
    }

    /// The moment at which the sweep of a queue continues. `None`: it does not rest in front of an
    /// expired head.
    pub(super) fn sweep_rest_ends(&self, queue: &Queue) -> Option<Millis> {
        let rest_ends = queue.extension()?.sweep_rests_until;
        (rest_ends > self.now && self.head_is_expired(queue)).then_some(rest_ends)
    }

    /// True if a ready job and a waiter face each other. This happens when an expired head was
    /// removed, but not by a sweep: only a sweep serves waiters.
    pub(super) fn has_unserved_waiters(&self, queue: &Queue) -> bool {
        let is_awaited =
            !queue.waiters().is_empty() || self.wake_max == 0 && !queue.sleepers().is_empty();
        is_awaited
            && queue.extension().is_some()
            && !queue.ready().is_empty()
            && self.may_serve_line(queue)
            && !self.head_is_expired(queue)
    }

    /// Ends expired jobs at the head of a queue before a request looks at it. One request ends a
    /// limited number of them. If more have expired, the head is still an expired job afterwards.
    pub(super) fn sweep_head(&mut self, id: QueueId, effects: &mut Effects) {
        self.sweep(id, usize::MAX, effects);
    }

    /// Ends up to `max` expired jobs at the head of a queue, and returns their number. The queue
    /// must not vanish meanwhile. The sweep stops after one slice of work, but not before it has
    /// ended as many expired jobs as a put may end: the result of a put must not depend on the work
    /// for other puts of the same request. If no expired job is left in front, waiting sessions get
    /// their jobs before the session that asks.
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

    /// Releases a queue that was held during a sweep, and serves the queue's waiters if it can.
    fn release_swept(&mut self, id: QueueId, effects: &mut Effects) {
        if !self.queues[id].is_paused() {
            // A session may have waited for the job behind them.
            self.serve_waiters(id, effects);
        }
        self.queues[id].release();
        self.arm_queue(id);
    }

    /// Ends a ready job that a client asks for, anywhere in its queue, if the job has expired.
    /// Returns whether it had expired.
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

    /// The maximum number of expired jobs that one sweep of a queue removes.
    pub(super) fn sweep_max(&self, id: QueueId) -> usize {
        let sweep = self.policy_of(id).and_then(|policy| policy.expire_sweep);
        // At least one: otherwise the timer would be due again at once, without end.
        sweep.map_or(usize::MAX, |sweep| (sweep as usize).max(1))
    }

    /// The timer of a queue is due. Ends expired jobs, as many as one sweep and the slice of work
    /// allow.
    pub(super) fn sweep_in_time(&mut self, id: QueueId, effects: &mut Effects) {
        let Some(extension) = self.queues[id].extension() else { return };
        if extension.sweep_rests_until > self.now {
            return;
        }
        if self.chores.is_held() {
            // The broker pauses chores while the log is behind. Expired jobs wait, too.
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
            // If a session waits for the job behind the expired ones, the sweep takes no rest.
            && self.queues[id].waiters().is_empty()
            && let Some(extension) = self.queues[id].extension_mut()
        {
            extension.sweep_rests_until = rest;
        }
    }

    /// A session begins to wait for a job of a queue: the sweep of the expired jobs in front takes
    /// no rest.
    pub(super) fn resume_sweep(&mut self, id: QueueId) {
        if let Some(extension) = self.queues[id].extension_mut() {
            extension.sweep_rests_until = Millis(0);
            self.arm_queue(id);
        }
    }

    /// A ready job has expired: it ends, or it moves to the queue that its policy names.
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

    /// Moves a ready job to the tail of another queue, as if it were put there now. The children
    /// and copies of that queue do not get it.
    fn reroute(&mut self, slot: JobSlot, to: QueueId, effects: &mut Effects) {
        self.remove_from_list(slot);
        let job = &self.jobs[slot];
        let (from, was, share) = (job.queue(), job.kind(), job.counted());
        let body_bytes = job.body().len();
        // If the job was not in the log, it does not enter the log in the new queue either: no
        // request has checked that the log has room for its body.
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

    /// Ends expired jobs at the head of a queue, up to the limits of one sweep of its policy and of
    /// one request. Returns their number. Timers end the others. `None`: the queue does not exist.
    pub fn flush_expired(&mut self, name: &[u8], effects: &mut Effects) -> Option<u64> {
        self.meter.begin_request();
        let id = self.queue_id(name)?;
        let count = self.sweep(id, self.sweep_max(id), effects);
        self.drop_if_unwanted(id, effects);
        Some(count as u64)
    }
}
