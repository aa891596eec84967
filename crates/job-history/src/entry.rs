//! What the history knows of a job. All moments are times of the wall clock, in milliseconds.

use broker::{AttemptEnd, JobEnd};

/// A job that has left its queue.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Entry {
    /// The number of the job.
    pub job: u64,
    /// The queue that it left.
    pub queue: Box<[u8]>,
    /// Why it left.
    pub why: JobEnd,
    /// The queue that it moved to. `None`: it ended.
    pub to: Option<Box<[u8]>>,
    /// When it was put.
    pub created_at: u64,
    /// When it left.
    pub left_at: u64,
    /// Its priority.
    pub priority: u32,
    /// Its ttr in seconds. 0 for no limit.
    pub ttr_s: u32,
    /// How often it was taken. If this is more than the number of `attempts`, the first ones are in the
    /// entries of queues that it had left before, or are not known.
    pub takes: u32,
    /// The last attempts, in their order.
    pub attempts: Vec<Attempt>,
    /// Its body.
    pub body: KeptBytes,
    /// How long the policy keeps the entry, in milliseconds.
    pub keep_ms: u64,
    /// How many entries of this queue the policy keeps.
    pub jobs_max: u64,
}

/// An attempt: a session took the job.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Attempt {
    /// When the session took it.
    pub taken_at: u64,
    /// How long the job was ready before.
    pub waited_ms: u64,
    /// How long the session had it.
    pub took_ms: u64,
    /// How the attempt ended. `None`: it ended when the job left the queue.
    pub end: Option<AttemptEnd>,
    /// The address of the session's client. Empty: it is unknown.
    pub worker: Box<[u8]>,
    /// What the worker said. Empty: nothing.
    pub error: Box<[u8]>,
}

/// What is kept of the body of a job.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct KeptBytes {
    /// The length of the whole body.
    pub len: u64,
    /// The first bytes of it. `None`: nothing is kept.
    pub bytes: Option<Box<[u8]>>,
}

impl KeptBytes {
    /// The whole body, if it is kept.
    pub fn whole(&self) -> Option<&[u8]> {
        self.bytes.as_deref().filter(|bytes| bytes.len() as u64 == self.len)
    }
}

impl Entry {
    /// How long the job was ready before its attempts, as far as they are known. `None`: none is known.
    pub fn waited_ms(&self) -> Option<u64> {
        self.sum(|attempt| attempt.waited_ms)
    }

    /// How long sessions had the job, as far as the attempts are known. `None`: none is known.
    pub fn ran_ms(&self) -> Option<u64> {
        self.sum(|attempt| attempt.took_ms)
    }

    fn sum(&self, length: fn(&Attempt) -> u64) -> Option<u64> {
        // A file can have any lengths.
        self.attempts.iter().map(length).reduce(u64::saturating_add)
    }

    /// How long the job existed.
    pub fn total_ms(&self) -> u64 {
        self.left_at.saturating_sub(self.created_at)
    }
}
