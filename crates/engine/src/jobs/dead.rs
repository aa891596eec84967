//! The index of dead letters. It has every dead letter that no session holds, by its queue and by the
//! moment at which the server ends it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::facts::State;
use super::job::Job;
use crate::bytes::allocated_bytes;
use crate::ids::{JobId, Millis, QueueId};

/// The bytes of the name of an origin, apart from its text: an entry of a tree whose nodes are half full,
/// and two counts of references.
const ORIGIN_BYTES: u64 = 64;

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
    /// The queue that the job came from. Empty: it is buried in its own queue. All letters from one
    /// queue share the text.
    pub origin: Arc<[u8]>,
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
    /// The queues that dead letters came from, and the number of these letters. A name can be much longer
    /// than a job, so the letters share its text.
    origins: BTreeMap<Arc<[u8]>, u64>,
    /// The memory of these names.
    origin_bytes: u64,
}

/// The place of a job in the index. `None`: the job is no dead letter, or a session holds it.
pub(super) fn place(job: &Job) -> Option<Place> {
    let death = job.death().filter(|_| job.state() != State::Leased)?;
    Some((job.queue(), death.until.unwrap_or(Millis(u64::MAX)), job.id()))
}

fn bytes_of_origin(origin: &[u8]) -> u64 {
    ORIGIN_BYTES + allocated_bytes(origin.len())
}

impl DeadIndex {
    /// Counts a new dead letter. From now on, it shares the text of its origin with the others from there.
    pub(super) fn add_letter(&mut self, death: &mut Death) {
        self.letters += 1;
        if death.origin.is_empty() {
            // An empty text from the log has memory of its own, which nothing would count.
            death.origin = Arc::default();
            return;
        }
        let entry = self.origins.entry(death.origin.clone());
        death.origin = entry.key().clone();
        let count = entry.or_insert(0);
        if *count == 0 {
            self.origin_bytes += bytes_of_origin(&death.origin);
        }
        *count += 1;
    }

    /// Forgets a dead letter that [`DeadIndex::add_letter`] has counted.
    pub(super) fn remove_letter(&mut self, death: &Death) {
        self.letters -= 1;
        let Some(count) = self.origins.get_mut(&death.origin) else { return };
        *count -= 1;
        if *count == 0 {
            self.origins.remove(&death.origin);
            self.origin_bytes -= bytes_of_origin(&death.origin);
        }
    }

    /// The memory of the names of origins, in bytes.
    pub(super) fn origin_bytes(&self) -> u64 {
        self.origin_bytes
    }

    /// Panics if the names of origins are not those of so many letters that have moved.
    pub(super) fn check_origins(&self, moved: u64) {
        assert_eq!(self.origins.values().sum::<u64>(), moved, "only origins of dead letters");
        let bytes: u64 = self.origins.keys().map(|origin| bytes_of_origin(origin)).sum();
        assert_eq!(self.origin_bytes, bytes, "the memory account of origins");
    }

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
