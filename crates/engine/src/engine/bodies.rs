//! Requests that change where the body of a job is: in memory, or only in the log.
//!
//! The engine cannot read the log. So the broker decides which bodies leave the memory, and loads
//! them again.

use super::Engine;
use crate::ids::{JobSlot, QueueId};
use crate::jobs::{Body, JobList, Jobs, State, Tags, is_body_key};
use crate::queues::{ready_key, ready_place};

impl Engine {
    /// The bytes of memory that [`Engine::store_body`] can free, for all jobs together.
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

    /// Removes the body of a job from memory, because the log also has it. Returns false and
    /// changes nothing in three cases: the log does not have the job, the body is the job's key, or
    /// the body is not in memory.
    pub fn store_body(&mut self, slot: JobSlot) -> bool {
        self.with_body(slot, |jobs| jobs.store_body(slot))
    }

    /// Loads a stored body: `body` has the bytes that the caller read from the log. Does nothing if
    /// the body is in memory.
    pub fn load_body(&mut self, slot: JobSlot, body: Body) {
        if !self.is_resident(slot) {
            self.with_body(slot, |jobs| jobs.load_body(slot, body));
        }
    }

    /// Calls `change`, which changes where the body of a job is. Updates the counts of the job's
    /// queue.
    pub(super) fn with_body<T>(&mut self, slot: JobSlot, change: impl FnOnce(&mut Jobs) -> T) -> T {
        let before = self.jobs[slot].counted();
        let changed = change(&mut self.jobs);
        let job = &self.jobs[slot];
        let queue = &mut self.queues[job.queue()];
        queue.count_out(before);
        queue.count_in(job.counted());
        let queue = job.queue();
        self.note_room(queue);
        changed
    }

    /// Whether a policy limits the memory of any queue.
    pub fn limits_memory(&self) -> bool {
        self.rules.limit_memory()
    }

    /// The limit of memory of a queue ([`Policy::memory_max`](crate::policy::Policy::memory_max)),
    /// if the queue exists and has a limit.
    pub fn memory_max(&self, queue: QueueId) -> Option<u64> {
        self.queues.get(queue)?.extension()?.policy().memory_max
    }

    /// Whether the body of a job should leave the memory because of the limit of its queue. If the
    /// job is leased, it probably ends soon, so its body stays.
    pub fn exceeds_memory(&self, slot: JobSlot) -> bool {
        let job = &self.jobs[slot];
        let Some(max) = self.memory_max(job.queue()) else { return false };
        match job.state() {
            State::Ready => self.queues[job.queue()].resident_bytes() > max,
            State::Leased => false,
            State::Delayed | State::Buried => true,
        }
    }

    /// Whether the body of a job with these tags must stay in memory. This is so if the body is the
    /// job's key.
    pub fn needs_body(tags: Option<Tags<'_>>) -> bool {
        tags.is_some_and(|tags| is_body_key(tags.unique))
    }

    /// The ready jobs of a queue from this place on, in the order in which takes get them, with their
    /// places: see [`crate::BlockFacts::ready_place`]. The caller must limit the number of jobs that
    /// it reads.
    pub fn ready_jobs_from(
        &self,
        queue: QueueId,
        from: (u64, u64),
    ) -> impl Iterator<Item = ((u64, u64), JobSlot)> {
        let ready = self.queues.get(queue).map(|queue| queue.ready().iter_from(ready_key(from)));
        ready.into_iter().flatten().map(|(key, slot)| (ready_place(key), JobSlot(slot)))
    }

    /// The number of jobs of a list, also of its cold jobs.
    pub fn count(&self, list: JobList) -> u32 {
        self.queues.get(list.queue).map_or(0, |queue| queue.counts().get(list.state))
    }
}
