//! How an I/O thread sleeps until messages arrive, and how it notices that the log has released
//! positions.
//!
//! A sender first changes a list or a flag of the inbox, then wakes the thread. The thread first
//! announces that it will sleep, then checks the lists and flags. So either the thread sees the
//! change, or the sender sees the announcement.

use std::task::Waker;

use super::primitives::{AtomicBool, OnceLock, Ordering, fence};

/// The sleep of one thread.
#[derive(Debug)]
pub(crate) struct Wakeup {
    /// Wakes the thread. It is set before the thread first sleeps.
    waker: OnceLock<Waker>,
    /// The thread is awake, and will check for messages before it sleeps. So senders need not wake
    /// it.
    awake: AtomicBool,
}

impl Default for Wakeup {
    fn default() -> Self {
        Self { waker: OnceLock::new(), awake: AtomicBool::new(false) }
    }
}

impl Wakeup {
    /// Sets what wakes the thread. Must be called once, before the thread first sleeps.
    pub(crate) fn set_waker(&self, waker: Waker) {
        self.waker.set(waker).expect("a thread sleeps in one place");
    }

    /// Wakes the thread. The caller must first add its message to a list or set a flag.
    pub(crate) fn wake(&self) {
        if !self.awake.swap(true, Ordering::AcqRel)
            && let Some(waker) = self.waker.get()
        {
            waker.wake_by_ref();
        }
    }

    /// Announces that the thread will sleep, and then calls `sleep`, unless `has_messages` returns
    /// true. A wake-up must end this sleep, also if it comes before the sleep begins. Only the thread
    /// itself may call this.
    pub(crate) fn sleep(&self, has_messages: impl FnOnce() -> bool, sleep: impl FnOnce()) {
        // This synchronises with the last call of `wake`. So the thread sees all messages that
        // senders added before that call.
        self.awake.swap(false, Ordering::AcqRel);
        if !has_messages() {
            sleep();
        }
        self.awake.swap(true, Ordering::AcqRel);
    }
}

/// Whether a thread waits for the log to release positions, and whether the log has released any.
#[derive(Debug)]
pub(crate) struct ReleaseWatch {
    awaits: AtomicBool,
    released: AtomicBool,
}

impl Default for ReleaseWatch {
    fn default() -> Self {
        Self { awaits: AtomicBool::new(false), released: AtomicBool::new(false) }
    }
}

impl ReleaseWatch {
    /// Sets whether releases wake the thread from now on. After a call with `true`, the thread must
    /// check the released positions itself. The log first releases, then checks this flag. The
    /// thread first sets this flag, then checks the released positions. So the log sees the flag,
    /// or the thread sees the release, or both.
    pub(crate) fn await_release(&self, awaits: bool) {
        self.awaits.store(awaits, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Called after the log has released more positions. Returns whether the caller must wake the
    /// thread.
    #[must_use]
    pub(crate) fn release(&self) -> bool {
        fence(Ordering::SeqCst);
        let awaits = self.awaits.load(Ordering::Relaxed);
        if awaits {
            self.note();
        }
        awaits
    }

    /// Makes the thread check the log, even if the thread does not wait for a release. The caller
    /// must also wake the thread.
    pub(crate) fn note(&self) {
        self.released.store(true, Ordering::Release);
    }

    pub(crate) fn is_noted(&self) -> bool {
        self.released.load(Ordering::Acquire)
    }

    pub(crate) fn take(&self) -> bool {
        self.released.swap(false, Ordering::AcqRel)
    }
}
