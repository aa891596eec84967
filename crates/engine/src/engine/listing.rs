//! Listings by cursor: all queues by age, submitted jobs by place, queues of items by name, jobs of a
//! queue by their place in a list.
//!
//! A cursor is a place in an index whose order does not change. Each step finds the next entry
//! behind the cursor. So a listing can pause after any row for any time, and needs no memory for
//! other rows. An entry that exists during the whole listing appears exactly once. An entry that is
//! added or removed during the listing can appear or not.

use super::Engine;
use crate::ids::{BlockSlot, JobSlot, Millis, QueueId};
use crate::jobs::{JobList, State};
use crate::limits::UNIT_PATTERN_STEPS;
use crate::queues::ready_place;

/// A place in the order of all queues by age. The default is before the oldest queue.
#[derive(Copy, Clone, Debug, Default)]
pub struct QueueCursor {
    next_age_rank: u64,
}

/// A place in the table of submitted jobs. The default is before the first job.
#[derive(Copy, Clone, Debug, Default)]
pub struct JobCursor {
    next_slot: u32,
}

/// A place in the order of the queues of items and the aliases by name. The default is before the
/// first name.
#[derive(Clone, Debug, Default)]
pub struct NameCursor {
    /// The name of the last row. All rows use the same buffer, because one allocation per row would
    /// be expensive.
    name: Vec<u8>,
    has_begun: bool,
}

impl Engine {
    /// Returns the queue behind the cursor, and moves the cursor to this queue.
    pub fn next_queue(&mut self, cursor: &mut QueueCursor) -> Option<QueueId> {
        self.meter.count(1);
        let (age_rank, queue) = self.queues.next_by_age(cursor.next_age_rank)?;
        cursor.next_age_rank = age_rank + 1;
        Some(queue)
    }

    /// Returns the submitted job behind the cursor, and moves the cursor to this job.
    pub fn next_submitted(&mut self, cursor: &mut JobCursor) -> Option<JobSlot> {
        self.meter.count(1);
        let slot = self.jobs.submitted_from(JobSlot(cursor.next_slot)).next()?;
        // This cannot overflow, because every place is below `u32::MAX`.
        cursor.next_slot = slot.0 + 1;
        Some(slot)
    }

    /// Returns the next name behind the cursor, and moves the cursor to this name. It is the name
    /// of a queue of items or of an alias.
    pub fn next_item_queue<'c>(&mut self, cursor: &'c mut NameCursor) -> Option<&'c [u8]> {
        self.meter.count(1);
        let behind = cursor.has_begun.then_some(&cursor.name[..]);
        let queue = self.queues.items_behind(behind).next().map(|(name, _)| name);
        let alias = self.rules.aliases_behind(behind).next();
        // A name that is both a queue of items and an alias has one row.
        let next = [queue, alias].into_iter().flatten().min()?;
        cursor.has_begun = true;
        cursor.name.clear();
        cursor.name.extend_from_slice(next);
        Some(&cursor.name)
    }

    /// The first job in memory of this list at this place or behind it, and its place: see
    /// [`crate::BlockFacts::place`].
    pub fn job_from(&mut self, list: JobList, from: (u64, u64)) -> Option<((u64, u64), JobSlot)> {
        self.meter.count(1);
        let queue = self.queues.get(list.queue)?;
        let (place, slot) = match list.state {
            State::Ready => {
                let priority = u32::try_from(from.0).ok()?;
                let (key, slot) = queue.ready().first_from((priority, from.1))?;
                (ready_place(key), slot)
            }
            State::Delayed => {
                let ((due, id), slot) = queue.delayed().first_from((Millis(from.0), from.1))?;
                ((due.0, id), slot)
            }
            State::Buried => {
                let order = from.0.saturating_add(u64::from(from.1 > 0));
                let (order, slot) = queue.buried().first_from(order)?;
                ((order, 0), slot)
            }
            State::Leased => return None,
        };
        Some((place, JobSlot(slot)))
    }

    /// The first block of this list that begins at this place or behind it, and where it begins.
    pub fn block_from(
        &mut self,
        list: JobList,
        from: (u64, u64),
    ) -> Option<((u64, u64), BlockSlot)> {
        self.meter.count(1);
        if list.state == State::Leased {
            return None;
        }
        self.queues.get(list.queue)?.cold()?.list(list.state).first_from(from)
    }

    /// The queues whose names differ from this name at most in the case of ASCII letters, oldest
    /// first. If there are more such queues than [`crate::limits::ALIKE_MAX`] allows, the list has
    /// only some of them.
    pub fn queues_alike(&mut self, name: &[u8]) -> Vec<QueueId> {
        let name = self.real_name(name);
        let alike = self.queues.in_any_case(&name);
        // The letters of two names are compared as those of a pattern and a name.
        let units_per_name = 1 + name.len() / UNIT_PATTERN_STEPS;
        self.meter.count((alike.len() + 1) * units_per_name);
        alike
    }
}
