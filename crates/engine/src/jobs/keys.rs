//! The index of keys. It finds the jobs that a submit can join. A job that becomes cold stays in the
//! index.
//!
//! The index is a tree and not a hash table. A hash table is rebuilt when it grows. With millions
//! of jobs, the rebuild would take seconds.

use std::collections::BTreeSet;

use super::facts::Body;
use super::job::Job;
use crate::hash::NameHash;
use crate::ids::{JobId, QueueId};

/// With this key, the body of the job is the key (spec gearman 4.6).
const KEY_IS_BODY: &[u8] = b"-";

/// The key of a submit, as a job stores it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Unique {
    /// These bytes. Empty: the job has no key.
    Bytes(Box<[u8]>),
    /// `-`: the body is the key. The value is the hash of the body. A body can be long, so a burial
    /// or a kick must not hash it again. The hash depends on the seed, so it is never in the log:
    /// [`Keys::hash_body`] sets it.
    Body(u64),
}

impl Unique {
    /// Makes a key. If the key is `-`, the hash must follow.
    pub(super) fn new(unique: &[u8]) -> Self {
        if is_body_key(unique) { Self::Body(0) } else { Self::Bytes(unique.into()) }
    }

    /// The key, as the client sent it.
    pub(super) fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Body(_) => KEY_IS_BODY,
        }
    }

    /// The number of bytes that the key has outside of this value.
    pub(super) fn heap_len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Body(_) => 0,
        }
    }
}

impl Default for Unique {
    fn default() -> Self {
        Self::Bytes(Box::default())
    }
}

/// Jobs by the hash of their key, by their queue and by their number.
#[derive(Debug)]
pub(super) struct Keys {
    hash: NameHash,
    entries: BTreeSet<(u64, QueueId, JobId)>,
    /// The number of entries that belong to cold jobs.
    cold: u64,
}

/// The key of a job: the client's key, or the body if the client's key is `-`. `None`: the job has
/// no key, and no submit joins it.
fn key<'a>(unique: &'a [u8], body: &'a [u8]) -> Option<&'a [u8]> {
    let key = if unique == KEY_IS_BODY { body } else { unique };
    (!key.is_empty()).then_some(key)
}

/// The body of a job, as an argument of `key`. If the body is not in memory, the result is empty.
/// Then the body is not the job's key, because a body that is a key stays in memory.
fn body_of(job: &Job) -> &[u8] {
    job.resident_body().map_or(&[], |body: &Body| body)
}

/// Whether the body of a job is its key, so that it must stay in memory.
pub(super) fn needs_body(job: &Job) -> bool {
    is_body_key(job.unique())
}

/// Whether this key means that the body of the job is its key.
pub(crate) fn is_body_key(unique: &[u8]) -> bool {
    unique == KEY_IS_BODY
}

/// Whether a submit with this key and body can join the job.
pub(super) fn is_same(job: &Job, unique: &[u8], body: &[u8]) -> bool {
    job.unique() == unique && key(unique, body_of(job)) == key(unique, body)
}

impl Keys {
    pub(super) fn new(hash: NameHash) -> Self {
        Self { hash, entries: BTreeSet::new(), cold: 0 }
    }

    /// The number of jobs in memory that the index has.
    pub(super) fn len(&self) -> u64 {
        self.entries.len() as u64 - self.cold
    }

    /// The number of cold jobs that the index has.
    pub(super) fn cold(&self) -> u64 {
        self.cold
    }

    /// The entry of a job in the index. `None`: the job has no key.
    fn place(&self, job: &Job) -> Option<(u64, QueueId, JobId)> {
        let key = key(job.unique(), body_of(job))?;
        let hash = job.body_hash().unwrap_or_else(|| self.hash.of(key));
        Some((hash, job.queue(), job.id()))
    }

    /// Stores the hash of the body in the job, if the body is the job's key. Such a job keeps its
    /// body. The caller inserts the job next.
    pub(super) fn hash_body(&self, job: &mut Job) {
        if needs_body(job) {
            let hash = self.hash.of(body_of(job));
            job.set_body_hash(hash);
        }
    }

    /// Whether the job has the right hash of its body, if it has one.
    pub(super) fn has_right_hash(&self, job: &Job) -> bool {
        job.body_hash().is_none_or(|hash| hash == self.hash.of(body_of(job)))
    }

    /// Whether the index has the job. `None`: the job has no key.
    pub(super) fn has(&self, job: &Job) -> Option<bool> {
        self.place(job).map(|place| self.entries.contains(&place))
    }

    /// Adds a job. If the job was cold, the index has it already.
    pub(super) fn insert(&mut self, job: &Job) {
        if let Some(place) = self.place(job)
            && !self.entries.insert(place)
        {
            self.cold -= 1;
        }
    }

    /// Adds a cold job with this key. The key is not empty, and is not the body of the job.
    pub(super) fn insert_cold(&mut self, queue: QueueId, unique: &[u8], id: JobId) {
        self.cold += u64::from(self.entries.insert((self.hash.of(unique), queue, id)));
    }

    /// Notes that a job becomes cold. If the index has the job, it keeps it.
    pub(super) fn cool(&mut self, job: &Job) {
        self.cold += u64::from(self.has(job) == Some(true));
    }

    pub(super) fn remove(&mut self, job: &Job) {
        if let Some(place) = self.place(job) {
            self.entries.remove(&place);
        }
    }

    /// The jobs of this queue whose key has the same hash as this key, oldest first.
    pub(super) fn with_key_in(
        &self,
        queue: QueueId,
        unique: &[u8],
        body: &[u8],
    ) -> impl Iterator<Item = JobId> {
        let hash = key(unique, body).map(|key| self.hash.of(key));
        let range = move |hash| (hash, queue, JobId(0))..=(hash, queue, JobId(u64::MAX));
        hash.into_iter().flat_map(move |hash| self.entries.range(range(hash))).map(|(.., id)| *id)
    }

    /// The jobs of all queues whose key has the same hash as this key. If the key is `-`, the
    /// look-up finds no job, because the look-up does not have the body.
    pub(super) fn with_key(&self, unique: &[u8]) -> impl Iterator<Item = JobId> {
        let hash = (unique != KEY_IS_BODY).then(|| self.hash.of(unique));
        let range =
            |hash| (hash, QueueId(0), JobId(0))..=(hash, QueueId(u32::MAX), JobId(u64::MAX));
        hash.into_iter().flat_map(move |hash| self.entries.range(range(hash))).map(|(.., id)| *id)
    }
}
