//! Counters of events, for statistics.

use histogram::Histogram;

/// How long jobs waited and were leased since the process made the engine, in milliseconds.
#[derive(Clone, Debug, Default)]
pub struct JobTimes {
    /// For each hand-out, the time since the job became ready. If a worker lost the job before, the
    /// time since the put.
    pub waits_ms: Histogram,
    /// For each lease that has ended, for any reason, the time since the hand-out.
    pub leases_ms: Histogram,
}

/// Counts events since the process made the engine.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) puts: u64,
    pub(crate) takes: u64,
    pub(crate) releases: u64,
    pub(crate) buries: u64,
    pub(crate) ends: u64,
    pub(crate) timeouts: u64,
    pub(crate) duplicates_joined: u64,
    pub(crate) keyless: u64,
    pub(crate) item_queue_creates: u64,
    pub(crate) item_queue_deletes: u64,
    pub(crate) idle_queue_deletes: u64,
    pub(crate) times: JobTimes,
}
