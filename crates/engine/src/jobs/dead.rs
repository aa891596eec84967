//! The index of dead letters. It has every dead letter that no session holds, by its queue and by the
//! moment at which the server ends it.

use std::collections::{BTreeMap, BTreeSet};

use super::facts::State;
use super::job::Job;
use crate::ids::{JobId, Millis, QueueId};

/// Why and when a job became a dead letter.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Death {
    /// When the last attempt failed, the job could not stay any longer, or the operator set it aside.
    pub died: Millis,
    /// The server ends the job after this moment. `None`: it stays.
    pub until: Option<Millis>,
    /// Why it is a dead letter.
    pub cause: DeathCause,
    /// How often the job had failed.
    pub attempts: u32,
    /// The queue that the job came from. Empty: it is buried in its own queue.
    pub origin: Box<[u8]>,
    /// The address of the last worker. Empty: it is unknown.
    pub worker: Box<[u8]>,
    /// The exception that the worker reported, or the end of its warnings. Empty: it reported none.
    pub error: Box<[u8]>,
}

/// Why a job became a dead letter.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum DeathCause {
    /// It failed too often. Its last attempt failed like this.
    Failed(FailureCause),
    /// Nobody took it in time.
    Expired,
    /// A queue had no room for it: its own queue dropped it, or it expired and the queue of
    /// `expire_to` was full.
    Dropped,
    /// An operator set it aside by hand.
    Operator,
}

/// How an attempt failed.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum FailureCause {
    /// The lease reached its deadline.
    TimedOut = 1,
    /// The holder gave the item of an open read back.
    Aborted = 2,
    /// The holder disconnected, or could no longer do the job.
    HolderLeft = 3,
    /// The holder released the job.
    Released = 4,
    /// The holder reported a failure.
    Reported = 5,
}

impl FailureCause {
    /// All causes.
    pub const ALL: [Self; 5] =
        [Self::TimedOut, Self::Aborted, Self::HolderLeft, Self::Released, Self::Reported];

    /// The number of the cause in files.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The cause with this number.
    pub fn of_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|cause| cause.code() == code)
    }
}

impl DeathCause {
    /// The number of the cause in the log.
    pub fn code(self) -> u8 {
        match self {
            Self::Failed(how) => how.code(),
            Self::Expired => 6,
            Self::Dropped => 7,
            Self::Operator => 8,
        }
    }

    /// The cause with this number.
    pub fn of_code(code: u8) -> Option<Self> {
        match code {
            6 => Some(Self::Expired),
            7 => Some(Self::Dropped),
            8 => Some(Self::Operator),
            _ => FailureCause::of_code(code).map(Self::Failed),
        }
    }
}

/// The place of a dead letter in the index: its queue, its last moment and its number.
type Place = (QueueId, Millis, JobId);

/// The index: see the module.
#[derive(Debug, Default)]
pub(super) struct DeadIndex {
    entries: BTreeSet<Place>,
    /// The number of entries of each queue that has some.
    counts: BTreeMap<QueueId, u64>,
    /// The number of all dead letters, also of those that a session holds.
    pub(super) letters: u64,
}

/// The place of a job in the index. `None`: the job is no dead letter, or a session holds it.
pub(super) fn place(job: &Job) -> Option<Place> {
    let death = job.death().filter(|_| job.state() != State::Leased)?;
    Some((job.queue(), death.until.unwrap_or(Millis(u64::MAX)), job.id()))
}

impl DeadIndex {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn has(&self, place: &Place) -> bool {
        self.entries.contains(place)
    }

    pub(super) fn insert(&mut self, place: Option<Place>) {
        let Some(place) = place else { return };
        if self.entries.insert(place) {
            *self.counts.entry(place.0).or_default() += 1;
        }
    }

    pub(super) fn remove(&mut self, place: Option<Place>) {
        let Some(place) = place else { return };
        if !self.entries.remove(&place) {
            return;
        }
        let count = self.counts.get_mut(&place.0).expect("each entry is counted");
        *count -= 1;
        if *count == 0 {
            self.counts.remove(&place.0);
        }
    }

    /// The number of dead letters of a queue.
    pub(super) fn count(&self, queue: QueueId) -> u64 {
        self.counts.get(&queue).copied().unwrap_or_default()
    }

    /// The next dead letter of a queue that the server ends, after this place in the index.
    pub(super) fn next(&self, queue: QueueId, after: (Millis, JobId)) -> Option<(Millis, JobId)> {
        let from = (queue, after.0, JobId(after.1.0.saturating_add(1)));
        let next = self.entries.range(from..).next();
        next.filter(|(of, ..)| *of == queue).map(|(_, until, id)| (*until, *id))
    }
}
