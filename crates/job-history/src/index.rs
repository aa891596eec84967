//! The index of the entries, in memory: a shelf for each queue, and the entries of each job.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use broker::{JobId, Millis};

use crate::entry::Entry;
use crate::files::Place;
use crate::shelf::{Going, ROW_BYTES, Row, SHELF_BYTES, Shelf};

/// The memory of an entry in the map by jobs. The map is about half full.
const JOB_BYTES: u64 = 50;
/// A search looks at the last entries of a job, at most this many.
const ENTRIES_OF_JOB_MAX: usize = 1_000;

/// Which entry of a job is meant: the last one that is as these fields say.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct WhichEntry {
    /// The queue that the job left.
    pub queue: Option<Vec<u8>>,
    /// When it left, by the wall clock.
    pub left_at: Option<u64>,
}

/// The index.
#[derive(Debug, Default)]
pub(crate) struct Index {
    /// The number of the shelf of each queue.
    numbers: BTreeMap<Arc<[u8]>, u64>,
    shelves: BTreeMap<u64, Shelf>,
    /// The shelf of each entry, by the job and by the number of the entry.
    jobs: BTreeMap<(u64, u64), u64>,
    /// Rows of each file.
    rows_of: BTreeMap<u32, u64>,
    last_entry: u64,
    last_shelf: u64,
    /// The memory of the shelves, with their names.
    shelf_bytes: u64,
    /// The bytes of the names of the shelves.
    name_bytes: u64,
    /// The last file, and the memory that its entries added.
    newest: (u32, u64),
    /// The last shelf where [`Index::remove_old`] looked for old entries.
    looked_at: Option<u64>,
}

impl Index {
    /// The number of entries.
    pub(crate) fn len(&self) -> usize {
        self.jobs.len()
    }

    /// The memory of the index.
    pub(crate) fn bytes(&self) -> u64 {
        self.shelf_bytes + self.jobs.len() as u64 * JOB_BYTES
    }

    /// The memory of the index if its tables were full. Their capacity does not shrink with each entry
    /// that goes, so it must not decide how many go.
    pub(crate) fn full_bytes(&self) -> u64 {
        // A shelf has room for four rows from its first one on.
        let shelves = self.shelves.len() as u64 * (SHELF_BYTES + 3 * ROW_BYTES) + self.name_bytes;
        shelves + self.len() as u64 * (ROW_BYTES + JOB_BYTES)
    }

    /// The memory that the entries of the last file added.
    pub(crate) fn newest_bytes(&self) -> u64 {
        self.newest.1
    }

    /// Whether a file has entries.
    pub(crate) fn is_in(&self, file: u32) -> bool {
        self.rows_of.contains_key(&file)
    }

    /// The entries of a queue.
    pub(crate) fn shelf(&self, queue: &[u8]) -> Option<&Shelf> {
        self.shelves.get(self.numbers.get(queue)?)
    }

    /// An entry of a job, and the queue that the job left. `None`: there is none, or the policy does not
    /// keep it any more at this time.
    pub(crate) fn find(
        &self,
        job: JobId,
        which: &WhichEntry,
        now: Millis,
    ) -> Option<(&Row, &Arc<[u8]>)> {
        let entries = self.jobs.range((job.0, 0)..=(job.0, u64::MAX)).rev();
        entries.take(ENTRIES_OF_JOB_MAX).find_map(|((_, number), shelf)| {
            let shelf = self.shelves.get(shelf)?;
            let row = shelf.row(*number, now)?;
            let is_meant = which.queue.as_deref().is_none_or(|queue| *queue == *shelf.queue)
                && which.left_at.is_none_or(|left_at| left_at == row.left_at);
            is_meant.then_some((row, &shelf.queue))
        })
    }

    /// Adds an entry. `left` is when the job left, by the engine's time.
    pub(crate) fn add(&mut self, entry: &Entry, left: i64, place: Place) {
        let before = self.full_bytes();
        let number = self.shelf_for(&entry.queue);
        self.last_entry += 1;
        self.jobs.insert((entry.job, self.last_entry), number);
        *self.rows_of.entry(place.file).or_default() += 1;
        if self.newest.0 != place.file {
            self.newest = (place.file, 0);
        }
        self.newest.1 += self.full_bytes() - before;
        if let Some(shelf) = self.shelves.get_mut(&number) {
            let before = shelf.bytes();
            let row = Row::new(self.last_entry, entry, left, place);
            shelf.add(row, entry.keep_ms, entry.jobs_max);
            self.shelf_bytes = self.shelf_bytes + shelf.bytes() - before;
        }
        // Most queues that lose entries now get one now.
        self.trim(number, Going::TooMany);
    }

    /// The number of the shelf of a queue. Makes the shelf if it does not exist.
    fn shelf_for(&mut self, queue: &[u8]) -> u64 {
        if let Some(number) = self.numbers.get(queue) {
            return *number;
        }
        self.last_shelf += 1;
        let name: Arc<[u8]> = queue.into();
        self.numbers.insert(name.clone(), self.last_shelf);
        self.shelves.insert(self.last_shelf, Shelf::new(name));
        self.shelf_bytes += SHELF_BYTES + queue.len() as u64;
        self.name_bytes += queue.len() as u64;
        self.last_shelf
    }

    /// Removes the old rows of a queue.
    fn trim(&mut self, number: u64, going: Going) {
        let Some(shelf) = self.shelves.get_mut(&number) else { return };
        let before = shelf.bytes();
        while let Some(row) = shelf.pop(going) {
            self.jobs.remove(&(row.job, row.number));
            if let Some(rows) = self.rows_of.get_mut(&row.place.file) {
                *rows -= 1;
                if *rows == 0 {
                    self.rows_of.remove(&row.place.file);
                }
            }
        }
        self.shelf_bytes = self.shelf_bytes + shelf.bytes() - before;
        if shelf.is_empty()
            && let Some(Shelf { queue, .. }) = self.shelves.remove(&number)
        {
            self.numbers.remove(&queue);
            self.shelf_bytes -= SHELF_BYTES + queue.len() as u64;
            self.name_bytes -= queue.len() as u64;
        }
    }

    /// Removes old entries of up to `looks` queues.
    pub(crate) fn remove_old(&mut self, now: Millis, looks: usize) {
        let going = Going::Old(now);
        let from = self.looked_at.take().map_or(Bound::Unbounded, Bound::Excluded);
        let looked = self.shelves.range((from, Bound::Unbounded)).take(looks);
        let (mut old, mut count, mut last) = (Vec::new(), 0, None);
        for (number, shelf) in looked {
            (count, last) = (count + 1, Some(*number));
            if shelf.has(going) {
                old.push(*number);
            }
        }
        // At the end of all queues, the next look begins with the first one.
        self.looked_at = last.filter(|_| count == looks);
        for number in old {
            self.trim(number, going);
        }
    }

    /// Removes all entries in this file and in earlier ones.
    pub(crate) fn forget_file(&mut self, file: u32) {
        let going = Going::UpToFile(file);
        let in_file = self.shelves.iter().filter(|(_, shelf)| shelf.has(going));
        let numbers: Vec<u64> = in_file.map(|(number, _)| *number).collect();
        for number in numbers {
            self.trim(number, going);
        }
        self.rows_of.remove(&file);
    }
}
