//! Models of an I/O thread. The thread sleeps until other threads send it messages, or until the
//! log releases the position that the thread waits for.

use loom::model;
use loom::thread::spawn;

use crate::positions::Positions;
use crate::primitives::{
    AtomicBool, AtomicU64, Ordering, leave_out_fences, model_of_three, park, waker,
};
use crate::wakeup::{ReleaseWatch, Wakeup};

/// The state that an I/O thread shares with the other threads.
struct Port {
    wakeup: Wakeup,
    release: ReleaseWatch,
    /// The number of events. In the product, a lock protects the events. This atomic orders
    /// accesses less strictly than the lock, so the model also covers the product.
    events: AtomicU64,
    stop: AtomicBool,
    positions: Positions,
}

impl Port {
    /// Leaks the value. If loom reported a deadlock, it would free a value that is not leaked, and
    /// this would abort the process.
    fn new() -> &'static Port {
        Box::leak(Box::new(Port {
            wakeup: Wakeup::default(),
            release: ReleaseWatch::default(),
            events: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            positions: Positions::new(0),
        }))
    }

    fn deliver(&self) {
        self.events.fetch_add(1, Ordering::Relaxed);
        self.wakeup.wake();
    }

    fn take_events(&self) -> u64 {
        self.events.swap(0, Ordering::Relaxed)
    }

    /// Must be called by the thread before it first sleeps.
    fn set_waker(&self) {
        self.wakeup.set_waker(waker());
    }

    /// Sleeps like the server's `Inbox::sleep`.
    fn sleep(&self) {
        let has_messages = || {
            self.release.is_noted()
                || self.stop.load(Ordering::SeqCst)
                || self.events.load(Ordering::Relaxed) > 0
        };
        self.wakeup.sleep(has_messages, park);
    }

    fn notify_release(&self) {
        if self.release.release() {
            self.wakeup.wake();
        }
    }
}

#[test]
fn no_event_is_slept_through() {
    model_of_three(|| {
        let port = Port::new();
        let thread = spawn(move || {
            port.set_waker();
            let mut taken = 0;
            while taken < 2 {
                port.sleep();
                taken += port.take_events();
            }
        });
        let other = spawn(move || port.deliver());
        port.deliver();
        other.join().expect("it does not panic");
        thread.join().expect("it does not panic");
    });
}

#[test]
fn a_stop_is_not_slept_through() {
    model(|| {
        let port = Port::new();
        let thread = spawn(move || {
            port.set_waker();
            while !port.stop.load(Ordering::SeqCst) {
                port.sleep();
                port.take_events();
            }
        });
        port.deliver();
        port.stop.store(true, Ordering::SeqCst);
        port.wakeup.wake();
        thread.join().expect("it does not panic");
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_wake_up_before_its_message_can_be_missed() {
    model(|| {
        let port = Port::new();
        let thread = spawn(move || {
            port.set_waker();
            while !port.stop.load(Ordering::SeqCst) {
                port.sleep();
            }
        });
        port.wakeup.wake();
        port.stop.store(true, Ordering::SeqCst);
        thread.join().expect("it does not panic");
    });
}

/// Models a thread that holds a reply back until the log reaches position 1. `wish` registers the
/// thread's wait at the log. `reached` checks the position. `commit` makes the log reach it.
fn walk_a_release(wish: fn(&Positions), reached: fn(&Positions) -> bool, commit: fn(&Port)) {
    model(move || {
        let port = Port::new();
        let thread = spawn(move || {
            port.set_waker();
            // The end of a turn.
            wish(&port.positions);
            port.release.await_release(true);
            while !reached(&port.positions) {
                port.sleep();
                assert!(port.release.take(), "nothing else wakes it");
            }
            port.release.await_release(false);
        });
        commit(port);
        thread.join().expect("it does not panic");
    });
}

fn walk_until_durable() {
    let commit = |port: &Port| {
        port.positions.note_written(1);
        port.positions.note_durable(1);
        port.notify_release();
    };
    walk_a_release(|_| {}, |positions| positions.durable() >= 1, commit);
}

#[test]
fn no_release_is_slept_through() {
    walk_until_durable();
}

#[test]
#[should_panic(expected = "deadlock")]
fn without_fences_one_would_be() {
    leave_out_fences();
    walk_until_durable();
}

/// Models a reply that needs only a write. If the log always syncs, a write without a sync wakes
/// only threads that requested a wake-up for this write.
fn walk_until_written() {
    let commit = |port: &Port| {
        if port.positions.note_written(1) {
            port.notify_release();
        }
    };
    let wish = |positions: &Positions| positions.want_written(1);
    walk_a_release(wish, |positions| positions.written() >= 1, commit);
}

#[test]
fn no_release_of_what_is_only_to_be_written_is_slept_through() {
    walk_until_written();
}

#[test]
#[should_panic(expected = "deadlock")]
fn without_fences_one_of_those_would_be() {
    leave_out_fences();
    walk_until_written();
}
