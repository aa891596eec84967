//! How far the log is written and durable, and how far it is requested to be.
//!
//! Only the committer moves the first two. Others make requests and wake it. Or they register for
//! notifications first, then read the positions.

use super::primitives::{AtomicU64, Ordering, fence};

/// Positions and requests: see the module.
#[derive(Debug)]
pub(crate) struct Positions {
    written: AtomicU64,
    durable: AtomicU64,
    /// The highest position requested to be durable, whatever the log's own setting says.
    wanted_durable: AtomicU64,
    /// The highest position requested to be written.
    wanted_written: AtomicU64,
    /// The requested time of a sync, in milliseconds of the log's time.
    wanted_sync_by_ms: AtomicU64,
}

impl Positions {
    pub(crate) fn new(end: u64) -> Self {
        Self {
            written: AtomicU64::new(end),
            durable: AtomicU64::new(end),
            wanted_durable: AtomicU64::new(0),
            wanted_written: AtomicU64::new(0),
            wanted_sync_by_ms: AtomicU64::new(u64::MAX),
        }
    }

    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    pub(crate) fn durable(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    /// Notes that everything up to here is written. Returns whether a newly written position was
    /// requested.
    pub(crate) fn note_written(&self, end: u64) -> bool {
        let before = self.written.load(Ordering::Relaxed);
        self.written.store(end, Ordering::Release);
        // A requester first makes the request, then reads the position here. So one of the two sees
        // the other.
        fence(Ordering::SeqCst);
        self.wanted_written.load(Ordering::Relaxed) > before
    }

    /// Notes that everything up to here is durable, and written.
    pub(crate) fn note_durable(&self, end: u64) {
        self.written.store(end, Ordering::Release);
        self.durable.store(end, Ordering::Release);
    }

    /// Requests that this becomes durable. The caller must wake the committer.
    pub(crate) fn want_durable(&self, position: u64) {
        self.wanted_durable.fetch_max(position, Ordering::Release);
    }

    /// Whether more is requested to be durable than is.
    pub(crate) fn wants_durable(&self) -> bool {
        self.wanted_durable.load(Ordering::Acquire) > self.durable.load(Ordering::Relaxed)
    }

    /// Requests that this is written. The caller must read the position after this.
    pub(crate) fn want_written(&self, position: u64) {
        self.wanted_written.fetch_max(position, Ordering::Release);
        fence(Ordering::SeqCst);
    }

    /// Requests a sync of everything appended so far by this time. The caller must wake the
    /// committer.
    pub(crate) fn want_sync_by(&self, at_ms: u64) {
        self.wanted_sync_by_ms.fetch_min(at_ms, Ordering::Release);
    }

    /// Takes the requested time of a sync.
    pub(crate) fn take_sync_by(&self) -> Option<u64> {
        let at_ms = self.wanted_sync_by_ms.swap(u64::MAX, Ordering::AcqRel);
        (at_ms != u64::MAX).then_some(at_ms)
    }

    /// Whether a request for a sync is pending.
    pub(crate) fn wants_sync(&self) -> bool {
        self.wanted_sync_by_ms.load(Ordering::Acquire) != u64::MAX
    }
}
