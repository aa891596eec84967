//! A start reads the log in pieces, in two threads.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::Arc;

use lineshaft_log::{
    FaultDisk, Log, Meta, OpenError, PosixDisk, QueueRef, Restored, Settings, salvage,
};

const QUEUE: QueueRef<'static> = QueueRef { number: 0, name: b"mails" };
const FIRST: &str = "0000000001.seg";

fn meta(id: u64) -> Meta<'static> {
    Meta { id, priority: 1, ttr: 60, created_ms: 1, due_ms: 0, state: 0, options: b"" }
}

fn settings() -> Settings {
    Settings { segment_bytes: 256 << 10, ..Settings::default() }
}

/// The body of a job: up to 300 bytes, but a few that are much larger than a piece.
fn body(id: u64) -> Vec<u8> {
    let len = if id.is_multiple_of(500) { 100_000 } else { id * 37 % 300 };
    (0..len).map(|at| (id * 7 + at) as u8).collect()
}

/// A log of several segments: 3,000 jobs in groups of 1 to 90, and every third job is finished.
fn large() -> FaultDisk {
    let disk = FaultDisk::new(1, 64 << 20);
    let log = Log::open(Arc::new(disk.clone()), settings(), 1000, &mut |_| ()).unwrap().0;
    let (mut slots, mut in_group) = (BTreeMap::new(), 0);
    for id in 1..=3000 {
        slots.insert(id, log.put(1000, QUEUE, &meta(id), &body(id)).0);
        in_group += 1;
        if in_group > id % 90 {
            in_group = 0;
            log.commit_step(1000).unwrap();
            log.prepare_step().unwrap();
        }
    }
    for id in (3..=3000).step_by(3) {
        log.finish(1001, slots[&id]);
    }
    log.commit_step(1001).unwrap();
    drop(log);
    disk.crash();
    disk.restart();
    disk
}

/// Starts on the disk. Calls `restore` with each job's id and body.
fn start(disk: &FaultDisk, restore: &mut dyn FnMut(u64, &[u8])) -> Result<(), OpenError> {
    Log::open(Arc::new(disk.clone()), settings(), 2000, &mut |restored| match restored {
        Restored::Job { meta, body, .. } => {
            let read = body.read().unwrap();
            assert_eq!(body.len(), read.len());
            // An owner may keep each body in memory, no body, or some of them.
            if meta.id % 1000 < 700 || meta.id.is_multiple_of(7) {
                assert_eq!(*body.shared().unwrap(), *read, "job {}", meta.id);
            }
            restore(meta.id, &read);
        }
        other => panic!("{other:?}"),
    })
    .map(drop)
}

#[test]
fn each_job_comes_back_once_and_in_order() {
    let disk = large();
    assert!(disk.names().iter().filter(|name| name.ends_with("seg")).count() > 3);
    let mut found = Vec::new();
    start(&disk, &mut |id, read| {
        assert_eq!(read, body(id), "job {id}");
        found.push(id);
    })
    .unwrap();
    let live: Vec<u64> = (1..=3000_u64).filter(|id| !id.is_multiple_of(3)).collect();
    assert_eq!(found, live);
}

#[test]
fn damage_in_a_later_piece_is_named_and_ends_the_start() {
    let disk = large();
    let offset = 200_000;
    disk.flip_bit(FIRST, offset * 8);
    let reads = |disk: &FaultDisk| {
        let before = disk.reads();
        let error = start(disk, &mut |id, _| panic!("job {id}")).unwrap_err();
        let OpenError::Damaged { file, offset: at, what } = error else { panic!("{error}") };
        assert!(file.ends_with(FIRST) && what == "a group's checksum", "{file}: {what}");
        assert!(at <= offset && offset < at + 110_000, "the group is at {at}");
        disk.reads() - before
    };
    // The reads do not depend on which thread is faster.
    assert_eq!(reads(&disk.fork()), reads(&disk.fork()));
}

#[test]
fn a_read_that_fails_in_a_sealed_segment_ends_the_start() {
    let disk = large();
    let before = disk.reads();
    start(&disk.fork(), &mut |_, _| ()).unwrap();
    let fork = disk.fork();
    start(&fork, &mut |_, _| ()).unwrap();
    let all = fork.reads() - before;
    assert!(all > 100, "{all} reads");
    let mut refused = 0;
    for read in (1..=all).step_by(7) {
        let fork = disk.fork();
        fork.fail_read_at(before + read);
        match start(&fork, &mut |_, _| ()) {
            // Reads of the last segment are repeated block by block.
            Ok(()) => {}
            Err(OpenError::Io { .. }) => refused += 1,
            Err(error) => panic!("read {read}: {error}"),
        }
    }
    assert!(refused > 10, "{refused} starts were refused");
}

#[test]
fn a_file_that_only_has_the_name_of_a_spare_is_left_alone() {
    let disk = FaultDisk::new(5, 64 << 20);
    let size = settings().segment_bytes as usize;
    let journals = [("spare-2", b"\x00\x00\x00\x01journal".to_vec()), ("blank-30", vec![7; size])];
    for (name, bytes) in &journals {
        disk.set_bytes(name, bytes.clone());
    }
    // Left over by a log with segments of another size.
    disk.set_bytes("spare-4", [b"LINESHFT".to_vec(), vec![0; 5000]].concat());
    let log = Log::open(Arc::new(disk.clone()), settings(), 1000, &mut |_| ()).unwrap().0;
    for id in 1..2000 {
        log.put(1000, QUEUE, &meta(id), &body(id));
        log.commit_step(1000).unwrap();
        log.prepare_step().unwrap();
    }
    for (name, bytes) in &journals {
        assert_eq!(disk.bytes(name).as_ref(), Some(bytes), "{name}");
    }
    assert_eq!(disk.bytes("spare-4"), None);
}

/// A log can have more segments than the process can have open files.
#[test]
fn a_start_and_a_salvage_keep_few_segments_open() {
    let disk = large();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap();
    for name in disk.names() {
        std::fs::write(path.join(&name), disk.bytes(&name).unwrap()).unwrap();
    }
    let open_now = || {
        let files = std::fs::read_dir("/proc/self/fd").unwrap();
        // Meanwhile, other tests close files.
        let files = files.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
        files
            .filter(|file| file.starts_with(&path) && file.extension().is_some_and(|e| e == "seg"))
            .count()
    };
    let (mut jobs, mut most) = (0, 0);
    let mut note = |_: Restored<'_>| {
        jobs += 1;
        most = most.max(open_now());
    };
    let posix = PosixDisk::new(&path).unwrap();
    drop(Log::open(Arc::new(posix), settings(), 2000, &mut note).unwrap());
    let mut bytes = disk.bytes(FIRST).unwrap();
    bytes[200_000] ^= 1;
    std::fs::write(path.join(FIRST), bytes).unwrap();
    let salvaged = salvage(&PosixDisk::read_only(&path).unwrap(), &mut note).unwrap();
    assert!(salvaged.refusal.is_some() && jobs > 3000, "{jobs} jobs came back");
    // The last segment, in which the log goes on, and the one that is read.
    assert!(most <= 2, "{most} segments were open at once");
}
