//! Tests a log on a full disk. Jobs can be finished one by one, in any order. The log can also be
//! opened at any moment.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::HashMap;
use std::sync::Arc;

use common::{Random, settings};
use lineshaft_log::{
    BodyRef, Current, FaultDisk, Log, Meta, Owner, Position, QueueRef, Restored, Settings, Slot,
    Sync, put_bytes,
};

const DISK: u64 = 1 << 20;
const SEGMENT: u64 = 64 << 10;
const QUEUE: QueueRef<'static> = QueueRef { number: 0, name: b"default" };

fn meta(id: u64) -> Meta<'static> {
    Meta { id, priority: 0, ttr: 60, created_ms: 1, due_ms: 0, state: 0, options: b"" }
}

#[derive(Copy, Clone, Debug)]
enum Order {
    OldestFirst,
    NewestFirst,
    Any,
}

/// The slots of jobs, by id.
#[derive(Default)]
struct Places(HashMap<u64, Slot>);

impl Owner for Places {
    fn current(&mut self, slot: Slot, id: u64) -> Option<Current<'_>> {
        assert_eq!(self.0.get(&id), Some(&slot));
        Some(Current { queue: QUEUE, meta: meta(id) })
    }

    fn moved(&mut self, old: Slot, new: Slot, id: u64, _: Position, _: BodyRef<'_>) {
        assert_eq!(self.0.insert(id, new), Some(old));
    }
}

/// A log whose disk is full of jobs of one size.
struct Crowd {
    disk: FaultDisk,
    log: Log,
    places: Places,
    now_ms: u64,
}

fn small(disk: &FaultDisk, now_ms: u64) -> (Log, Places) {
    open(disk, now_ms, Settings { segment_bytes: SEGMENT, ..settings(Sync::Always) })
}

fn open(disk: &FaultDisk, now_ms: u64, settings: Settings) -> (Log, Places) {
    let mut places = Places::default();
    let log = Log::open(Arc::new(disk.clone()), settings, now_ms, &mut |restored| {
        if let Restored::Job { slot, meta, .. } = restored {
            places.0.insert(meta.id, slot);
        }
    });
    (log.expect("a full disk does not stop the start").0, places)
}

impl Crowd {
    fn new(disk_bytes: u64) -> Crowd {
        let disk = FaultDisk::new(1, disk_bytes);
        let (log, places) = small(&disk, 1);
        Crowd { disk, log, places, now_ms: 1 }
    }

    /// Does the work of the log's threads once: a commit, the background work, and a slice of
    /// reclaim.
    fn work(&mut self) {
        self.commit();
        if self.log.reclaim_wanted()
            && let Some(mut slice) = self.log.reclaim_read().expect("nothing is damaged")
        {
            while !self
                .log
                .reclaim_copy(self.now_ms, &mut slice, &mut self.places)
                .expect("all have owners")
            {}
        }
    }

    /// Like `work`, without reclaim.
    fn commit(&self) {
        self.log.commit_step(self.now_ms).expect("the log does not fail for want of room");
        self.log.prepare_step().expect("a full disk is no failure");
    }

    /// Puts jobs until there is no more room. Many puts share a sync. The oldest segment also has a
    /// fact.
    fn fill(&mut self, body: &[u8]) {
        self.log.fact(self.now_ms, b"key", b"value");
        let (mut id, mut refusals) = (0, 0);
        while refusals < 20 {
            for _ in 0..100 {
                if !self.log.admits_put(body.len()) {
                    refusals += 1;
                    break;
                }
                id += 1;
                let (slot, _) = self.log.put(self.now_ms, QUEUE, &meta(id), body);
                self.places.0.insert(id, slot);
            }
            self.work();
        }
    }

    /// Puts one job without a check for room.
    fn put(&mut self, id: u64, body_bytes: u64) -> Position {
        let body = vec![7; body_bytes as usize];
        let (slot, position) = self.log.put(self.now_ms, QUEUE, &meta(id), &body);
        self.places.0.insert(id, slot);
        self.commit();
        position
    }

    /// Updates jobs until there is no room for another update. Each update has its own sync.
    fn update(&mut self) {
        let mut ids: Vec<u64> = self.places.0.keys().copied().collect();
        ids.sort_unstable();
        for id in ids.into_iter().cycle().take(20_000) {
            if !self.log.admits_update() {
                break;
            }
            self.log.update(self.now_ms, self.places.0[&id], QUEUE, &meta(id));
            self.work();
        }
    }

    fn finish(&mut self, id: u64, waits: bool) {
        let slot = self.places.0.remove(&id).unwrap();
        let position = self.log.finish(self.now_ms, slot);
        self.work();
        assert!(self.log.durable() >= position, "a finish is durable at once");
        if waits {
            self.now_ms += 200;
            self.work();
        }
    }

    /// Simulates a power failure on a copy of the disk, and checks that a start finds the same
    /// jobs.
    fn check_start(&self) {
        let disk = self.disk.fork();
        disk.crash();
        let (_, places) = small(&disk, self.now_ms);
        assert_eq!(places.0.len(), self.places.0.len());
    }

    fn crash(&mut self) {
        self.disk.crash();
        let jobs = self.places.0.len();
        (self.log, self.places) = small(&self.disk, self.now_ms);
        assert_eq!(self.places.0.len(), jobs);
    }
}

fn fill_and_finish(segments: u64, body_bytes: usize, order: Order, updates: bool, waits: bool) {
    let mut crowd = Crowd::new(segments * SEGMENT);
    crowd.fill(&vec![7; body_bytes]);
    let jobs = crowd.places.0.len() as u64;
    if updates {
        crowd.update();
    }
    let mut ids: Vec<u64> = (1..=jobs).collect();
    let mut random = Random(body_bytes as u64);
    match order {
        Order::OldestFirst => {}
        Order::NewestFirst => ids.reverse(),
        Order::Any => ids.sort_by_cached_key(|_| random.next()),
    }
    for (n, id) in (0..).zip(ids) {
        crowd.finish(id, waits);
        if n % (jobs / 10).max(1) == 0 {
            crowd.check_start();
        }
        if n % (jobs / 5).max(1) == 3 {
            crowd.crash();
        }
    }
    for _ in 0..100 {
        crowd.work();
    }
    assert!(crowd.log.admits_put(body_bytes), "there is room again: {:?}", crowd.log.usage());
}

/// Copies a full disk. On the copy, another program has removed the reserve, and uses its room.
fn without_reserve(disk: &FaultDisk) -> FaultDisk {
    let disk = disk.fork();
    disk.crash();
    for name in disk.names() {
        if name.starts_with("spare-") || name.starts_with("blank-") {
            disk.remove_file(&name);
        }
    }
    disk.set_capacity(disk.used());
    disk
}

#[test]
fn a_start_needs_no_room() {
    let mut crowd = Crowd::new(DISK);
    crowd.fill(&[7; 20]);
    for id in 1..=2000 {
        crowd.finish(id, false);
        // Check each start near the end of a segment, because a start could fail there. Check some
        // other starts, too.
        if crowd.log.written().offset() < SEGMENT - 3000 && id % 50 != 0 {
            continue;
        }
        let disk = without_reserve(&crowd.disk);
        for _ in 0..3 {
            let (log, places) = small(&disk, 1);
            assert_eq!(places.0.len(), crowd.places.0.len());
            drop(log);
            disk.crash();
        }
    }
}

#[test]
fn the_reserve_outlives_a_start_with_another_size_of_segments() {
    // The size of a segment is a sixteenth of the limit, so a new limit changes it.
    for (before, after) in [(8 << 20, 4 << 20), (4 << 20, 8 << 20)] {
        let settings = |bytes_max| Settings {
            segment_bytes: 1 << 20,
            bytes_max: Some(bytes_max),
            ..settings(Sync::Always)
        };
        // The disk has the size of the first limit, and does not grow with a higher limit.
        let disk = FaultDisk::new(1, before);
        let (log, places) = open(&disk, 1, settings(before));
        let mut crowd = Crowd { disk, log, places, now_ms: 1 };
        crowd.fill(&[7; 200]);
        let reserve = crowd.log.usage().ahead_bytes;
        crowd.disk.crash();
        let jobs = crowd.places.0.len();
        (crowd.log, crowd.places) = open(&crowd.disk, 1, settings(after));
        assert_eq!(crowd.places.0.len(), jobs);
        assert!(crowd.log.usage().ahead_bytes >= reserve / 2, "{:?}", crowd.log.usage());
        let mut ids: Vec<u64> = crowd.places.0.keys().copied().collect();
        ids.sort_unstable();
        for id in ids {
            crowd.finish(id, false);
        }
    }
}

#[test]
fn a_file_for_a_large_job_does_not_set_the_size_of_segments() {
    let segment = 1 << 20;
    let settings = Settings { segment_bytes: segment, ..settings(Sync::Always) };
    let disk = FaultDisk::new(1, 16 * segment);
    let (log, places) = open(&disk, 1, settings.clone());
    let mut crowd = Crowd { disk, log, places, now_ms: 1 };
    crowd.fill(&[7; 1000]);
    let reserve = crowd.log.usage().ahead_bytes;
    // Add a file for a large job, as if the power had failed when the log created this file.
    crowd.disk.set_bytes("blank-99", vec![0; 5 * segment as usize]);
    crowd.disk.set_capacity(crowd.disk.used());
    crowd.disk.crash();
    (crowd.log, crowd.places) = open(&crowd.disk, 1, settings);
    assert!(!crowd.disk.names().contains(&"blank-99".to_owned()));
    assert!(crowd.log.usage().ahead_bytes >= reserve, "{:?}", crowd.log.usage());
}

#[test]
fn a_file_for_a_large_job_alone_does_not_set_it_either() {
    let segment = 1 << 20;
    let settings = Settings { segment_bytes: segment, ..settings(Sync::Always) };
    let disk = FaultDisk::new(1, 64 * segment);
    drop(open(&disk, 1, settings.clone()));
    // Keep only the first segment, as if the power had failed before the log created the reserve.
    for name in disk.names().iter().filter(|name| *name != "0000000001.seg") {
        disk.remove_file(name);
    }
    disk.set_bytes("blank-99", vec![0; 8 * segment as usize]);
    disk.set_capacity(disk.used() + 1000);
    disk.crash();
    let (log, _) = open(&disk, 1, settings);
    log.prepare_step().unwrap();
    assert!(!disk.names().contains(&"blank-99".to_owned()));
    assert!(log.admits_put(1000), "{:?}", log.usage());
}

#[test]
fn a_start_removes_the_files_that_a_killed_process_had_prepared_for_nothing() {
    let disk = FaultDisk::new(1, 64 * SEGMENT);
    let (log, _) = small(&disk, 1);
    log.prepare_step().unwrap();
    let reserve = log.usage().ahead_bytes;
    drop(log);
    for number in 90..100 {
        disk.set_bytes(&format!("blank-{number}"), vec![0; SEGMENT as usize]);
    }
    disk.crash();
    let (log, _) = small(&disk, 1);
    assert!(log.usage().ahead_bytes >= reserve, "{:?}", log.usage());
    assert!(log.usage().ahead_bytes <= reserve + SEGMENT, "{:?}", log.usage());
    assert!(disk.used() <= reserve + 3 * SEGMENT, "{:?}", disk.names());
}

#[test]
fn reclaim_rests_when_it_has_nothing_to_gain() {
    // With these sizes, segments have unused bytes at their ends. Copies cannot free these bytes.
    for body_bytes in [9_000, 12_000, 25_000, 30_000, 40_000, 50_000] {
        let mut crowd = Crowd::new(DISK);
        crowd.fill(&vec![7; body_bytes]);
        for _ in 0..200 {
            crowd.work();
        }
        let copies = crowd.log.usage().copies;
        for _ in 0..200 {
            crowd.work();
        }
        assert_eq!(crowd.log.usage().copies, copies, "bodies of {body_bytes} bytes");
    }
}

#[test]
fn a_fact_in_the_oldest_segment_does_not_stop_reclaim() {
    let mut crowd = Crowd::new(DISK);
    crowd.log.fact(crowd.now_ms, b"key", b"value");
    let mut ids = 1..;
    while crowd.log.admits_put(3000) {
        crowd.put(ids.next().unwrap(), 3000);
    }
    // Facts are appended without a check for room. They use up the reserve, until it is too small
    // for copies of jobs.
    let room =
        |crowd: &Crowd| crowd.log.usage().ahead_bytes + SEGMENT - crowd.log.written().offset();
    while room(&crowd) > SEGMENT / 4 {
        crowd.log.fact(crowd.now_ms, b"other", &[7; 1000]);
        crowd.commit();
    }
    let mut ids: Vec<u64> = crowd.places.0.keys().copied().collect();
    ids.sort_unstable();
    for _ in 0..10 {
        crowd.work();
    }
    for id in ids {
        crowd.finish(id, false);
    }
    for _ in 0..100 {
        crowd.work();
    }
    assert!(crowd.log.admits_put(3000), "there is room again: {:?}", crowd.log.usage());
}

#[test]
fn the_reserve_gives_way_to_a_segment_that_is_larger() {
    let mut crowd = Crowd::new(DISK);
    crowd.work();
    let ahead = crowd.log.usage().ahead_bytes;
    assert!(ahead >= 2 * SEGMENT);
    // After the log has admitted a large job, another program uses the room.
    crowd.disk.set_capacity(crowd.disk.used());
    let position = crowd.put(1, ahead - SEGMENT / 2);
    assert!(crowd.log.durable() >= position, "{:?}", crowd.log.usage());
    crowd.check_start();
    crowd.disk.set_capacity(DISK);
    crowd.commit();

    let ahead = crowd.log.usage().ahead_bytes;
    assert!(ahead >= 2 * SEGMENT);
    crowd.disk.set_capacity(crowd.disk.used());
    let position = crowd.put(2, ahead + SEGMENT);
    assert!(crowd.log.durable() < position);
    assert_eq!(crowd.log.usage().ahead_bytes, ahead, "it would not be enough");
    crowd.disk.set_capacity(DISK);
    crowd.now_ms += 1000;
    crowd.commit();
    assert!(crowd.log.durable() >= position);
}

#[test]
fn entries_without_room_wait_for_it() {
    let mut full = Crowd::new(DISK);
    full.fill(&[7; 20]);
    let disk = without_reserve(&full.disk);
    let (log, places) = small(&disk, 1);
    let mut crowd = Crowd { disk, log, places, now_ms: 1 };
    let mut finishes = Vec::new();
    let mut ids: Vec<u64> = crowd.places.0.keys().copied().collect();
    ids.sort_unstable();
    // Finish only the newer jobs, so that the oldest segment keeps live jobs. Otherwise reclaim
    // would free this segment.
    for id in ids.split_off(ids.len() / 2) {
        let slot = crowd.places.0.remove(&id).unwrap();
        finishes.push(crowd.log.finish(crowd.now_ms, slot));
        crowd.work();
    }
    let durable = crowd.log.durable();
    assert!(durable > finishes[10] && durable < *finishes.last().unwrap());
    assert!(crowd.log.failure().is_none());
    assert_eq!(crowd.log.next_step_ms(), Some(1001), "it is tried again after a second");
    assert!(!crowd.log.admits_put(1) && !crowd.log.admits_update());
    crowd.disk.set_capacity(DISK);
    crowd.now_ms = 1001;
    crowd.work();
    crowd.work();
    assert!(crowd.log.durable() >= *finishes.last().unwrap());
    crowd.crash();
}

#[test]
fn closing_retries_entries_without_room_at_once() {
    let mut crowd = Crowd::new(DISK);
    crowd.work();
    crowd.disk.set_capacity(crowd.disk.used());
    let position = crowd.put(1, crowd.log.usage().ahead_bytes + SEGMENT);
    assert!(crowd.log.durable() < position);
    crowd.disk.set_capacity(DISK);
    crowd.log.close(crowd.now_ms, 2).unwrap();
    crowd.crash();
}

#[test]
fn jobs_of_any_size_can_all_be_finished_one_by_one_on_a_full_disk() {
    for body_bytes in [0, 20, 50, 100, 200, 300, 500, 1000, 3000, 10_000, 30_000] {
        for order in [Order::OldestFirst, Order::NewestFirst, Order::Any] {
            for (updates, waits) in [(false, false), (true, false), (false, true)] {
                fill_and_finish(16, body_bytes, order, updates, waits);
            }
        }
    }
}

#[test]
fn nor_need_there_be_many_segments_for_it() {
    for segments in [5, 6, 7, 8, 9, 10, 12] {
        for body_bytes in [20, 100, 300, 1000, 10_000] {
            for order in [Order::OldestFirst, Order::NewestFirst, Order::Any] {
                fill_and_finish(segments, body_bytes, order, false, false);
            }
        }
    }
}

#[test]
fn segments_are_left_for_updates_that_cannot_wait() {
    const SEGMENTS: u64 = 3;
    let own =
        Settings { segment_bytes: SEGMENT, update_segments: SEGMENTS, ..settings(Sync::Always) };
    let disk = FaultDisk::new(1, DISK);
    let (log, places) = open(&disk, 1, own);
    let mut crowd = Crowd { disk, log, places, now_ms: 1 };
    crowd.fill(&[7; 100]);
    crowd.update();
    let mut ids: Vec<u64> = crowd.places.0.keys().copied().collect();
    ids.sort_unstable();
    // The log does not admit these updates. An entry of an update has at most 64 bytes.
    for &id in ids.iter().cycle().take((SEGMENTS * SEGMENT / 64) as usize) {
        crowd.log.update(crowd.now_ms, crowd.places.0[&id], QUEUE, &meta(id));
    }
    crowd.commit();
    for id in ids {
        crowd.finish(id, false);
    }
}

/// Jobs that another server has accepted go where puts are refused. When this room is used up, too,
/// reclaim frees the little garbage that it usually leaves.
#[test]
fn what_cannot_be_refused_gets_room_from_little_garbage() {
    const BODY: u64 = 4000;
    // In smaller segments, headers would take as much as this garbage.
    const LARGE: u64 = 256 << 10;
    let own = Settings { segment_bytes: LARGE, update_segments: 1, ..settings(Sync::Always) };
    let disk = FaultDisk::new(1, 128 * LARGE);
    let (log, places) = open(&disk, 1, own);
    let mut crowd = Crowd { disk, log, places, now_ms: 1 };
    crowd.fill(&[7; BODY as usize]);
    let jobs = crowd.places.0.len() as u64;
    let copies = crowd.log.usage().copies;
    for id in (160..=jobs).step_by(160) {
        crowd.finish(id, false);
    }
    for _ in 0..300 {
        crowd.work();
    }
    assert_eq!(crowd.log.usage().copies, copies, "there is less garbage than a tenth");
    let bytes = put_bytes(1, 0, BODY as usize);
    let mut accepted = 0;
    while crowd.log.admits_accepted(bytes) {
        accepted += 1;
        crowd.put(jobs + accepted, BODY);
    }
    assert!(accepted * bytes > LARGE, "{accepted} jobs went into the reserve");
    for _ in 0..300 {
        crowd.work();
    }
    assert!(crowd.log.usage().copies > copies, "{:?}", crowd.log.usage());
    assert!(crowd.log.admits_accepted(bytes), "{:?}", crowd.log.usage());
    // All jobs can still be finished.
    let mut ids: Vec<u64> = crowd.places.0.keys().copied().collect();
    ids.sort_unstable();
    for id in ids {
        crowd.finish(id, false);
    }
}

#[test]
fn puts_go_on_after_the_process_had_too_many_open_files() {
    // No file can be opened, or a spare can be, but then there is no descriptor for its salt.
    for opens in 0..3 {
        let disk = FaultDisk::new(3, 1 << 30);
        let (log, _) = small(&disk, 1);
        log.prepare_step().expect("there is room");
        disk.limit_opens(opens);
        let mut end = Position(0);
        let mut acknowledged = Vec::new();
        // More than four segments.
        for id in 1..=300 {
            end = log.put(1, QUEUE, &meta(id), &[7; 1000]).1;
            log.commit_step(1).expect("the log does not fail for want of descriptors");
            log.prepare_step().expect("too many open files are no failure");
            if log.durable() >= end {
                acknowledged.push(id);
            }
        }
        assert!((60..300).contains(&acknowledged.len()), "{} with {opens}", acknowledged.len());
        assert!(log.reclaim_read().expect("the segment is in order").is_none());
        assert_eq!(log.unreadable_segment(), None);
        let broken = disk.fork();
        broken.set_fail_opens(false);
        broken.crash();
        let (_, places) = small(&broken, 1);
        assert!(acknowledged.iter().all(|id| places.0.contains_key(id)), "{opens}");

        disk.set_fail_opens(false);
        for now_ms in (10_000..).step_by(2000).take(10) {
            log.commit_step(now_ms).expect("files can be opened again");
            log.prepare_step().expect("files can be opened again");
        }
        assert!(log.durable() >= end, "with {opens}");
        assert!(log.reclaim_read().expect("the segment is in order").is_some());
        disk.crash();
        let (_, places) = small(&disk, 40_000);
        assert_eq!(places.0.len(), 300, "with {opens}");
    }
}

#[test]
fn a_big_put_removes_no_reserve_for_want_of_descriptors() {
    let disk = FaultDisk::new(3, 1 << 30);
    let (log, _) = small(&disk, 1);
    log.prepare_step().expect("there is room");
    let ahead_bytes = log.usage().ahead_bytes;
    disk.set_fail_opens(true);
    let (_, end) = log.put(1, QUEUE, &meta(1), &vec![7; 3 * SEGMENT as usize]);
    log.commit_step(1).expect("the log does not fail for want of descriptors");
    assert!(log.durable() < end);
    assert_eq!(log.usage().ahead_bytes, ahead_bytes);
    disk.set_fail_opens(false);
    log.commit_step(10_000).expect("files can be opened again");
    assert!(log.durable() >= end);
}

#[test]
fn a_spare_that_cannot_be_opened_stays_a_spare() {
    let disk = FaultDisk::new(3, 1 << 30);
    let (log, _) = small(&disk, 1);
    log.prepare_step().expect("there is room");
    // Fill the last segment. The prepared one is the last one then, so the log must prepare another.
    let last = log.usage().last_segment;
    for id in 1..100 {
        log.put(1, QUEUE, &meta(id), &[7; 1000]);
        log.commit_step(1).expect("there is room");
    }
    assert_eq!(log.usage().last_segment, last + 1);
    // Others have taken the rest of the disk, so a file that is removed does not come back.
    disk.set_capacity(disk.used());
    let spares = log.usage().ahead_bytes;
    disk.set_fail_opens(true);
    for _ in 0..5 {
        let _ = log.prepare_step();
    }
    assert_eq!(log.usage().ahead_bytes, spares);
    disk.set_fail_opens(false);
    log.prepare_step().expect("a full disk is no failure");
    assert_eq!(log.usage().ahead_bytes, spares);
    log.put(1, QUEUE, &meta(100), &vec![7; 60_000]);
    log.commit_step(1).expect("the segment is ready");
}
