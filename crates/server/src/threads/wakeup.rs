//! How an I/O thread sleeps until messages arrive, and how it learns of released positions.
//!
//! A sender first changes a list or flag, then wakes. The sleeper first announces its sleep, then
//! checks lists and flags. So one of the two sees the other.

use std::task::{Context, Poll, Waker};

use super::primitives::{AtomicBool, OnceLock, Ordering, fence};

/// The sleep of one thread.
#[derive(Debug)]
pub(crate) struct Wakeup {
    /// Wakes the thread; set at its first sleep.
    waker: OnceLock<Waker>,
    /// The thread is awake and checks for messages before it sleeps, so no thread needs to wake it.
    awake: AtomicBool,
}

impl Default for Wakeup {
    fn default() -> Self {
        Self { waker: OnceLock::new(), awake: AtomicBool::new(false) }
    }
}

impl Wakeup {
    /// Wakes the thread after a message was left.
    pub(crate) fn wake(&self) {
        if !self.awake.swap(true, Ordering::AcqRel)
            && let Some(waker) = self.waker.get()
        {
            waker.wake_by_ref();
        }
    }

    /// Returns ready if `has_messages` returns true. Calls it after the thread has announced its
    /// sleep. Only one task may poll it.
    pub(crate) fn poll(
        &self,
        context: &mut Context<'_>,
        has_messages: impl FnOnce(&mut Context<'_>) -> bool,
    ) -> Poll<()> {
        // The task is always the same, so its first waker is always valid.
        self.waker.get_or_init(|| context.waker().clone());
        // Synchronises with the last wake, and so sees all messages left before it.
        self.awake.swap(false, Ordering::AcqRel);
        if has_messages(context) {
            self.awake.swap(true, Ordering::AcqRel);
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

/// Whether a thread must learn that the log released more positions, and whether it did.
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
    /// Sets whether releases wake the thread from now on. After it sets this to true, the thread
    /// must check the released positions itself. The releaser first releases, then checks here; the
    /// waiter first registers here, then checks the released positions. So one of the two sees the
    /// other.
    pub(crate) fn await_release(&self, awaits: bool) {
        self.awaits.store(awaits, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Notes that the log released more positions. Returns whether to wake the thread.
    #[must_use]
    pub(crate) fn release(&self) -> bool {
        fence(Ordering::SeqCst);
        let awaits = self.awaits.load(Ordering::Relaxed);
        if awaits {
            self.note();
        }
        awaits
    }

    /// Makes the thread check the log, whether it waits or not. The caller must wake it.
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
