//! Expiry: a job expires at the moment that its client gave, or when it is older than its queue's
//! policy allows. The earlier moment counts.
//!
//! The head of a queue is its next ready job. Each request for the head checks whether the head has
//! expired. The queue's timer is set to the moment when the head expires. So the engine also finds
//! an expired head without a request (spec kestrel 3.2). An expired job that is not the head stays
//! in the queue until it is the head. The only exception: if a client takes the expired job by its
//! number, the engine removes the job at once, as a sweep does. A *sweep* removes the expired jobs
//! at the head of a queue, one after the other. As the queue's policy says, these jobs end, move to
//! another queue, or become dead letters. If a sweep reaches its limit, the sweep *rests* until the
//! queue's timer continues it.

use super::Engine;
use super::dead_letters::Unserved;
use super::moves::MoveCause;
use super::take::Asker;
use crate::effects::Effects;
use crate::ids::{JobSlot, Millis, QueueId};
use crate::limits::{HELD_CHORES_REST_MS, PUT_ENDS_MAX, SWEEP_REST_MS};
use crate::queues::{Extension, Queue};

impl Engine {
    /// The last moment at which the engine hands out the job. `None`: the job does not expire.
    fn ends_after(&self, slot: JobSlot) -> Option<Millis> {
        let job = &self.jobs[slot];
        let policy = self.policy_of(job.queue());
        let age_max = policy.and_then(|policy| policy.age_max_ms);
        let aged = age_max.map(|age| Millis(job.ready_since().0.saturating_add(age)));
        [job.expires(), aged].into_iter().flatten().min()
    }

    /// Whether a job is a dead letter that is buried again instead of expiring. But if the name of its
    /// queue stands for another queue now, it moves on.
    fn is_buried_when_expired(&self, slot: JobSlot) -> bool {
        let policy = self.policy_of(self.jobs[slot].queue());
        self.has_stayed(slot) && policy.is_none_or(|policy| policy.same_as.is_none())
    }

    /// Whether the time that a client gave to this job is over. A dead letter in its own queue has none.
    fn is_past_its_own_time(&self, slot: JobSlot) -> bool {
        let is_past = self.jobs[slot].expires().is_some_and(|last| last < self.now);
        is_past && !self.has_stayed(slot)
    }

    pub(super) fn is_expired(&self, slot: JobSlot) -> bool {
        self.ends_after(slot).is_some_and(|last| last < self.now)
    }

    /// Whether the head of a queue has expired.
    pub(super) fn head_is_expired(&self, queue: &Queue) -> bool {
        self.may_expire(queue) && queue.first_ready().is_some_and(|slot| self.is_expired(slot))
    }

    /// Whether jobs of a queue may expire. If not, nobody needs to look at its head. Only a queue with
    /// an extension can have jobs that expire.
    pub(super) fn may_expire(&self, queue: &Queue) -> bool {
        let has_age_max = |extension: &Extension| extension.policy().age_max_ms.is_some();
        queue.extension().is_some_and(|extension| self.jobs.can_expire() || has_age_max(extension))
    }

    /// The moment at which the queue's timer must sweep. There are two candidates: the moment at
    /// which the head expires, and the end of the sweep's rest. The later moment counts.
    pub(super) fn next_expiry(&self, queue: &Queue) -> Option<Millis> {
        let extension = queue.extension().filter(|_| self.may_expire(queue))?;
        let last = self.ends_after(queue.first_ready()?)?;
        Some(Millis(last.0.saturating_add(1)).max(extension.sweep_rests_until))
    }

    /// The moment at which the sweep of a queue continues. `None`: the sweep does not rest, or the
    /// head has not expired.
    pub(super) fn sweep_rest_ends(&self, queue: &Queue) -> Option<Millis> {
        let rest_ends = queue.extension()?.sweep_rests_until;
        (rest_ends > self.now && self.head_is_expired(queue)).then_some(rest_ends)
    }

    /// True if the queue has a ready job, and a waiter or sleeper that could get it now. A sweep
    /// serves the waiters after it has removed expired heads. If a request removes an expired head
    /// without a sweep, the waiters stay unserved, and this function returns true.
    pub(super) fn has_unserved_waiters(&self, queue: &Queue) -> bool {
        let is_awaited =
            !queue.waiters().is_empty() || self.wake_max == 0 && !queue.sleepers().is_empty();
        is_awaited && queue.extension().is_some() && self.next_of(queue, Asker::Line).is_ok()
    }

    /// Sweeps a queue before a request looks at the head. The slice of work limits this sweep. If
    /// more jobs have expired, the head is still an expired job afterwards.
    pub(super) fn sweep_head(&mut self, id: QueueId, effects: &mut Effects) {
        self.sweep(id, usize::MAX, effects);
    }

    /// Removes up to `max` expired jobs at the head of a queue: see [`Engine::expire`].
    /// Returns the number of these jobs. During the sweep, the queue stays in existence.
    /// Afterwards, the caller must drop the queue if it is not wanted any more.
    ///
    /// The sweep stops when the slice of work is spent. But the sweep removes the first
    /// [`PUT_ENDS_MAX`] jobs even if the slice is spent. So the result of a put does not depend on
    /// other work of the same request. If the head has not expired afterwards, the waiters get
    /// their jobs at once. So the waiters come before the session whose request caused the sweep.
    pub(super) fn sweep(&mut self, id: QueueId, max: usize, effects: &mut Effects) -> usize {
        if self.queues.have_gates() {
            self.open_lanes(id, effects);
        }
        if !self.head_is_expired(&self.queues[id]) {
            if self.has_unserved_waiters(&self.queues[id]) {
                self.serve_waiters(id, effects);
            }
            return 0;
        }
        self.renew_same_as(id);
        self.queues[id].hold();
        let mut count = 0;
        while count < max
            && (count < PUT_ENDS_MAX || !self.meter.request_is_spent())
            && let Some(slot) = self.queues[id].first_ready()
            && self.is_expired(slot)
        {
            self.expire(slot, effects);
            count += 1;
        }
        self.release_swept(id, effects);
        count
    }

    /// Ends a sweep of a queue: from now on, the sweep no longer keeps the queue in existence.
    /// Before that, serves the queue's waiters.
    fn release_swept(&mut self, id: QueueId, effects: &mut Effects) {
        // A session may wait for a job that was behind the expired jobs.
        self.serve_waiters(id, effects);
        self.queues[id].release();
        self.arm_queue(id);
    }

    /// Removes a ready job if it has expired: see [`Engine::expire`]. The job can be at any place
    /// in its queue, because a client takes it by its number. Returns whether the job had expired. A dead
    /// letter would only be buried again, from where the client can take it, so it counts as not expired.
    pub(super) fn expire_if_due(&mut self, slot: JobSlot, effects: &mut Effects) -> bool {
        let id = self.jobs[slot].queue();
        self.renew_same_as(id);
        if self.is_buried_when_expired(slot) {
            return false;
        }
        if self.queues[id].extension().is_none() || !self.is_expired(slot) {
            return false;
        }
        self.queues[id].hold();
        self.expire(slot, effects);
        self.release_swept(id, effects);
        self.drop_if_unwanted(id, effects);
        true
    }

    /// The maximum number of expired jobs that one sweep of this queue removes, as the queue's
    /// policy says.
    pub(super) fn sweep_max(&self, id: QueueId) -> usize {
        let sweep = self.policy_of(id).and_then(|policy| policy.expire_sweep);
        // A sweep must remove at least one job. Otherwise the head would stay, and the timer would
        // be due again and again.
        sweep.map_or(usize::MAX, |sweep| (sweep as usize).max(1))
    }

    /// Sweeps a queue, because its timer is due. The policy of the queue and the slice of work
    /// limit the sweep.
    pub(super) fn sweep_in_time(&mut self, id: QueueId, effects: &mut Effects) {
        let Some(extension) = self.queues[id].extension() else { return };
        if extension.sweep_rests_until > self.now {
            return;
        }
        if self.chores.is_held() {
            // The broker stops chores while the log has too many unwritten bytes. The end of an
            // expired job also appends an entry to the log. So expired jobs also wait.
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
            // If a session waits for the job behind the expired jobs, the sweep does not rest.
            && self.queues[id].waiters().is_empty()
            && let Some(extension) = self.queues[id].extension_mut()
        {
            extension.sweep_rests_until = rest;
        }
    }

    /// Makes a resting sweep continue at once, because a session begins to wait for a job of this
    /// queue.
    pub(super) fn resume_sweep(&mut self, id: QueueId) {
        if let Some(extension) = self.queues[id].extension_mut() {
            extension.sweep_rests_until = Millis(0);
            self.arm_queue(id);
        }
    }

    /// Ends a ready job that has expired, or moves the job to another queue, or makes it a dead letter, as
    /// the policy of its queue says. The caller has called [`Engine::renew_same_as`].
    pub(super) fn expire(&mut self, slot: JobSlot, effects: &mut Effects) {
        self.meter.count(1);
        if self.is_buried_when_expired(slot) {
            return self.bury_again(slot, effects);
        }
        let from = self.jobs[slot].queue();
        let Some(policy) = self.policy_of(from) else { return };
        let (target, why) = match (&policy.same_as, &policy.expire_to) {
            // It would have expired in the other queue, too, so what that queue does then applies.
            (Some(_), Some(real)) if self.is_past_its_own_time(slot) => {
                (self.look_up_policy(real).expire_to.clone(), MoveCause::Expired)
            }
            // The name of the queue stands for the other queue now, which is no reason to lose a job.
            (Some(_), real) => (real.clone(), MoveCause::Renamed),
            (None, target) => (target.clone(), MoveCause::Expired),
        };
        let moves_on = why == MoveCause::Renamed;
        let Some(extension) = self.queues[from].extension_mut() else { return };
        let items = extension.items();
        extension.expired += u64::from(!moves_on);
        let Some(target) = target else {
            return self.end_or_set_aside(slot, Unserved::Expired, effects);
        };
        let to =
            if items { self.item_queue(&target, effects) } else { self.queue_or_create(&target) };
        let (id, body_bytes) = (self.jobs[slot].id(), self.jobs[slot].body_len());
        let has_room = to != from && (moves_on || self.make_room(to, body_bytes, effects).is_ok());
        if self.jobs.find(id).is_none() {
            // It was a dead letter. The job that made room for it became one too many in this queue.
            self.drop_if_unwanted(to, effects);
        } else if has_room {
            self.remove_from_list(slot);
            self.reroute(slot, to, why, effects);
        } else {
            if let Some(extension) = self.queues[from].extension_mut() {
                extension.discarded += 1;
            }
            self.end_or_set_aside(slot, Unserved::Dropped, effects);
            self.drop_if_unwanted(to, effects);
        }
    }

    /// Sweeps a queue on a client's request. The policy of the queue and the slice of work limit
    /// the sweep. Returns the number of jobs that the sweep removed. A timer continues with the
    /// other expired jobs. `None`: the queue does not exist.
    pub fn flush_expired(&mut self, name: &[u8], effects: &mut Effects) -> Option<u64> {
        self.meter.begin_request();
        let id = self.queue_id(name)?;
        let count = self.sweep(id, self.sweep_max(id), effects);
        self.drop_if_unwanted(id, effects);
        Some(count as u64)
    }
}
