//! What has to outlive a crash: every change in its order, and which prefixes of it may be found
//! after a restart.
//!
//! The log's promise is that a prefix of all that was appended survives, and that it contains
//! everything a client was told. So the history keeps the jobs of the last start and every change
//! since; the recovered jobs must be those after some prefix that is at least `required` long.
//! A few counters (takes, timeouts, losses) are appended later than what they count: with the next
//! group that is written. So they may lag behind the prefix, but by less than one group.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::rc::Rc;

use super::estate::{Counts, Estate, Facts, Image, Images, brief};
use super::{Name, Need, Tags};

#[derive(Clone, Debug)]
pub(crate) enum Record {
    Put(u64, Image),
    Update(u64, Image),
    /// A job went behind the others.
    Moved(u64, Image),
    Finish(u64),
    /// Takes, timeouts and losses, appended at leisure.
    Count(u64, Counts),
    Queue(Name, Facts),
}

/// What a record is about.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Subject {
    Job(u64),
    Queue(Name),
}

#[derive(Debug, Default)]
pub(crate) struct History {
    base: Estate,
    records: Vec<Record>,
    /// The ends of groups: all records before them were handed to the disk together with the
    /// newest takes and timeouts.
    groups: Vec<Need>,
    /// What certainly survives.
    required: Need,
    /// What certainly survives with its takes and timeouts.
    counted: Need,
    /// The newest record that is certainly written with the next group.
    newest: Need,
    /// No group since then is known to hold all takes and timeouts: the disk was full.
    pub(crate) counts_may_be_missing: bool,
    ends: BTreeMap<u64, Need>,
    tubes: BTreeMap<Name, Need>,
    /// Ends by key.
    keys: BTreeMap<Rc<[u8]>, Need>,
}

impl History {
    pub(super) fn note(&mut self, record: Record) -> Need {
        let need = self.records.len() + 1;
        if let Record::Finish(id) = &record {
            self.ends.insert(*id, need);
        }
        let is_certain = match record {
            Record::Put(..) | Record::Update(..) | Record::Finish(_) => true,
            // Nobody asked for these, so nobody is refused them: a full log goes without.
            Record::Moved(..) | Record::Queue(..) => !self.counts_may_be_missing,
            Record::Count(..) => false,
        };
        if is_certain {
            self.newest = need;
        }
        self.records.push(record);
        need
    }

    /// The end of all that happened and is certainly written with the next group.
    pub(crate) fn newest(&self) -> Need {
        self.newest
    }

    /// A job that could be asked for by its key ended.
    pub(super) fn note_key(&mut self, tags: Option<&Tags>, need: Need) {
        if let Some(tags) = tags {
            self.keys.insert(tags.unique.clone(), need);
        }
    }

    /// What "no job has this key" rests on.
    pub(super) fn key_need(&self, unique: &[u8]) -> Need {
        self.keys.get(unique).copied().unwrap_or(0)
    }

    /// The last fact about a queue.
    pub(super) fn queue_need(&self, name: &Name) -> Need {
        let about = |record: &Record| matches!(record, Record::Queue(queue, _) if queue == name);
        self.records.iter().rposition(about).map_or(0, |index| index + 1)
    }

    pub(super) fn note_tube(&mut self, tube: &Name, need: Need) {
        self.tubes.insert(tube.clone(), need);
    }

    pub(super) fn tube_need(&self, tube: &Name) -> Need {
        self.tubes.get(tube).copied().unwrap_or(0)
    }

    pub(super) fn end_of(&self, id: u64) -> Need {
        self.ends.get(&id).copied().unwrap_or(0)
    }

    /// Changes so far.
    pub(crate) fn len(&self) -> Need {
        self.records.len()
    }

    pub(crate) fn required(&self) -> Need {
        self.required
    }

    /// Every job of this process, living or not.
    pub(crate) fn ids(&self) -> BTreeSet<u64> {
        let base = self.base.jobs.keys().copied();
        base.chain(self.records.iter().filter_map(Record::id)).collect()
    }

    /// A reply that rests on so much was told to somebody, or so much was made durable; takes and
    /// timeouts were made durable with so much.
    pub(crate) fn require(&mut self, required: Need, counted: Need) {
        assert!(required.max(counted) <= self.records.len(), "it happened");
        self.required = self.required.max(required);
        self.counted = self.counted.max(counted);
    }

    /// All that happened so far was handed to the disk.
    pub(crate) fn end_group(&mut self) {
        if self.groups.last() != Some(&self.records.len()) {
            self.groups.push(self.records.len());
        }
    }

    /// Finds a prefix that explains what was recovered at this moment, or says why there is none.
    pub(crate) fn explain(&self, found: &Estate, now: u64) -> Result<Need, String> {
        let mut estate = self.base.clone();
        for record in &self.records[..self.required] {
            estate.apply(record);
        }
        let differs =
            |estate: &Estate, subject: &Subject| self.differs(estate, found, subject, now);
        let subjects: BTreeSet<Subject> = estate.subjects().chain(found.subjects()).collect();
        let mut wrong: BTreeSet<Subject> =
            subjects.into_iter().filter(|subject| differs(&estate, subject)).collect();
        let mut nearest = (wrong.len(), self.required, wrong.clone());
        let mut counts_problem = None;
        for end in self.required..=self.records.len() {
            if end > self.required {
                let record = &self.records[end - 1];
                estate.apply(record);
                let subject = record.subject();
                if differs(&estate, &subject) {
                    wrong.insert(subject);
                } else {
                    wrong.remove(&subject);
                }
            }
            if wrong.is_empty() {
                match self.check_counts(&found.jobs, end) {
                    Ok(()) => return Ok(end),
                    Err(problem) => counts_problem = Some(problem),
                }
            } else if wrong.len() < nearest.0 {
                nearest = (wrong.len(), end, wrong.clone());
            }
        }
        if let Some(problem) = counts_problem {
            return Err(problem);
        }
        let (_, end, wrong) = nearest;
        Err(self.describe(found, end, &wrong))
    }

    fn differs(&self, estate: &Estate, found: &Estate, subject: &Subject, now: u64) -> bool {
        let is_short = self.counts_may_be_missing;
        match subject {
            Subject::Job(id) => match (estate.jobs.get(id), found.jobs.get(id)) {
                (None, None) => false,
                (Some(image), Some(found)) => !image.is_found_as(found, now, is_short),
                _ => true,
            },
            // On a full disk a queue is used without being kept.
            Subject::Queue(name) => !is_short && estate.queues.get(name) != found.queues.get(name),
        }
    }

    /// Takes, timeouts and losses of what was found must be those of the last group that the prefix
    /// goes beyond, or later, and not newer than the group that the prefix ends in.
    fn check_counts(&self, found: &Images, end: Need) -> Result<(), String> {
        // Counts are the last part of a group, and may lie in a segment of their own, which may be
        // lost by itself.
        let before = self.groups.iter().copied().take_while(|group| *group < end).last();
        let after = self.groups.iter().copied().find(|group| *group >= end);
        let low = self.images_at(before.unwrap_or(0).max(self.counted));
        let high = self.counts_at(after.unwrap_or(self.records.len()));
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

    fn images_at(&self, end: Need) -> Images {
        let mut estate = self.base.clone();
        for record in &self.records[..end] {
            estate.apply(record);
            if let Record::Count(id, counts) = record
                && let Some(image) = estate.jobs.get_mut(id)
            {
                image.counts = *counts;
            }
        }
        estate.jobs
    }

    /// The newest counts of every job that lived at some time before `end`.
    fn counts_at(&self, end: Need) -> BTreeMap<u64, Counts> {
        let mut counts: BTreeMap<_, _> =
            self.base.jobs.iter().map(|(id, image)| (*id, image.counts)).collect();
        for record in &self.records[..end] {
            match record {
                Record::Put(id, image) | Record::Update(id, image) | Record::Moved(id, image) => {
                    counts.insert(*id, image.counts);
                }
                Record::Count(id, newest) => {
                    counts.insert(*id, *newest);
                }
                Record::Finish(_) | Record::Queue(..) => {}
            }
        }
        counts
    }

    fn describe(&self, found: &Estate, end: Need, wrong: &BTreeSet<Subject>) -> String {
        let mut estate = self.base.clone();
        self.records[..end].iter().for_each(|record| estate.apply(record));
        let mut text = format!(
            "what was recovered is no prefix of what happened: {} records were required, {} \
             happened, the nearest prefix is {end}",
            self.required,
            self.records.len()
        );
        for subject in wrong.iter().take(5) {
            let (expected, found) = (estate.brief(subject), found.brief(subject));
            write!(text, "\n  {subject:?}: expected {expected}\n    found {found}")
                .expect("strings take all");
            let about = |record: &Record| record.subject() == *subject;
            for (index, record) in self.records.iter().enumerate().filter(|(_, r)| about(r)) {
                write!(text, "\n    record {}: {}", index + 1, record.brief())
                    .expect("strings take all");
            }
        }
        text
    }

    /// A new process begins with this.
    pub(crate) fn restart(&mut self, base: Estate) {
        *self = Self { base, ..Self::default() };
    }
}

impl Record {
    fn subject(&self) -> Subject {
        match self {
            Self::Put(id, _)
            | Self::Update(id, _)
            | Self::Moved(id, _)
            | Self::Finish(id)
            | Self::Count(id, _) => Subject::Job(*id),
            Self::Queue(name, _) => Subject::Queue(name.clone()),
        }
    }

    fn id(&self) -> Option<u64> {
        match self.subject() {
            Subject::Job(id) => Some(id),
            Subject::Queue(_) => None,
        }
    }

    fn brief(&self) -> String {
        match self {
            Self::Put(_, image) => format!("put {}", brief(Some(image))),
            Self::Update(_, image) => format!("update {}", brief(Some(image))),
            Self::Moved(_, image) => format!("moved {}", brief(Some(image))),
            Self::Finish(_) => "finish".into(),
            Self::Count(_, counts) => format!("count {counts:?}"),
            Self::Queue(_, facts) => format!("{facts:?}"),
        }
    }
}
