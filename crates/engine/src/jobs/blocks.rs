//! Blocks of cold jobs. A cold job is only in the log: the table of jobs has no entry for it. Its
//! block counts it.

use super::counts::{Band, CountedJob, Counts};
use super::facts::State;
use super::job::Job;
use crate::bytes::LIST_ENTRY_BYTES;
use crate::collections::Slab;
use crate::ids::{BlockSlot, Millis, QueueId};

/// The bytes of a block: the block itself, its entry in the list of its queue, and its entries in
/// the owner's tables.
const BLOCK_BYTES: u64 = size_of::<Block>() as u64 + LIST_ENTRY_BYTES + 120;

/// What the engine stores of the jobs of a block. All of them are ready jobs of one queue.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct BlockFacts {
    /// The priority and the order number of the first job. No job of the block comes before it.
    pub first: (u32, u64),
    /// When the first job was put.
    pub created: Millis,
    /// The number of jobs, one number for each [`Band`] of priorities.
    pub bands: [u32; 3],
    /// Bytes of all bodies.
    pub body_bytes: u64,
}

impl BlockFacts {
    /// The number of jobs.
    pub fn jobs(&self) -> u32 {
        self.bands.iter().sum()
    }

    /// Facts without jobs. The first job that is added must be this job.
    pub(crate) fn beginning_with(job: &Job) -> Self {
        let first = (job.priority(), job.order());
        Self { first, created: job.created(), bands: [0; 3], body_bytes: 0 }
    }

    /// Adds a job that comes after the first one.
    pub(crate) fn add(&mut self, job: CountedJob) {
        self.bands[Band::of(job.priority) as usize] += 1;
        self.body_bytes += job.body_bytes as u64;
    }

    /// The place of the first job among the ready jobs of its queue, as [`Job::ready_key`] says.
    pub(crate) fn first_key(&self) -> (u64, u64) {
        (self.first.0.into(), self.first.1)
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

    pub(super) fn remove(&mut self, id: BlockSlot) -> Option<Block> {
        let block = self.slab.remove(id.0)?;
        self.jobs -= u64::from(block.facts.jobs());
        Some(block)
    }
}

impl Counts {
    /// Adds the jobs of a block.
    pub(crate) fn add_block(&mut self, block: &BlockFacts) {
        self.ready += block.jobs();
        self.urgent += block.bands[Band::High as usize];
        self.bytes += block.body_bytes;
        for (band, jobs) in self.bands.iter_mut().zip(block.bands) {
            *band += jobs;
        }
    }

    /// Subtracts the jobs of a block.
    pub(crate) fn remove_block(&mut self, block: &BlockFacts) {
        self.ready -= block.jobs();
        self.urgent -= block.bands[Band::High as usize];
        self.bytes -= block.body_bytes;
        for (band, jobs) in self.bands.iter_mut().zip(block.bands) {
            *band -= jobs;
        }
    }
}

impl Job {
    /// Whether the job can become cold: it is ready and in the log, does not expire, and only the
    /// list of ready jobs and the index of numbers refer to it.
    pub(crate) fn may_be_cold(&self) -> bool {
        let is_bare = self.extension.as_ref().is_none_or(|extension| extension.outcome.is_none());
        self.state() == State::Ready && self.is_logged() && is_bare && self.expires().is_none()
    }
}
