//! Listings by cursor: all queues by age, submitted jobs by place, queues of items by name.
//!
//! A cursor is a place in an index that keeps its order. Each step finds the next entry behind it, so
//! a listing can stop after any row, for as long as it likes, and holds nothing in memory. What exists
//! during the whole listing appears exactly once; what comes or goes meanwhile may appear or not.

use super::Engine;
use crate::ids::{JobSlot, QueueId};

/// A place in the order of all queues by age. The default is before the oldest.
#[derive(Copy, Clone, Debug, Default)]
pub struct QueueCursor {
    next_age_rank: u64,
}

/// A place in the table of submitted jobs. The default is before the first.
#[derive(Copy, Clone, Debug, Default)]
pub struct JobCursor {
    next_slot: u32,
}

/// A place in the order of the queues of items and the aliases by name. The default is before the
/// first.
#[derive(Clone, Debug, Default)]
pub struct NameCursor {
    /// Of the last row; reused, because one allocation for each row would be dear.
    name: Vec<u8>,
    has_begun: bool,
}

impl Engine {
    /// The queue behind the cursor, which moves there.
    pub fn next_queue(&mut self, cursor: &mut QueueCursor) -> Option<QueueId> {
        self.meter.count(1);
        let (age_rank, queue) = self.queues.next_by_age(cursor.next_age_rank)?;
        cursor.next_age_rank = age_rank + 1;
        Some(queue)
    }

    /// The submitted job behind the cursor, which moves there.
    pub fn next_submitted(&mut self, cursor: &mut JobCursor) -> Option<JobSlot> {
        self.meter.count(1);
        let slot = self.jobs.submitted_from(JobSlot(cursor.next_slot)).next()?;
        // Places are below the highest number, which stands for none.
        cursor.next_slot = slot.0 + 1;
        Some(slot)
    }

    /// The name of the queue of items, or of the alias, behind the cursor, which moves there.
    pub fn next_item_queue<'c>(&mut self, cursor: &'c mut NameCursor) -> Option<&'c [u8]> {
        self.meter.count(1);
        let behind = cursor.has_begun.then_some(&cursor.name[..]);
        let queue = self.queues.items_behind(behind).next().map(|(name, _)| name);
        let alias = self.rules.aliases_behind(behind).next();
        // A name that is both has one row.
        let next = [queue, alias].into_iter().flatten().min()?;
        cursor.has_begun = true;
        cursor.name.clear();
        cursor.name.extend_from_slice(next);
        Some(&cursor.name)
    }

    /// Queues whose names differ from this one in the case of ASCII letters at most, oldest first. Of
    /// very many only some.
    pub fn queues_alike(&mut self, name: &[u8]) -> Vec<QueueId> {
        let alike = self.queues.alike(name);
        self.meter.count(alike.len() + 1);
        alike
    }
}
