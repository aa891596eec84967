//! The gate: the committer writes only what the owner has let through, and each cut is one group.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use common::settings;
use lineshaft_log::{
    BodyRef, Current, FaultDisk, Log, Meta, Owner, Position, QueueRef, Restored, Settings, Slot,
    Sync,
};

const QUEUE: QueueRef<'static> = QueueRef { number: 0, name: b"mails" };
const NOW: u64 = 1000;

fn meta(id: u64) -> Meta<'static> {
    Meta { id, priority: 7, ttr: 60, created_ms: 1, due_ms: 0, state: 0, options: b"" }
}

/// Jobs by id: their slots and their bodies.
#[derive(Debug, Default)]
struct Jobs(BTreeMap<u64, (Slot, Vec<u8>)>);

impl Jobs {
    fn ids(&self) -> Vec<u64> {
        self.0.keys().copied().collect()
    }
}

impl Owner for Jobs {
    fn current(&mut self, _: Slot, id: u64) -> Option<Current<'_>> {
        self.0.contains_key(&id).then(|| Current { queue: QUEUE, meta: meta(id) })
    }

    fn moved(&mut self, old: Slot, new: Slot, id: u64, _: Position, _: BodyRef<'_>) {
        let place = &mut self.0.get_mut(&id).unwrap().0;
        assert_eq!(std::mem::replace(place, new), old);
    }
}

fn open_with(disk: &FaultDisk, settings: Settings) -> (Log, Jobs, u64) {
    let mut jobs = Jobs::default();
    let (log, report) = Log::open(Arc::new(disk.clone()), settings, NOW, &mut |restored| {
        if let Restored::Job { slot, meta, body, .. } = restored {
            jobs.0.insert(meta.id, (slot, body.read().unwrap().to_vec()));
        }
    })
    .unwrap();
    (log, jobs, report.next_id)
}

fn open(disk: &FaultDisk) -> (Log, Jobs) {
    let (log, jobs, _) = open_with(disk, settings(Sync::Always));
    (log, jobs)
}

fn put(log: &Log, id: u64, bytes: usize) -> Slot {
    log.put(NOW, QUEUE, &meta(id), &vec![b'x'; bytes]).0
}

/// The jobs of a disk after a crash: the newest synced state, and nothing else.
fn after_a_crash(disk: &FaultDisk) -> Vec<u64> {
    let copy = disk.fork();
    copy.crash();
    copy.restart();
    open(&copy).1.ids()
}

#[test]
fn nothing_behind_the_gate_is_written() {
    let disk = FaultDisk::new(1, 64 << 20);
    let (log, _) = open(&disk);
    log.set_gate(Some(log.cut()));
    let before = log.written();
    put(&log, 1, 10);
    put(&log, 2, 10);
    let first = log.cut();
    put(&log, 3, 10);
    let second = log.cut();
    put(&log, 4, 10);
    for _ in 0..3 {
        assert!(!log.commit_step(NOW).unwrap().wrote);
    }
    assert_eq!((log.written(), after_a_crash(&disk)), (before, vec![]));

    log.set_gate(Some(first));
    let done = log.commit_step(NOW).unwrap();
    assert_eq!((done.wrote, done.entries), (true, 3), "a name and two jobs");
    assert_eq!((log.written(), log.durable()), (first, first));
    assert_eq!(after_a_crash(&disk), [1, 2]);

    log.set_gate(Some(second));
    log.commit_step(NOW).unwrap();
    assert_eq!((log.written(), after_a_crash(&disk)), (second, vec![1, 2, 3]));

    log.set_gate(None);
    log.commit_step(NOW).unwrap();
    assert!(log.written() > second);
    assert_eq!(after_a_crash(&disk), [1, 2, 3, 4]);
}

/// If the gate is opened for several parts at once, each part is a group of its own. So recovery
/// finds a part as a whole or not at all.
#[test]
fn each_part_is_found_as_a_whole_or_not_at_all() {
    let parts: [&[u64]; 4] = [&[1, 2, 3], &[4], &[5, 6], &[7, 8, 9, 10]];
    let prefixes: Vec<Vec<u64>> = (0..=parts.len()).map(|n| parts[..n].concat()).collect();
    let mut seen = [false; 5];
    // Four writes and a sync. In the last round, nothing fails.
    for (call, seed) in (1..=6).flat_map(|call| (0..30).map(move |seed| (call, seed))) {
        let disk = FaultDisk::new(seed, 64 << 20);
        let (log, _) = open(&disk);
        log.set_gate(Some(log.cut()));
        for part in parts {
            for &id in part {
                put(&log, id, 3000);
            }
            log.set_gate(Some(log.cut()));
        }
        disk.crash_at(disk.calls() + call);
        let done = log.commit_step(NOW).is_ok();
        assert_eq!(done, call == 6);
        drop(log);
        disk.crash();
        disk.restart();
        let found = open(&disk).1.ids();
        let number = prefixes.iter().position(|prefix| *prefix == found);
        let number = number.unwrap_or_else(|| panic!("crash at call {call}: found {found:?}"));
        assert!(!done || number == parts.len());
        seen[number] = true;
    }
    assert_eq!(seen, [true; 5]);
}

#[test]
fn the_committer_sleeps_while_everything_waits_behind_the_gate() {
    let disk = FaultDisk::new(1, 64 << 20);
    let (log, _) = open(&disk);
    log.commit_step(NOW + 500).unwrap();
    log.set_gate(Some(log.cut()));
    put(&log, 1, 10);
    let part = log.cut();
    log.commit_step(NOW + 500).unwrap();
    let next = log.next_step_ms();
    assert!(next.is_none_or(|due_ms| due_ms > NOW + 500), "spins: {next:?}");
    let size = log.open_batch_bytes();
    assert!(size > 10, "a client is still held back if too much waits");
    log.set_gate(Some(part));
    assert_eq!(log.next_step_ms(), Some(0));
}

#[test]
fn a_part_can_fill_segments_behind_the_gate() {
    let disk = FaultDisk::new(1, 64 << 20);
    let (log, _) = open(&disk);
    log.set_gate(Some(log.cut()));
    let before = log.written();
    for id in 1..=40 {
        log.keep_together(NOW, 20 << 10);
        put(&log, id, 16 << 10);
        log.cut();
    }
    log.commit_step(NOW).unwrap();
    assert_eq!(log.written(), before);
    let left = log.room_left();
    assert!((1024..256 << 10).contains(&left), "{left}");
    log.set_gate(None);
    log.commit_step(NOW).unwrap();
    assert!(log.written().segment() >= 3);
    assert_eq!(after_a_crash(&disk), (1..=40).collect::<Vec<_>>());
}

/// A segment is freed when its TRIM entry is durable. Behind a gate, that takes as long as the gate
/// is closed. When the gate is open, reclaim continues.
#[test]
fn reclaim_frees_nothing_behind_the_gate() {
    let disk = FaultDisk::new(1, 64 << 20);
    let (log, mut jobs) = open(&disk);
    for id in 1..=60 {
        jobs.0.insert(id, (put(&log, id, 16 << 10), Vec::new()));
    }
    log.commit_step(NOW).unwrap();
    for id in 1..=59 {
        let (slot, _) = jobs.0.remove(&id).unwrap();
        log.finish(NOW, slot);
    }
    log.commit_step(NOW).unwrap();
    let reclaim = |jobs: &mut Jobs| {
        while log.reclaim_wanted() {
            let Some(mut slice) = log.reclaim_read().unwrap() else { break };
            while !log.reclaim_copy(NOW, &mut slice, jobs).unwrap() {}
        }
    };
    log.set_gate(Some(log.cut()));
    let used = log.usage().data_bytes;
    reclaim(&mut jobs);
    log.commit_step(NOW).unwrap();
    log.prepare_step().unwrap();
    assert_eq!((log.usage().data_bytes, after_a_crash(&disk)), (used, vec![60]));
    log.set_gate(None);
    log.commit_step(NOW).unwrap();
    log.prepare_step().unwrap();
    assert!(log.usage().data_bytes < used, "{used}");
    assert_eq!(after_a_crash(&disk), [60]);
}

#[test]
fn counters_and_limits_of_ids_can_be_part_of_a_group() {
    let disk = FaultDisk::new(1, 64 << 20);
    let (log, _) = open(&disk);
    log.set_gate(Some(log.cut()));
    let slot = put(&log, 1, 10);
    log.count(NOW, slot, b"older");
    log.count_now(NOW, slot, b"counted");
    let limit = log.id_limit() + (5 << 20);
    log.reserve_ids(NOW, limit);
    log.note_next_id(NOW, limit - (4 << 20));
    let part = log.cut();
    log.commit_step(NOW + 5000).unwrap();
    assert!(log.id_limit() < limit, "the limit is not durable");
    log.set_gate(Some(part));
    log.commit_step(NOW + 5000).unwrap();
    assert_eq!((log.durable(), log.id_limit()), (part, limit));
    log.set_gate(None);
    log.commit_step(NOW + 9000).unwrap();
    drop(log);
    disk.crash();
    disk.restart();
    let mut counters = Vec::new();
    let (_, report) = Log::open(Arc::new(disk), settings(Sync::Always), NOW, &mut |restored| {
        if let Restored::Job { counters: Some(found), .. } = restored {
            counters.push(found.to_vec());
        }
    })
    .unwrap();
    assert_eq!((counters, report.next_id), (vec![b"counted".to_vec()], limit));
}

#[test]
#[should_panic(expected = "nothing waits behind a gate")]
fn a_log_with_a_gate_is_not_closed() {
    let disk = FaultDisk::new(1, 64 << 20);
    let (log, _) = open(&disk);
    log.set_gate(Some(log.cut()));
    let _ = log.close(NOW, 1);
}

#[test]
#[should_panic(expected = "the values are equally long")]
fn a_fact_behind_the_gate_keeps_its_length() {
    let disk = FaultDisk::new(1, 64 << 20);
    let (log, _) = open(&disk);
    log.set_gate(Some(log.cut()));
    log.fact(NOW, b"place", b"?1");
    let end = log.cut();
    // Padded, entries with these values have the same size.
    log.amend_fact(end, b"place", b"P12");
}

#[test]
fn a_fact_behind_the_gate_can_still_change() {
    let disk = FaultDisk::new(1, 64 << 20);
    let (log, _) = open(&disk);
    log.set_gate(Some(log.cut()));
    let part = |id, place: &[u8]| {
        put(&log, id, 10);
        log.fact(NOW, b"place", place);
        log.cut()
    };
    let (first, second) = (part(1, b"?1"), part(2, b"?2"));
    let newest = |log: &Log| log.fact_value(b"place").map(<[u8]>::into_vec);
    let durable = || {
        let copy = disk.fork();
        copy.crash();
        copy.restart();
        newest(&open(&copy).0)
    };
    log.amend_fact(first, b"place", b"P1");
    assert_eq!(newest(&log), Some(b"?2".to_vec()), "a later part has a newer value");
    log.set_gate(Some(first));
    log.commit_step(NOW).unwrap();
    assert_eq!(durable(), Some(b"P1".to_vec()));
    log.amend_fact(second, b"place", b"P2");
    assert_eq!(newest(&log), Some(b"P2".to_vec()));
    log.set_gate(None);
    log.commit_step(NOW).unwrap();
    assert_eq!(durable(), Some(b"P2".to_vec()));
}
