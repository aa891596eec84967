//! Loom's primitives. They replace the primitives of the standard library.

use std::cell::Cell;
use std::task::{Wake, Waker};
use std::time::Duration;

pub(crate) use std::sync::OnceLock;

pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
pub(crate) use loom::thread::{Thread, current, park};

thread_local! {
    /// True if the fences of this test have no effect. loom runs all threads of a model on the
    /// thread of the test. So each test has its own value.
    static WITHOUT_FENCES: Cell<bool> = const { Cell::new(false) };
}

/// A fence. It has no effect after `leave_out_fences`.
pub(crate) fn fence(order: Ordering) {
    if !WITHOUT_FENCES.get() {
        loom::sync::atomic::fence(order);
    }
}

/// From now on, fences of this test have no effect.
pub(crate) fn leave_out_fences() {
    WITHOUT_FENCES.set(true);
}

/// Panics, because loom has no time. If a timeout could end the sleep, a test could not notice a
/// lost wake-up.
pub(crate) fn park_timeout(_: Duration) {
    panic!("the models sleep without a limit");
}

/// Ends the next `park` of this thread, or the current one.
pub(crate) fn waker() -> Waker {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.unpark();
        }
    }
    std::sync::Arc::new(Unpark(current())).into()
}

/// Explores a model of three threads. Exploring all interleavings would take minutes. So this
/// function explores only interleavings with at most three preemptions.
pub(crate) fn model_of_three(run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(run);
}
