//! Cold jobs: ready jobs that leave the memory, in blocks, and come back.
//!
//! The owner decides which jobs become cold, because only the owner can read the log. Nothing
//! happens to a cold job except that the owner loads its block. So a request that needs a cold job
//! must wait until the owner has loaded it: see [`Engine::missing`].

use super::{Engine, RestoreError};
use crate::effects::Effects;
use crate::ids::{BlockSlot, JobSlot, Millis, QueueId, SessionId};
use crate::jobs::{Block, BlockFacts};
use crate::queues::{Extension, Queue, ReadyKey};

/// A chore or a reader that needs a cold job looks for it again after this time, in milliseconds.
/// The end of the load also makes it continue.
pub(super) const LOAD_REST_MS: u64 = 5;

/// What a request needs in memory.
#[derive(Copy, Clone, Debug)]
pub enum Need<'a> {
    /// The best job of the queues that the session watches.
    Watched,
    /// The next job of the queues that the session is registered for.
    Registered,
    /// The first job of the queue that the session uses, even if the queue is paused.
    Used,
    /// The first job of the queue of this name. Only a read that does not wait needs this. Other
    /// reads wait for the load.
    Queue(&'a [u8]),
}

/// Whether a queue needs only its first ready jobs in memory.
fn allows_cold(queue: &Queue) -> bool {
    let needs_all =
        |extension: &Extension| extension.policy_waits || extension.policy().needs_all_jobs();
    queue.removals() == 0 && !queue.extension().is_some_and(needs_all)
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

    /// Whether a job can become cold. The caller must also check that the log has exactly the
    /// present facts of the job.
    pub fn may_be_cold(&self, slot: JobSlot) -> bool {
        let job = self.jobs.get(slot).filter(|job| job.may_be_cold());
        job.is_some_and(|job| allows_cold(&self.queues[job.queue()]))
    }

    /// Requests the cold jobs of a queue if its policy needs all jobs in memory.
    pub(super) fn load_if_needed(&mut self, id: QueueId) {
        if !allows_cold(&self.queues[id]) {
            self.want_blocks(id);
        }
    }

    /// Whether a ready job is far from the head of its queue: a cold job comes before it, or at
    /// least `jobs` jobs in memory do.
    pub fn is_far_from_head(&self, slot: JobSlot, jobs: usize) -> bool {
        let job = &self.jobs[slot];
        let (queue, key) = (&self.queues[job.queue()], job.ready_key());
        queue.first_cold().is_some_and(|(cold, _)| cold < key)
            || queue.ready().iter().nth(jobs).is_some_and(|(other, _)| other <= key)
    }

    /// Makes these jobs cold: one block. The jobs must belong to one queue, be in the order in
    /// which the queue hands them out, and satisfy [`Engine::may_be_cold`]. Returns `None` for an
    /// empty list.
    pub fn cool(&mut self, slots: &[JobSlot]) -> Option<BlockSlot> {
        let first = &self.jobs[*slots.first()?];
        let (queue, mut facts) = (first.queue(), BlockFacts::beginning_with(first));
        for slot in slots {
            let job = &self.jobs[*slot];
            debug_assert!(job.queue() == queue && job.may_be_cold());
            self.queues.remove_from_list(*slot, job);
            let counted = self.jobs.remove(*slot).counted();
            self.queues[queue].count_out(counted);
            facts.add(counted);
        }
        Some(self.insert_block(queue, facts))
    }

    /// Adds a block of jobs from the log, at a start.
    pub fn restore_block(
        &mut self,
        queue: &[u8],
        facts: BlockFacts,
    ) -> Result<BlockSlot, RestoreError> {
        super::replay::check_name(queue)?;
        super::replay::check_number(facts.first.1)?;
        let queue = self.queue_or_create(queue);
        Ok(self.insert_block(queue, facts))
    }

    fn insert_block(&mut self, queue: QueueId, facts: BlockFacts) -> BlockSlot {
        let id = self.jobs.insert_block(Block { queue, facts });
        self.ensure_extension(queue);
        self.queues.add_block(queue, &facts, id);
        self.arm_queue(queue);
        id
    }

    /// The queue and the facts of a block.
    pub fn block(&self, id: BlockSlot) -> Option<(QueueId, BlockFacts)> {
        self.jobs.blocks().get(id).map(|block| (block.queue, block.facts))
    }

    /// The blocks of a queue, the next one first. The caller limits how many it looks at.
    pub fn blocks_of(&self, queue: QueueId) -> impl Iterator<Item = BlockSlot> {
        self.queues.get(queue).into_iter().flat_map(Queue::blocks)
    }

    /// Whether the next blocks of this queue are wanted, and not loaded yet.
    pub fn wants_blocks(&self, queue: QueueId) -> bool {
        self.queues.get(queue).and_then(Queue::cold).is_some_and(|cold| cold.is_wanted)
    }

    /// Removes a block, because the owner loads its jobs now: it calls [`Engine::load`] for each
    /// job that is still live, then [`Engine::end_load`]. Until then the queue stays in existence.
    /// `None`: there is no such block.
    pub fn begin_load(&mut self, id: BlockSlot) -> Option<QueueId> {
        let Block { queue, facts } = self.jobs.remove_block(id)?;
        self.queues[queue].hold();
        self.queues.remove_block(queue, &facts);
        Some(queue)
    }

    /// Ends the load of a block. Serves the sessions that wait for a job of the queue.
    pub fn end_load(&mut self, queue: QueueId, effects: &mut Effects) {
        self.meter.begin_slice();
        self.chores.rest_until(Millis(0));
        self.end_policy_wait(queue);
        if !self.queues[queue].is_paused() {
            self.serve_waiters(queue, effects);
        }
        self.queues[queue].release();
        self.arm_queue(queue);
        self.drop_if_unwanted(queue, effects);
    }

    /// The owner has loaded the blocks of a queue that were wanted, as far as they still existed.
    /// From now on, blocks of the queue can be wanted again: when the head is cold, or when the job
    /// at the place `next`, or a job behind it, leaves the list of ready jobs.
    pub fn end_wanted(&mut self, queue: QueueId, next: Option<(u32, u64)>) {
        let Some(cold) = self.queues.get_mut(queue).and_then(Queue::cold_mut) else { return };
        cold.is_wanted = false;
        cold.wanted_from = next.map(|(priority, order)| (priority.into(), order));
        let is_awaited = {
            let queue = &self.queues[queue];
            self.may_serve_loaded(queue)
                && (!queue.waiters().is_empty() || !queue.sleepers().is_empty())
        };
        if is_awaited {
            self.want_blocks(queue);
        } else {
            self.load_if_needed(queue);
        }
    }

    /// The queues whose next blocks the owner must load. A queue is returned once. After the end of
    /// its next load, it can be returned again.
    pub fn take_wanted(&mut self) -> Vec<QueueId> {
        self.queues.take_wanted()
    }

    /// Requests the next blocks of a queue.
    pub fn want_blocks(&mut self, queue: QueueId) {
        self.queues.want_blocks(queue);
    }

    /// Requests the next blocks of a queue. Chores rest for a moment, because a chore needs a cold
    /// job of the queue.
    pub(super) fn rest_for_load(&mut self, queue: QueueId) {
        self.want_blocks(queue);
        self.chores.rest_until(Millis(self.now.0.saturating_add(LOAD_REST_MS)));
    }

    /// Requests the next blocks of a queue, if a job of this place has left the list of ready jobs
    /// and few jobs are left in front of the next block.
    pub(super) fn note_left(&mut self, queue: QueueId, key: ReadyKey) {
        let queue_left = &self.queues[queue];
        // A job behind the first cold job says nothing about the jobs in front of it.
        let is_in_front = queue_left.first_cold().is_some_and(|(first, _)| key < first);
        let wanted_from = queue_left.cold().and_then(|cold| cold.wanted_from);
        if is_in_front && wanted_from.is_some_and(|from| from <= key) {
            self.want_blocks(queue);
        }
    }

    /// The queue whose next job is cold, if a request of this session needs that job. Then the
    /// request must wait until the owner has loaded the next block of that queue.
    pub fn missing(&self, session: SessionId, need: Need<'_>) -> Option<QueueId> {
        if self.jobs.blocks().is_empty() {
            return None;
        }
        match need {
            Need::Watched => self.missing_of_watched(session),
            Need::Registered => {
                let (_, found) = self.next_supplier_of(session, |queue| {
                    self.may_serve(queue) || self.may_serve_loaded(queue)
                })?;
                Some(found.queue).filter(|queue| self.queues[*queue].head_is_cold())
            }
            Need::Used => {
                Some(self.used(session)).filter(|queue| self.queues[*queue].head_is_cold())
            }
            Need::Queue(name) => {
                self.queue_id(name).filter(|queue| self.may_serve_loaded(&self.queues[*queue]))
            }
        }
    }

    fn missing_of_watched(&self, session: SessionId) -> Option<QueueId> {
        let watched = self.sessions[session].watched();
        self.meter.count(watched.len());
        let cold = watched.iter().filter_map(|id| {
            let queue = &self.queues[*id];
            let (key, _) = queue.first_cold().filter(|_| self.may_serve_loaded(queue))?;
            Some((key, *id))
        });
        let (key, queue) = cold.min()?;
        let best = watched.iter().filter_map(|id| self.head(&self.queues[*id])).min();
        best.is_none_or(|(best, _)| key < best).then_some(queue)
    }

    /// Whether a queue could serve a take if its first job were in memory.
    pub(super) fn may_serve_loaded(&self, queue: &Queue) -> bool {
        queue.head_is_cold() && !queue.is_paused() && !self.is_blocked(queue)
    }

    /// Requests the next blocks for a worker that begins to sleep, so that the loaded jobs wake it.
    pub(super) fn want_supply(&mut self, session: SessionId) {
        if let Some(queue) = self.missing(session, Need::Registered) {
            self.want_blocks(queue);
        }
    }
}
