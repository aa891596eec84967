//! Models of the committer. It sleeps, and other threads wake it with entries or sync requests.

use std::time::Duration;

use loom::model;
use loom::thread::spawn;

use crate::positions::Positions;
use crate::primitives::{AtomicBool, AtomicU64, Ordering, leave_out_fences, model_of_three};
use crate::serving::Serving;
use crate::sleeper::Sleeper;

/// The state that the committer shares with the other threads.
struct Log {
    committer: Sleeper,
    stop: AtomicBool,
    /// The number of entries in the open batch. In the product, a lock protects the entries. This
    /// atomic orders accesses less strictly than the lock, so the model also covers the product.
    batch: AtomicU64,
    positions: Positions,
}

impl Log {
    /// Leaks the value. If loom reported a deadlock, it would free a value that is not leaked, and
    /// this would abort the process.
    fn new() -> &'static Log {
        Box::leak(Box::new(Log {
            committer: Sleeper::default(),
            stop: AtomicBool::new(false),
            batch: AtomicU64::new(0),
            positions: Positions::new(0),
        }))
    }

    fn append(&self) {
        self.batch.fetch_add(1, Ordering::Release);
        self.committer.wake();
    }

    fn take_batch(&self) -> u64 {
        self.batch.swap(0, Ordering::Acquire)
    }

    /// The committer sleeps until there is work.
    fn sleep(&self, has_work: impl FnOnce() -> bool) {
        self.committer.sleep(&self.stop, || (!has_work()).then_some(Duration::MAX));
    }
}

#[test]
fn no_batch_is_slept_through() {
    model_of_three(|| {
        let log = Log::new();
        let committer = spawn({
            move || {
                log.committer.register();
                let mut taken = log.take_batch();
                while taken < 2 {
                    log.sleep(|| log.batch.load(Ordering::Acquire) > 0);
                    taken += log.take_batch();
                }
            }
        });
        let other = spawn(|| log.append());
        log.append();
        other.join().expect("it does not panic");
        committer.join().expect("it does not panic");
    });
}

/// The committer lets a group fill. Each producer wakes it only if its entry makes the group full.
#[test]
fn no_full_group_is_slept_through() {
    const FULL: u64 = 2;
    model_of_three(|| {
        let log = Log::new();
        let append = || {
            if log.batch.fetch_add(1, Ordering::AcqRel) + 1 >= FULL {
                log.committer.wake();
            }
        };
        let committer = spawn({
            move || {
                log.committer.register();
                while log.batch.load(Ordering::Acquire) < FULL {
                    log.sleep(|| log.batch.load(Ordering::Acquire) >= FULL);
                }
                assert_eq!(log.take_batch(), FULL);
            }
        });
        let other = spawn(append);
        append();
        other.join().expect("it does not panic");
        committer.join().expect("it does not panic");
    });
}

#[test]
fn no_wish_for_a_write_is_slept_through() {
    model(|| {
        let log = Log::new();
        let committer = spawn({
            move || {
                log.committer.register();
                // The group fills, but a reply needs only a write.
                while !log.positions.wants_written() {
                    log.sleep(|| log.positions.wants_written());
                }
                assert!(log.positions.note_written(1));
            }
        });
        log.positions.want_written(1);
        log.committer.wake();
        committer.join().expect("it does not panic");
    });
}

fn walk_a_wish_for_durability() {
    model(|| {
        let log = Log::new();
        let committer = spawn({
            move || {
                log.committer.register();
                log.positions.note_written(1);
                while !log.positions.wants_durable(0) {
                    log.sleep(|| log.positions.wants_durable(0));
                }
                log.positions.note_durable(1);
            }
        });
        log.positions.want_durable(1);
        log.committer.wake();
        committer.join().expect("it does not panic");
    });
}

#[test]
fn no_wish_for_durability_is_slept_through() {
    walk_a_wish_for_durability();
}

#[test]
#[should_panic(expected = "deadlock")]
fn without_fences_one_would_be() {
    leave_out_fences();
    walk_a_wish_for_durability();
}

#[test]
fn no_wish_for_a_sync_is_slept_through_or_lost() {
    model_of_three(|| {
        let log = Log::new();
        let committer = spawn({
            move || {
                log.committer.register();
                let mut earliest = u64::MAX;
                // The committer may handle both requests at once.
                while earliest != 5 {
                    earliest = earliest.min(log.positions.take_sync_by().unwrap_or(u64::MAX));
                    if earliest != 5 {
                        log.sleep(|| log.positions.wants_sync());
                    }
                }
            }
        });
        let other = spawn({
            move || {
                log.positions.want_sync_by(7);
                log.committer.wake();
            }
        });
        log.positions.want_sync_by(5);
        log.committer.wake();
        other.join().expect("it does not panic");
        committer.join().expect("it does not panic");
    });
}

#[test]
fn a_stop_ends_the_committer_whatever_it_does() {
    model(|| {
        let log = Log::new();
        let committer = spawn({
            move || {
                log.committer.register();
                while !log.stop.load(Ordering::SeqCst) {
                    log.sleep(|| false);
                }
            }
        });
        log.stop.store(true, Ordering::SeqCst);
        log.committer.wake_to_stop();
        committer.join().expect("it does not panic");
    });
}

/// A fill begins while a thread does something that ends fills.
fn walk_the_end_of_a_fill(end: fn(&Serving) -> bool) {
    model(move || {
        let serving: &'static Serving = Box::leak(Box::default());
        assert!(!serving.note_quiet(false), "nothing fills");
        serving.begin_work();
        let committer = spawn(|| {
            if !serving.begin_fill() {
                serving.end_fill();
            }
        });
        end(serving);
        committer.join().expect("it does not panic");
        assert!(!serving.fills(), "nobody ends the fill");
    });
}

#[test]
fn no_fill_outlasts_the_work() {
    walk_the_end_of_a_fill(Serving::end_work);
}

#[test]
fn no_fill_outlasts_the_time_without_quiet_clients() {
    walk_the_end_of_a_fill(|serving| serving.note_quiet(true));
}

#[test]
#[should_panic(expected = "nobody ends the fill")]
fn without_fences_a_fill_could_outlast_the_work() {
    leave_out_fences();
    walk_the_end_of_a_fill(Serving::end_work);
}
