//! A thread that sleeps when there is no work, and can be woken cheaply.
//!
//! A producer first adds work, then checks whether the sleeper sleeps. The sleeper first announces
//! its sleep, then checks for work. Both have a fence between their two steps. So the producer sees
//! the sleep, or the sleeper sees the work.

use std::sync::PoisonError;
use std::time::Duration;

use super::primitives::{AtomicBool, Mutex, Ordering, Thread, current, fence, park, park_timeout};

/// See the module.
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
    /// Registers this thread as the sleeper. Before that, other threads cannot wake it, and need
    /// not.
    pub(crate) fn register(&self) {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        *thread = Some(current());
    }

    /// Wakes the sleeper for work.
    pub(crate) fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::AcqRel) {
            self.unpark();
        }
    }

    /// Wakes the sleeper to check `stop`, which is already set.
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

    /// Announces the sleep, then calls `busy`, which returns `None` if there is work. Otherwise
    /// sleeps for at most the returned time.
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
