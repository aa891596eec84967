//! Blocks of cold jobs. A cold job is only in the log: the table of jobs has no entry for it. Its
//! block counts it.

use std::ops::Index;

use super::counts::{Band, Counts};
use super::facts::{JobFacts, State};
use super::job::Job;
use crate::bytes::LIST_ENTRY_BYTES;
use crate::collections::Slab;
use crate::ids::{BlockSlot, Millis, QueueId};

/// The bytes of a block: the block itself, its entry in the list of its queue, and its entries in
/// the owner's tables.
const BLOCK_BYTES: u64 = size_of::<Block>() as u64 + LIST_ENTRY_BYTES + 120;

/// What the engine stores of the jobs of a block. All of them are jobs of one queue, in one state.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct BlockFacts {
    /// Ready, delayed or buried.
    pub state: State,
    /// The lowest place of a job in the list of this state: see [`BlockFacts::place`].
    pub first: (u64, u64),
    /// The highest place of a job in the list of this state.
    pub last: (u64, u64),
    /// The lowest place of a job in the list of ready jobs, if all jobs of the block were ready.
    pub first_ready: (u64, u64),
    /// When the first job was put.
    pub created: Millis,
    /// The number of jobs, one number for each [`Band`] of priorities.
    pub bands: [u32; 3],
    /// Bytes of all bodies.
    pub body_bytes: u64,
    /// Whether some of the jobs expire.
    pub expires: bool,
}

impl BlockFacts {
    /// The number of jobs.
    pub fn jobs(&self) -> u32 {
        self.bands.iter().sum()
    }

    /// The place of a job in the list of its state.
    ///
    /// | state | place |
    /// |---|---|
    /// | ready | priority, order number |
    /// | delayed | due time, job number |
    /// | buried | place among the buried jobs, 0 |
    pub fn place(facts: &JobFacts) -> (u64, u64) {
        match facts.state {
            State::Ready | State::Leased => Self::ready_place(facts),
            State::Delayed => (facts.due.0, facts.id.0),
            State::Buried => (facts.buried_order, 0),
        }
    }

    /// The place of a job in the list of ready jobs, if the job was ready.
    pub fn ready_place(facts: &JobFacts) -> (u64, u64) {
        let order = if facts.order == 0 { facts.id.0 } else { facts.order };
        (facts.priority.into(), order)
    }

    /// Facts without jobs. The first job that is added must be this job.
    pub(crate) fn beginning_with(job: &Job) -> Self {
        Self {
            state: job.state(),
            first: job.place(),
            last: job.place(),
            first_ready: job.ready_place(),
            created: job.created(),
            bands: [0; 3],
            body_bytes: 0,
            expires: false,
        }
    }

    /// Adds a job of the same state.
    pub(crate) fn add(&mut self, job: &Job) {
        debug_assert_eq!(job.state(), self.state);
        self.first = self.first.min(job.place());
        self.last = self.last.max(job.place());
        self.first_ready = self.first_ready.min(job.ready_place());
        self.bands[Band::of(job.priority()) as usize] += 1;
        self.body_bytes += job.body_len() as u64;
        self.expires |= job.expires().is_some();
    }

    /// The same jobs, after they have become ready.
    pub(crate) fn when_ready(self) -> Self {
        Self { state: State::Ready, first: self.first_ready, ..self }
    }
}

/// A block of cold jobs.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) queue: QueueId,
    pub(crate) facts: BlockFacts,
}

/// All blocks of cold jobs.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    slab: Slab<Block>,
    jobs: u64,
}

impl Blocks {
    pub(crate) fn len(&self) -> usize {
        self.slab.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of cold jobs.
    pub(crate) fn jobs(&self) -> u64 {
        self.jobs
    }

    /// The memory of all blocks, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.slab.len() as u64 * BLOCK_BYTES
    }

    pub(crate) fn get(&self, id: BlockSlot) -> Option<&Block> {
        self.slab.get(id.0)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (BlockSlot, &Block)> {
        self.slab.iter().map(|(place, block)| (BlockSlot(place), block))
    }

    pub(super) fn insert(&mut self, block: Block) -> BlockSlot {
        self.jobs += u64::from(block.facts.jobs());
        BlockSlot(self.slab.insert(block))
    }

    pub(super) fn get_mut(&mut self, id: BlockSlot) -> Option<&mut Block> {
        self.slab.get_mut(id.0)
    }

    pub(super) fn remove(&mut self, id: BlockSlot) -> Option<Block> {
        let block = self.slab.remove(id.0)?;
        self.jobs -= u64::from(block.facts.jobs());
        Some(block)
    }
}

impl Index<BlockSlot> for Blocks {
    type Output = Block;

    fn index(&self, id: BlockSlot) -> &Block {
        self.slab.get(id.0).expect("a block exists while a list has it")
    }
}

impl Counts {
    /// Adds the jobs of a block.
    pub(crate) fn add_block(&mut self, block: &BlockFacts) {
        *self.of(block.state) += block.jobs();
        if block.state == State::Ready {
            self.urgent += block.bands[Band::High as usize];
            self.bytes += block.body_bytes;
        }
        if block.state != State::Buried {
            self.bands.iter_mut().zip(block.bands).for_each(|(band, jobs)| *band += jobs);
        }
    }

    /// Subtracts the jobs of a block.
    pub(crate) fn remove_block(&mut self, block: &BlockFacts) {
        *self.of(block.state) -= block.jobs();
        if block.state == State::Ready {
            self.urgent -= block.bands[Band::High as usize];
            self.bytes -= block.body_bytes;
        }
        if block.state != State::Buried {
            self.bands.iter_mut().zip(block.bands).for_each(|(band, jobs)| *band -= jobs);
        }
    }
}

impl Job {
    /// Whether the job can become cold: it is in the log, nobody holds it or waits for it, and no
    /// worker has reported progress.
    pub(crate) fn may_be_cold(&self) -> bool {
        let outcome = self.extension.as_ref().and_then(|extension| extension.outcome.as_ref());
        let is_bare = outcome.is_none_or(|outcome| outcome.is_bare());
        self.state() != State::Leased && self.is_logged() && is_bare
    }

    /// The place of the job in the list of ready jobs, as [`BlockFacts::ready_place`] says.
    pub(crate) fn ready_place(&self) -> (u64, u64) {
        (self.priority().into(), self.order())
    }

    /// The place of the job in the list of its state, as [`BlockFacts::place`] says.
    pub(crate) fn place(&self) -> (u64, u64) {
        match self.state() {
            State::Ready | State::Leased => self.ready_place(),
            State::Delayed => (self.due().0, self.id().0),
            State::Buried => (self.buried_order(), 0),
        }
    }
}
