//! Queues: making, keeping, pausing and dropping them.

use crate::bytes::{EXTRA_BYTES, KEPT_BYTES, queue_bytes};
use crate::effects::{Effects, Record};
use crate::engine::{Engine, NotFound};
use crate::ids::QueueId;
use crate::limits::QUEUE_NAME_BYTES_MAX;
use crate::queue::{Pause, PauseReason, Queue};
use crate::timers::TimerKey;

impl Engine {
    /// Holds a queue's ready jobs back for so many seconds; 0 ends a pause.
    pub fn pause(
        &mut self,
        name: &[u8],
        seconds: u32,
        effects: &mut Effects,
    ) -> Result<(), NotFound> {
        self.meter.begin_request();
        self.meter.count(1);
        let id = self.queue_id(name).ok_or(NotFound)?;
        let until = self.now.plus_seconds(seconds);
        let queue = self.queue_mut(id);
        queue.pauses += 1;
        if seconds == 0 {
            queue.pause = None;
            if !self.queue(id).is_paused() {
                self.serve_waiters(id, effects);
            }
        } else {
            queue.pause = Some(Pause { until, reason: PauseReason::Asked { seconds } });
            self.arm_queue(id);
        }
        Ok(())
    }

    /// The queue of this name, if it exists.
    pub fn queue_id(&self, name: &[u8]) -> Option<QueueId> {
        self.names.find(self.hash.of(name), |id| {
            let queue = self.queue(id);
            queue.prefetch();
            &*queue.name == name
        })
    }

    /// How many queues exist.
    pub fn queue_count(&self) -> usize {
        self.queues.len()
    }

    /// Whether a request that names this queue would make it.
    pub fn would_make_queue(&self, name: &[u8]) -> bool {
        self.queue_id(name).is_none() && self.alias(name).is_none()
    }

    /// The queue exists from now on, until it is dropped.
    pub(crate) fn keep(&mut self, id: QueueId, effects: &mut Effects) {
        if !self.set_kept(id, true) {
            self.arm_queue(id);
            effects.records.push(Record::QueueFacts(id));
        }
    }

    /// Whether the queue exists when nobody uses it; returns whether it did before.
    pub(crate) fn set_kept(&mut self, id: QueueId, kept: bool) -> bool {
        let was_kept = std::mem::replace(&mut self.queue_mut(id).kept, kept);
        self.memory_bytes += if kept { KEPT_BYTES } else { 0 };
        self.memory_bytes -= if was_kept { KEPT_BYTES } else { 0 };
        was_kept
    }

    pub(crate) fn queue_or_create(&mut self, name: &[u8]) -> QueueId {
        if let Some(id) = self.queue_id(name) {
            return id;
        }
        assert!(name.len() <= QUEUE_NAME_BYTES_MAX, "the dialect checks names");
        self.meter.count(1);
        let age_rank = self.next_age_rank;
        self.next_age_rank += 1;
        let id = QueueId(self.queues.insert(Queue::new(name, age_rank)));
        let (queues, hash) = (&self.queues, &self.hash);
        self.names.insert(hash.of(name), id, |id| {
            hash.of(&queues.get(id.0).expect("the table names queues that exist").name)
        });
        self.by_age.insert(age_rank, id);
        if let Some(place) = self.cased_place(name, age_rank) {
            self.cased.insert(place, id);
        }
        self.memory_bytes += queue_bytes(name);
        self.dress(id);
        id
    }

    /// Removes a queue that nothing keeps in existence any more.
    pub(crate) fn drop_if_unwanted(&mut self, id: QueueId, effects: &mut Effects) {
        let queue = self.queue(id);
        if queue.is_wanted() {
            if queue.extra.is_some() {
                // It may be idle from now on.
                self.arm_queue(id);
            }
            return;
        }
        self.meter.count(1);
        self.unmark(id);
        let mut queue = self.queues.remove(id.0).expect("a queue that was just looked at");
        self.names.remove(self.hash.of(&queue.name), id);
        self.by_age.remove(&queue.age_rank);
        if let Some(place) = self.cased_place(&queue.name, queue.age_rank) {
            self.cased.remove(&place);
        }
        self.memory_bytes -= queue_bytes(&queue.name);
        self.memory_bytes -= if queue.kept { KEPT_BYTES } else { 0 };
        self.timers.disarm(&mut queue.timer, TimerKey::Queue(id.0));
        if queue.extra.is_some() {
            self.special.extras -= 1;
            self.memory_bytes -= EXTRA_BYTES;
        }
        effects.records.push(Record::QueueGone(id));
    }

    /// The queue exists from now on.
    pub fn create_queue(&mut self, name: &[u8], effects: &mut Effects) {
        let queue = self.queue_or_create(name);
        self.keep(queue, effects);
    }

    /// Sets how many unfinished jobs a queue may have when one of each [`crate::Band`] is submitted.
    pub fn limit_queue(
        &mut self,
        name: &[u8],
        limits: [u32; 3],
        effects: &mut Effects,
    ) -> Result<(), NotFound> {
        let queue = self.queue_id(name).ok_or(NotFound)?;
        self.queue_mut(queue).limits = limits;
        // Limits are logged: of a queue that could vanish, only they would come back at a restart.
        if limits != [0; 3] {
            self.set_kept(queue, true);
        }
        self.arm_queue(queue);
        effects.records.push(Record::QueueFacts(queue));
        Ok(())
    }
}
