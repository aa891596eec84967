//! Bodies that leave the memory and come back.
//!
//! The owner decides which bodies are only in the log, because only the owner can read the log.
//! These are inputs of the engine, like all other requests.

use super::Engine;
use crate::ids::{JobSlot, QueueId};
use crate::jobs::{Body, Jobs, State, Tags, is_body_key};

impl Engine {
    /// The memory of bodies that are in the log, too, in bytes.
    pub fn resident_bytes(&self) -> u64 {
        self.jobs.resident_bytes()
    }

    /// Whether the body of a job is in memory.
    pub fn is_resident(&self, slot: JobSlot) -> bool {
        self.jobs[slot].resident_body().is_some()
    }

    /// The state of a job.
    pub fn state_of(&self, slot: JobSlot) -> State {
        self.jobs[slot].state()
    }

    /// Forgets the bytes of a body that is in the log, too. Returns false if they must stay in
    /// memory: the job is not in the log, or its body is its key.
    pub fn store_body(&mut self, slot: JobSlot) -> bool {
        self.with_body(slot, |jobs| jobs.store_body(slot))
    }

    /// Sets the bytes of a stored body, as they were read from the log.
    pub fn load_body(&mut self, slot: JobSlot, body: Body) {
        if !self.is_resident(slot) {
            self.with_body(slot, |jobs| jobs.load_body(slot, body));
        }
    }

    /// Changes where the body of a job is, and updates the counts.
    fn with_body<T>(&mut self, slot: JobSlot, change: impl FnOnce(&mut Jobs) -> T) -> T {
        let before = self.jobs[slot].counted();
        let changed = change(&mut self.jobs);
        let job = &self.jobs[slot];
        let queue = &mut self.queues[job.queue()];
        queue.count_out(before);
        queue.count_in(job.counted());
        changed
    }

    /// Whether a job with these tags needs its body in memory, because the body is its key.
    pub fn needs_body(tags: Option<Tags<'_>>) -> bool {
        tags.is_some_and(|tags| is_body_key(tags.unique))
    }

    /// The ready jobs of a queue, the next one first. The caller limits how many it looks at.
    pub fn ready_jobs(&self, queue: QueueId) -> impl Iterator<Item = JobSlot> {
        let ready = self.queues.get(queue).map(|queue| queue.ready().iter());
        ready.into_iter().flatten().map(|(_, slot)| JobSlot(slot))
    }

    /// The number of ready jobs of a queue.
    pub fn ready_count(&self, queue: QueueId) -> u32 {
        self.queues.get(queue).map_or(0, |queue| queue.counts().ready)
    }
}
