//! Loom's primitives in place of those of the standard library.

use std::cell::Cell;
use std::pin::pin;
use std::task::{Context, Wake, Waker};
use std::time::Duration;

pub(crate) use std::sync::OnceLock;

pub(crate) use loom::sync::Mutex;
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
pub(crate) use loom::thread::{Thread, current, park};

thread_local! {
    /// Loom runs all threads of a model on the thread of the test.
    static WITHOUT_FENCES: Cell<bool> = const { Cell::new(false) };
}

/// A fence, unless this test leaves fences out.
pub(crate) fn fence(order: Ordering) {
    if !WITHOUT_FENCES.get() {
        loom::sync::atomic::fence(order);
    }
}

/// Fences of this test have no effect from now on.
pub(crate) fn leave_out_fences() {
    WITHOUT_FENCES.set(true);
}

/// Loom has no time. A sleep that always ends would hide that nothing else woke the thread.
pub(crate) fn park_timeout(_: Duration) {
    panic!("the models sleep without a limit");
}

/// Runs a future on this thread. (Loom's own function reports wakers that outlive their task as a
/// leak.)
pub(crate) fn block_on(future: impl Future<Output = ()>) {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.unpark();
        }
    }
    let mut future = pin!(future);
    let waker = Waker::from(std::sync::Arc::new(Unpark(current())));
    let mut context = Context::from_waker(&waker);
    while future.as_mut().poll(&mut context).is_pending() {
        park();
    }
}

/// A model of three threads. All of their interleavings would take minutes, so this explores those
/// in which threads are preempted at most three times.
pub(crate) fn model_of_three(run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(run);
}
