//! How an I/O thread sleeps until others leave word for it, and how it is told of what the log releases.
//!
//! Whoever leaves word changes a list or a flag first, and wakes then; whoever sleeps says so first, and looks at
//! lists and flags then. So one of the two sees the other.

use std::task::{Context, Poll, Waker};

use super::primitives::{AtomicBool, OnceLock, Ordering, fence};

/// The sleep of one thread.
#[derive(Debug)]
pub(crate) struct Wakeup {
    /// Wakes the thread; there from its first sleep on.
    waker: OnceLock<Waker>,
    /// The thread is awake and will look for word before it sleeps, so nobody needs to wake it.
    awake: AtomicBool,
}

impl Default for Wakeup {
    fn default() -> Self {
        Self { waker: OnceLock::new(), awake: AtomicBool::new(false) }
    }
}

impl Wakeup {
    /// Word was left: sees to it that the thread looks.
    pub(crate) fn wake(&self) {
        if !self.awake.swap(true, Ordering::AcqRel)
            && let Some(waker) = self.waker.get()
        {
            waker.wake_by_ref();
        }
    }

    /// Ready if `has_word`, which is asked after the sleep was announced. To be polled by one task only.
    pub(crate) fn poll(
        &self,
        context: &mut Context<'_>,
        has_word: impl FnOnce(&mut Context<'_>) -> bool,
    ) -> Poll<()> {
        // The task is always the same one, so its first waker is good for ever.
        self.waker.get_or_init(|| context.waker().clone());
        // It takes over from the last wake, and so sees all that was left before that.
        self.awake.swap(false, Ordering::AcqRel);
        if has_word(context) {
            self.awake.swap(true, Ordering::AcqRel);
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

/// Whether a thread is to be told that the log has released further positions, and was.
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
    /// Whether the thread is to be told from now on. After this has become true it must look itself at what is
    /// released: whoever releases does that first and looks here then, whoever waits is noted here first and looks
    /// at what is released then; so one of the two sees the other.
    pub(crate) fn await_release(&self, awaits: bool) {
        self.awaits.store(awaits, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// The log has released further positions. Whether the thread is to be woken for that.
    #[must_use]
    pub(crate) fn release(&self) -> bool {
        fence(Ordering::SeqCst);
        let awaits = self.awaits.load(Ordering::Relaxed);
        if awaits {
            self.note();
        }
        awaits
    }

    /// The thread is to look at the log, whether it waits for that or not. It is to be woken then.
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
