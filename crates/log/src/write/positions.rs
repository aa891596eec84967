//! The written and the durable position of the log, and the positions that other threads request.
//!
//! Only the committer moves the written and the durable position. Another thread makes a request
//! and wakes the committer. Or it first registers for a notification, and then reads the positions.

use super::primitives::{AtomicU64, Ordering, fence};

/// Positions and requests: see the module.
#[derive(Debug)]
pub(crate) struct Positions {
    written: AtomicU64,
    durable: AtomicU64,
    /// The highest position that must become durable by request, with any sync setting of the log.
    wanted_durable: AtomicU64,
    /// The highest position for which a notification is requested when it is written.
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

    /// Notes that everything up to here is written. Returns true if a requested position was not
    /// written before.
    pub(crate) fn note_written(&self, end: u64) -> bool {
        let before = self.written.load(Ordering::Relaxed);
        self.written.store(end, Ordering::Release);
        // The requesting thread first stores its request, then reads the written position. This
        // thread first stores the written position, then reads the request. So at least one of the
        // two sees the other's store.
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

    /// Whether the log is not yet durable up to the requested position.
    pub(crate) fn wants_durable(&self) -> bool {
        self.wanted_durable.load(Ordering::Acquire) > self.durable.load(Ordering::Relaxed)
    }

    /// Requests a notification when this is written. The caller must read the written position
    /// after this call.
    pub(crate) fn want_written(&self, position: u64) {
        self.wanted_written.fetch_max(position, Ordering::Release);
        fence(Ordering::SeqCst);
    }

    /// Requests that everything appended so far is synced no later than this time. The caller must
    /// wake the committer.
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
