//! Listings by cursor: all queues by age, submitted jobs by place, queues of items by name.
//!
//! A cursor is a place in an index that keeps its order. Each step finds the next entry behind it, so
//! a listing can stop after any row, for as long as it likes, and holds nothing in memory. What exists
//! during the whole listing appears exactly once; what comes or goes meanwhile may appear or not.

use std::ops::Bound::{Excluded, Unbounded};

use crate::engine::Engine;
use crate::ids::{JobSlot, QueueId};
use crate::limits::ALIKE_MAX;

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
        let (&age_rank, &queue) = self.by_age.range(cursor.next_age_rank..).next()?;
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
        let behind = (
            if cursor.has_begun { Excluded(&cursor.name[..]) } else { Unbounded },
            Unbounded::<&[u8]>,
        );
        let queue = self.special.item_queues.range::<[u8], _>(behind).next().map(|(name, _)| name);
        let alias = self.special.aliases.range::<[u8], _>(behind).next().map(|(name, _)| name);
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
        let folded = name.to_ascii_lowercase();
        let hash = self.hash.of(&folded);
        let cased = self.cased.range((hash, 0)..=(hash, u64::MAX)).take(ALIKE_MAX);
        let cased = cased.map(|(_, queue)| *queue).chain(self.queue_id(&folded));
        let mut alike: Vec<QueueId> =
            cased.filter(|queue| self.queue(*queue).name.eq_ignore_ascii_case(name)).collect();
        alike.sort_unstable_by_key(|queue| self.queue(*queue).age_rank);
        self.meter.count(alike.len() + 1);
        alike
    }

    /// The place of a queue among those that [`Engine::queues_alike`] looks at. Names without capital
    /// letters have none: they are found under their own hash.
    pub(crate) fn cased_place(&self, name: &[u8], age_rank: u64) -> Option<(u64, u64)> {
        let is_cased = name.iter().any(u8::is_ascii_uppercase);
        is_cased.then(|| (self.hash.of(&name.to_ascii_lowercase()), age_rank))
    }
}
