//! The memory that a build of an index takes. This is the only test of its process, because it measures
//! the process.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use common::{classify, resident_bytes_max};
use lineshaft_log::{Log, Meta, PosixDisk, QueueRef, Settings};

/// The memory for each slot. A row takes less than ten bytes, its key 24, its id 16, and its places in
/// other tables 9.
const SLOT_BYTES_MAX: u64 = 90;

#[test]
fn an_index_of_very_many_jobs_is_built_in_little_memory() {
    let folder = tempfile::tempdir().unwrap();
    let settings =
        Settings { segment_bytes: 32 << 20, classify: Some(classify), ..Settings::default() };
    let disk = Arc::new(PosixDisk::new(folder.path()).unwrap());
    let log = Log::open(disk, settings, 1000, &mut |_| ()).unwrap().0;
    let queue = QueueRef { number: 0, name: b"mails" };
    let mut slots = 0;
    while log.durable().segment() == 1 {
        for _ in 0..1000 {
            slots += 1;
            let (id, options) = (slots, &b""[..]);
            let meta =
                Meta { id, priority: 1, ttr: 60, created_ms: id, due_ms: 0, state: 1, options };
            log.put(1000, queue, &meta, b"");
        }
        log.commit_step(1000).unwrap();
        log.prepare_step().unwrap();
    }
    assert!(slots > 500_000, "{slots} jobs");
    log.hurry_indexing(true);
    let before = resident_bytes_max();
    assert_eq!(log.index_step().unwrap(), Some(1));
    let grown = resident_bytes_max() - before;
    assert!(grown < slots * SLOT_BYTES_MAX, "{grown} bytes for {slots} jobs");
}
