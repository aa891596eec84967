//! The changes that must survive a crash, in order, and the prefixes that a restart can recover.
//!
//! The log promises that a prefix of all appended changes survives a crash. This prefix must
//! contain every change that a client got a reply about. So the history stores the jobs at the
//! start of the current process, and every change since then. The recovered jobs must be the result
//! of some prefix with at least `required` changes.
//!
//! The log appends the counters of takes, timeouts and lost leases up to a second later than the
//! counted events. So after a crash, the recovered counters can be older than the recovered jobs,
//! by a second and by less than one group.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::rc::Rc;

use broker::ClaimKey;

use super::log_contents::{Counts, LogContents, Start, StoredJob, StoredJobs, StoredState};
use super::record::{Record, Subject};
use super::{Name, Need, Tags};

/// Counters are in a group that is written at most this much later than the counted event.
const COUNTS_LATE_MS: u64 = 1000;

/// A group of the log.
#[derive(Copy, Clone, Debug, PartialEq)]
struct Group {
    /// The number of records when the group was written. The disk had all of them then.
    end: Need,
    at_ms: u64,
}

#[derive(Debug, Default)]
pub(crate) struct History {
    base: LogContents,
    records: Vec<Record>,
    /// For each record, whether the log syncs it before a reply about it is sent.
    strict: Vec<bool>,
    groups: Vec<Group>,
    /// The number of records that certainly survive.
    required: Need,
    /// The number of records whose group certainly survives as a whole.
    written: Need,
    /// The number of records that certainly survive together with their counters of takes and
    /// timeouts.
    counted: Need,
    /// The last record that the next group certainly contains.
    newest: Need,
    /// The records that the model added at the start of the process. They say that a rule makes a queue
    /// a child, or that an idle queue has ended. The process writes such a record only if the log does
    /// not contain the record yet. The model cannot see which records the process wrote.
    of_start: BTreeSet<Need>,
    /// True if the disk was full. Groups that were written later may lack counters of takes and
    /// timeouts.
    pub(crate) counts_may_be_missing: bool,
    ends: BTreeMap<u64, Need>,
    queues: BTreeMap<Name, Need>,
    /// For each key, the record of the last end of a job with this key.
    keys: BTreeMap<Rc<[u8]>, Need>,
}

impl History {
    /// Records a change. `is_strict` is true if the log syncs the change before a reply about it is
    /// sent.
    pub(super) fn note(&mut self, record: Record, is_strict: bool) -> Need {
        let need = self.records.len() + 1;
        if let Record::Finish(id) = &record {
            self.ends.insert(*id, need);
        }
        self.records.push(record);
        self.strict.push(is_strict);
        if self.is_certain(need - 1) {
            self.newest = need;
        }
        need
    }

    /// Records a change that the process makes at its start, if the log does not have it yet.
    pub(super) fn note_of_start(&mut self, record: Record, is_strict: bool) -> Need {
        self.of_start.insert(self.records.len() + 1);
        self.note(record, is_strict)
    }

    fn is_certain(&self, index: usize) -> bool {
        match &self.records[index] {
            _ if self.of_start.contains(&(index + 1)) => false,
            Record::PutMany(images) => !images.is_empty(),
            Record::Put(..) | Record::Update(..) | Record::Finish(_) => true,
            // No client requested these changes, so the broker cannot refuse them. If the log is
            // full, it omits these changes instead.
            Record::Moved(..)
            | Record::Queue(..)
            | Record::Policies(_)
            | Record::Status(_)
            | Record::Claim(..) => !self.counts_may_be_missing,
            Record::Count(..) => false,
        }
    }

    /// The last change that the next group certainly contains.
    pub(crate) fn newest(&self) -> Need {
        self.newest
    }

    /// Records the end of a job that has a key.
    pub(super) fn note_key(&mut self, tags: Option<&Tags>, need: Need) {
        if let Some(tags) = tags {
            self.keys.insert(tags.unique.clone(), need);
        }
    }

    /// The record that the reply "no job has this key" depends on.
    pub(super) fn key_need(&self, unique: &[u8]) -> Need {
        self.keys.get(unique).copied().unwrap_or(0)
    }

    /// The last record about a queue.
    pub(super) fn facts_need(&self, name: &Name) -> Need {
        let about = |record: &Record| matches!(record, Record::Queue(queue, _) if queue == name);
        self.records.iter().rposition(about).map_or(0, |index| index + 1)
    }

    /// Adds the tags to the record of a job. The record was made without tags.
    pub(super) fn amend(&mut self, need: Need, id: u64, image: &StoredJob) {
        if let Some(Record::PutMany(images)) = need.checked_sub(1).map(|at| &mut self.records[at])
            && let Some((_, noted)) = images.iter_mut().find(|(noted, _)| *noted == id)
        {
            noted.tags.clone_from(&image.tags);
        }
    }

    /// Removes the changes after `before` of jobs that have ended since. The server made them in one
    /// slice, so the log has only the ends.
    pub(super) fn unwrite_changes_of_ended(&mut self, before: Need) {
        let mut ended = BTreeSet::new();
        for record in self.records[before..].iter_mut().rev() {
            match record {
                Record::Finish(id) => {
                    ended.insert(*id);
                }
                Record::Update(id, _) | Record::Moved(id, _) if ended.contains(id) => {
                    *record = Record::PutMany(Vec::new());
                }
                _ => {}
            }
        }
    }

    /// Removes the records of a job that one request put and ended. The log contains nothing about
    /// such a job.
    pub(super) fn unwrite(&mut self, id: u64, need: Need) {
        let Some(put) = need.checked_sub(1) else { return };
        for record in &mut self.records[put..] {
            match record {
                Record::PutMany(images) => images.retain(|(put, _)| *put != id),
                Record::Finish(ended) if *ended == id => *record = Record::PutMany(Vec::new()),
                _ => {}
            }
        }
        self.ends.remove(&id);
        let nothing: BTreeSet<Need> =
            (need..=self.records.len()).filter(|need| !self.is_something(*need)).collect();
        self.queues.retain(|_, need| !nothing.contains(need));
        self.keys.retain(|_, need| !nothing.contains(need));
        let last = (0..self.records.len()).rev().find(|index| self.is_certain(*index));
        self.newest = last.map_or(0, |index| index + 1);
    }

    /// True if the log contains an entry for this record.
    pub(super) fn is_something(&self, need: Need) -> bool {
        let record = need.checked_sub(1).map(|index| &self.records[index]);
        record.is_some_and(|record| !matches!(record, Record::PutMany(images) if images.is_empty()))
    }

    /// Changes this order number in the records of a job.
    pub(super) fn reorder(&mut self, id: u64, noted: u64, order: u64) {
        for record in &mut self.records {
            if let Record::Put(of, image) | Record::Update(of, image) | Record::Moved(of, image) =
                record
                && *of == id
                && image.order == noted
            {
                image.order = order;
            }
        }
    }

    /// Changes this order number among the buried jobs in the records of a job.
    pub(super) fn rebury(&mut self, id: u64, noted: u64, order: u64) {
        let noted = StoredState::Buried { order: noted };
        for record in &mut self.records {
            if let Record::Put(of, image) | Record::Update(of, image) | Record::Moved(of, image) =
                record
                && *of == id
                && image.state == noted
            {
                image.state = StoredState::Buried { order };
            }
        }
    }

    /// The last record about the claim on a key.
    pub(super) fn claim_need(&self, key: ClaimKey) -> Need {
        let about = |record: &Record| matches!(record, Record::Claim(of, _) if *of == key);
        self.records.iter().rposition(about).map_or(0, |index| index + 1)
    }

    /// The last record about the status.
    pub(super) fn status_need(&self) -> Need {
        let about = |record: &Record| matches!(record, Record::Status(_));
        self.records.iter().rposition(about).map_or(0, |index| index + 1)
    }

    /// The last record after `before`, except records of counters.
    pub(super) fn certain_since(&self, before: Need) -> Need {
        let lasts = |record: &Record| !matches!(record, Record::Count(..));
        let last = self.records[before..].iter().rposition(lasts);
        last.map_or(0, |index| before + index + 1)
    }

    /// The last end of a job after `before`.
    pub(super) fn end_since(&self, before: Need) -> Need {
        let ends = |record: &Record| matches!(record, Record::Finish(_));
        let last = self.records[before..].iter().rposition(ends);
        last.map_or(0, |index| before + index + 1)
    }

    pub(super) fn note_jobs_of(&mut self, queue: &Name, need: Need) {
        self.queues.insert(queue.clone(), need);
    }

    pub(super) fn jobs_need(&self, queue: &Name) -> Need {
        self.queues.get(queue).copied().unwrap_or(0)
    }

    pub(super) fn end_of(&self, id: u64) -> Need {
        self.ends.get(&id).copied().unwrap_or(0)
    }

    /// True if a reply that depends on this record can be sent only after a sync.
    pub(crate) fn is_strict(&self, need: Need) -> bool {
        need.checked_sub(1).is_some_and(|index| self.strict[index])
    }

    /// True if one of the records after `first`, up to `last`, must be synced before a reply about
    /// it is sent.
    pub(crate) fn is_strict_between(&self, first: Need, last: Need) -> bool {
        let is_new = |need: &Need| !self.of_start.contains(need) && self.is_something(*need);
        (first + 1..=last).filter(is_new).any(|need| self.is_strict(need))
    }

    /// The number of changes so far.
    pub(crate) fn len(&self) -> Need {
        self.records.len()
    }

    pub(crate) fn required(&self) -> Need {
        self.required
    }

    /// The ids of all jobs of this process, including ended jobs.
    pub(crate) fn ids(&self) -> BTreeSet<u64> {
        let base = self.base.jobs.keys().copied();
        base.chain(self.records.iter().flat_map(Record::ids)).collect()
    }

    /// Records that the changes up to `required` must survive, because they are durable, or because
    /// a client got a reply that depends on them. The groups up to `written` must survive as a
    /// whole.
    pub(crate) fn require(&mut self, required: Need, written: Need) {
        assert!(required.max(written) <= self.records.len(), "it happened");
        self.required = self.required.max(required);
        self.written = self.written.max(written);
    }

    /// Records that all changes and all counters so far must survive.
    pub(crate) fn require_all(&mut self) {
        self.require(self.records.len(), self.records.len());
        self.counted = self.records.len();
    }

    /// Notes that all changes so far are written.
    pub(crate) fn end_group(&mut self, at_ms: u64) {
        let group = Group { end: self.records.len(), at_ms };
        if self.groups.last() != Some(&group) {
            self.groups.push(group);
        }
    }

    /// The number of records whose counters are certainly in the groups up to the time `at_ms`.
    fn counted_at(&self, at_ms: u64) -> Need {
        let is_old = |group: &&Group| group.at_ms + COUNTS_LATE_MS <= at_ms;
        self.groups.iter().rfind(is_old).map_or(0, |group| group.end)
    }

    /// Finds the shortest prefix that explains the recovered state `found`. Calls `judge` for each
    /// prefix whose result agrees with `found`, until `judge` accepts a prefix. Returns an error if
    /// no prefix fits. The new process assigned all order numbers from `next_id` on.
    pub(super) fn find<T>(
        &self,
        found: &LogContents,
        now: u64,
        next_id: u64,
        mut judge: impl FnMut(Need, &LogContents) -> Result<T, String>,
    ) -> Result<T, String> {
        let mut log_contents = self.base.clone();
        for record in &self.records[..self.required] {
            log_contents.apply(record);
        }
        let start = Start { now, next_id, is_short: self.counts_may_be_missing };
        let differs = |log_contents: &LogContents, subject: &Subject| {
            !log_contents.agrees(found, subject, start)
        };
        let all_that_differs = |log_contents: &LogContents| -> BTreeSet<Subject> {
            let subjects = log_contents.subjects().chain(found.subjects());
            subjects.filter(|subject| differs(log_contents, subject)).collect()
        };
        let mut wrong = all_that_differs(&log_contents);
        let mut nearest = (wrong.len(), self.required, wrong.clone());
        let mut last_problem = None;
        for end in self.required..=self.records.len() {
            if end > self.required {
                let record = &self.records[end - 1];
                log_contents.apply(record);
                // Policies decide whether a job has expired, so compare every subject again.
                if matches!(record, Record::Policies(_) | Record::Queue(..)) {
                    wrong = all_that_differs(&log_contents);
                }
                for subject in record.subjects() {
                    if differs(&log_contents, &subject) {
                        wrong.insert(subject);
                    } else {
                        wrong.remove(&subject);
                    }
                }
                // If the job of this record has expired, the server may have dropped a queue that
                // existed only because of the job.
                wrong.retain(|subject| {
                    !matches!(subject, Subject::Queue(_)) || differs(&log_contents, subject)
                });
            }
            if wrong.is_empty() {
                let counts = self.check_counts(&found.jobs, end);
                match counts.and_then(|()| judge(end, &log_contents)) {
                    Ok(judged) => return Ok(judged),
                    Err(problem) => last_problem = Some(problem),
                }
            } else if wrong.len() < nearest.0 {
                nearest = (wrong.len(), end, wrong.clone());
            }
        }
        let (_, end, wrong) = nearest;
        Err(last_problem.unwrap_or_else(|| self.describe(found, end, &wrong)))
    }

    /// Checks the counters of takes, timeouts and lost leases of the recovered jobs. The lower
    /// bound is their value a second before the last complete group in the prefix. The upper bound
    /// is their value at the end of the group in which the prefix ends.
    fn check_counts(&self, found: &StoredJobs, end: Need) -> Result<(), String> {
        // Counters are the last part of a group. They can be in a later segment than the other
        // entries of the group. A crash can lose the later segment, and keep the earlier one. So
        // the last group of the prefix can lack its counters.
        let before = self.groups.iter().take_while(|group| group.end < end).last();
        let written = self.groups.iter().find(|group| group.end >= self.written);
        let complete = [before, written.filter(|_| self.written > 0)].into_iter().flatten();
        let counted = complete.map(|group| self.counted_at(group.at_ms)).max();
        let low = self.images_at(counted.unwrap_or(0).max(self.counted));
        let high = self.newest_counts(end);
        for (id, found) in found {
            let high = high.get(id).copied().unwrap_or(found.counts);
            let low = low.get(id).map_or(Counts::default(), |image| image.counts);
            let lazy = found.counts.lazy();
            let is_above = |counts: Counts| lazy.iter().zip(counts.lazy()).any(|(a, b)| *a > b);
            let is_below = |counts: Counts| lazy.iter().zip(counts.lazy()).any(|(a, b)| *a < b);
            if is_above(high) || (is_below(low) && !self.counts_may_be_missing) {
                return Err(format!(
                    "job {id} was recovered with {lazy:?} reserves, timeouts and losses after \
                     record {end}, but the groups around it say {low:?} to {high:?}"
                ));
            }
        }
        Ok(())
    }

    fn images_at(&self, end: Need) -> StoredJobs {
        let mut log_contents = self.base.clone();
        for record in &self.records[..end] {
            log_contents.apply(record);
            if let Record::Count(id, counts) = record
                && let Some(image) = log_contents.jobs.get_mut(id)
            {
                image.counts = *counts;
            }
        }
        log_contents.jobs
    }

    /// The newest counters that the log can have, if a prefix of this length survived.
    pub(super) fn newest_counts(&self, end: Need) -> BTreeMap<u64, Counts> {
        let after = self.groups.iter().find(|group| group.end >= end);
        self.counts_at(after.map_or(self.records.len(), |group| group.end))
    }

    /// The newest counts of every job that existed at any time before `end`.
    fn counts_at(&self, end: Need) -> BTreeMap<u64, Counts> {
        let mut counts: BTreeMap<_, _> =
            self.base.jobs.iter().map(|(id, image)| (*id, image.counts)).collect();
        for record in &self.records[..end] {
            match record {
                Record::Put(id, image) | Record::Update(id, image) | Record::Moved(id, image) => {
                    counts.insert(*id, image.counts);
                }
                Record::PutMany(images) => {
                    counts.extend(images.iter().map(|(id, image)| (*id, image.counts)));
                }
                Record::Count(id, newest) => {
                    counts.insert(*id, *newest);
                }
                Record::Finish(_)
                | Record::Queue(..)
                | Record::Policies(_)
                | Record::Status(_)
                | Record::Claim(..) => {}
            }
        }
        counts
    }

    /// The jobs that this process has handed out.
    pub(super) fn leased(&self) -> BTreeSet<u64> {
        let reserves = |id| self.base.jobs.get(id).map_or(0, |image| image.counts.reserves);
        let newest = self.counts_at(self.records.len());
        newest.iter().filter(|(id, it)| it.reserves > reserves(id)).map(|(id, _)| *id).collect()
    }

    fn describe(&self, found: &LogContents, end: Need, wrong: &BTreeSet<Subject>) -> String {
        let mut log_contents = self.base.clone();
        self.records[..end].iter().for_each(|record| log_contents.apply(record));
        let mut text = format!(
            "what was recovered is no prefix of what happened: {} records were required, {} \
             happened, the nearest prefix is {end}",
            self.required,
            self.records.len()
        );
        for subject in wrong.iter().take(5) {
            let (expected, found) = (log_contents.short_text(subject), found.short_text(subject));
            write!(text, "\n  {subject:?}: expected {expected}\n    found {found}")
                .expect("strings take all");
            let about = |record: &Record| record.subjects().contains(subject);
            for (index, record) in self.records.iter().enumerate().filter(|(_, r)| about(r)) {
                write!(text, "\n    record {}: {}", index + 1, record.short_text())
                    .expect("strings take all");
            }
        }
        text
    }

    /// Notes that all records so far are from the start of the process.
    pub(super) fn end_start(&mut self) {
        self.of_start = (1..=self.records.len()).collect();
        self.newest = 0;
    }

    /// True if the log may have contained this record before the process began.
    pub(crate) fn is_of_start(&self, need: Need) -> bool {
        need == 0 || self.of_start.contains(&need)
    }

    /// Begins a new process with this state.
    pub(crate) fn restart(&mut self, base: LogContents) {
        *self = Self { base, ..Self::default() };
    }
}
