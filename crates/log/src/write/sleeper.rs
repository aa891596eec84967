//! A thread that sleeps when there is nothing to do, and can be woken cheaply.
//!
//! Whoever brings work changes what the sleeper looks at, and then looks whether it is asleep. The sleeper says
//! that it is, and then looks for work. A fence between the two steps, on both sides, has one see the other.

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
    /// This thread is the one that sleeps here. Before that nobody can wake it, nor has to.
    pub(crate) fn register(&self) {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        *thread = Some(current());
    }

    /// There is work.
    pub(crate) fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::AcqRel) {
            self.unpark();
        }
    }

    /// The thread is to look at `stop`, which is set, whatever it does.
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

    /// Sleeps unless `busy` finds work, which is looked for after the sleep was announced. It says how long to
    /// sleep at most; `None`: not at all.
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
