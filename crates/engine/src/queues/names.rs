//! The table of queues by name. It stores only the numbers of queues. Their names are in the table
//! of queues.
//!
//! A hash table is rebuilt when it grows. With a million names, the rebuild would delay all clients
//! for a tenth of a second. So this table consists of many small hash tables.

use hashbrown::HashTable;

use crate::ids::QueueId;

/// The number of small hash tables. With a million queues, each small table has a few thousand
/// entries.
const PARTS: usize = 256;

/// The table of queues by name, only for look-ups. No code iterates over it, because the order of a
/// hash table is arbitrary.
#[derive(Debug)]
pub(crate) struct NameTable {
    parts: Box<[HashTable<QueueId>]>,
}

impl Default for NameTable {
    fn default() -> Self {
        Self { parts: (0..PARTS).map(|_| HashTable::new()).collect() }
    }
}

/// The number of the small table for a hash. This function uses the middle bits of the hash,
/// because a hash table itself uses the lowest and the highest bits.
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

    /// Adds a queue that the table does not have yet. `hash_of` returns the hash of the name of any
    /// other queue. A small table needs these hashes when it grows.
    pub(crate) fn insert(&mut self, hash: u64, queue: QueueId, hash_of: impl Fn(QueueId) -> u64) {
        self.parts[part(hash)].insert_unique(hash, queue, |id| hash_of(*id));
    }

    pub(crate) fn remove(&mut self, hash: u64, queue: QueueId) {
        if let Ok(entry) = self.parts[part(hash)].find_entry(hash, |id| *id == queue) {
            entry.remove();
        }
    }
}
