//! The table of queues by their names. It holds the numbers of queues only; their names are in the queues.
//!
//! A hash table that grows is built anew: with a million names that would hold everybody up for a tenth of a
//! second. So there are many small ones.

use hashbrown::HashTable;

use crate::ids::QueueId;

/// With a million queues, one of these tables has a few thousand.
const PARTS: usize = 256;

/// Looked into, never walked: its order is not ours.
#[derive(Debug)]
pub(crate) struct NameTable {
    parts: Box<[HashTable<QueueId>]>,
}

impl Default for NameTable {
    fn default() -> Self {
        Self { parts: (0..PARTS).map(|_| HashTable::new()).collect() }
    }
}

/// The tables use the lowest and the highest bits of a hash for themselves.
fn part(hash: u64) -> usize {
    (hash >> 32) as usize % PARTS
}

impl NameTable {
    pub(crate) fn len(&self) -> usize {
        self.parts.iter().map(HashTable::len).sum()
    }

    /// The queue with this hash for which `is_it` holds.
    pub(crate) fn find(
        &self,
        hash: u64,
        mut is_it: impl FnMut(QueueId) -> bool,
    ) -> Option<QueueId> {
        self.parts[part(hash)].find(hash, |id| is_it(*id)).copied()
    }

    /// Adds a queue that is not there; `hash_of` tells the hashes of others.
    pub(crate) fn insert(&mut self, hash: u64, queue: QueueId, hash_of: impl Fn(QueueId) -> u64) {
        self.parts[part(hash)].insert_unique(hash, queue, |id| hash_of(*id));
    }

    pub(crate) fn remove(&mut self, hash: u64, queue: QueueId) {
        if let Ok(entry) = self.parts[part(hash)].find_entry(hash, |id| *id == queue) {
            entry.remove();
        }
    }
}
