//! The outcomes of submitted jobs that have ended, as long as the policy `result.keep` says. They are
//! only in memory: a client that comes back soon can still ask.
//!
//! The memory is bounded, and the outcomes that would end first make room. If a few of them are not room
//! enough, the new outcome is not kept: a request must not remove many. Everything else leaves the memory
//! in slices, by a timer: outcomes whose time is over, those beyond a lower bound, and all of them if no
//! policy keeps outcomes any more.

use std::collections::{BTreeMap, BTreeSet};

use crate::effects::News;
use crate::ids::{JobId, Millis};
use crate::limits::{RESULT_BYTES_MAX, RESULT_ENDS_MAX, RESULTS_BYTES_MAX};
use crate::timers::{TimerKey, Timers};

/// The memory of an outcome without its texts.
const RESULT_BYTES: usize = 300;

/// The outcome of a job that has ended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct KeptResult {
    /// From this moment on, it is gone.
    pub until: Millis,
    /// The last progress that the worker reported: the part that is done.
    pub numerator: u32,
    /// The last progress that the worker reported: the whole work.
    pub denominator: u32,
    /// The last news of the job.
    pub news: News,
    /// The key of the job. Empty: it has none.
    pub unique: Box<[u8]>,
}

impl KeptResult {
    /// The length of the result.
    fn len(&self) -> usize {
        match &self.news {
            News::Data(bytes)
            | News::Warning(bytes)
            | News::Progress(bytes)
            | News::Complete(bytes)
            | News::Exception(bytes) => bytes.len(),
            News::Fail => 0,
        }
    }

    fn bytes(&self) -> usize {
        // The table of keys has the key, too.
        RESULT_BYTES + self.len() + 2 * self.unique.len()
    }
}

/// Outcomes and their indexes.
#[derive(Debug, Default)]
struct Table {
    results: BTreeMap<JobId, KeptResult>,
    ends: BTreeSet<(Millis, JobId)>,
    /// The last job with each key.
    keys: BTreeMap<Box<[u8]>, JobId>,
}

impl Table {
    fn first_end(&self) -> Option<Millis> {
        self.ends.first().map(|(until, _)| *until)
    }

    fn insert(&mut self, job: JobId, kept: KeptResult) {
        if !kept.unique.is_empty() {
            self.keys.insert(kept.unique.clone(), job);
        }
        self.ends.insert((kept.until, job));
        self.results.insert(job, kept);
    }

    /// Removes the outcome of a job. Returns its bytes.
    fn remove(&mut self, job: JobId) -> usize {
        let Some(kept) = self.results.remove(&job) else { return 0 };
        self.ends.remove(&(kept.until, job));
        if self.keys.get(&kept.unique) == Some(&job) {
            self.keys.remove(&kept.unique);
        }
        kept.bytes()
    }

    /// Removes the outcome that ends first. Returns its bytes. `None`: the table is empty.
    fn remove_first(&mut self) -> Option<usize> {
        let (_, first) = *self.ends.first()?;
        Some(self.remove(first))
    }
}

/// All outcomes: see the module.
#[derive(Debug)]
pub(crate) struct KeptResults {
    table: Table,
    /// Outcomes that no policy keeps any more. Nobody finds them. Each table has an outcome.
    dropped: Vec<Table>,
    /// The bytes of all tables.
    bytes: usize,
    bytes_max: usize,
    timer: Option<Millis>,
}

impl Default for KeptResults {
    fn default() -> Self {
        Self {
            table: Table::default(),
            dropped: Vec::new(),
            bytes: 0,
            bytes_max: RESULTS_BYTES_MAX,
            timer: None,
        }
    }
}

impl KeptResults {
    pub(crate) fn is_empty(&self) -> bool {
        self.table.results.is_empty() && self.dropped.is_empty()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    /// The outcome of a job, if it is kept at this moment.
    pub(crate) fn get(&self, job: JobId, now: Millis) -> Option<&KeptResult> {
        self.table.results.get(&job).filter(|kept| kept.until > now)
    }

    /// The outcome of the last job with a key. `None`: it is not kept, whatever is kept of earlier jobs.
    pub(crate) fn with_key(&self, unique: &[u8], now: Millis) -> Option<&KeptResult> {
        self.table.keys.get(unique).and_then(|job| self.get(*job, now))
    }

    /// A job with this key has ended. The outcome of another job must not pass for its outcome.
    pub(crate) fn ended(&mut self, unique: &[u8], job: JobId) {
        if self.table.keys.get(unique).is_some_and(|last| *last != job) {
            self.table.keys.remove(unique);
        }
    }

    /// Keeps the outcome of a job, if there is room. Returns the number of outcomes that made room.
    pub(crate) fn insert(
        &mut self,
        job: JobId,
        kept: KeptResult,
        now: Millis,
        timers: &mut Timers,
    ) -> usize {
        self.bytes -= self.table.remove(job);
        let bytes = kept.bytes();
        if kept.len() > RESULT_BYTES_MAX || bytes > self.bytes_max {
            return 0;
        }
        let mut removed = 0;
        while self.bytes + bytes > self.bytes_max {
            let first = if removed < RESULT_ENDS_MAX { self.table.remove_first() } else { None };
            let Some(first) = first else { return removed };
            self.bytes -= first;
            removed += 1;
        }
        self.bytes += bytes;
        self.table.insert(job, kept);
        self.arm(timers, now);
        removed
    }

    /// Sets the limit of the memory. If the outcomes take more, a timer removes those that end first.
    pub(crate) fn set_bytes_max(&mut self, bytes_max: usize, now: Millis, timers: &mut Timers) {
        self.bytes_max = bytes_max;
        self.arm(timers, now);
    }

    /// Drops all outcomes. They leave the memory by a timer.
    pub(crate) fn drop_all(&mut self, now: Millis, timers: &mut Timers) {
        if !self.table.results.is_empty() {
            self.dropped.push(std::mem::take(&mut self.table));
            self.arm(timers, now);
        }
    }

    /// Removes one outcome that must leave the memory by now. Returns false if there is none.
    pub(crate) fn remove_one(&mut self, now: Millis) -> bool {
        if let Some(last) = self.dropped.last_mut() {
            self.bytes -= last.remove_first().unwrap_or(0);
            if last.results.is_empty() {
                self.dropped.pop();
            }
            return true;
        }
        let has_ended = self.table.first_end().is_some_and(|until| until <= now);
        if !has_ended && self.bytes <= self.bytes_max {
            return false;
        }
        let first = self.table.remove_first();
        self.bytes -= first.unwrap_or(0);
        first.is_some()
    }

    /// The timer is due. The caller removes outcomes next, and then calls [`KeptResults::arm`].
    pub(crate) fn take_timer(&mut self) {
        self.timer = None;
    }

    /// Sets the timer to the next moment at which an outcome must leave the memory, from now on.
    pub(crate) fn arm(&mut self, timers: &mut Timers, now: Millis) {
        if let Some(moment) = self.next_moment(now) {
            timers.arm(&mut self.timer, moment, TimerKey::Results);
        }
    }

    fn next_moment(&self, now: Millis) -> Option<Millis> {
        let has_work = !self.dropped.is_empty() || self.bytes > self.bytes_max;
        if has_work { Some(now) } else { self.table.first_end() }
    }

    pub(crate) fn timer(&self) -> Option<Millis> {
        self.timer
    }

    pub(crate) fn check_invariants(&self) {
        let tables = || self.dropped.iter().chain([&self.table]);
        let bytes = tables().flat_map(|table| table.results.values()).map(KeptResult::bytes);
        assert_eq!(bytes.sum::<usize>(), self.bytes, "the bytes of the kept results");
        for table in tables() {
            let ends = table.results.iter().map(|(job, kept)| (kept.until, *job));
            assert!(ends.collect::<BTreeSet<_>>() == table.ends, "each result has its end");
        }
        for (key, job) in &self.table.keys {
            let kept = self.table.results.get(job);
            assert!(kept.is_some_and(|kept| kept.unique == *key), "a key has its result");
        }
        let next = self.next_moment(Millis(u64::MAX));
        let is_armed = next.is_none_or(|next| self.timer.is_some_and(|timer| timer <= next));
        assert!(is_armed, "the timer is not later than the first end");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(until: u64, unique: &[u8], bytes: usize) -> KeptResult {
        let news = News::Complete(vec![b'x'; bytes].into());
        KeptResult {
            until: Millis(until),
            numerator: 1,
            denominator: 2,
            news,
            unique: unique.into(),
        }
    }

    fn remove_due(results: &mut KeptResults, now: u64) -> usize {
        let removed = std::iter::from_fn(|| results.remove_one(Millis(now)).then_some(())).count();
        results.take_timer();
        results.arm(&mut Timers::default(), Millis(now));
        results.check_invariants();
        removed
    }

    #[test]
    fn an_outcome_is_gone_when_its_time_is_over() {
        let (mut results, mut timers) = (KeptResults::default(), Timers::default());
        results.insert(JobId(1), kept(10, b"key", 5), Millis(0), &mut timers);
        assert_eq!(timers.next(), Some(Millis(10)));
        assert!(results.get(JobId(1), Millis(9)).is_some());
        assert_eq!(results.with_key(b"key", Millis(9)).unwrap().denominator, 2);
        assert_eq!(results.get(JobId(1), Millis(10)), None);
        results.insert(JobId(2), kept(20, b"key", 5), Millis(0), &mut timers);
        results.insert(JobId(3), kept(20, b"", 5), Millis(0), &mut timers);
        results.insert(JobId(4), kept(40, b"", 0), Millis(0), &mut timers);
        assert!(results.with_key(b"key", Millis(12)).is_some(), "the last job with the key");
        assert_eq!(remove_due(&mut results, 12), 1);
        assert!(results.with_key(b"key", Millis(12)).is_some(), "the last job with the key");
        assert_eq!(remove_due(&mut results, 30), 2);
        assert_eq!(results.bytes(), RESULT_BYTES as u64);
        assert_eq!(results.timer(), Some(Millis(40)));
    }

    #[test]
    fn a_result_of_the_greatest_length_is_kept() {
        let (mut results, mut timers) = (KeptResults::default(), Timers::default());
        results.insert(JobId(1), kept(10, b"key", RESULT_BYTES_MAX), Millis(0), &mut timers);
        results.insert(JobId(2), kept(10, b"", RESULT_BYTES_MAX + 1), Millis(0), &mut timers);
        let is_kept = |job| results.get(JobId(job), Millis(0)).is_some();
        assert_eq!((is_kept(1), is_kept(2)), (true, false));
    }

    #[test]
    fn an_outcome_that_is_not_kept_hides_an_earlier_one_with_its_key() {
        let (mut results, mut timers) = (KeptResults::default(), Timers::default());
        results.insert(JobId(1), kept(10, b"key", 5), Millis(0), &mut timers);
        results.ended(b"key", JobId(1));
        assert!(results.with_key(b"key", Millis(0)).is_some());
        let too_long = kept(10, b"key", RESULT_BYTES_MAX + 1);
        results.insert(JobId(2), too_long, Millis(0), &mut timers);
        results.ended(b"key", JobId(2));
        assert_eq!(results.get(JobId(2), Millis(0)), None);
        assert_eq!(results.with_key(b"key", Millis(0)), None);
        assert!(results.get(JobId(1), Millis(0)).is_some());
        results.check_invariants();
    }

    #[test]
    fn a_long_outcome_does_not_displace_many() {
        let (mut results, mut timers) = (KeptResults::default(), Timers::default());
        results.set_bytes_max(1000 * RESULT_BYTES, Millis(0), &mut timers);
        for job in 0..1010 {
            results.insert(JobId(job), kept(1000, b"", 0), Millis(0), &mut timers);
        }
        assert_eq!(results.table.results.len(), 1000);
        let long = kept(9000, b"", 20 * RESULT_BYTES);
        assert_eq!(results.insert(JobId(2000), long, Millis(0), &mut timers), RESULT_ENDS_MAX);
        assert_eq!(results.get(JobId(2000), Millis(0)), None);
        assert_eq!(results.table.results.len(), 1000 - RESULT_ENDS_MAX);
        results.check_invariants();
    }

    #[test]
    fn the_memory_is_bounded() {
        let (mut results, mut timers) = (KeptResults::default(), Timers::default());
        let count = 3 * RESULTS_BYTES_MAX / (1 << 20);
        for job in 0..count as u64 {
            results.insert(JobId(job), kept(1000 + job, b"", 1 << 20), Millis(0), &mut timers);
            assert!(results.bytes <= RESULTS_BYTES_MAX);
        }
        assert_eq!(results.get(JobId(0), Millis(0)), None);
        assert!(results.get(JobId(count as u64 - 1), Millis(0)).is_some());
        results.set_bytes_max(10 << 20, Millis(5), &mut timers);
        assert_eq!(results.timer(), Some(Millis(5)));
        remove_due(&mut results, 5);
        assert!(results.bytes <= 10 << 20);
        assert!(results.get(JobId(count as u64 - 1), Millis(0)).is_some());
    }

    #[test]
    fn dropped_outcomes_leave_the_memory_one_by_one() {
        let (mut results, mut timers) = (KeptResults::default(), Timers::default());
        for job in 0..100 {
            results.insert(JobId(job), kept(1000, b"key", 0), Millis(0), &mut timers);
        }
        results.drop_all(Millis(5), &mut timers);
        assert_eq!((results.get(JobId(7), Millis(5)), timers.next()), (None, Some(Millis(5))));
        results.insert(JobId(100), kept(1000, b"key", 0), Millis(0), &mut timers);
        results.drop_all(Millis(5), &mut timers);
        results.insert(JobId(101), kept(1000, b"key", 0), Millis(0), &mut timers);
        assert_eq!(remove_due(&mut results, 5), 101);
        assert!(results.with_key(b"key", Millis(5)).is_some(), "it was kept after that");
        assert!(results.bytes() > 0);
        assert_eq!(remove_due(&mut results, 1000), 1);
        assert!(results.is_empty());
    }
}
