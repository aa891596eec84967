//! The state hash: a number that two nodes with the same jobs and facts have in common.
//!
//! It is the sum of one hash for each logged job and each fact. So a change costs the hash of one
//! job, and the order of changes does not matter. What a restart of a server may change without an
//! entry of the log does not count: counters, the time at which a job became ready, and whether a
//! delayed job has come due.
//!
//! A leader makes the hash of a job from what it sends. A follower makes it from what its engine
//! has after the change. So the comparison also finds an engine that applied a change wrongly.

use std::collections::BTreeMap;

use engine::{Death, JobFacts, JobId, State, Tags};
use replica::chain::Mix;

/// Bytes of a job's entry in the table: a tree that gets its keys in order fills half of each leaf.
const JOB_BYTES: u64 = 36;

/// The state hash of a node, and what its changes need.
#[derive(Debug, Default)]
pub(crate) struct StateHash {
    sum: u64,
    /// The number of logged jobs.
    count: u64,
    /// The hash of each logged job that is in memory. Nothing can happen to the others.
    /// This is not a hash table, because a growing hash table is rebuilt in one long step.
    jobs: BTreeMap<JobId, u64>,
    /// The sum of the hashes of all facts. The log has the facts themselves, also their old values
    /// when they change: there can be as many as queues, and their keys can be long.
    facts: u64,
}

/// The hash of one job.
pub(crate) fn job_hash(
    queue: &[u8],
    facts: &JobFacts,
    tags: Option<Tags<'_>>,
    body_len: usize,
) -> u64 {
    let JobFacts { id, priority, order, created, ttr_s, delay_s, .. } = facts;
    let buried_order = if facts.state == State::Buried { 1 + facts.buried_order } else { 0 };
    let ends = facts.expires.map_or(0, |expires| 1 + facts.wall.unwrap_or(expires).0);
    let mix = Mix::new()
        .word(id.0)
        .bytes(queue)
        .word(u64::from(*priority))
        .word(*order)
        .word(created.0)
        .word(u64::from(*ttr_s))
        .word(u64::from(*delay_s))
        .word(buried_order)
        .word(ends)
        .word(body_len as u64);
    let mix = match tags {
        Some(Tags { unique, reducer }) => mix.bytes(unique).bytes(reducer),
        None => mix,
    };
    // Without failed attempts, dead letters and keys of jobs, the hash is that of older versions.
    let mix = if facts.attempts == 0 { mix } else { mix.word(facts.attempts.into()) };
    let mix = match &facts.key {
        Some(key) => mix.bytes(key),
        None => mix,
    };
    let mix = match &facts.group {
        Some(key) => mix.word(1).bytes(key),
        None => mix,
    };
    let Some(death) = &facts.death else { return mix.value() };
    let Death { died, until, cause, attempts, origin, worker, error } = &**death;
    mix.word(died.0)
        .word(until.map_or(0, |until| until.0))
        .word(cause.code().into())
        .word(u64::from(*attempts))
        .bytes(origin)
        .bytes(worker)
        .bytes(error)
        .value()
}

impl StateHash {
    /// The hash and the number of logged jobs of a folder, as it says itself. The jobs in memory
    /// and the facts must be added with [`StateHash::remember`] and [`StateHash::remember_fact`].
    pub(crate) fn set(&mut self, sum: u64, count: u64) {
        (self.sum, self.count) = (sum, count);
    }

    /// The memory of the table of jobs.
    pub(crate) fn bytes(&self) -> u64 {
        self.jobs.len() as u64 * JOB_BYTES
    }

    /// Whether the jobs in memory and the facts give this state hash. So no job is missing.
    pub(crate) fn is_complete(&self) -> bool {
        self.found() == (self.sum, self.count)
    }

    /// The state hash of the facts and the jobs in memory, and the number of these jobs.
    pub(crate) fn found(&self) -> (u64, u64) {
        let sum = self.jobs.values().fold(self.facts, |sum, hash| sum.wrapping_add(*hash));
        (sum, self.jobs.len() as u64)
    }

    pub(crate) fn sum(&self) -> u64 {
        self.sum
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// A job of the folder is in memory now.
    pub(crate) fn remember(&mut self, id: JobId, hash: u64) {
        self.jobs.insert(id, hash);
    }

    /// A job is only in the log now.
    pub(crate) fn forget(&mut self, id: JobId) {
        self.jobs.remove(&id);
    }

    /// The folder has this fact.
    pub(crate) fn remember_fact(&mut self, key: &[u8], value: &[u8]) {
        self.facts = self.facts.wrapping_add(fact_hash(key, value));
    }

    pub(crate) fn put(&mut self, id: JobId, hash: u64) {
        self.count += 1;
        self.sum = self.sum.wrapping_add(hash);
        self.jobs.insert(id, hash);
    }

    pub(crate) fn update(&mut self, id: JobId, hash: u64) {
        let before = self.jobs.insert(id, hash).unwrap_or_default();
        self.sum = self.sum.wrapping_sub(before).wrapping_add(hash);
    }

    pub(crate) fn finish(&mut self, id: JobId) {
        let before = self.jobs.remove(&id).unwrap_or_default();
        self.count = self.count.saturating_sub(1);
        self.sum = self.sum.wrapping_sub(before);
    }

    /// A fact gets a value instead of the one that the log has. An empty value removes the fact.
    pub(crate) fn fact(&mut self, key: &[u8], before: Option<&[u8]>, value: &[u8]) {
        let hash = |value: &[u8]| if value.is_empty() { 0 } else { fact_hash(key, value) };
        let change = hash(value).wrapping_sub(before.map_or(0, hash));
        self.sum = self.sum.wrapping_add(change);
        self.facts = self.facts.wrapping_add(change);
    }
}

pub(crate) fn fact_hash(key: &[u8], value: &[u8]) -> u64 {
    Mix::new().bytes(key).bytes(value).value()
}
