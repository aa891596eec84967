//! The written position and the durable position of the log, and the requests of other threads.
//!
//! Only committers change the written position, under the commit lock, and the durable position, under the
//! lock of `syncs`. A thread that needs a sync makes a request, and wakes the committer. A thread that waits
//! for a written position first requests a notification, and then reads the written position.

use super::primitives::{AtomicU64, Ordering, fence};

/// Positions and requests: see the comment of the module.
#[derive(Debug)]
pub(crate) struct Positions {
    written: AtomicU64,
    durable: AtomicU64,
    /// The highest position up to which a thread requested the log to become durable. This request
    /// applies whatever the log's sync setting is.
    wanted_durable: AtomicU64,
    /// The highest position for which a thread requested a notification. The notification is sent
    /// when the position is written.
    wanted_written: AtomicU64,
    /// The latest time for a requested sync, in milliseconds of the log's time. `u64::MAX`: no
    /// request.
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

    /// Sets the written position. Returns true if the log may have reached a position for which a
    /// notification was requested.
    pub(crate) fn note_written(&self, end: u64) -> bool {
        let before = self.written.load(Ordering::Relaxed);
        self.written.store(end, Ordering::Release);
        // The requesting thread first stores its request, then reads the written position. The
        // committer first stores the written position, then reads the request. The fences keep this
        // order. So the committer sees the request, or the requesting thread sees the new position.
        fence(Ordering::SeqCst);
        self.wanted_written.load(Ordering::Relaxed) > before
    }

    /// Sets the durable position. It never passes the written position.
    pub(crate) fn note_durable(&self, end: u64) {
        self.durable.store(end, Ordering::Release);
    }

    /// Requests that the log becomes durable up to this position. The caller must wake the
    /// committer afterwards.
    pub(crate) fn want_durable(&self, position: u64) {
        self.wanted_durable.fetch_max(position, Ordering::Release);
    }

    /// Whether the committer must sync because of a request from `want_durable`. The last sync that began
    /// is for everything before `begun`.
    pub(crate) fn wants_durable(&self, begun: u64) -> bool {
        self.wanted_durable.load(Ordering::Acquire) > begun
    }

    /// Requests a notification when the log is written up to this position. The caller must read
    /// the written position after this call, because the log may already have reached `position`.
    pub(crate) fn want_written(&self, position: u64) {
        self.wanted_written.fetch_max(position, Ordering::Release);
        fence(Ordering::SeqCst);
    }

    /// Whether a requested notification waits for a write.
    pub(crate) fn wants_written(&self) -> bool {
        self.wanted_written.load(Ordering::Acquire) > self.written.load(Ordering::Relaxed)
    }

    /// Requests that everything appended so far is synced at this time or earlier. The caller must
    /// wake the committer afterwards.
    pub(crate) fn want_sync_by(&self, at_ms: u64) {
        self.wanted_sync_by_ms.fetch_min(at_ms, Ordering::Release);
    }

    /// Returns the time of a requested sync, and removes the request.
    pub(crate) fn take_sync_by(&self) -> Option<u64> {
        let at_ms = self.wanted_sync_by_ms.swap(u64::MAX, Ordering::AcqRel);
        (at_ms != u64::MAX).then_some(at_ms)
    }

    /// Whether a request from `want_sync_by` waits for the committer.
    pub(crate) fn wants_sync(&self) -> bool {
        self.wanted_sync_by_ms.load(Ordering::Acquire) != u64::MAX
    }
}
