//! Cold jobs: ready, delayed and buried jobs that leave the memory, in blocks, and come back.
//!
//! The owner decides which jobs become cold, because only the owner can read the log. Nothing
//! happens to a cold job except that the owner loads its block. So a request that needs a cold job
//! must wait until the owner has loaded it: see [`Engine::clear_way`]. A job that has expired can
//! stay cold until it is the head of its queue. If the head is cold and may expire, the engine
//! requests it.

use super::{Engine, RestoreError};
use crate::collections::prefetch;
use crate::effects::Effects;
use crate::ids::{BlockSlot, JobId, JobSlot, Millis, QueueId};
use crate::jobs::{Block, BlockFacts, JobList, State};
use crate::queues::{Extension, Queue, is_due_soon, ready_place};

/// A chore or a reader that needs a cold job looks for it again after this time, in milliseconds.
/// The end of the load also makes it continue.
pub(super) const LOAD_REST_MS: u64 = 5;

/// The states of jobs that can be cold.
const COLD_STATES: [State; 3] = [State::Ready, State::Delayed, State::Buried];

/// Whether the policy of a queue needs all its jobs in memory.
fn needs_all_jobs(queue: &Queue) -> bool {
    let needs_all =
        |extension: &Extension| extension.bounds_wait || extension.policy().needs_all_jobs();
    queue.extension().is_some_and(needs_all)
}

/// # Cold jobs
impl Engine {
    /// The number of cold jobs.
    pub fn cold_jobs(&self) -> u64 {
        self.jobs.blocks().jobs()
    }

    /// The number of blocks of cold jobs.
    pub fn blocks(&self) -> usize {
        self.jobs.blocks().len()
    }

    /// The memory of jobs in bytes, without the bodies that the log has, too.
    pub fn record_bytes(&self) -> u64 {
        self.jobs.bytes() - self.jobs.resident_bytes()
    }

    /// The list that a job is in. A leased job is in no list.
    pub fn list_of(&self, slot: JobSlot) -> JobList {
        let job = &self.jobs[slot];
        JobList { queue: job.queue(), state: job.state() }
    }

    /// Prefetches the memory of a job. The caller does this for many jobs before it uses the first of
    /// them, so that the processor loads them at the same time.
    pub fn prefetch_job(&self, slot: JobSlot) {
        if let Some(job) = self.jobs.get(slot) {
            prefetch(job);
        }
    }

    /// Whether a job can become cold. The caller must also check that the log has exactly the
    /// present facts of the job.
    pub fn may_be_cold(&self, slot: JobSlot) -> bool {
        let job = self.jobs.get(slot).filter(|job| job.may_be_cold());
        job.is_some_and(|job| {
            let queue = &self.queues[job.queue()];
            let has_key = self.jobs.unique_key(job.id()).is_some()
                || self.jobs.known_group_key(job.id()).is_some();
            let is_fired = self.firing_of(job.id()).is_some();
            queue.removals() == 0 && !needs_all_jobs(queue) && !has_key && !is_fired
        })
    }

    /// Requests the cold jobs of a queue if its policy needs all jobs in memory.
    pub(super) fn load_if_needed(&mut self, id: QueueId) {
        if needs_all_jobs(&self.queues[id]) {
            for state in COLD_STATES {
                self.want_blocks(JobList { queue: id, state });
            }
        }
    }

    /// Whether these jobs of one list are far from its head. A ready or buried job is far if a cold
    /// job of the list comes before it, or at least `jobs` jobs in memory do. A delayed job is far
    /// if it is not due soon. The head itself is not far if it expires.
    pub fn are_far_from_head(&self, slots: &[JobSlot], jobs: usize) -> bool {
        let Some(first) = slots.iter().map(|slot| &self.jobs[*slot]).min_by_key(|job| job.place())
        else {
            return false;
        };
        let (queue, place) = (&self.queues[first.queue()], first.place());
        if first.state() == State::Delayed {
            return !is_due_soon(first.due(), self.now);
        }
        let expires = |slot: &JobSlot| self.jobs[*slot].expires().is_some();
        let is_head = queue.ready().first().is_some_and(|(key, _)| ready_place(key) == place);
        if first.state() == State::Ready
            && is_head
            && queue.first_cold(State::Ready).is_none_or(|(cold, _)| cold > place)
            && slots.iter().any(expires)
        {
            // The engine would request them at once: see `want_expiring_head`.
            return false;
        }
        let is_behind = match first.state() {
            State::Buried => queue.buried().iter().nth(jobs).map(|(order, _)| (order, 0)),
            _ => queue.ready().iter().nth(jobs).map(|(key, _)| ready_place(key)),
        };
        queue.first_cold(first.state()).is_some_and(|(cold, _)| cold < place)
            || is_behind.is_some_and(|other| other <= place)
    }

    /// Makes these jobs cold: one block. The jobs must be in one list, and satisfy
    /// [`Engine::may_be_cold`]. Returns `None` for no jobs.
    pub fn cool(&mut self, slots: &[JobSlot]) -> Option<BlockSlot> {
        let list = self.list_of(*slots.first()?);
        let queue = list.queue;
        let mut places: Vec<_> = slots.iter().map(|slot| self.jobs[*slot].place()).collect();
        places.sort_unstable();
        self.queues.remove_all_from_list(list, &places);
        let mut facts = BlockFacts::beginning_with(&self.jobs[slots[0]]);
        for slot in slots {
            let job = self.jobs.cool(*slot);
            debug_assert!(job.queue() == queue && job.may_be_cold());
            self.queues[queue].count_out(job.counted());
            facts.add(&job);
        }
        Some(self.insert_block(queue, facts))
    }

    /// Adds a block of jobs from the log, at a start. Delayed jobs become ready if all of them are
    /// due.
    pub fn restore_block(
        &mut self,
        queue: &[u8],
        facts: BlockFacts,
    ) -> Result<BlockSlot, RestoreError> {
        super::replay::check_name(queue)?;
        super::replay::check_number(facts.first_ready.1)?;
        if facts.state == State::Buried {
            super::replay::check_number(facts.last.0)?;
        }
        self.check_room_for(facts.bands.iter().copied().map(u64::from).sum())?;
        let is_due = facts.state == State::Delayed && facts.last.0 <= self.now.0;
        let facts = if is_due { facts.when_ready() } else { facts };
        let queue = self.own_queue_or_create(queue);
        Ok(self.insert_block(queue, facts))
    }

    fn insert_block(&mut self, queue: QueueId, facts: BlockFacts) -> BlockSlot {
        let id = self.jobs.insert_block(Block { queue, facts });
        self.ensure_extension(queue);
        self.queues.add_block(queue, &facts, id);
        self.queues[queue].note_due(self.now);
        self.arm_queue(queue);
        self.want_expiring_head(queue);
        id
    }

    /// Adds the key of a cold job of a block, at a start: see [`crate::Submit::unique`]. The key is
    /// not empty, and is not the body of the job.
    pub fn restore_key(&mut self, queue: &[u8], unique: &[u8], id: JobId) {
        if let Some(queue) = self.own_queue_id(queue) {
            self.jobs.insert_cold_key(queue, unique, id);
        }
    }

    /// Looks at the blocks of delayed jobs that are due soon: requests the load of the first one,
    /// or makes all its jobs ready if all of them are due.
    pub(super) fn look_at_delayed_blocks(&mut self, id: QueueId, effects: &mut Effects) {
        let mut has_new_jobs = false;
        while !self.meter.request_is_spent()
            && let Some((_, block)) = self.queues[id].block_due_soon(self.now)
        {
            self.meter.count(1);
            let facts = self.jobs.blocks()[block].facts;
            if facts.last.0 > self.now.0 {
                self.want_blocks(JobList { queue: id, state: State::Delayed });
                break;
            }
            self.queues.remove_block(id, &facts);
            let facts = self.jobs.ready_block(block).expect("a block in a list exists");
            self.queues.add_block(id, &facts, block);
            has_new_jobs = true;
        }
        self.queues[id].note_due(self.now);
        self.want_expiring_head(id);
        if has_new_jobs {
            self.serve_waiters(id, effects);
        }
    }

    /// The queue and the facts of a block.
    pub fn block(&self, id: BlockSlot) -> Option<(QueueId, BlockFacts)> {
        self.jobs.blocks().get(id).map(|block| (block.queue, block.facts))
    }

    /// The blocks of a list, the next one first. The caller limits how many it looks at.
    pub fn blocks_of(&self, list: JobList) -> impl Iterator<Item = BlockSlot> {
        self.queues.get(list.queue).into_iter().flat_map(move |queue| queue.blocks(list.state))
    }

    /// The next blocks of a list that one load should read. Of delayed jobs, these are the first block
    /// and those that are due soon.
    pub fn blocks_to_load(&self, list: JobList) -> impl Iterator<Item = BlockSlot> {
        let is_early = move |block: BlockSlot| {
            let facts = &self.jobs.blocks()[block].facts;
            list.state == State::Delayed && !is_due_soon(Millis(facts.first.0), self.now)
        };
        let blocks = self.blocks_of(list).enumerate();
        blocks
            .take_while(move |(number, block)| *number == 0 || !is_early(*block))
            .map(|(_, block)| block)
    }

    /// A list of a queue that has cold jobs.
    pub fn first_cold_list(&self, queue: QueueId) -> Option<JobList> {
        let mut lists = COLD_STATES.iter().map(|state| JobList { queue, state: *state });
        lists.find(|list| self.blocks_of(*list).next().is_some())
    }

    /// Whether the next blocks of this list are wanted, and not loaded yet.
    pub fn wants_blocks(&self, list: JobList) -> bool {
        let cold = self.queues.get(list.queue).and_then(Queue::cold);
        cold.is_some_and(|cold| cold.list(list.state).is_wanted)
    }

    /// Removes a block, because the owner loads its jobs now: it calls [`Engine::load`] for each
    /// job that is still live, then [`Engine::end_load`]. Until then the queue stays in existence.
    /// `None`: there is no such block.
    pub fn begin_load(&mut self, id: BlockSlot) -> Option<JobList> {
        let Block { queue, facts } = self.jobs.remove_block(id)?;
        self.queues[queue].hold();
        self.queues.remove_block(queue, &facts);
        Some(JobList { queue, state: facts.state })
    }

    /// Ends the load of a block. Serves the sessions that wait for a job of the queue. Calls `refused`
    /// with each loaded job whose place in its list another job has: another program wrote the log,
    /// and the job is forgotten.
    pub fn end_load(
        &mut self,
        queue: QueueId,
        effects: &mut Effects,
        refused: &mut dyn FnMut(JobSlot),
    ) {
        self.enlist_loaded(refused);
        self.meter.begin_slice();
        self.chores.end_rest();
        self.end_wait_of_bounds(queue);
        self.queues[queue].note_due(self.now);
        // Jobs that the owner could not read are gone.
        self.note_room(queue);
        if !self.queues[queue].waiters().is_empty() && !self.chores.is_held() {
            self.sweep_head(queue, effects);
        }
        self.want_expiring_head(queue);
        self.serve_waiters(queue, effects);
        self.queues[queue].release();
        self.arm_queue(queue);
        self.drop_if_unwanted(queue, effects);
    }

    /// Ends the load of a block that the owner cannot read. The queue continues without its jobs.
    pub fn end_failed_load(&mut self, queue: QueueId, effects: &mut Effects) {
        // A sleeper waits for the head of one of its queues only. It must look for another job.
        self.wake_all_sleepers(queue, effects);
        self.end_load(queue, effects, &mut |_| {});
    }

    /// Begins to load jobs again that a load could not read before. The owner calls
    /// [`Engine::load`] for each of them, then [`Engine::end_load`].
    pub fn begin_return(&mut self, queue: &[u8]) -> QueueId {
        let queue = self.own_queue_or_create(queue);
        self.queues[queue].hold();
        queue
    }

    /// The owner has loaded the blocks of a list that were wanted, as far as they still existed.
    /// From now on, blocks of the list can be wanted again: when a request needs its first job, or
    /// when the job at the place `next`, or a job behind it, leaves the list of ready jobs.
    pub fn end_wanted(&mut self, list: JobList, next: Option<(u64, u64)>) {
        let queue = list.queue;
        let Some(cold) = self.queues.get_mut(queue).and_then(Queue::cold_mut) else { return };
        let cold = cold.list_mut(list.state);
        cold.is_wanted = false;
        cold.wanted_from = next;
        self.arm_queue(queue);
        let is_awaited = {
            let queue = &self.queues[queue];
            self.may_serve_loaded(queue)
                && (!queue.waiters().is_empty() || !queue.sleepers().is_empty())
        };
        if is_awaited {
            self.want_head(queue);
        } else {
            self.load_if_needed(queue);
        }
        self.want_expiring_head(queue);
    }

    /// The lists whose next blocks the owner must load. A list is returned once. After the end of
    /// its next load, it can be returned again.
    pub fn take_wanted(&mut self) -> Vec<JobList> {
        self.queues.take_wanted()
    }

    /// Requests the next blocks of a list.
    pub fn want_blocks(&mut self, list: JobList) {
        self.queues.want_blocks(list);
    }

    /// Requests the head of a queue. The head must be cold.
    pub(super) fn want_head(&mut self, queue: QueueId) {
        self.want_blocks(self.list_of_cold_head(queue));
    }

    /// The list that has the head of a queue. The head must be cold.
    pub(super) fn list_of_cold_head(&self, queue: QueueId) -> JobList {
        let (_, state) = self.queues[queue].cold_head();
        JobList { queue, state }
    }

    /// Requests the head of a queue if it is cold and may expire. In memory, it ends in time.
    fn want_expiring_head(&mut self, id: QueueId) {
        if self.expiring_head_is_cold(&self.queues[id]) {
            self.want_blocks(JobList { queue: id, state: State::Ready });
        }
    }

    pub(super) fn expiring_head_is_cold(&self, queue: &Queue) -> bool {
        // In most cases the head is in memory, and no block need be looked at.
        let first = || queue.first_cold(State::Ready);
        queue.is_first_cold(State::Ready)
            && first().is_some_and(|(_, block)| self.jobs.blocks()[block].facts.expires)
    }

    /// Requests the next blocks of a list. The chore that does a slice now rests for a moment after
    /// it, because it needs a cold job of the list.
    pub(super) fn rest_for_load(&mut self, list: JobList) {
        self.want_blocks(list);
        let rest_ends = Millis(self.now.0.saturating_add(LOAD_REST_MS));
        self.chores.rest_until(rest_ends, self.now);
    }

    /// Requests the next blocks of a queue, if a job of this place has left the list of ready jobs
    /// and few jobs are left in front of the next block.
    pub(super) fn note_left(&mut self, queue: QueueId, place: (u64, u64)) {
        let queue_left = &self.queues[queue];
        // A job behind the first cold job says nothing about the jobs in front of it.
        let first = queue_left.first_cold(State::Ready);
        let is_in_front = first.is_some_and(|(first, _)| place < first);
        let wanted_from = queue_left.cold().and_then(|cold| cold.list(State::Ready).wanted_from);
        if is_in_front && wanted_from.is_some_and(|from| from <= place) {
            self.want_blocks(JobList { queue, state: State::Ready });
        }
        self.want_expiring_head(queue);
    }
}
