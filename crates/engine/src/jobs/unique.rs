//! The keys of unique jobs. Every such job has its key here. If it is no dead letter, it is also in an
//! index, which finds it by its queue and its key.
//!
//! The index is a tree and not a hash table. A hash table is rebuilt when it grows. With millions
//! of jobs, the rebuild would take seconds.

use std::collections::{BTreeMap, BTreeSet};

use super::facts::State;
use super::job::Job;
use crate::ids::{JobId, QueueId};
use crate::policy::KeyHash;

/// The bytes of a key: an entry of a tree whose nodes are half full, because numbers grow.
const KEY_BYTES: u64 = 48;
/// The bytes of an entry in the index.
const PLACE_BYTES: u64 = 48;

/// How far a job with a key has come.
#[derive(Copy, Clone, Debug, Eq, PartialEq, Ord, PartialOrd)]
pub(crate) enum Stage {
    /// It is ready or delayed.
    Waits,
    /// A session holds it.
    Held,
    /// It is buried.
    Buried,
}

/// The place of a job in the index.
type Place = (QueueId, KeyHash, Stage, JobId);

/// The jobs of a queue that are in the index.
#[derive(Copy, Clone, Debug, Default)]
struct OfQueue {
    count: u64,
    /// Their keys can be taken longer than the jobs exist.
    outlast: bool,
}

/// The keys: see the module.
#[derive(Debug, Default)]
pub(super) struct UniqueKeys {
    keys: BTreeMap<JobId, KeyHash>,
    places: BTreeSet<Place>,
    queues: BTreeMap<QueueId, OfQueue>,
    /// The number of jobs in the index whose keys can be taken longer than the jobs exist.
    outlasting: u64,
}

fn stage(state: State) -> Stage {
    match state {
        State::Ready | State::Delayed => Stage::Waits,
        State::Leased => Stage::Held,
        State::Buried => Stage::Buried,
    }
}

impl UniqueKeys {
    /// Whether no job has a key. Then the other functions have nothing to do.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.keys.len() as u64 * KEY_BYTES + self.places.len() as u64 * PLACE_BYTES
    }

    pub(super) fn key(&self, id: JobId) -> Option<KeyHash> {
        self.keys.get(&id).copied()
    }

    /// The numbers of keys and of entries in the index.
    pub(super) fn len(&self) -> (usize, usize) {
        (self.keys.len(), self.places.len())
    }

    /// Whether the index has the job. `None`: the job has no key, or is a dead letter.
    pub(super) fn has(&self, job: &Job) -> Option<bool> {
        self.place(job).map(|place| self.places.contains(&place))
    }

    fn place(&self, job: &Job) -> Option<Place> {
        let key = self.keys.get(&job.id()).filter(|_| job.death().is_none())?;
        Some((job.queue(), *key, stage(job.state()), job.id()))
    }

    /// Gives a job its key.
    pub(super) fn set(&mut self, job: &Job, key: KeyHash) {
        self.keys.insert(job.id(), key);
        self.enter(job);
    }

    /// Forgets a job.
    pub(super) fn remove(&mut self, job: &Job) {
        self.leave(job);
        self.keys.remove(&job.id());
    }

    /// Adds a job to the index, after a change of its queue, state or death.
    pub(super) fn enter(&mut self, job: &Job) {
        if let Some(place) = self.place(job)
            && self.places.insert(place)
        {
            let of_queue = self.queues.entry(job.queue()).or_default();
            of_queue.count += 1;
            self.outlasting += u64::from(of_queue.outlast);
        }
    }

    /// Removes a job from the index, before such a change.
    pub(super) fn leave(&mut self, job: &Job) {
        if let Some(place) = self.place(job)
            && self.places.remove(&place)
        {
            let of_queue = self.queues.entry(job.queue()).or_default();
            of_queue.count -= 1;
            self.outlasting -= u64::from(of_queue.outlast);
        }
    }

    /// Sets whether the keys of a queue's jobs can be taken longer than the jobs exist.
    pub(super) fn let_outlast(&mut self, queue: QueueId, outlast: bool) {
        if !outlast && self.queues.is_empty() {
            return;
        }
        let of_queue = self.queues.entry(queue).or_default();
        let before = std::mem::replace(&mut of_queue.outlast, outlast);
        let count = of_queue.count;
        if count == 0 && !outlast {
            self.queues.remove(&queue);
        }
        self.outlasting += if outlast { count } else { 0 };
        self.outlasting -= if before { count } else { 0 };
    }

    /// The number of jobs whose keys can be taken longer than the jobs exist.
    pub(super) fn outlasting(&self) -> u64 {
        self.outlasting
    }

    /// The jobs of a queue with this key at this stage, newest first.
    pub(super) fn with_key(
        &self,
        queue: QueueId,
        key: KeyHash,
        stage: Stage,
    ) -> impl Iterator<Item = JobId> {
        let first = (queue, key, stage, JobId(0));
        let last = (queue, key, stage, JobId(u64::MAX));
        self.places.range(first..=last).rev().map(|(.., id)| *id)
    }
}
