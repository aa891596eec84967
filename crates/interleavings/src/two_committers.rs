//! Models of the two committers. Each has at most one sync in progress.

use std::time::Duration;

use loom::model;
use loom::thread::spawn;

use crate::positions::Positions;
use crate::primitives::{AtomicBool, AtomicU64, Mutex, Ordering, leave_out_fences, model_of_three};
use crate::sleeper::Sleeper;
use crate::syncs::Syncs;

/// The state that the threads share.
struct Log {
    /// The number of groups that are written. The mutex is the commit lock.
    written: Mutex<u64>,
    /// The number of groups that are on the disk.
    on_disk: AtomicU64,
    /// The number of entries in the open batch. In the product, a lock protects them.
    batch: AtomicU64,
    positions: Positions,
    syncs: Syncs,
    second: Sleeper,
    stop: AtomicBool,
}

impl Log {
    /// Leaks the value: see `committer.rs`.
    fn new() -> &'static Log {
        Box::leak(Box::new(Log {
            written: Mutex::new(0),
            on_disk: AtomicU64::new(0),
            batch: AtomicU64::new(0),
            positions: Positions::new(0),
            syncs: Syncs::default(),
            second: Sleeper::default(),
            stop: AtomicBool::new(false),
        }))
    }

    /// Writes the next group, and syncs it. Before the end of its sync, only this group is on the disk, as if
    /// the kernel had written it first.
    fn commit(&self) {
        let mut written = self.written.lock().expect("it does not panic");
        *written += 1;
        let group = *written;
        self.positions.note_written(group);
        let ticket = self.syncs.begin(group, 1);
        drop(written);
        self.on_disk.fetch_add(1 << (8 * (group - 1)), Ordering::Relaxed);
        let _ = ticket.succeed(&self.positions, || ());
        self.check();
    }

    /// Everything before the durable position is on the disk.
    fn check(&self) {
        let durable = self.positions.durable();
        let on_disk = self.on_disk.load(Ordering::Relaxed);
        for group in 0..durable {
            assert!(on_disk & 1 << (8 * group) != 0, "group {group} is missing before {durable}");
        }
    }
}

#[test]
fn nothing_is_durable_before_the_groups_before_it() {
    model_of_three(|| {
        let log = Log::new();
        let first = spawn(|| log.commit());
        let second = spawn(|| log.commit());
        log.check();
        first.join().expect("it does not panic");
        second.join().expect("it does not panic");
        assert_eq!(log.positions.durable(), 2, "both are durable at the end");
        assert!(!log.syncs.are_running());
    });
}

#[test]
fn nothing_becomes_durable_after_a_failed_sync() {
    model(|| {
        let log = Log::new();
        let (first, _failing) = (log.syncs.begin(1, 1), log.syncs.begin(2, 1));
        let other = spawn(|| {
            log.syncs.fail();
            let before = log.positions.durable();
            let _ = log.syncs.begin(3, 1).succeed(&log.positions, || ());
            assert_eq!(
                log.positions.durable(),
                before,
                "the failed sync may have lost both groups"
            );
        });
        let _ = first.succeed(&log.positions, || ());
        log.syncs.settle();
        other.join().expect("it does not panic");
        assert!(log.positions.durable() < 2, "the second sync has failed");
    });
}

#[test]
fn a_wait_for_all_syncs_ends_with_the_last_one() {
    model_of_three(|| {
        let log = Log::new();
        let (first, second) = (log.syncs.begin(1, 1), log.syncs.begin(2, 1));
        let first = spawn(move || first.succeed(&log.positions, || ()));
        let second = spawn(move || second.succeed(&log.positions, || ()));
        log.syncs.settle();
        assert_eq!(log.positions.durable(), 2);
        first.join().expect("it does not panic");
        second.join().expect("it does not panic");
    });
}

/// An entry arrives while the first committer takes a batch, and begins a sync that lasts.
fn walk_a_hurry() {
    model_of_three(|| {
        let log = Log::new();
        let second = spawn(|| {
            log.second.register();
            let mut taken = 0;
            while taken == 0 && !log.stop.load(Ordering::SeqCst) {
                if log.syncs.take_hurry() {
                    let _commit = log.written.lock().expect("it does not panic");
                    if log.syncs.are_running() {
                        taken = log.batch.swap(0, Ordering::Acquire);
                    }
                }
                let is_over = || taken > 0 || log.syncs.is_hurried();
                log.second.sleep(&log.stop, || (!is_over()).then_some(Duration::MAX));
            }
        });
        let producer = spawn(|| {
            log.batch.fetch_add(1, Ordering::Release);
            if log.syncs.hurry() {
                log.second.wake();
            }
        });
        let commit = log.written.lock().expect("it does not panic");
        log.syncs.take_hurry();
        let taken = log.batch.swap(0, Ordering::Acquire);
        let _ticket = log.syncs.begin(1, 1);
        drop(commit);
        if log.syncs.is_hurried_after_begin() {
            log.second.wake();
        }
        // The sync lasts until the second committer has taken the entry.
        producer.join().expect("it does not panic");
        if taken > 0 {
            log.stop.store(true, Ordering::SeqCst);
            log.second.wake_to_stop();
        }
        second.join().expect("it does not panic");
    });
}

#[test]
fn no_hurry_waits_for_the_end_of_a_sync() {
    walk_a_hurry();
}

#[test]
#[should_panic(expected = "deadlock")]
fn without_fences_one_could() {
    leave_out_fences();
    walk_a_hurry();
}
