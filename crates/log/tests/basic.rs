//! Round trips on the real disk.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use lineshaft_log::{
    FaultDisk, Log, Meta, OpenError, PosixDisk, QueueRef, Restored, Settings, Slot, Sync,
};

#[derive(Debug, Clone, PartialEq, Eq)]
struct Job {
    slot: Slot,
    queue: Vec<u8>,
    id: u64,
    priority: u32,
    options: Vec<u8>,
    counters: Option<Vec<u8>>,
    body: Vec<u8>,
}

fn meta(id: u64) -> Meta<'static> {
    Meta { id, priority: 7, ttr: 60, created_ms: 1, due_ms: 0, state: 2, options: b"opt" }
}

const QUEUE: QueueRef<'static> = QueueRef { number: 3, name: b"mails" };

fn settings() -> Settings {
    Settings { segment_bytes: 256 << 10, sync: Sync::Always, ..Settings::default() }
}

type Facts = Vec<(Vec<u8>, Vec<u8>)>;

/// Opens the log in a folder. Also returns its jobs, its facts and the next id.
fn open(folder: &std::path::Path) -> (Log, Vec<Job>, Facts, u64) {
    let disk = Arc::new(PosixDisk::new(folder).unwrap());
    let (mut jobs, mut facts) = (Vec::new(), Vec::new());
    let (log, report) = Log::open(disk, settings(), 1000, &mut |restored| match restored {
        Restored::Job { slot, queue, meta, counters, body, .. } => jobs.push(Job {
            slot,
            queue: queue.to_vec(),
            id: meta.id,
            priority: meta.priority,
            options: meta.options.to_vec(),
            counters: counters.map(<[u8]>::to_vec),
            body: body.read().unwrap().to_vec(),
        }),
        Restored::Block { .. } => panic!("there are no index files"),
        Restored::Fact { key, value, .. } => facts.push((key.to_vec(), value.to_vec())),
    })
    .unwrap();
    (log, jobs, facts, report.next_id)
}

/// The log fills its files with zeros ahead of their use. A start must not take the zeros of a body
/// for unused space.
#[test]
fn a_body_of_zeros_at_the_end_of_the_log_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let body = vec![0; 100_000];
    let (log, ..) = open(folder.path());
    log.put(1000, QUEUE, &meta(1), &body);
    log.commit_step(1002).unwrap();
    drop(log);
    let (_log, jobs, ..) = open(folder.path());
    assert_eq!(jobs.iter().map(|job| &job.body).collect::<Vec<_>>(), [&body]);
}

/// Counters wait for up to a second before they are written. Meanwhile they must neither hold
/// clients back nor make the log look busy.
#[test]
fn counters_that_wait_do_not_count_as_a_backlog() {
    let folder = tempfile::tempdir().unwrap();
    let (log, ..) = open(folder.path());
    let slots: Vec<_> = (1..=40).map(|id| log.put(1000, QUEUE, &meta(id), b"a").0).collect();
    log.commit_step(1000).unwrap();
    let count = |slot: &Slot| log.count(1000, *slot, &[7; 1000]);
    slots[..30].iter().for_each(count);
    assert_eq!((log.open_batch_bytes(), log.has_backlog()), (0, false));
    assert!(!log.commit_step(1000).unwrap().wrote);
    // An eighth of a segment is enough.
    slots[30..].iter().for_each(count);
    assert_eq!(log.next_step_ms(), Some(0));
    assert!(log.commit_step(1000).unwrap().wrote);
    assert_eq!(log.next_step_ms(), Some(1000 + 100), "the time of a mark");
}

#[test]
fn appended_jobs_come_back() {
    let folder = tempfile::tempdir().unwrap();
    {
        let (log, jobs, ..) = open(folder.path());
        assert_eq!((jobs.len(), log.id_limit()), (0, 1 + (1 << 20)));
        let (kept, _) = log.put(1000, QUEUE, &meta(1), b"kept");
        let (gone, _) = log.put(1000, QUEUE, &meta(2), b"gone");
        let (updated, _) = log.put(1000, QUEUE, &meta(3), b"updated");
        log.count(1000, kept, b"counted");
        log.count(1000, gone, b"counted");
        log.count(1000, updated, b"older than the update");
        log.finish(1001, gone);
        let other = QueueRef { number: 4, name: b"other" };
        log.update(1001, updated, other, &Meta { priority: 9, options: b"", ..meta(3) });
        log.fact(1001, b"pause", b"1");
        log.fact(1001, b"gone", b"1");
        let position = log.fact(1001, b"gone", b"");
        assert!(log.durable() < position);
        log.commit_step(1002).unwrap();
        assert!(log.durable() >= position);
        assert_eq!(log.next_step_ms(), Some(1002 + 100), "the time of a mark");
        log.commit_step(2000).unwrap();
    }
    let (log, jobs, facts, next_id) = open(folder.path());
    assert_eq!(next_id, 1 + (1 << 20));
    assert_eq!(facts, [(b"pause".to_vec(), b"1".to_vec())]);
    let job = |index, id, queue: &[u8], priority, options: &[u8], counters, body: &[u8]| Job {
        slot: Slot { segment: 1, index },
        queue: queue.to_vec(),
        id,
        priority,
        options: options.to_vec(),
        counters,
        body: body.to_vec(),
    };
    let counted = Some(b"counted".to_vec());
    assert_eq!(
        jobs,
        [
            job(0, 1, b"mails", 7, b"opt", counted, b"kept"),
            job(2, 3, b"other", 9, b"", None, b"updated")
        ]
    );
    log.close(1003, 77).unwrap();
    drop(log);
    assert_eq!(open(folder.path()).3, 77);
}

/// A new limit of ids applies only after a sync, which can take seconds. If ids come near the old
/// limit during the sync, the server must stop reading from clients. So the log must raise the
/// limit early.
#[test]
fn a_fact_counts_once_whatever_its_values_were() {
    let bytes_with = |facts: &[(&[u8], &[u8])]| {
        let folder = tempfile::tempdir().unwrap();
        let (log, ..) = open(folder.path());
        for (key, value) in facts {
            log.fact(1000, key, value);
        }
        log.usage().live_bytes
    };
    let (short, long) = (&[7; 10][..], &[7; 1000][..]);
    let once = bytes_with(&[(b"key", short), (b"other", long)]);
    let often = [(&b"key"[..], long), (b"gone", long), (b"other", short), (b"key", short)];
    let often = [&often[..], &[(b"other", long), (b"key", short), (b"gone", b"")]].concat();
    assert_eq!(bytes_with(&often), once);
    assert!(once > 1000);
}

#[test]
fn ids_are_reserved_long_before_they_are_dealt() {
    let settings = Settings { sync: Sync::Never, ..settings() };
    let disk = Arc::new(FaultDisk::new(1, 64 << 20));
    let (log, report) = Log::open(disk, settings, 1000, &mut |_| ()).unwrap();
    let mut next = report.next_id;
    for _ in 0..10_000 {
        next += 1000;
        log.note_next_id(1000, next);
        let left = log.id_limit() - next;
        log.commit_step(1000).unwrap();
        let is_begun = next > report.next_id + (1 << 20);
        assert!(left > if is_begun { (2 << 20) - 1000 } else { (1 << 19) - 1000 }, "{left}");
    }
    assert!(log.id_limit() - next <= 3 << 20, "few are lost in a crash");
}

#[test]
fn a_mark_without_room_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let (log, ..) = open(folder.path());
    log.put(1000, QUEUE, &meta(1), b"");
    log.commit_step(1000).unwrap();
    // After the next put, the log is started 13 times, and each start writes a group. The put is so
    // large that 24 bytes of the segment are left then. A mark needs 56 bytes, so it does not fit.
    let starts = 13;
    let entry_len = (256 << 10) - log.durable().offset() as usize - 56 - 24 - starts * 80;
    log.put(1000, QUEUE, &meta(2), &vec![0; entry_len - 12 - 40 - 3]);
    log.commit_step(1000).unwrap();
    let mut log = Some(log);
    for _ in 0..starts {
        // Close the log first, because only one log can hold the lock of the folder.
        drop(log.take());
        log = Some(open(folder.path()).0);
    }
    let log = log.unwrap();
    let position = log.durable();
    assert_eq!((position.segment(), position.offset()), (1, (256 << 10) - 24));
    let mark_due_ms = log.next_step_ms().unwrap();
    log.commit_step(mark_due_ms).unwrap();
    assert_eq!(log.next_step_ms(), None, "the committer would not sleep");
}

#[test]
fn a_wish_for_a_sync_that_comes_after_the_write_is_not_overlooked() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Arc::new(PosixDisk::new(folder.path()).unwrap());
    let settings = Settings { sync: Sync::Never, ..settings() };
    let (log, _) = Log::open(disk, settings, 1000, &mut |_| ()).unwrap();
    let (_, position) = log.put(1000, QUEUE, &meta(1), b"");
    log.commit_step(1000).unwrap();
    // The owner requests a sync at the end of its turn. Before this request, the committer has
    // already written the entry.
    log.want_sync_by(1050);
    assert_eq!(log.next_step_ms(), Some(0), "the committer would sleep");
    log.commit_step(1001).unwrap();
    assert_eq!(log.next_step_ms(), Some(1050));
    assert!(log.durable() < position);
    log.commit_step(1050).unwrap();
    assert!(log.durable() >= position);
}

#[test]
fn other_users_can_read_nothing() {
    use std::os::unix::fs::PermissionsExt as _;
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("above/data");
    drop(open(&folder));
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    for file in std::fs::read_dir(&folder).unwrap() {
        let path = file.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
}

#[test]
fn files_of_others_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let names = ["spare-keys.txt", "spare-", "blank-form", "spare-1b", "notes", "7.seg"];
    for name in names {
        std::fs::write(folder.path().join(name), "mine").unwrap();
    }
    std::fs::create_dir(folder.path().join("spare-3")).unwrap();
    for _ in 0..2 {
        drop(open(folder.path()));
        for name in names {
            assert_eq!(std::fs::read(folder.path().join(name)).unwrap(), b"mine", "{name}");
        }
        assert!(folder.path().join("spare-3").is_dir());
    }
}

#[test]
fn bodies_of_all_sizes_cross_segments() {
    let folder = tempfile::tempdir().unwrap();
    let sizes = [0_usize, 1, 7, 8, 100, 65_535, 250_000, 262_144, 1 << 20, 3, 200_000, 200_000];
    {
        let (log, ..) = open(folder.path());
        for (index, &size) in sizes.iter().enumerate() {
            log.put(1000, QUEUE, &meta(index as u64 + 1), &vec![index as u8; size]);
            if index % 3 == 0 {
                log.commit_step(1000).unwrap();
            }
        }
        log.commit_step(1000).unwrap();
    }
    let (_, jobs, ..) = open(folder.path());
    let found: Vec<usize> = jobs.iter().map(|job| job.body.len()).collect();
    assert_eq!(found, sizes);
    assert!(jobs.iter().enumerate().all(|(i, job)| job.body.iter().all(|&b| b == i as u8)));
}

/// The finishes of a pipelining client follow one another. They share an entry, so each needs 8 bytes
/// instead of 24.
#[test]
fn finishes_that_follow_one_another_share_an_entry() {
    let folder = tempfile::tempdir().unwrap();
    let written = |log: &Log| log.usage().written_bytes;
    {
        let (log, ..) = open(folder.path());
        let slots: Vec<Slot> = (1..=100).map(|id| log.put(1000, QUEUE, &meta(id), b"").0).collect();
        let before = written(&log);
        for slot in &slots[..40] {
            log.finish(1000, *slot);
        }
        assert_eq!(written(&log) - before, 336, "a head of 12 bytes, 40 slots, and padding");
        // An entry of another kind ends the run, and so does a commit.
        log.fact(1000, b"between", b"1");
        let before = written(&log);
        log.finish(1000, slots[40]);
        assert_eq!(written(&log) - before, 24);
        log.commit_step(1000).unwrap();
        let before = written(&log);
        let entries = log.usage().entries;
        log.finish_many(1000, &slots[41..43]);
        log.finish(1000, slots[43]);
        assert_eq!((written(&log) - before, log.usage().entries - entries), (40, 2));
        log.commit_step(1000).unwrap();
    }
    let (_, jobs, ..) = open(folder.path());
    assert_eq!(jobs.iter().map(|job| job.id).collect::<Vec<_>>(), (45..=100).collect::<Vec<_>>());
}

#[test]
fn an_entry_ends_at_most_65535_jobs() {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings { segment_bytes: 64 << 20, ..settings() };
    let disk = || Arc::new(PosixDisk::new(folder.path()).unwrap());
    {
        let (log, _) = Log::open(disk(), settings.clone(), 1000, &mut |_| ()).unwrap();
        let queue = vec![(QUEUE, meta(1)); 1000];
        let mut slots = Vec::new();
        for _ in 0..70 {
            log.put_many(1000, &queue, b"", &mut slots);
        }
        log.finish_many(1000, &slots[..40_000]);
        for slot in &slots[40_000..] {
            log.finish(1000, *slot);
        }
        log.commit_step(1000).unwrap();
    }
    let mut found = 0;
    Log::open(disk(), settings, 1000, &mut |restored| {
        found += u32::from(matches!(restored, Restored::Job { .. }));
    })
    .unwrap();
    assert_eq!(found, 0);
}

#[test]
fn a_second_process_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (_log, ..) = open(folder.path());
    let disk = Arc::new(PosixDisk::new(folder.path()).unwrap());
    let error = Log::open(disk, settings(), 1000, &mut |_| ()).unwrap_err();
    assert!(matches!(error, OpenError::Locked { .. }), "{error}");
}
