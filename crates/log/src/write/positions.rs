//! How far the log is written and durable, and how far somebody wants it to be.
//!
//! Only the committer moves the first two. Others make wishes and wake it; or they look at how far it is, after they
//! have seen to it that they are told of what comes.

use super::primitives::{AtomicU64, Ordering, fence};

/// Positions and wishes. See the module.
#[derive(Debug)]
pub(crate) struct Positions {
    written: AtomicU64,
    durable: AtomicU64,
    /// The highest position that somebody wants durable whatever the log's own setting says.
    wanted_durable: AtomicU64,
    /// The highest position that somebody waits for only until it is written.
    wanted_written: AtomicU64,
    /// Somebody wants what was appended so far synced by then, milliseconds of the log's time.
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

    /// All up to here is written. Whether somebody waits for a part of what was not before.
    pub(crate) fn note_written(&self, end: u64) -> bool {
        let before = self.written.load(Ordering::Relaxed);
        self.written.store(end, Ordering::Release);
        // Whoever wants it makes the wish and looks here then: one of the two sees the other.
        fence(Ordering::SeqCst);
        self.wanted_written.load(Ordering::Relaxed) > before
    }

    /// All up to here is durable, and written.
    pub(crate) fn note_durable(&self, end: u64) {
        self.written.store(end, Ordering::Release);
        self.durable.store(end, Ordering::Release);
    }

    /// Somebody waits for this to be durable. The committer is to be woken then.
    pub(crate) fn want_durable(&self, position: u64) {
        self.wanted_durable.fetch_max(position, Ordering::Release);
    }

    /// Whether somebody wants more to be durable than is.
    pub(crate) fn wants_durable(&self) -> bool {
        self.wanted_durable.load(Ordering::Acquire) > self.durable.load(Ordering::Relaxed)
    }

    /// Somebody waits until this is written, and has to look how far it is after this.
    pub(crate) fn want_written(&self, position: u64) {
        self.wanted_written.fetch_max(position, Ordering::Release);
        fence(Ordering::SeqCst);
    }

    /// What was appended so far is to be synced by then. The committer is to be woken then.
    pub(crate) fn want_sync_by(&self, at_ms: u64) {
        self.wanted_sync_by_ms.fetch_min(at_ms, Ordering::Release);
    }

    /// Takes up the wish for a sync: by when.
    pub(crate) fn take_sync_by(&self) -> Option<u64> {
        let at_ms = self.wanted_sync_by_ms.swap(u64::MAX, Ordering::AcqRel);
        (at_ms != u64::MAX).then_some(at_ms)
    }

    /// Whether a wish for a sync was not taken up.
    pub(crate) fn wants_sync(&self) -> bool {
        self.wanted_sync_by_ms.load(Ordering::Acquire) != u64::MAX
    }
}
