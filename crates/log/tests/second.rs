//! The second committer: a sync that begins while another one is in progress.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lineshaft_log::{
    Committed, Committer, FaultDisk, Log, Meta, Position, QueueRef, Restored, Settings,
};

const QUEUE: QueueRef<'static> = QueueRef { number: 0, name: b"default" };
const WAIT: Duration = Duration::from_secs(20);
const NOTHING: Committed = Committed { wrote: false, synced: false, entries: 0, released: 0 };

fn open(disk: &FaultDisk) -> Arc<Log> {
    let settings = Settings { segment_bytes: 256 << 10, ..Settings::default() };
    let log = Log::open(Arc::new(disk.clone()), settings, 1, &mut |_| ()).unwrap().0;
    log.prepare_step().unwrap();
    // The first put has the name of the queue, too.
    put(&log, 1);
    log.commit_step(1).unwrap();
    Arc::new(log)
}

/// The jobs that a start finds.
fn jobs(disk: &FaultDisk) -> Vec<u64> {
    let mut ids = Vec::new();
    let mut note = |restored: Restored<'_>| {
        if let Restored::Job { meta, .. } = restored {
            ids.push(meta.id);
        }
    };
    let settings = Settings { segment_bytes: 256 << 10, ..Settings::default() };
    Log::open(Arc::new(disk.clone()), settings, 1, &mut note).unwrap();
    ids
}

fn put(log: &Log, id: u64) -> Position {
    let meta = Meta { id, priority: 0, ttr: 60, created_ms: 1, due_ms: 0, state: 0, options: b"" };
    log.put(1, QUEUE, &meta, b"body").1
}

/// Makes a step of the first committer, and calls `during` during its sync.
fn step_and(
    disk: &FaultDisk,
    log: &Arc<Log>,
    during: impl Fn(&Log) + Send + Sync + 'static,
) -> Option<Committed> {
    let syncs = AtomicU64::new(0);
    let same = Arc::downgrade(log);
    disk.set_during_sync(move || {
        if syncs.fetch_add(1, Ordering::SeqCst) == 0 {
            during(&same.upgrade().unwrap());
        }
    });
    let done = log.commit_step(1);
    disk.set_during_sync(|| ());
    done.ok()
}

#[test]
fn a_group_that_is_synced_first_is_durable_after_the_group_before_it() {
    let disk = FaultDisk::new(1, 64 << 20);
    let log = open(&disk);
    let first = put(&log, 2);
    let done = step_and(&disk, &log, move |log| {
        let second = put(log, 3);
        log.hurry();
        let done = log.commit_beside(1).unwrap();
        assert_eq!(done, Committed { wrote: true, synced: true, entries: 1, released: 0 });
        assert!(log.written() >= second && log.durable() < first);
        assert_eq!(log.commit_beside(1).unwrap(), NOTHING, "nothing waits any more");
    });
    // The first sync lets both groups count.
    let both = Committed { wrote: true, synced: true, entries: 1, released: 2 };
    assert_eq!(done, Some(both));
    assert_eq!(log.durable(), log.written());
    assert!(log.durable() > first);
}

#[test]
fn without_a_sync_in_progress_there_is_no_second_one() {
    let disk = FaultDisk::new(1, 64 << 20);
    let log = open(&disk);
    let position = put(&log, 2);
    log.hurry();
    assert_eq!(log.commit_beside(1).unwrap(), NOTHING);
    log.commit_step(1).unwrap();
    assert!(log.durable() >= position);
}

#[test]
fn only_the_first_committer_begins_a_segment() {
    let disk = FaultDisk::new(1, 64 << 20);
    let log = open(&disk);
    let segment = log.last_segment();
    put(&log, 2);
    step_and(&disk, &log, move |log| {
        put(log, 3);
        log.seal(1);
        put(log, 4);
        assert_eq!(log.commit_beside(1).unwrap(), NOTHING);
    });
    assert_eq!(log.written().segment(), segment);
    log.commit_step(1).unwrap();
    assert_eq!(log.durable().segment(), segment + 1);
    // Then the second committer syncs the new segment.
    put(&log, 5);
    let check = disk.clone();
    step_and(&disk, &log, move |log| {
        put(log, 6);
        assert!(log.commit_beside(1).unwrap().synced);
        let after = check.fork();
        after.crash();
        assert_eq!(jobs(&after), [1, 2, 3, 4, 5, 6]);
    });
    assert_eq!(log.durable(), log.written());
}

#[test]
fn behind_a_gate_there_is_no_second_sync() {
    let disk = FaultDisk::new(1, 64 << 20);
    let log = open(&disk);
    put(&log, 2);
    step_and(&disk, &log, move |log| {
        log.set_gate(Some(log.cut()));
        put(log, 3);
        assert_eq!(log.commit_beside(1).unwrap(), NOTHING);
        log.set_gate(None);
    });
}

/// The disk fails at the sync of one of the two groups. The other one succeeds, but it can be lost, too: after
/// the failed sync, the kernel has forgotten what it had to write.
#[test]
fn nothing_becomes_durable_after_one_of_two_syncs_has_failed() {
    // Before the second sync, there is the call of its group's write.
    for (which, calls_before) in [("first", 2), ("second", 4)] {
        for seed in 0..20 {
            let disk = FaultDisk::new(seed, 64 << 20);
            let log = open(&disk);
            let durable = log.durable();
            put(&log, 2);
            disk.fail_at(disk.calls() + calls_before);
            let second_fails = calls_before == 4;
            step_and(&disk, &log, move |log| {
                put(log, 3);
                assert_eq!(log.commit_beside(1).is_err(), second_fails);
            });
            assert_eq!(log.failure().unwrap().doing, "sync", "the {which} sync fails");
            assert_eq!(log.durable(), durable, "the {which} sync fails");
            put(&log, 4);
            assert!(log.commit_step(1).is_err());
            assert!(log.commit_beside(1).is_err());
            assert_eq!(log.durable(), durable, "the {which} sync fails");
        }
    }
}

#[test]
fn after_a_failed_write_of_the_second_committer_nothing_more_is_written() {
    let disk = FaultDisk::new(1, 64 << 20);
    let log = open(&disk);
    let durable = log.durable();
    put(&log, 2);
    disk.fail_at(disk.calls() + 3);
    step_and(&disk, &log, move |log| {
        put(log, 3);
        assert!(log.commit_beside(1).is_err());
        put(log, 4);
    });
    assert_eq!(log.failure().unwrap().doing, "write");
    assert_eq!(log.durable(), durable);
    let calls = disk.calls();
    assert!(log.commit_step(1).is_err());
    assert_eq!(disk.calls(), calls);
}

#[test]
fn a_limit_of_ids_in_the_later_group_counts_when_both_are_durable() {
    let disk = FaultDisk::new(1, 64 << 20);
    let log = open(&disk);
    let limit = log.id_limit();
    put(&log, 2);
    step_and(&disk, &log, move |log| {
        log.reserve_ids(1, limit + 10_000_000);
        assert!(log.commit_beside(1).unwrap().synced);
        assert_eq!(log.id_limit(), limit);
    });
    assert_eq!(log.id_limit(), limit + 10_000_000);
}

/// Lets syncs end only when the test says so, or when the test ends.
#[derive(Debug, Default)]
struct Syncs {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The number of syncs that have begun.
    begun: u64,
    /// The numbers of the syncs that may end.
    ended: Vec<u64>,
    /// All syncs may end.
    is_over: bool,
}

/// Lets all syncs end when it is dropped. Otherwise a failed test would never end.
struct Gate(Arc<Syncs>);

impl Drop for Gate {
    fn drop(&mut self) {
        self.0.end_all();
    }
}

impl std::ops::Deref for Gate {
    type Target = Syncs;

    fn deref(&self) -> &Syncs {
        &self.0
    }
}

impl Syncs {
    fn of(disk: &FaultDisk) -> Gate {
        let syncs = Arc::new(Syncs::default());
        let same = Arc::clone(&syncs);
        disk.set_during_sync(move || same.run());
        Gate(syncs)
    }

    fn run(&self) {
        let mut state = self.state.lock().unwrap();
        let number = state.begun;
        state.begun += 1;
        self.changed.notify_all();
        while !state.ended.contains(&number) && !state.is_over {
            state = self.changed.wait(state).unwrap();
        }
    }

    /// Waits until this many syncs have begun.
    fn wait_for(&self, count: u64) {
        let state = self.state.lock().unwrap();
        let few = |state: &mut State| state.begun < count;
        let (_state, timeout) = self.changed.wait_timeout_while(state, WAIT, few).unwrap();
        assert!(!timeout.timed_out(), "sync {count} never began");
    }

    fn begun(&self) -> u64 {
        self.state.lock().unwrap().begun
    }

    fn end(&self, number: u64) {
        self.state.lock().unwrap().ended.push(number);
        self.changed.notify_all();
    }

    fn end_all(&self) {
        // A test that fails can have poisoned the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner).is_over = true;
        self.changed.notify_all();
    }
}

#[test]
fn a_hurried_entry_is_synced_beside_the_group_before_it() {
    let disk = FaultDisk::new(1, 64 << 20);
    let log = open(&disk);
    let progress = Arc::new((Mutex::new(()), Condvar::new()));
    let tell = Arc::clone(&progress);
    let committer = Committer::spawn(
        Arc::clone(&log),
        Arc::new(|| 1),
        Arc::new(move || {
            let _lock = tell.0.lock().unwrap();
            tell.1.notify_all();
        }),
    )
    .unwrap();
    let wait_until_durable = |position: Position| {
        let lock = progress.0.lock().unwrap();
        let early = |(): &mut ()| log.durable() < position;
        let (_lock, timeout) = progress.1.wait_timeout_while(lock, WAIT, early).unwrap();
        assert!(!timeout.timed_out(), "it never became durable");
    };
    let syncs = Syncs::of(&disk);
    let append = |id, hurries| {
        let position = put(&log, id);
        log.wake();
        if hurries {
            log.hurry();
        }
        position
    };
    let first = append(2, false);
    syncs.wait_for(1);
    append(3, true);
    // This fails if the entry waits for the end of the first sync.
    syncs.wait_for(2);
    syncs.end(0);
    wait_until_durable(first);
    // Now the sync of the second committer is the older one.
    let third = append(4, false);
    syncs.wait_for(3);
    let before = log.durable();
    syncs.end(2);
    let fourth = append(5, false);
    syncs.wait_for(4);
    assert_eq!(log.durable(), before, "the second group is not synced yet");
    syncs.end(1);
    wait_until_durable(third);
    assert!(log.durable() < fourth);
    syncs.end_all();
    wait_until_durable(fourth);
    committer.stop();
}

#[test]
fn a_segment_begins_only_after_the_sync_of_the_second_committer() {
    let disk = FaultDisk::new(1, 64 << 20);
    let log = open(&disk);
    let syncs = Syncs::of(&disk);
    let second = with_a_second_sync(&log, &syncs);
    log.seal(1);
    let position = put(&log, 4);
    let (tell, told) = mpsc::channel();
    let same = Arc::clone(&log);
    let first = thread::spawn(move || {
        // The test has ended if nobody listens.
        let _ = tell.send(same.commit_step(1).is_ok());
    });
    assert!(told.recv_timeout(Duration::from_millis(50)).is_err(), "the step waits");
    assert_eq!(syncs.begun(), 2, "the old segment is not synced again yet");
    syncs.end_all();
    assert!(told.recv_timeout(WAIT).unwrap());
    first.join().unwrap();
    second.join().unwrap();
    assert!(log.durable() >= position);
}

/// Begins a sync of each committer. Only the first one's ends.
fn with_a_second_sync(log: &Arc<Log>, syncs: &Syncs) -> JoinHandle<()> {
    let spawn = |run: fn(&Log)| {
        let log = Arc::clone(log);
        thread::spawn(move || run(&log))
    };
    put(log, 2);
    let first = spawn(|log| assert!(log.commit_step(1).unwrap().synced));
    syncs.wait_for(1);
    put(log, 3);
    let second = spawn(|log| assert!(log.commit_beside(1).unwrap().synced));
    syncs.wait_for(2);
    syncs.end(0);
    first.join().unwrap();
    second
}

#[test]
fn a_mark_waits_for_the_sync_of_the_second_committer() {
    let disk = FaultDisk::new(1, 64 << 20);
    let log = open(&disk);
    let syncs = Syncs::of(&disk);
    let second = with_a_second_sync(&log, &syncs);
    // A sync for this has begun.
    let written = log.written();
    log.want_durable(written);
    let nothing = log.commit_step(1000).unwrap();
    assert_eq!((nothing, log.written()), (NOTHING, written));
    assert!(log.next_step_ms().unwrap() > 1000, "a step would do nothing again");
    syncs.end_all();
    second.join().unwrap();
    assert_eq!(log.durable(), written);
    assert!(log.commit_step(2000).unwrap().wrote, "the mark");
}

#[test]
fn a_close_waits_for_the_sync_of_the_second_committer() {
    let disk = FaultDisk::new(1, 64 << 20);
    let log = open(&disk);
    let syncs = Syncs::of(&disk);
    let second = with_a_second_sync(&log, &syncs);
    let (tell, told) = mpsc::channel();
    let same = Arc::clone(&log);
    let closing = thread::spawn(move || {
        let is_ok = same.close(1, 4).is_ok();
        // The test has ended if nobody listens.
        let _ = tell.send((is_ok, same.durable() == same.written()));
    });
    assert!(told.recv_timeout(Duration::from_millis(50)).is_err(), "it waits");
    assert_eq!(syncs.begun(), 2, "it has no sync of its own yet");
    syncs.end_all();
    assert_eq!(told.recv_timeout(WAIT), Ok((true, true)));
    closing.join().unwrap();
    second.join().unwrap();
}
