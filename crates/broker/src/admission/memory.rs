//! Counts the memory of jobs, queues and connections, and decides whether a put fits into the limit
//! of memory.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use engine::limits::RESULTS_BYTES_MAX;

/// Bytes per logged job in the broker's table of log locations.
const LOCATION_BYTES: u64 = 25;
/// Memory counts as full when a body of this length is refused. Shorter bodies may still fit.
/// Longer bodies are rare.
const USUAL_BODY_BYTES_MAX: usize = 64 * 1024;

/// Kept results of Gearman jobs use at most this part of the limit of memory. They are memory that no
/// request of a client frees.
const RESULTS_SHARE: u64 = 16;

/// The memory that kept results can use, if all memory has this limit.
pub(crate) fn results_bytes_max(limit_bytes: Option<u64>) -> usize {
    let share = limit_bytes.map(|limit| limit / RESULTS_SHARE);
    share.map_or(RESULTS_BYTES_MAX, |share| usize::try_from(share).unwrap_or(usize::MAX))
}

/// The memory in use, as the broker counts it.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct Memory {
    /// Bytes used by jobs, queues, sessions, connections and their buffers.
    pub used_bytes: u64,
    /// The limit; `None` means no limit.
    pub limit_bytes: Option<u64>,
    /// Jobs refused at the limit, since the start.
    pub refused: u64,
}

impl Memory {
    /// Whether puts are refused. Small puts may still fit.
    pub fn is_full(&self) -> bool {
        self.limit_bytes
            .is_some_and(|limit| self.used_bytes + engine::job_bytes(USUAL_BODY_BYTES_MAX) > limit)
    }
}

/// The counted memory of a process, and its limit.
#[derive(Debug)]
pub(crate) struct MemoryLimit {
    /// `u64::MAX`: no limit.
    limit_bytes: AtomicU64,
    /// Bytes of the engine and of the ledger (the broker's tables about the log) after the last
    /// turn. Threads that do not hold the broker's lock read this value.
    inside_bytes: AtomicU64,
    /// Bytes of connections. Several threads add their changes at different moments. So for a short
    /// time, the sum can be slightly wrong, and even negative.
    outside_bytes: AtomicI64,
    refused: AtomicU64,
}

impl Default for MemoryLimit {
    fn default() -> Self {
        Self {
            limit_bytes: AtomicU64::new(u64::MAX),
            inside_bytes: AtomicU64::new(0),
            outside_bytes: AtomicI64::new(0),
            refused: AtomicU64::new(0),
        }
    }
}

impl MemoryLimit {
    pub(crate) fn set(&self, limit_bytes: Option<u64>) {
        self.limit_bytes.store(limit_bytes.unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(crate) fn add_outside(&self, bytes: i64) {
        self.outside_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The current bytes of the engine and of this many log locations.
    pub(crate) fn inside(engine: &engine::Engine, locations: u64) -> u64 {
        engine.memory_bytes() + locations * LOCATION_BYTES
    }

    pub(crate) fn note_inside(&self, bytes: u64) {
        self.inside_bytes.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn memory(&self) -> Memory {
        let limit_bytes = self.limit_bytes.load(Ordering::Relaxed);
        Memory {
            used_bytes: self.inside_bytes.load(Ordering::Relaxed) + self.outside(),
            limit_bytes: (limit_bytes < u64::MAX).then_some(limit_bytes),
            refused: self.refused.load(Ordering::Relaxed),
        }
    }

    /// The bytes of a logged job with a body of this length.
    pub(crate) fn job_bytes(body_bytes: usize) -> u64 {
        engine::job_bytes(body_bytes) + LOCATION_BYTES
    }

    /// How much fits into the limit, if engine and ledger use `inside_bytes` now. `None`: the limit is
    /// exceeded.
    pub(crate) fn room(&self, inside_bytes: u64) -> Option<u64> {
        let limit_bytes = self.limit_bytes.load(Ordering::Relaxed);
        limit_bytes.checked_sub(inside_bytes + self.outside())
    }

    pub(crate) fn count_refusal(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    fn outside(&self) -> u64 {
        u64::try_from(self.outside_bytes.load(Ordering::Relaxed)).unwrap_or(0)
    }
}
