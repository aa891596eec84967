//! The ends that no client asks for: jobs that expire, and queues that are idle.

use broker::limits::SWEEP_REST_MS;

use super::dead_letters::Unserved;
use super::policies::text;
use super::record::Record;
use super::{Model, Name, Need};

impl Model {
    /// The last moment at which the job can be handed out.
    pub(super) fn ends_after(&self, id: u64) -> Option<u64> {
        let job = &self.jobs[&id];
        let policy = &self.queues[&job.queue].policy;
        let aged = policy.age_max_ms.map(|age| job.created.max(job.since) + age);
        [job.expires, aged].into_iter().flatten().min()
    }

    /// True if a job is a dead letter that is buried again instead of expiring.
    pub(super) fn is_buried_when_expired(&self, id: u64) -> bool {
        let is_moved = self.queues[&self.jobs[&id].queue].policy.same_as.is_some();
        self.has_stayed(id) && !is_moved
    }

    pub(super) fn is_expired(&self, id: u64) -> bool {
        self.ends_after(id).is_some_and(|last| last < self.now)
    }

    pub(super) fn head_is_expired(&self, queue: &Name) -> bool {
        self.first_ready(queue).is_some_and(|id| self.is_expired(id))
    }

    /// Ends the expired jobs at the head of a queue. Returns their number, and the record that this
    /// number depends on.
    pub(super) fn sweep(&mut self, queue: &Name) -> (u64, Need) {
        self.sweep_some(queue, u64::MAX)
    }

    /// Like `sweep`, for at most `max` jobs.
    pub(super) fn sweep_some(&mut self, queue: &Name, max: u64) -> (u64, Need) {
        self.open_lanes(queue);
        if !self.head_is_expired(queue) {
            return (0, 0);
        }
        let before = self.history.len();
        let count = self.guarded(queue, |model| {
            let mut count = 0;
            while count < max
                && let Some(id) = model.first_ready(queue).filter(|id| model.is_expired(*id))
            {
                model.expire(id);
                count += 1;
            }
            if !model.is_paused(queue) {
                model.serve_waiters(queue);
            }
            count
        });
        self.history.unwrite_changes_of_ended(before);
        (count, self.history.certain_since(before))
    }

    /// How many jobs one sweep of a queue ends, as the policy says.
    pub(super) fn sweep_max(&self, queue: &Name) -> u64 {
        self.queues[queue].policy.expire_sweep.map_or(u64::MAX, |max| u64::from(max.max(1)))
    }

    /// Ends expired jobs at the head of a queue, because its timer is due. If there can be more of
    /// them, the queue rests. But it does not rest if a client waits for the job behind them.
    pub(super) fn sweep_in_time(&mut self, queue: &Name) {
        if self.queues[queue].sweep_rests_until > self.now {
            return;
        }
        let max = self.sweep_max(queue);
        let (count, _) = self.sweep_some(queue, max);
        if count == max && self.first_waiter(queue).is_none() {
            self.tally.sweep_rests += 1;
            self.queue_mut(queue).sweep_rests_until = self.now + SWEEP_REST_MS;
        }
    }

    /// Ends the rest of a queue, because a client begins to wait for a job of the queue.
    pub(super) fn resume_sweep(&mut self, queue: &Name) {
        self.queue_mut(queue).sweep_rests_until = 0;
    }

    pub(super) fn expire(&mut self, id: u64) {
        self.tally.expiries += 1;
        let from = self.jobs[&id].queue.clone();
        if self.is_buried_when_expired(id) {
            return self.end_or_set_aside(id, Unserved::Expired);
        }
        let Some(target) = self.queues[&from].policy.expire_to.as_ref().map(text) else {
            self.end_or_set_aside(id, Unserved::Expired);
            return;
        };
        let is_items = self.queues[&from].facts.is_items;
        let to = if is_items { self.item_queue(&target) } else { self.create_queue(&target) };
        let body_len = self.jobs[&id].body.len();
        let has_room = to != from && self.make_room(&to, body_len).is_ok();
        if !self.jobs.contains_key(&id) {
            // It was a dead letter, and ended for the job that made room for it.
            self.drop_queue_if_unwanted(&to);
        } else if has_room {
            self.reroute(id, &to, Record::Moved);
        } else {
            self.end_or_set_aside(id, Unserved::Dropped);
            self.drop_queue_if_unwanted(&to);
        }
    }

    /// The moment at which a queue ends because it is idle.
    pub(super) fn idle_moment(&self, name: &Name) -> Option<u64> {
        let queue = &self.queues[name];
        let idle_ms = queue.policy.idle_ms?;
        let is_used = |conn: &super::Conn| {
            conn.used == *name || conn.waits_for(name) || conn.watched.contains(name)
        };
        let is_idle = queue.facts.kept
            && &**name != "default"
            && !self.is_waited_for(name)
            && self.workers_of(name) == 0
            && !self.conns.values().any(is_used)
            && !self.jobs.values().any(|job| job.queue == *name);
        queue.extra_since.filter(|_| is_idle).map(|since| since + idle_ms + 1)
    }

    pub(super) fn remove_if_idle(&mut self, name: &Name) {
        let is_there = self.queues.contains_key(name);
        if is_there && self.idle_moment(name).is_some_and(|moment| moment <= self.now) {
            self.tally.idle_queues += 1;
            let (record, is_strict) = (self.remove(name), self.setting.is_strict);
            if self.now == self.setting.started {
                self.history.note_of_start(record, is_strict);
            } else {
                self.history.note(record, is_strict);
            }
        }
    }
}
