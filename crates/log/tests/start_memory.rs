//! The memory of a start. This is the only test of its process, because it measures the process.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;
use std::sync::Arc;

use common::resident_bytes_max;
use lineshaft_log::{Log, Meta, PosixDisk, QueueRef, Restored, Settings, Sync};

const QUEUE: QueueRef<'static> = QueueRef { number: 0, name: b"mails" };

/// The changes of the job that stays. There is one more of another job with each.
const CHANGES: u64 = 200_000;

fn open(folder: &Path, restore: &mut dyn FnMut(Restored<'_>)) -> Log {
    let settings = Settings { segment_bytes: 1 << 20, sync: Sync::Never, ..Settings::default() };
    let disk = Arc::new(PosixDisk::new(folder).unwrap());
    Log::open(disk, settings, 1000, restore).unwrap().0
}

fn meta(id: u64, options: &[u8]) -> Meta<'_> {
    Meta { id, priority: 1, ttr: 60, created_ms: 1, due_ms: 0, state: 0, options }
}

#[test]
fn a_start_needs_memory_only_for_the_newest_changes_of_live_jobs() {
    let folder = tempfile::tempdir().unwrap();
    let log = open(folder.path(), &mut |_| ());
    let options = |change: u64| vec![7_u8; 100 + change as usize % 30];
    let (stays, _) = log.put(1000, QUEUE, &meta(1, b""), b"x");
    for change in 1..=CHANGES {
        let (id, options) = (change + 1, options(change));
        log.update(1000, stays, QUEUE, &meta(1, &options));
        let (ends, _) = log.put(1000, QUEUE, &meta(id, b""), b"x");
        log.update(1000, ends, QUEUE, &meta(id, &options));
        log.finish(1000, ends);
        if change.is_multiple_of(500) {
            log.commit_step(1000).unwrap();
            log.prepare_step().unwrap();
        }
    }
    log.commit_step(1000).unwrap();
    assert!(log.usage().written_bytes > 60 << 20);
    drop(log);
    let before = resident_bytes_max();
    let mut found = Vec::new();
    open(folder.path(), &mut |restored| {
        if let Restored::Job { meta, .. } = restored {
            found.push((meta.id, meta.options.to_vec()));
        }
    });
    let grown = resident_bytes_max() - before;
    assert_eq!(found, [(1, options(CHANGES))]);
    assert!(grown < 24 << 20, "a start needed {grown} bytes");
}
