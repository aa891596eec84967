//! What has to outlive a crash: every change in its order, and which prefixes of it may be found
//! after a restart.
//!
//! The log's promise is that a prefix of all that was appended survives, and that it contains
//! everything a client was told. So the history keeps the jobs of the last start and every change
//! since; the recovered jobs must be those after some prefix that is at least `required` long.
//! A few counters (takes and timeouts) are appended later than what they count: with the next
//! group that is written. So they may lag behind the prefix, but by less than one group.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::rc::Rc;

use super::{Job, Name, Need, State};

/// What a job's statistics count.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Counts {
    pub(crate) reserves: u32,
    pub(crate) timeouts: u32,
    pub(crate) releases: u32,
    pub(crate) buries: u32,
    pub(crate) kicks: u32,
}

/// The state that a job has after a restart.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) enum Shelf {
    Ready,
    Delayed { due: u64 },
    Buried { order: u64 },
}

/// A job as the log keeps it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Image {
    pub(crate) tube: Name,
    pub(crate) pri: u32,
    pub(crate) delay: u32,
    pub(crate) ttr: u32,
    pub(crate) created: u64,
    pub(crate) body: Rc<[u8]>,
    pub(crate) shelf: Shelf,
    pub(crate) counts: Counts,
}

impl Image {
    pub(crate) fn of(job: &Job) -> Self {
        Self {
            tube: job.tube.clone(),
            pri: job.pri,
            delay: job.delay,
            ttr: job.ttr,
            created: job.created,
            body: job.body.clone(),
            shelf: match job.state {
                State::Ready | State::Reserved { .. } => Shelf::Ready,
                State::Delayed { due } => Shelf::Delayed { due },
                State::Buried { order } => Shelf::Buried { order },
            },
            counts: job.counts,
        }
    }

    /// Whether a job that was found is this one, at a start at this moment. Lazy counters apart.
    fn is_found_as(&self, found: &Image, now: u64) -> bool {
        let shelf = match self.shelf {
            Shelf::Delayed { due } if due <= now => Shelf::Ready,
            shelf => shelf,
        };
        let strict = |counts: Counts| Counts { reserves: 0, timeouts: 0, ..counts };
        found.shelf == shelf
            && strict(found.counts) == strict(self.counts)
            && found.body == self.body
            && found.tube == self.tube
            && (found.pri, found.delay, found.ttr, found.created)
                == (self.pri, self.delay, self.ttr, self.created)
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Record {
    Put(u64, Image),
    Update(u64, Image),
    Finish(u64),
    /// Takes and timeouts, appended at leisure.
    Count(u64, Counts),
}

pub(crate) type Images = BTreeMap<u64, Image>;

#[derive(Debug, Default)]
pub(crate) struct History {
    base: Images,
    records: Vec<Record>,
    /// The ends of groups: all records before them were handed to the disk together with the
    /// newest takes and timeouts.
    groups: Vec<Need>,
    /// What certainly survives.
    required: Need,
    /// What certainly survives with its takes and timeouts.
    counted: Need,
    /// The newest record that is not a mere count.
    newest: Need,
    /// No group since then is known to hold all takes and timeouts: the disk was full.
    pub(crate) counts_may_be_missing: bool,
    ends: BTreeMap<u64, Need>,
    tubes: BTreeMap<Name, Need>,
}

impl History {
    pub(super) fn note(&mut self, record: Record) -> Need {
        let need = self.records.len() + 1;
        if let Record::Finish(id) = &record {
            self.ends.insert(*id, need);
        }
        if !matches!(record, Record::Count(..)) {
            self.newest = need;
        }
        self.records.push(record);
        need
    }

    /// The end of all that happened and is certainly written with the next group.
    pub(crate) fn newest(&self) -> Need {
        self.newest
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
        self.base.keys().copied().chain(self.records.iter().map(Record::id)).collect()
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
    pub(crate) fn explain(&self, found: &Images, now: u64) -> Result<Need, String> {
        let mut images = self.base.clone();
        for record in &self.records[..self.required] {
            apply(&mut images, record);
        }
        let differs = |images: &Images, id: u64| match (images.get(&id), found.get(&id)) {
            (None, None) => false,
            (Some(image), Some(found)) => !image.is_found_as(found, now),
            _ => true,
        };
        let ids: BTreeSet<u64> = images.keys().chain(found.keys()).copied().collect();
        let mut wrong: BTreeSet<u64> = ids.into_iter().filter(|id| differs(&images, *id)).collect();
        let mut nearest = (wrong.len(), self.required, wrong.clone());
        let mut counts_problem = None;
        for end in self.required..=self.records.len() {
            if end > self.required {
                let record = &self.records[end - 1];
                apply(&mut images, record);
                let id = record.id();
                if differs(&images, id) {
                    wrong.insert(id)
                } else {
                    wrong.remove(&id)
                };
            }
            if wrong.is_empty() {
                match self.check_counts(found, end) {
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

    /// Takes and timeouts of what was found must be those of the last group that the prefix goes
    /// beyond, or later, and not newer than the group that the prefix ends in.
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
            let (reserves, timeouts) = (found.counts.reserves, found.counts.timeouts);
            let too_new = reserves > high.reserves || timeouts > high.timeouts;
            let too_old = reserves < low.reserves || timeouts < low.timeouts;
            if too_new || (too_old && !self.counts_may_be_missing) {
                return Err(format!(
                    "job {id} was recovered with {reserves} reserves and {timeouts} timeouts after \
                     record {end}, but the groups around it say {low:?} to {high:?}"
                ));
            }
        }
        Ok(())
    }

    fn images_at(&self, end: Need) -> Images {
        let mut images = self.base.clone();
        for record in &self.records[..end] {
            apply(&mut images, record);
            if let Record::Count(id, counts) = record
                && let Some(image) = images.get_mut(id)
            {
                image.counts = *counts;
            }
        }
        images
    }

    /// The newest counts of every job that lived at some time before `end`.
    fn counts_at(&self, end: Need) -> BTreeMap<u64, Counts> {
        let mut counts: BTreeMap<_, _> =
            self.base.iter().map(|(id, image)| (*id, image.counts)).collect();
        for record in &self.records[..end] {
            match record {
                Record::Put(id, image) | Record::Update(id, image) => {
                    counts.insert(*id, image.counts);
                }
                Record::Count(id, newest) => {
                    counts.insert(*id, *newest);
                }
                Record::Finish(_) => {}
            }
        }
        counts
    }

    fn describe(&self, found: &Images, end: Need, wrong: &BTreeSet<u64>) -> String {
        let images = self.images_at(end);
        let mut text = format!(
            "what was recovered is no prefix of what happened: {} records were required, {} \
             happened, the nearest prefix is {end}",
            self.required,
            self.records.len()
        );
        for id in wrong.iter().take(5) {
            let (image, found) = (brief(images.get(id)), brief(found.get(id)));
            write!(text, "\n  job {id}: expected {image}\n    found {found}")
                .expect("strings take all");
            for (index, record) in self.records.iter().enumerate().filter(|(_, r)| r.id() == *id) {
                write!(text, "\n    record {}: {}", index + 1, record.brief())
                    .expect("strings take all");
            }
        }
        text
    }

    /// A new process begins with these jobs.
    pub(crate) fn restart(&mut self, base: Images) {
        *self = Self { base, ..Self::default() };
    }
}

fn apply(images: &mut Images, record: &Record) {
    match record {
        Record::Put(id, image) | Record::Update(id, image) => {
            images.insert(*id, image.clone());
        }
        Record::Finish(id) => {
            images.remove(id);
        }
        Record::Count(..) => {}
    }
}

fn brief(image: Option<&Image>) -> String {
    image.map_or("nothing".into(), |image| {
        format!(
            "{} pri {} delay {} ttr {} created {} body {} bytes {:?} {:?}",
            image.tube,
            image.pri,
            image.delay,
            image.ttr,
            image.created,
            image.body.len(),
            image.shelf,
            image.counts
        )
    })
}

impl Record {
    fn id(&self) -> u64 {
        match self {
            Self::Put(id, _) | Self::Update(id, _) | Self::Finish(id) | Self::Count(id, _) => *id,
        }
    }

    fn brief(&self) -> String {
        match self {
            Self::Put(_, image) => format!("put {}", brief(Some(image))),
            Self::Update(_, image) => format!("update {}", brief(Some(image))),
            Self::Finish(_) => "finish".into(),
            Self::Count(_, counts) => format!("count {counts:?}"),
        }
    }
}
