//! Tests the committer's threads, mostly on the real disk.
#![allow(clippy::unwrap_used)]

use std::io;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lineshaft_log::{
    Committer, Disk, DiskFile, FaultDisk, Log, Meta, Position, PosixDisk, QueueRef, Settings,
    Space, Sync,
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
    run_with(disk, Settings { segment_bytes: 256 << 10, sync, ..Settings::default() })
}

fn run_with(disk: Arc<dyn Disk>, settings: Settings) -> Running {
    let log = Arc::new(Log::open(disk, settings, 1, &mut |_| ()).unwrap().0);
    // So the helper thread has nothing to do at first, and only the committer syncs.
    log.prepare_step().unwrap();
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
    /// Appends a job, and wakes the committer.
    fn put(&self, id: u64) -> Position {
        let position = self.log.put(1, QUEUE, &meta(id), b"body").1;
        self.log.wake();
        position
    }

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
fn with_one_processor_entries_become_durable() {
    for has_quiet in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let settings = Settings { one_processor: true, ..Settings::default() };
        let running = run_with(Arc::new(PosixDisk::new(folder.path()).unwrap()), settings);
        running.log.note_quiet_clients(has_quiet);
        running.log.begin_work();
        for id in 1..=6000 {
            let (_, position) = running.log.put(1, QUEUE, &meta(id), &[1; 20]);
            running.log.wake();
            // The next entries come when these are durable, as from clients that wait.
            if id % 200 == 0 {
                running.wait(|log| log.durable() >= position);
            }
        }
        running.committer.stop();
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
fn without_descriptors_the_threads_try_only_now_and_then() {
    let disk = FaultDisk::new(1, 16 << 20);
    let running = run_on(Arc::new(disk.clone()), Sync::Always);
    running.wait(|_| disk.names().contains(&"0000000002.seg".to_owned()));
    disk.set_fail_opens(true);
    // More than the head and the next segment.
    let body = vec![1; 100 << 10];
    let [.., last] = [1, 2, 3, 4, 5, 6].map(|id| running.log.put(1, QUEUE, &meta(id), &body).1);
    running.log.wake();
    running.wait(Log::lacks_descriptors);
    let (begun, before) = (Instant::now(), disk.refused_opens());
    running.wait(|_| disk.refused_opens() >= before + 8);
    // Two threads try, once in a second, and some tries need more than one file.
    assert!(begun.elapsed() > Duration::from_millis(500), "{:?} for eight tries", begun.elapsed());
    assert!(running.log.durable() < last);
    disk.set_fail_opens(false);
    running.wait(|log| log.durable() >= last && !log.lacks_descriptors());
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

/// A disk whose syncs take a long time. It reports when a sync begins.
#[derive(Debug)]
struct SlowDisk {
    disk: FaultDisk,
    began: mpsc::Sender<()>,
}

#[derive(Debug)]
struct SlowFile {
    file: Arc<dyn DiskFile>,
    began: mpsc::Sender<()>,
}

const SLOW_SYNC: Duration = Duration::from_millis(100);

impl SlowDisk {
    fn new() -> (SlowDisk, mpsc::Receiver<()>) {
        let (began, receiver) = mpsc::channel();
        (SlowDisk { disk: FaultDisk::new(1, 64 << 20), began }, receiver)
    }

    fn file(&self, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        Arc::new(SlowFile { file, began: self.began.clone() })
    }
}

impl Disk for SlowDisk {
    fn folder(&self) -> String {
        self.disk.folder()
    }
    fn lock(&self) -> io::Result<bool> {
        self.disk.lock()
    }
    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.create(name).map(|file| self.file(file))
    }
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.open(name).map(|file| self.file(file))
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }
    fn sync_folder(&self) -> io::Result<()> {
        self.disk.sync_folder()
    }
    fn space(&self) -> io::Result<Space> {
        self.disk.space()
    }
    fn copies_on_write(&self) -> bool {
        self.disk.copies_on_write()
    }
    fn random(&self) -> io::Result<u64> {
        self.disk.random()
    }
}

impl DiskFile for SlowFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_at(bytes, offset)
    }
    fn allocate(&self, len: u64) -> io::Result<()> {
        self.file.allocate(len)
    }
    fn shrink(&self, len: u64) -> io::Result<()> {
        self.file.shrink(len)
    }
    fn sync_data(&self) -> io::Result<()> {
        // The receiver may already be dropped at the end of the test.
        let _ = self.began.send(());
        // Nobody sends: this is the time that the device takes.
        let (_sender, nothing) = mpsc::channel::<()>();
        let _ = nothing.recv_timeout(SLOW_SYNC);
        self.file.sync_data()
    }
    fn sync_all(&self) -> io::Result<()> {
        self.file.sync_all()
    }
    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }
    fn links(&self) -> io::Result<u64> {
        self.file.links()
    }
}

/// Puts a job. During its sync, another client puts a second job. When the first job is durable,
/// the group with the second job fills. Then calls `during`, with the position of the second job.
fn while_a_group_fills<T>(during: impl Fn(&Running, &mpsc::Receiver<()>, Position) -> T) -> T {
    let (disk, began) = SlowDisk::new();
    let running = run_on(Arc::new(disk), Sync::Always);
    while began.try_recv().is_ok() {}
    let first = running.put(1);
    began.recv_timeout(WAIT).unwrap();
    let second = running.put(2);
    running.wait(|log| log.durable() >= first);
    during(&running, &began, second)
}

/// True if the condition is true in most of a few tries. A busy machine can spoil a try, because a
/// group fills only for a limited time.
fn mostly(condition: impl Fn() -> bool) -> bool {
    (0..5).filter(|_| condition()).take(3).count() == 3
}

#[test]
fn a_client_that_comes_back_shares_the_next_group() {
    let is_shared = || {
        while_a_group_fills(|running, began, second| {
            // The first client comes back, but gives the committer time to begin without it.
            let _ = began.recv_timeout(SLOW_SYNC / 5);
            let next = running.put(3);
            running.wait(|log| log.durable() >= second);
            running.log.durable() >= next
        })
    };
    assert!(mostly(is_shared));
}

/// Whether the committer syncs soon after `end`, which is called while a group fills until no thread has
/// work. This fill would take three syncs.
fn syncs_soon_after(end: impl FnOnce(&Log)) -> bool {
    let (disk, began) = SlowDisk::new();
    let settings =
        Settings { segment_bytes: 256 << 10, one_processor: true, ..Settings::default() };
    let running = run_with(Arc::new(disk), settings);
    running.log.note_quiet_clients(false);
    running.log.begin_work();
    let mut id = 0;
    let mut group = || {
        let mut last = Position(0);
        for _ in 0..200 {
            id += 1;
            last = running.put(id);
        }
        running.wait(|log| log.durable() >= last);
    };
    // The log waits for clients that do not come back, until it has learned not to wait.
    while !running.log.fills_until_idle() {
        group();
        // A fill begins soon after that.
        let _ = running.progress.recv_timeout(SLOW_SYNC / 10);
    }
    running.put(id + 1);
    while began.try_recv().is_ok() {}
    end(&running.log);
    let syncs_soon = began.recv_timeout(SLOW_SYNC).is_ok();
    running.committer.stop();
    syncs_soon
}

#[test]
fn a_group_fills_until_no_thread_has_work_or_a_quiet_client_comes() {
    // A busy machine can spoil a try, which takes a few seconds.
    let once_of_a_few = |condition: &dyn Fn() -> bool| (0..5).any(|_| condition());
    assert!(once_of_a_few(&|| syncs_soon_after(Log::end_work)));
    assert!(once_of_a_few(&|| syncs_soon_after(|log| log.note_quiet_clients(true))));
    let another_works = |log: &Log| {
        log.begin_work();
        log.note_quiet_clients(false);
        log.end_work();
    };
    assert!(once_of_a_few(&|| !syncs_soon_after(another_works)));
}

#[test]
fn a_reply_that_needs_only_a_write_does_not_wait_for_a_fill() {
    let is_written_at_once = || {
        while_a_group_fills(|running, began, second| {
            let fills = began.try_recv().is_err();
            running.log.want_written(second);
            running.log.wake();
            fills && began.recv_timeout(SLOW_SYNC / 2).is_ok()
        })
    };
    assert!(mostly(is_written_at_once));
}

#[test]
fn a_stop_does_not_wait_for_clients() {
    let (disk, _began) = SlowDisk::new();
    let running = run_on(Arc::new(disk), Sync::Always);
    // Both clients leave. So the next group is never full.
    let [first, last] = [1, 2].map(|id| running.log.put(1, QUEUE, &meta(id), b"body").1);
    running.log.wake();
    running.wait(|log| log.durable() >= first);
    let next = running.log.put(1, QUEUE, &meta(3), b"body").1;
    running.log.wake();
    let log = Arc::clone(&running.log);
    running.committer.stop();
    assert!(log.durable() >= last.max(next), "a stop writes all entries");
}
