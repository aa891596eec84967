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

/// A fence, unless this test is about what happens without.
pub(crate) fn fence(order: Ordering) {
    if !WITHOUT_FENCES.get() {
        loom::sync::atomic::fence(order);
    }
}

/// No fence of this test does anything from now on.
pub(crate) fn leave_out_fences() {
    WITHOUT_FENCES.set(true);
}

/// Loom knows no time: what ends a sleep in any case would hide that nothing else did.
pub(crate) fn park_timeout(_: Duration) {
    panic!("the models sleep without a limit");
}

/// Has a future done by this thread. (Loom's own takes wakers that outlive their task for a leak.)
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

/// A model of three threads. All interleavings of them would take minutes, so these are those in which threads lose
/// the processor against their will three times at most.
pub(crate) fn model_of_three(run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(run);
}
