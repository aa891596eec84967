//! Checks that the log's format does not change by accident. The code must read a stored log
//! correctly, and must write the same bytes for the same calls.
//!
//! The folder `corpus/log/format-1` has the stored log: its segments without the zeros at their
//! ends, and a list of the live contents. If you change the format on purpose, add another folder,
//! and keep `format-1`: new versions must still read format 1.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use lineshaft_log::{
    BodyRef, Current, FaultDisk, Log, Meta, Owner, Position, QueueRef, Restored, Settings, Slot,
};

/// Bytes of a segment's header: see docs/log-format.md.
const HEADER_BYTES: usize = 4096;
const SEGMENT_BYTES: usize = 64 << 10;
/// Counters that are so old are in the next group.
const COUNTS_WAIT_MS: u64 = 1000;
/// A moment in November 2023.
const BEGIN_MS: u64 = 1_700_000_000_000;
const MAILS: QueueRef<'static> = QueueRef { number: 0, name: b"mails" };
const OTHER: QueueRef<'static> = QueueRef { number: 3, name: b"other queue" };

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus/log/format-1"))
}

fn settings() -> Settings {
    Settings { segment_bytes: SEGMENT_BYTES as u64, ..Settings::default() }
}

fn meta(id: u64, state: u8, due_ms: u64, options: &[u8]) -> Meta<'_> {
    let (priority, ttr) = (id as u32 * 1000, id as u32 + 60);
    Meta { id, priority, ttr, created_ms: BEGIN_MS + id, due_ms, state, options }
}

/// The slots of jobs. This owner reports to reclaim that all jobs are buried, in one queue.
struct Places(BTreeMap<u64, Slot>);

impl Owner for Places {
    fn current(&mut self, _: Slot, id: u64) -> Option<Current<'_>> {
        Some(Current { queue: OTHER, meta: meta(id, 4, 0, b"moved") })
    }

    fn moved(&mut self, old: Slot, new: Slot, id: u64, _: Position, _: BodyRef<'_>) {
        assert_eq!(self.0.insert(id, new), Some(old));
    }
}

/// Writes every kind of entry. Reclaim gives up one of the segments.
fn write(disk: &FaultDisk) {
    let mut now_ms = BEGIN_MS;
    let (log, _) = Log::open(Arc::new(disk.clone()), settings(), now_ms, &mut |_| ()).unwrap();
    let commit = |now_ms: &mut u64| {
        *now_ms += 10;
        log.commit_step(*now_ms).unwrap();
    };
    let mut places = Places(BTreeMap::new());
    let mut shared = Vec::new();
    let jobs = [(MAILS, meta(1, 1, 0, b"")), (OTHER, meta(2, 2, BEGIN_MS + 5000, b"o"))];
    log.put_many(now_ms, &jobs, b"a body for two", &mut shared);
    places.0.extend([(1, shared[0]), (2, shared[1])]);
    log.fact(now_ms, b"queue/mails", b"\x01limits");
    log.fact(now_ms, b"gone", b"soon");
    commit(&mut now_ms);
    for id in 3..=40 {
        let options = vec![id as u8; id as usize % 5];
        let body = vec![b'a' + id as u8 % 26; 6000 - id as usize];
        let queue = if id % 2 == 0 { MAILS } else { OTHER };
        let (slot, _) = log.put(now_ms, queue, &meta(id, 1, 0, &options), &body);
        places.0.insert(id, slot);
        if id % 3 == 0 {
            log.finish(now_ms, places.0.remove(&(id - 1)).unwrap());
        }
        if id % 8 == 0 {
            log.update(now_ms, places.0[&id], OTHER, &meta(id, 4, 0, b"updated"));
        }
        if id % 7 == 0 {
            log.count(now_ms - COUNTS_WAIT_MS, places.0[&id], &[id as u8; 24]);
        }
        commit(&mut now_ms);
    }
    log.fact(now_ms, b"gone", b"");
    let both: Vec<Slot> = [37, 39].iter().map(|id| places.0.remove(id).unwrap()).collect();
    log.finish_many(now_ms, &both);
    while log.usage().first_segment < 2 {
        let mut slice = log.reclaim_read().unwrap().unwrap();
        while !log.reclaim_copy(now_ms, &mut slice, &mut places).unwrap() {}
        commit(&mut now_ms);
    }
    log.prepare_step().unwrap();
    log.note_next_id(now_ms, 41);
    log.count(now_ms - COUNTS_WAIT_MS, places.0[&40], b"the newest counters");
    commit(&mut now_ms);
    log.close(now_ms, 41).unwrap();
}

/// The segments of a disk, without the zeros at their ends. The last segment is prepared, and has
/// no group yet. After its header, the file may have old data.
fn segments(disk: &FaultDisk) -> BTreeMap<String, Vec<u8>> {
    let mut numbered = disk.names();
    numbered.retain(|name| name.starts_with('0'));
    let last = numbered.iter().max().cloned();
    numbered
        .into_iter()
        .map(|name| {
            let mut bytes = disk.bytes(&name).unwrap();
            assert_eq!(bytes.len(), SEGMENT_BYTES);
            if Some(&name) == last.as_ref() {
                bytes.truncate(HEADER_BYTES);
            }
            bytes.truncate(bytes.iter().rposition(|&byte| byte != 0).unwrap() + 1);
            (name, bytes)
        })
        .collect()
}

/// The stored segments in the repository.
fn kept_segments() -> BTreeMap<String, Vec<u8>> {
    let files = std::fs::read_dir(folder()).unwrap().map(|file| file.unwrap().path());
    files
        .filter(|path| path.extension().is_some_and(|extension| extension == "seg"))
        .map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, std::fs::read(&path).unwrap())
        })
        .collect()
}

/// The live contents, with one line for each job and fact.
fn listing(disk: &FaultDisk) -> String {
    let mut lines = String::new();
    let mut line = |restored: Restored<'_>| match restored {
        Restored::Job { slot, position, queue, meta, counters, body, .. } => {
            let Meta { id, priority, ttr, created_ms, due_ms, state, options } = meta;
            writeln!(
                lines,
                "job {id} slot {}.{} end {}.{} queue {:?} priority {priority} ttr {ttr} created \
                 {created_ms} due {due_ms} state {state} options {:?} counters {:?} body {} {:08x}",
                slot.segment,
                slot.index,
                position.segment(),
                position.offset(),
                String::from_utf8_lossy(queue),
                String::from_utf8_lossy(options),
                counters.map(String::from_utf8_lossy),
                body.len(),
                crc32fast::hash(&body.read().unwrap()),
            )
            .unwrap();
        }
        Restored::Block { .. } => panic!("there are no index files"),
        Restored::Fact { key, value, .. } => {
            let (key, value) = (String::from_utf8_lossy(key), String::from_utf8_lossy(value));
            writeln!(lines, "fact {key:?} {value:?}").unwrap();
        }
    };
    let disk = Arc::new(disk.clone());
    let (_, report) = Log::open(disk, settings(), BEGIN_MS, &mut line).unwrap();
    // The lists are older than this field.
    let report = format!("{report:?}").replace(" indexed: 0,", "");
    writeln!(lines, "{report}").unwrap();
    lines
}

fn written() -> FaultDisk {
    // The seed decides the log's id and the salts.
    let disk = FaultDisk::new(1, 64 << 20);
    write(&disk);
    disk.restart();
    disk
}

#[test]
fn a_log_of_format_1_is_read_as_it_was_meant() {
    let disk = FaultDisk::new(2, 64 << 20);
    for (name, mut bytes) in kept_segments() {
        bytes.resize(SEGMENT_BYTES, 0);
        disk.set_bytes(&name, bytes);
    }
    let expected = std::fs::read_to_string(folder().join("expected.txt")).unwrap();
    assert_eq!(listing(&disk), expected);
}

#[test]
fn the_same_calls_write_the_same_bytes() {
    let disk = written();
    let (written, kept) = (segments(&disk), kept_segments());
    if let Some(name) = first_difference(&written, &kept) {
        // Write the new segments to another folder. If you changed the format on purpose, you can
        // store these files in the repository.
        let aside = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("written-log");
        std::fs::create_dir_all(&aside).unwrap();
        for (name, bytes) in &written {
            std::fs::write(aside.join(name), bytes).unwrap();
        }
        std::fs::write(aside.join("expected.txt"), listing(&disk)).unwrap();
        panic!("{name}; what was written is in {}", aside.display());
    }
}

/// Describes the first difference of two logs.
fn first_difference(
    written: &BTreeMap<String, Vec<u8>>,
    kept: &BTreeMap<String, Vec<u8>>,
) -> Option<String> {
    if !written.keys().eq(kept.keys()) {
        return Some(format!("segments {:?} instead of {:?}", written.keys(), kept.keys()));
    }
    written.iter().find_map(|(name, bytes)| {
        let kept = &kept[name];
        let differs = bytes.iter().zip(kept).position(|(a, b)| a != b);
        let at = differs.or((bytes.len() != kept.len()).then(|| bytes.len().min(kept.len())))?;
        Some(format!("{name}: the byte at {at} is another"))
    })
}
