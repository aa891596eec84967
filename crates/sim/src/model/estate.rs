//! What the log keeps: jobs and facts of queues, as they are after a restart.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::history::{Record, Subject};
use super::{Job, Name, State, Tags};

/// What a job's statistics count.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Counts {
    pub(crate) reserves: u32,
    pub(crate) timeouts: u32,
    pub(crate) releases: u32,
    pub(crate) buries: u32,
    pub(crate) kicks: u32,
    pub(crate) failures: u32,
}

impl Counts {
    /// Without those that are appended at leisure.
    pub(super) fn strict(self) -> Self {
        Self { reserves: 0, timeouts: 0, failures: 0, ..self }
    }

    /// Those that are appended at leisure.
    pub(super) fn lazy(self) -> [u32; 3] {
        [self.reserves, self.timeouts, self.failures]
    }
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
    /// Its place among jobs of its priority.
    pub(crate) order: u64,
    /// What it was submitted with.
    pub(crate) tags: Option<Tags>,
}

/// What the log keeps of a queue apart from its jobs.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Facts {
    pub(crate) kept: bool,
    pub(crate) limits: [u32; 3],
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
                State::Ready | State::Reserved(_) => Shelf::Ready,
                State::Delayed { due } => Shelf::Delayed { due },
                State::Buried { order } => Shelf::Buried { order },
            },
            counts: job.counts,
            order: job.order,
            tags: job.tags.clone(),
        }
    }

    /// Whether a job that was found is this one, at a start at this moment. Lazy counters apart.
    /// On a full disk it may not be written that a job went behind the others.
    pub(super) fn is_found_as(&self, found: &Image, now: u64, is_short: bool) -> bool {
        let shelf = match self.shelf {
            Shelf::Delayed { due } if due <= now => Shelf::Ready,
            shelf => shelf,
        };
        found.shelf == shelf
            && (found.order == self.order || (is_short && found.order < self.order))
            && found.tags == self.tags
            && found.counts.strict() == self.counts.strict()
            && found.body == self.body
            && found.tube == self.tube
            && (found.pri, found.delay, found.ttr, found.created)
                == (self.pri, self.delay, self.ttr, self.created)
    }
}

pub(crate) type Images = BTreeMap<u64, Image>;

/// All that outlives a process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Estate {
    pub(crate) jobs: Images,
    /// Queues of which something is kept.
    pub(crate) queues: BTreeMap<Name, Facts>,
}

impl Estate {
    pub(super) fn apply(&mut self, record: &Record) {
        match record {
            Record::Put(id, image) | Record::Update(id, image) | Record::Moved(id, image) => {
                self.jobs.insert(*id, image.clone());
            }
            Record::Finish(id) => {
                self.jobs.remove(id);
            }
            Record::Queue(name, facts) if *facts == Facts::default() => {
                self.queues.remove(name);
            }
            Record::Queue(name, facts) => {
                self.queues.insert(name.clone(), *facts);
            }
            Record::Count(..) => {}
        }
    }

    pub(super) fn subjects(&self) -> impl Iterator<Item = Subject> {
        let jobs = self.jobs.keys().map(|id| Subject::Job(*id));
        jobs.chain(self.queues.keys().map(|name| Subject::Queue(name.clone())))
    }

    pub(super) fn brief(&self, subject: &Subject) -> String {
        match subject {
            Subject::Job(id) => brief(self.jobs.get(id)),
            Subject::Queue(name) => format!("{:?}", self.queues.get(name)),
        }
    }
}

pub(super) fn brief(image: Option<&Image>) -> String {
    image.map_or("nothing".into(), |image| {
        format!(
            "{} pri {} order {} delay {} ttr {} created {} body {} bytes {:?} {:?} {:?}",
            image.tube,
            image.pri,
            image.order,
            image.delay,
            image.ttr,
            image.created,
            image.body.len(),
            image.shelf,
            image.counts,
            image.tags
        )
    })
}
