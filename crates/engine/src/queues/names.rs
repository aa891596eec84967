//! The table of queues by name. It stores only the numbers of queues; their names are in the
//! queues.
//!
//! A growing hash table is rebuilt. With a million names, that would delay all clients for a tenth
//! of a second. So the table consists of many small ones.

use hashbrown::HashTable;

use crate::ids::QueueId;

/// With a million queues, each of these tables has a few thousand.
const PARTS: usize = 256;

/// Only for look-ups: nothing iterates over it, because its order is arbitrary.
#[derive(Debug)]
pub(crate) struct NameTable {
    parts: Box<[HashTable<QueueId>]>,
}

impl Default for NameTable {
    fn default() -> Self {
        Self { parts: (0..PARTS).map(|_| HashTable::new()).collect() }
    }
}

/// Chooses a table by the middle bits, because the tables themselves use the lowest and highest
/// bits of a hash.
fn part(hash: u64) -> usize {
    (hash >> 32) as usize % PARTS
}

impl NameTable {
    pub(crate) fn len(&self) -> usize {
        self.parts.iter().map(HashTable::len).sum()
    }

    /// The queue with this hash for which `is_it` returns true.
    pub(crate) fn find(
        &self,
        hash: u64,
        mut is_it: impl FnMut(QueueId) -> bool,
    ) -> Option<QueueId> {
        self.parts[part(hash)].find(hash, |id| is_it(*id)).copied()
    }

    /// Adds a queue that the table does not have. `hash_of` gives the hashes of other queues.
    pub(crate) fn insert(&mut self, hash: u64, queue: QueueId, hash_of: impl Fn(QueueId) -> u64) {
        self.parts[part(hash)].insert_unique(hash, queue, |id| hash_of(*id));
    }

    pub(crate) fn remove(&mut self, hash: u64, queue: QueueId) {
        if let Ok(entry) = self.parts[part(hash)].find_entry(hash, |id| *id == queue) {
            entry.remove();
        }
    }
}
