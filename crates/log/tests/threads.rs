//! Tests the committer's threads, mostly on the real disk.
#![allow(clippy::unwrap_used)]

use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lineshaft_log::{
    Committer, Disk, FaultDisk, Log, Meta, Position, PosixDisk, QueueRef, Settings, Sync,
};

const QUEUE: QueueRef<'static> = QueueRef { number: 0, name: b"default" };
const WAIT: Duration = Duration::from_secs(20);

fn meta(id: u64) -> Meta<'static> {
    Meta { id, priority: 0, ttr: 60, created_ms: 1, due_ms: 0, state: 0, options: b"" }
}

struct Running {
    log: Arc<Log>,
    committer: Committer,
    progress: mpsc::Receiver<()>,
}

fn run(folder: &std::path::Path, sync: Sync) -> Running {
    run_on(Arc::new(PosixDisk::new(folder).unwrap()), sync)
}

fn run_on(disk: Arc<dyn Disk>, sync: Sync) -> Running {
    let settings = Settings { segment_bytes: 256 << 10, sync, ..Settings::default() };
    let log = Arc::new(Log::open(disk, settings, 1, &mut |_| ()).unwrap().0);
    let (tell, progress) = mpsc::channel();
    let tell = Mutex::new(tell);
    let start = Instant::now();
    let committer = Committer::spawn(
        Arc::clone(&log),
        Arc::new(move || 1 + start.elapsed().as_millis() as u64),
        Arc::new(move || {
            // The receiver may already be dropped at the end of the test.
            let _ = tell.lock().unwrap().send(());
        }),
    )
    .unwrap();
    Running { log, committer, progress }
}

impl Running {
    /// Waits for notifications until the condition is true.
    fn wait(&self, mut until: impl FnMut(&Log) -> bool) {
        let limit = Instant::now() + WAIT;
        while !until(&self.log) {
            assert!(Instant::now() < limit, "nothing happened: {:?}", self.log);
            // Not all work of the helper causes a notification, so check again after 50 ms.
            let _ = self.progress.recv_timeout(Duration::from_millis(50));
        }
    }
}

#[test]
fn appends_become_durable_without_help() {
    let folder = tempfile::tempdir().unwrap();
    for sync in [Sync::Always, Sync::Every(Duration::from_millis(30)), Sync::Never] {
        let running = run(folder.path(), sync);
        let mut last = Position(0);
        for id in 1..=3000 {
            running.wait(|log| log.admits_put(200) && !log.lags());
            last = running.log.put(1, QUEUE, &meta(id), &[1; 200]).1;
            if id % 100 == 0 {
                running.log.wake();
            }
        }
        running.wait(|log| {
            let released = if sync == Sync::Always { log.durable() } else { log.written() };
            released >= last
        });
        if sync == Sync::Never {
            running.log.want_durable(last);
        }
        running.wait(|log| log.durable() >= last);
        assert!(running.log.failure().is_none());
        running.committer.stop();
        running.log.close(1, 3001).unwrap();
    }
}

#[test]
fn a_full_disk_is_not_asked_for_room_after_each_commit() {
    let disk = FaultDisk::new(1, 4 << 20);
    let running = run_on(Arc::new(disk.clone()), Sync::Always);
    let mut slots = Vec::new();
    loop {
        running.wait(|log| log.admits_put(1000) || log.usage().short);
        if !running.log.admits_put(1000) {
            break;
        }
        slots.push(running.log.put(1, QUEUE, &meta(slots.len() as u64), &[1; 1000]).0);
        running.log.wake();
    }
    let calls = disk.calls();
    let finishes = 300;
    for slot in slots.drain(..finishes) {
        let position = running.log.finish(1, slot);
        running.log.wake();
        running.wait(|log| log.durable() >= position);
    }
    // Each finish needs a write and a sync. Sometimes there is also a mark, or another check for
    // room.
    let calls = disk.calls() - calls;
    assert!(calls < 3 * finishes as u64, "{calls} calls for {finishes} finishes");
}

#[test]
fn a_shortage_that_a_rotation_finds_ends_when_there_is_room() {
    let disk = FaultDisk::new(1, 4 << 20);
    let running = run_on(Arc::new(disk.clone()), Sync::Always);
    running.wait(|_| disk.names().contains(&"0000000002.seg".to_owned()));
    disk.set_capacity(disk.used());
    // The batch has more bytes than a segment. So the head is never half full during a step of the
    // helper.
    let body = vec![1; 100 << 10];
    let [.., last] = [1, 2, 3].map(|id| running.log.put(1, QUEUE, &meta(id), &body).1);
    running.log.wake();
    running.wait(|log| log.durable() >= last && log.usage().short);
    disk.set_capacity(4 << 20);
    running.wait(|log| !log.usage().short && log.admits_put(1000));
}

#[test]
fn a_count_alone_is_written_within_a_second_or_two() {
    let folder = tempfile::tempdir().unwrap();
    let running = run(folder.path(), Sync::Always);
    let (slot, position) = running.log.put(1, QUEUE, &meta(1), b"body");
    running.log.wake();
    running.wait(|log| log.durable() >= position);
    running.log.count(1, slot, b"taken once");
    running.log.wake();
    // The log may write a mark of 56 bytes first, but does not sync it.
    running.wait(|log| log.durable().0 > position.0 + 56);
}

#[test]
fn idle_writes_a_mark_and_then_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let running = run(folder.path(), Sync::Always);
    let position = running.log.put(1, QUEUE, &meta(1), b"body").1;
    running.log.wake();
    running.wait(|log| log.written().0 == position.0 + 56);
    assert_eq!(running.log.durable(), position);
    assert_eq!(running.log.next_step_ms(), None);
}
