//! Requests that make, keep, pause, limit and drop queues.

use std::borrow::Cow;

use super::{Engine, NotFound};
use crate::effects::{Effects, Record};
use crate::ids::QueueId;
use crate::limits::QUEUE_NAME_BYTES_MAX;
use crate::queues::{Pause, PauseReason};
use crate::timers::TimerKey;

impl Engine {
    /// Pauses a queue: the queue hands out no jobs for this many seconds. 0 ends a pause.
    pub fn pause(
        &mut self,
        name: &[u8],
        seconds: u32,
        effects: &mut Effects,
    ) -> Result<(), NotFound> {
        let id = self.queue_id(name).ok_or(NotFound)?;
        self.pause_of(id, seconds, effects);
        Ok(())
    }

    /// Like [`Engine::pause`], for this queue.
    pub fn pause_of(&mut self, id: QueueId, seconds: u32, effects: &mut Effects) {
        self.meter.begin_request();
        self.meter.count(1);
        let until = self.now.plus_seconds(seconds);
        let queue = &mut self.queues[id];
        queue.count_pause();
        if seconds == 0 {
            queue.set_pause(None);
            self.serve_waiters(id, effects);
        } else {
            queue.set_pause(Some(Pause { until, reason: PauseReason::Requested { seconds } }));
            self.arm_queue(id);
        }
    }

    /// The number of the queue that this name stands for, if it exists. Usually it is the queue of
    /// this name: see the policy `same_as`. All requests with a name find their queues by this function,
    /// or by `queue_or_create`.
    pub fn queue_id(&self, name: &[u8]) -> Option<QueueId> {
        let own = self.own_queue_id(name);
        if !self.rules.have_same_as() {
            return own;
        }
        let moves_on = |id: &QueueId| self.policy_of(*id).is_some_and(|own| own.same_as.is_some());
        if own.is_some() && !own.as_ref().is_some_and(moves_on) {
            return own;
        }
        self.own_queue_id(&self.real_name(name))
    }

    /// The number of the queue that has this name itself, if it exists. The log and other servers
    /// name queues in this way.
    pub fn own_queue_id(&self, name: &[u8]) -> Option<QueueId> {
        self.queues.find(name)
    }

    /// The ids that the next queues get, in this order, before ids that no queue had yet. For the
    /// simulator: queues with lower ids come first if several are due at one moment.
    pub fn free_queue_ids(&self) -> impl Iterator<Item = QueueId> {
        self.queues.free_ids()
    }

    /// The queue that a listing or the statistics show under this name: the queue that has the name
    /// itself, as long as it exists, or else the one that the name stands for.
    pub fn shown_queue_id(&self, name: &[u8]) -> Option<QueueId> {
        self.own_queue_id(name).or_else(|| self.queue_id(name))
    }

    /// The name of the queue that this name stands for.
    #[inline]
    pub fn real_name<'a>(&self, name: &'a [u8]) -> Cow<'a, [u8]> {
        if !self.rules.have_same_as() {
            return Cow::Borrowed(name);
        }
        self.meter.count(self.rules.search_units(name));
        self.rules.real_name(name)
    }

    /// The number of queues.
    pub fn queue_count(&self) -> usize {
        self.queues.len()
    }

    /// Whether a request with this name would make a queue.
    pub fn would_make_queue(&self, name: &[u8]) -> bool {
        self.queue_id(name).is_none() && self.alias(name).is_none()
    }

    /// Keeps the queue in existence without jobs or users, until a request or the queue's policy
    /// removes the queue.
    pub(super) fn keep(&mut self, id: QueueId, effects: &mut Effects) {
        if !self.queues.set_kept(id, true) {
            self.arm_queue(id);
            effects.records.push(Record::QueueFacts(id));
        }
    }

    /// The queue that this name stands for. Makes the queue if it does not exist.
    pub(super) fn queue_or_create(&mut self, name: &[u8]) -> QueueId {
        if let Some(id) = self.queue_id(name) {
            return id;
        }
        let real = self.real_name(name);
        self.own_queue_or_create(&real)
    }

    /// The queue that has this name itself. Makes the queue if it does not exist.
    pub(super) fn own_queue_or_create(&mut self, name: &[u8]) -> QueueId {
        if let Some(id) = self.own_queue_id(name) {
            return id;
        }
        assert!(name.len() <= QUEUE_NAME_BYTES_MAX, "the dialect checks names");
        self.meter.count(1);
        let id = self.queues.insert(name, self.now);
        self.resolve(id);
        id
    }

    /// Removes a queue if nothing keeps it in existence any more.
    pub(super) fn drop_if_unwanted(&mut self, id: QueueId, effects: &mut Effects) {
        let queue = &self.queues[id];
        if queue.is_wanted() {
            if queue.extension().is_some() {
                // The queue may be idle from now on, so it may need a timer.
                self.arm_queue(id);
            }
            return;
        }
        self.meter.count(1);
        let mut queue = self.queues.remove(id);
        self.jobs.let_keys_outlast(id, false);
        self.timers.disarm(queue.timer_mut(), TimerKey::Queue(id.0));
        effects.records.push(Record::QueueGone(id));
    }

    /// Makes the queue, and keeps it in existence.
    pub fn create_queue(&mut self, name: &[u8], effects: &mut Effects) {
        let queue = self.queue_or_create(name);
        self.keep(queue, effects);
    }

    /// Sets the limits of unfinished jobs of a queue, one for each [`crate::Band`]. When a band has
    /// reached its limit, the queue refuses further submits of this band. 0 for no limit.
    pub fn limit_queue(
        &mut self,
        name: &[u8],
        limits: [u32; 3],
        effects: &mut Effects,
    ) -> Result<(), NotFound> {
        let queue = self.queue_id(name).ok_or(NotFound)?;
        self.limit_queue_of(queue, limits, effects);
        Ok(())
    }

    /// Like [`Engine::limit_queue`], for this queue.
    pub fn limit_queue_of(&mut self, queue: QueueId, limits: [u32; 3], effects: &mut Effects) {
        self.queues[queue].set_limits(limits);
        // The log stores the limits, and a restart makes each queue that has limits. So a queue
        // with limits also stays in existence before a restart.
        if limits != [0; 3] {
            self.queues.set_kept(queue, true);
        }
        self.arm_queue(queue);
        effects.records.push(Record::QueueFacts(queue));
    }
}
