//! The cold jobs of a queue. They are only in the log, in blocks: see [`crate::jobs::BlockFacts`].
//!
//! The first job of a queue is its *head*. If the first job of a block comes before all ready jobs
//! in memory, the head is cold. Then the queue hands out no job until the block is loaded.

use super::queue::{Queue, ReadyKey};
use crate::collections::Ordered;
use crate::ids::{BlockSlot, JobSlot};

/// The cold jobs of a queue.
#[derive(Debug, Default)]
pub(crate) struct Cold {
    /// The blocks, by the place of their first job among the ready jobs.
    blocks: Ordered<ReadyKey>,
    /// When a job at this place or behind it leaves the list of ready jobs, the next blocks are
    /// wanted. `None`: only a cold head makes them wanted.
    pub(crate) wanted_from: Option<ReadyKey>,
    /// The next blocks are wanted, and not loaded yet.
    pub(crate) is_wanted: bool,
}

impl Queue {
    pub(crate) fn cold(&self) -> Option<&Cold> {
        self.extension()?.cold.as_deref()
    }

    pub(crate) fn cold_mut(&mut self) -> Option<&mut Cold> {
        self.extension_mut()?.cold.as_deref_mut()
    }

    /// The blocks of cold jobs, in the order of their first jobs.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = BlockSlot> {
        self.cold().into_iter().flat_map(|cold| cold.blocks.iter()).map(|(_, id)| BlockSlot(id))
    }

    /// The place of the first cold job, and its block.
    pub(crate) fn first_cold(&self) -> Option<(ReadyKey, BlockSlot)> {
        self.cold()?.blocks.first().map(|(key, id)| (key, BlockSlot(id)))
    }

    /// Whether the next job of the queue is cold.
    pub(crate) fn head_is_cold(&self) -> bool {
        let Some((cold, _)) = self.first_cold() else { return false };
        self.ready().first().is_none_or(|(key, _)| cold < key)
    }

    /// Whether the queue has a ready job, in memory or cold.
    pub(crate) fn has_ready(&self) -> bool {
        !self.ready().is_empty() || self.cold().is_some()
    }

    /// The next job, if it is in memory.
    pub(crate) fn first_ready(&self) -> Option<JobSlot> {
        let (_, slot) = self.ready().first().filter(|_| !self.head_is_cold())?;
        Some(JobSlot(slot))
    }

    /// Adds a block. The queue must have an extension.
    pub(super) fn add_block(&mut self, first: ReadyKey, id: BlockSlot) {
        let extension = self.extension_mut().expect("a queue with cold jobs has an extension");
        extension.cold.get_or_insert_default().blocks.insert(first, id.0);
    }

    /// Removes a block.
    pub(super) fn remove_block(&mut self, first: ReadyKey) {
        let Some(extension) = self.extension_mut() else { return };
        let Some(cold) = &mut extension.cold else { return };
        cold.blocks.remove(first);
        if cold.blocks.is_empty() {
            extension.cold = None;
        }
    }
}
