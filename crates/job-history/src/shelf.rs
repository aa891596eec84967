//! A shelf: the entries of one queue, as rows in memory. A row has what a list needs to choose the
//! entry, and the place of the entry in the files.

use std::collections::VecDeque;
use std::sync::Arc;

use broker::{JobEnd, Millis};
use histogram::Histogram;

use crate::clock::signed;
use crate::entry::Entry;
use crate::files::Place;

/// An entry in memory.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Row {
    /// Later entries have higher numbers.
    pub(crate) number: u64,
    pub(crate) job: u64,
    pub(crate) place: Place,
    pub(crate) why: JobEnd,
    /// Whether the job moved to another queue.
    pub(crate) has_moved: bool,
    /// Whether an attempt is known. If not, the times of attempts have no meaning.
    was_taken: bool,
    /// When the job left, by the wall clock.
    pub(crate) left_at: u64,
    /// The same by the engine's time.
    left: i64,
    waited_ms: u32,
    ran_ms: u32,
    total_ms: u32,
}

/// Which entries of a queue a list shows.
#[derive(Copy, Clone, Debug, Default)]
pub struct WhichJobs {
    /// Those that left for this reason.
    pub why: Option<JobEnd>,
    /// Those before this place.
    pub before: Option<u64>,
}

/// Which rows must go, besides those that are more than the policy keeps. Only the oldest rows go.
#[derive(Copy, Clone, Debug)]
pub(crate) enum Going {
    /// No others.
    TooMany,
    /// Those that the policy does not keep any more at this time.
    Old(Millis),
    /// Those in this file or in an earlier one.
    UpToFile(u32),
}

/// How long the jobs of a queue waited, were leased and existed.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Times {
    /// How long those that were taken were ready before their attempts.
    pub waits_ms: Histogram,
    /// How long sessions had those that were taken.
    pub runs_ms: Histogram,
    /// How long they existed.
    pub totals_ms: Histogram,
}

impl Times {
    /// Adds the times of a job. `attempts` are how long it was ready before its attempts, and how long
    /// sessions had it. `None`: no attempt is known.
    pub(crate) fn add(&mut self, attempts: Option<(u64, u64)>, total_ms: u64) {
        if let Some((waited_ms, ran_ms)) = attempts {
            self.waits_ms.add(waited_ms);
            self.runs_ms.add(ran_ms);
        }
        self.totals_ms.add(total_ms);
    }
}

/// The entries of one queue, oldest first.
#[derive(Debug)]
pub(crate) struct Shelf {
    /// The name of the queue.
    pub(crate) queue: Arc<[u8]>,
    rows: VecDeque<Row>,
    /// What the policy said when the last job left.
    keep_ms: u64,
    rows_max: u64,
}

/// A page of a list ends after this many bytes in the files: entries can have long bodies.
const PAGE_BYTES: u64 = 8 << 20;
/// The memory of a row.
pub(crate) const ROW_BYTES: u64 = size_of::<Row>() as u64;
/// The memory of a shelf without its rows and its name.
pub(crate) const SHELF_BYTES: u64 = size_of::<Shelf>() as u64 + 128;
/// The times of a queue are those of its last entries, at most this many: a request must not take longer.
const TIMED_ROWS_MAX: usize = 100_000;

impl Row {
    /// `left` is when the job left, by the engine's time.
    pub(crate) fn new(number: u64, entry: &Entry, left: i64, place: Place) -> Row {
        let short = |millis: u64| u32::try_from(millis).unwrap_or(u32::MAX);
        Row {
            number,
            job: entry.job,
            place,
            why: entry.why,
            has_moved: entry.to.is_some(),
            was_taken: !entry.attempts.is_empty(),
            left_at: entry.left_at,
            left,
            waited_ms: short(entry.waited_ms().unwrap_or(0)),
            ran_ms: short(entry.ran_ms().unwrap_or(0)),
            total_ms: short(entry.total_ms()),
        }
    }
}

impl Shelf {
    pub(crate) fn new(queue: Arc<[u8]>) -> Shelf {
        Shelf { queue, rows: VecDeque::new(), keep_ms: 0, rows_max: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The memory of the rows.
    pub(crate) fn bytes(&self) -> u64 {
        self.rows.capacity() as u64 * ROW_BYTES
    }

    /// Adds a row, and what the policy says by now.
    pub(crate) fn add(&mut self, row: Row, keep_ms: u64, rows_max: u64) {
        self.rows.push_back(row);
        (self.keep_ms, self.rows_max) = (keep_ms, rows_max);
    }

    /// Whether the policy keeps a row at this time.
    fn keeps(&self, row: &Row, now: Millis) -> bool {
        row.left.saturating_add_unsigned(self.keep_ms) >= signed(now)
    }

    /// The place of the first row that the policy keeps at this time. Those before it go soon.
    fn first_kept(&self, now: Millis) -> usize {
        self.rows.partition_point(|row| !self.keeps(row, now))
    }

    /// The number of rows that the policy keeps at this time.
    pub(crate) fn kept(&self, now: Millis) -> usize {
        self.rows.len() - self.first_kept(now)
    }

    /// The row with this number, if the policy keeps it at this time.
    pub(crate) fn row(&self, number: u64, now: Millis) -> Option<&Row> {
        let at = self.rows.binary_search_by_key(&number, |row| row.number).ok()?;
        self.rows.get(at).filter(|row| self.keeps(row, now))
    }

    /// Whether the oldest row must go.
    pub(crate) fn has(&self, going: Going) -> bool {
        self.rows.front().is_some_and(|row| {
            let must_go = match going {
                Going::TooMany => false,
                Going::Old(now) => !self.keeps(row, now),
                Going::UpToFile(file) => row.place.file <= file,
            };
            must_go || self.rows.len() as u64 > self.rows_max
        })
    }

    /// Removes the oldest row if it must go.
    pub(crate) fn pop(&mut self, going: Going) -> Option<Row> {
        if !self.has(going) {
            return None;
        }
        let row = self.rows.pop_front();
        if self.rows.len() < self.rows.capacity() / 4 {
            self.rows.shrink_to(self.rows.len() * 2);
        }
        row
    }

    /// Up to `max` rows, newest first, that a list shows at this time. Looks at no more than `looks_max`
    /// rows, and stops after [`PAGE_BYTES`]. Also returns the place where the list continues, if it has
    /// more.
    pub(crate) fn page(
        &self,
        which: WhichJobs,
        (max, looks_max): (usize, usize),
        now: Millis,
    ) -> (Vec<Row>, Option<u64>) {
        let first = self.first_kept(now);
        let end = match which.before {
            Some(before) => self.rows.partition_point(|row| row.number < before).max(first),
            None => self.rows.len(),
        };
        let (mut rows, mut bytes) = (Vec::new(), 0);
        for (looks, row) in self.rows.range(first..end).rev().enumerate() {
            if rows.len() == max || looks == looks_max || bytes >= PAGE_BYTES {
                return (rows, Some(row.number + 1));
            }
            if which.why.is_none_or(|why| why == row.why) {
                bytes += u64::from(row.place.len);
                rows.push(*row);
            }
        }
        (rows, None)
    }

    /// How long the last jobs waited, were leased and existed.
    pub(crate) fn times(&self, now: Millis) -> Times {
        let mut times = Times::default();
        let kept = self.rows.range(self.first_kept(now)..);
        for row in kept.rev().take(TIMED_ROWS_MAX) {
            let attempts = (row.waited_ms.into(), row.ran_ms.into());
            times.add(row.was_taken.then_some(attempts), row.total_ms.into());
        }
        times
    }
}
