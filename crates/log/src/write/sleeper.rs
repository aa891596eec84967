//! Lets a thread sleep while it has no work. Other threads can wake it cheaply.
//!
//! The *sleeper* is the thread that sleeps. A *producer* is a thread that adds work for it. A
//! producer first adds work, then reads `asleep`. The sleeper first sets `asleep`, then checks for
//! work. Both threads have a fence between their two steps. So the producer sees `asleep`, or the
//! sleeper sees the work.

use std::sync::PoisonError;
use std::time::Duration;

use super::primitives::{AtomicBool, Mutex, Ordering, Thread, current, fence, park, park_timeout};

/// A sleeper: see the comment of the module.
#[derive(Debug)]
pub(crate) struct Sleeper {
    asleep: AtomicBool,
    thread: Mutex<Option<Thread>>,
}

impl Default for Sleeper {
    fn default() -> Self {
        Self { asleep: AtomicBool::new(false), thread: Mutex::new(None) }
    }
}

impl Sleeper {
    /// Registers the calling thread as the sleeper. Before this call, `wake` does nothing. This is
    /// harmless, because the thread does not sleep yet.
    pub(crate) fn register(&self) {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        *thread = Some(current());
    }

    /// Wakes the sleeper, because there is work.
    pub(crate) fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::AcqRel) {
            self.unpark();
        }
    }

    /// Wakes the sleeper so that it checks `stop`. The caller has already set `stop`.
    pub(crate) fn wake_to_stop(&self) {
        self.asleep.store(false, Ordering::Release);
        self.unpark();
    }

    fn unpark(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = thread.as_ref() {
            thread.unpark();
        }
    }

    /// Sets `asleep`, then calls `busy`. If there is work, `busy` returns `None`, and this function
    /// returns at once. Otherwise this function sleeps for at most the time that `busy` returned.
    pub(crate) fn sleep(&self, stop: &AtomicBool, busy: impl FnOnce() -> Option<Duration>) {
        self.asleep.swap(true, Ordering::AcqRel);
        fence(Ordering::SeqCst);
        if let Some(timeout) = busy().filter(|timeout| !timeout.is_zero())
            && !stop.load(Ordering::SeqCst)
        {
            if timeout == Duration::MAX {
                park();
            } else {
                park_timeout(timeout);
            }
        }
        self.asleep.swap(false, Ordering::AcqRel);
    }
}
