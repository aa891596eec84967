//! Repairs damaged logs. The new log must contain everything that is intact. The report must
//! contain everything that is missing.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use common::{Random, Recovered, World, recover};
use lineshaft_log::{
    FaultDisk, Loss, Meta, OpenError, QueueRef, Salvage, Settings, Slot, Sync, repair, salvage,
};

const CAPACITY: u64 = 64 << 20;
const HEADER_BYTES: u64 = 4096;
/// Bytes of an UPDATE entry with one byte of options.
const UPDATE_BYTES: u64 = 64;
const QUEUES: [QueueRef<'static>; 2] =
    [QueueRef { number: 0, name: b"mails" }, QueueRef { number: 1, name: b"other" }];

fn settings() -> Settings {
    Settings { segment_bytes: 64 << 10, ..common::settings(Sync::Always) }
}

fn meta(id: u64) -> Meta<'static> {
    Meta {
        id,
        priority: 1,
        ttr: id as u32 ^ 7,
        created_ms: id * 3,
        due_ms: 0,
        state: 1,
        options: b"o",
    }
}

/// Restarts the disk, repairs the log into a copy, and opens the copy.
fn repaired(disk: &FaultDisk) -> (Salvage, Recovered) {
    disk.restart();
    copied(disk).unwrap()
}

/// Like `repaired`, but without a restart, because a restart removes all planned faults.
fn copied(disk: &FaultDisk) -> Result<(Salvage, Recovered), OpenError> {
    let names = disk.names();
    let copy = FaultDisk::new(77, CAPACITY);
    let salvage = repair(disk, Arc::new(copy.clone()), &|_| true)?;
    assert_eq!(disk.names(), names, "the original was changed");
    copy.crash();
    let found = recover(&copy, settings(), 5000).unwrap().1;
    assert_eq!(found.state.jobs.len() as u64, salvage.report.jobs);
    Ok((salvage, found))
}

/// The maximum number of lost jobs, according to the report. If a loss has no bound, counts the
/// jobs of `places` in its files.
fn lost_max(salvage: &Salvage, places: &BTreeMap<u64, Slot>) -> u64 {
    let jobs_max = |loss: &Loss| loss.jobs_max.unwrap_or_else(|| jobs_in(loss, places));
    salvage.losses.iter().map(jobs_max).sum()
}

/// The number of jobs of `places` in the files of a loss.
fn jobs_in(loss: &Loss, places: &BTreeMap<u64, Slot>) -> u64 {
    let number = |file: &str| file[file.len() - 14..file.len() - 4].parse::<u32>().unwrap();
    let (first, last) = loss.file.split_once(" to ").unwrap_or((&loss.file, &loss.file));
    let numbers = number(first)..=number(last);
    places.values().filter(|place| numbers.contains(&place.segment)).count() as u64
}

#[test]
fn the_copy_of_a_whole_log_holds_the_same() {
    for seed in 0..20 {
        let disk = FaultDisk::new(seed, CAPACITY);
        let mut world = World::new(seed, disk.clone(), settings()).unwrap();
        world.body_bytes_max = 3000;
        for _ in 0..3000 {
            world.step().unwrap();
        }
        world.log.close(world.now_ms, world.ids_spent).unwrap();
        disk.restart();
        let original = recover(&disk.fork(), settings(), world.now_ms).unwrap().1;
        let (salvage, copy) = repaired(&disk);
        assert!(salvage.refusal.is_none() && salvage.losses.is_empty());
        assert_eq!(copy.state, original.state);
        assert_eq!(copy.counters, original.counters);
        assert_eq!(copy.report.next_id, original.report.next_id);
        assert_eq!(salvage.report, original.report);
    }
}

/// A log of several segments with jobs of all ages. A finish follows every third put, and an update
/// follows every fifth put.
struct Old {
    disk: FaultDisk,
    whole: Recovered,
    /// For each segment, the end of its last group with entries.
    ends: Vec<u64>,
}

fn old() -> Old {
    let disk = FaultDisk::new(5, CAPACITY);
    let (log, _) = recover(&disk, settings(), 1000).unwrap();
    let mut ends: Vec<u64> = Vec::new();
    let mut places: Vec<(u64, Slot)> = Vec::new();
    for id in 1..=400 {
        let queue = QUEUES[id as usize % 2];
        let (slot, _) = log.put(1000 + id, queue, &meta(id), &vec![id as u8; 500]);
        if id % 5 == 0 {
            log.update(1000 + id, slot, QUEUES[0], &Meta { priority: 9, ..meta(id) });
        }
        places.push((id, slot));
        if id % 3 == 0 {
            let (_, slot) = places.remove(places.len() - 2);
            log.finish(1000 + id, slot);
        }
        log.fact(1000 + id, b"key", &id.to_le_bytes());
        if id % 4 == 0 {
            log.commit_step(1000 + id).unwrap();
            let segment = log.written().segment() as usize;
            ends.resize(segment, 0);
            ends[segment - 1] = log.written().offset();
        }
    }
    log.close(2000, 401).unwrap();
    disk.restart();
    let whole = recover(&disk.fork(), settings(), 2000).unwrap().1;
    assert!(ends.len() >= 4);
    Old { disk, whole, ends }
}

impl Old {
    fn name(index: usize) -> String {
        format!("{:010}.seg", index + 1)
    }

    /// Changes a copy of the disk, repairs it, and compares the result with the original. Returns
    /// the report, the number of missing jobs, and the number of finished jobs that came back.
    fn check(&self, what: &str, change: impl FnOnce(&FaultDisk)) -> (Salvage, usize, usize) {
        let disk = self.disk.fork();
        change(&disk);
        let refusal = recover(&disk.fork(), settings(), 2000).map(|_| ());
        assert!(refusal.is_err(), "{what}: nothing was damaged");
        let (salvage, copy) = repaired(&disk);
        assert!(salvage.refusal.is_some(), "{what}");
        let (mut missing, mut back, mut stale) = (0, 0, 0);
        for (id, job) in &self.whole.state.jobs {
            match copy.state.jobs.get(id) {
                Some(found) => {
                    assert_eq!(found.body, job.body, "{what}: job {id}");
                    stale += u64::from(found.priority != job.priority);
                }
                None => missing += 1,
            }
        }
        let places = &self.whole.places;
        // If a loss has no bound, the updates of all jobs in the file may be lost.
        let updates_max = |loss: &Loss| match loss.jobs_max {
            None => jobs_in(loss, places) + 1,
            Some(_) => loss.bytes / UPDATE_BYTES,
        };
        let updates_lost_max: u64 = salvage.losses.iter().map(updates_max).sum();
        assert!(stale <= updates_lost_max, "{what}: {stale} updates lost, {salvage:?}");
        for id in copy.state.jobs.keys() {
            back += usize::from(!self.whole.state.jobs.contains_key(id));
        }
        assert!(
            missing as u64 <= lost_max(&salvage, places),
            "{what}: {missing} lost, {salvage:?}"
        );
        assert!(copy.report.next_id >= self.whole.report.next_id, "{what}: ids come twice");
        (salvage, missing, back)
    }
}

#[test]
fn one_flipped_byte_costs_one_entry() {
    let old = old();
    let mut random = Random(3);
    for (index, &end) in old.ends.iter().enumerate() {
        for _ in 0..60 {
            let at = HEADER_BYTES + random.below(end - HEADER_BYTES);
            let what = format!("segment {} byte {at}", index + 1);
            let flip = |disk: &FaultDisk| disk.flip_bit(&Old::name(index), at * 8 + 3);
            let (salvage, missing, back) = old.check(&what, flip);
            assert_eq!(salvage.losses.len(), 1, "{what}: {:?}", salvage.losses);
            let loss = &salvage.losses[0];
            assert!(loss.file.ends_with(&Old::name(index)), "{what}");
            assert!((loss.offset..loss.offset + loss.bytes).contains(&at), "{what}: {loss:?}");
            assert!(missing <= 1, "{what}: {missing} lost");
            // A finished job comes back only if its finish was in the lost entry. The entry has 8
            // bytes for each job that it finishes.
            assert!(back as u64 * 8 <= loss.bytes, "{what}: {back} came back");
            // The number of lost slots is known, with one exception: if a sector begins at the
            // entry's kind, the flipped byte can look like the loss of this sector.
            let is_split = (loss.offset + 8).is_multiple_of(512);
            assert!(salvage.doubtful_jobs == 0 || is_split, "{what}: {salvage:?}");
        }
    }
}

#[test]
fn lost_sectors_and_tails_cost_what_they_held() {
    let old = old();
    let mut random = Random(4);
    for (index, &end) in old.ends.iter().enumerate() {
        for _ in 0..20 {
            let sectors = (end - HEADER_BYTES) / 512 - 1;
            let at = (HEADER_BYTES + random.below(sectors) * 512) as usize;
            let what = format!("segment {} sector at {at}", index + 1);
            let (salvage, missing, _) = old.check(&what, |disk| {
                let mut bytes = disk.bytes(&Old::name(index)).unwrap();
                bytes[at..at + 512].fill(0);
                disk.set_bytes(&Old::name(index), bytes);
            });
            assert!(missing <= 3, "{what}: {missing} lost");
            for loss in &salvage.losses {
                // The first sector has the header of the first group. This header also says where
                // the previous segment ends.
                let is_end = at as u64 == HEADER_BYTES && loss.bytes == 0;
                assert!(loss.jobs_max.is_some_and(|max| max < 40) || is_end, "{what}: {loss:?}");
            }
        }
        let half = (end / 2) as usize;
        let what = format!("segment {} cut to half", index + 1);
        let (salvage, missing, _) = old.check(&what, |disk| {
            let mut bytes = disk.bytes(&Old::name(index)).unwrap();
            bytes.truncate(half);
            disk.set_bytes(&Old::name(index), bytes);
        });
        assert!((1..70).contains(&missing), "{what}: {missing} lost");
        assert!(salvage.losses.iter().any(|loss| loss.jobs_max.is_none()), "{what}");
    }
}

#[test]
fn a_broken_header_costs_nothing_and_a_missing_file_its_jobs() {
    let old = old();
    for index in 0..old.ends.len() {
        // Flip a bit in all fields, in their checksum, and in the zeros after them.
        for at in (0..52).chain([3000]) {
            let what = format!("header of segment {} byte {at}", index + 1);
            let (salvage, missing, back) =
                old.check(&what, |disk| disk.flip_bit(&Old::name(index), at * 8 + 1));
            assert_eq!((missing, back, salvage.losses.len()), (0, 0, 1), "{what}");
            assert_eq!(salvage.losses[0].jobs_max, Some(0), "{what}");
        }
        let what = format!("first sector of segment {}", index + 1);
        let (_, missing, _) = old.check(&what, |disk| {
            let mut bytes = disk.bytes(&Old::name(index)).unwrap();
            bytes[..512].fill(0);
            disk.set_bytes(&Old::name(index), bytes);
        });
        assert!(missing > 10, "{what}: {missing} lost");
        if index + 1 == old.ends.len() {
            continue;
        }
        let what = format!("segment {} missing", index + 1);
        let (salvage, missing, _) = old.check(&what, |disk| disk.remove_file(&Old::name(index)));
        assert!(missing > 20, "{what}");
        assert!(salvage.losses.iter().any(|loss| loss.what == "missing"), "{what}");
    }
}

/// Makes a log of 20 groups with one job each, and kills the process. So no later group proves that
/// the last sync happened. Also returns the starts of the groups.
fn killed(sync: Sync) -> (FaultDisk, Vec<u64>) {
    let disk = FaultDisk::new(5, CAPACITY);
    let (log, _) = recover(&disk, Settings { sync, ..settings() }, 1000).unwrap();
    let mut starts = Vec::new();
    for id in 1..=20 {
        starts.push(log.written().offset());
        log.put(1000 + id * 10, QUEUES[0], &meta(id), &[id as u8; 500]);
        log.commit_step(1000 + id * 10).unwrap();
    }
    disk.restart();
    (disk, starts)
}

#[test]
fn the_last_acknowledged_jobs_of_an_unclosed_log_are_saved() {
    for sync in [Sync::Always, Sync::Every(Duration::from_millis(50))] {
        let (disk, starts) = killed(sync);
        for damaged in [&[3][..], &[3, 4], &[3, 18], &[3, 20]] {
            let disk = disk.fork();
            for id in damaged {
                disk.flip_bit(&Old::name(0), (starts[id - 1] + 200) * 8);
            }
            let what = format!("{sync:?}, groups {damaged:?}");
            assert!(recover(&disk.fork(), settings(), 2000).is_err(), "{what}: not refused");
            let (salvage, copy) = repaired(&disk);
            let missing: Vec<_> =
                (1..=20).filter(|id| !copy.state.jobs.contains_key(&(*id as u64))).collect();
            assert_eq!(missing, damaged, "{what}: {salvage:?}");
            assert_eq!(salvage.report.cut_groups, 0, "{what}");
        }
    }
}

#[test]
fn ids_that_went_to_jobs_without_an_entry_are_not_dealt_again() {
    let disk = FaultDisk::new(5, CAPACITY);
    let (log, _) = recover(&disk, settings(), 1000).unwrap();
    let start = log.written().offset();
    log.put(1000, QUEUES[0], &meta(1), &[1; 500]);
    log.commit_step(1000).unwrap();
    log.note_next_id(1001, 1 << 40);
    log.put(1001, QUEUES[0], &meta(2), &[2; 500]);
    log.commit_step(1001).unwrap();
    disk.restart();
    disk.flip_bit(&Old::name(0), (start + 200) * 8);
    let (salvage, copy) = repaired(&disk);
    assert_eq!((salvage.losses.len(), copy.state.jobs.len()), (1, 1));
    assert!(copy.report.next_id > 1 << 40, "{}", copy.report.next_id);
}

#[test]
fn groups_behind_a_gap_that_nothing_says_to_be_durable_are_cut_and_reported() {
    let (disk, starts) = killed(Sync::Every(Duration::from_millis(50)));
    for id in [3, 19] {
        disk.flip_bit(&Old::name(0), (starts[id - 1] + 200) * 8);
    }
    let (salvage, copy) = repaired(&disk);
    assert_eq!(copy.state.jobs.len(), 17);
    assert_eq!((salvage.report.cut_groups, salvage.losses.len()), (1, 1), "{salvage:?}");
    assert!(salvage.report.cut_bytes > 1000, "{salvage:?}");
}

#[test]
fn a_group_that_does_not_follow_is_reported() {
    let disk = FaultDisk::new(5, CAPACITY);
    let (log, _) = recover(&disk, settings(), 1000).unwrap();
    for id in 1..=2 {
        log.put(1000, QUEUES[0], &meta(id), b"body");
    }
    log.commit_step(1001).unwrap();
    disk.restart();
    // Two runs continue from the same bytes. Each run writes a group with a finish at the same
    // position. The runs finish different jobs.
    let life = |finished: u64| {
        let disk = disk.fork();
        let (log, found) = recover(&disk, settings(), 1100).unwrap();
        log.put(1101, QUEUES[0], &meta(3), &[finished as u8; 500]);
        log.commit_step(1101).unwrap();
        let start = log.written().offset() as usize;
        log.finish(1102, found.places[&finished]);
        log.commit_step(1102).unwrap();
        let group = start..log.written().offset() as usize;
        log.close(1103, 4).unwrap();
        (disk, group)
    };
    let ((left_over, group), (disk, _)) = (life(1), life(2));
    let mut bytes = disk.bytes(&Old::name(0)).unwrap();
    bytes[group.clone()].copy_from_slice(&left_over.bytes(&Old::name(0)).unwrap()[group.clone()]);
    disk.set_bytes(&Old::name(0), bytes);
    disk.restart();
    assert!(recover(&disk.fork(), settings(), 2000).is_err(), "not refused");
    let salvage = repaired(&disk).0;
    let offsets: Vec<_> = salvage.losses.iter().map(|loss| loss.offset as usize).collect();
    assert_eq!(offsets, [group.start, group.end], "{salvage:?}");
    assert!(salvage.losses.iter().all(|loss| loss.jobs_max.is_none()), "{salvage:?}");
}

#[test]
fn a_group_that_was_cut_does_not_come_back_for_its_time() {
    let disk = FaultDisk::new(5, CAPACITY);
    let never = Settings { sync: Sync::Never, ..settings() };
    let (log, _) = recover(&disk, never, 1000).unwrap();
    let damaged = log.written().offset();
    log.put(1001, QUEUES[0], &meta(4), &[4; 500]);
    log.commit_step(1001).unwrap();
    let (slot, _) = log.put(1001, QUEUES[0], &meta(1), b"body");
    log.commit_step(1001).unwrap();
    // The clock is far ahead when the power fails. The put's group is torn. The next group, with a
    // finish, is intact.
    let torn = log.written().offset();
    log.put(9000, QUEUES[0], &meta(2), &[2; 5000]);
    log.commit_step(9000).unwrap();
    log.finish(9001, slot);
    log.commit_step(9001).unwrap();
    disk.restart();
    disk.flip_bit(&Old::name(0), (torn + 200) * 8);
    // After the start, the clock is right again. The next job does not fit into the first segment,
    // so it begins a second one. Later the first segment is damaged.
    let (log, found) = recover(&disk, settings(), 1100).unwrap();
    assert_eq!((found.state.jobs.len(), found.report.cut_groups), (2, 1));
    log.put(1101, QUEUES[0], &meta(3), &vec![3; 60_000]);
    log.close(1102, 5).unwrap();
    assert_eq!(log.written().segment(), 2);
    disk.restart();
    disk.flip_bit(&Old::name(0), (damaged + 200) * 8);
    let (salvage, copy) = repaired(&disk);
    assert!(copy.state.jobs.keys().eq([&1, &3]), "{salvage:?}");
    assert_eq!(salvage.losses.len(), 1, "{salvage:?}");
}

#[test]
fn unreadable_bytes_are_reported_wherever_they_are() {
    let old = old();
    for damaged in [false, true] {
        let disk = old.disk.fork();
        if damaged {
            disk.flip_bit(&Old::name(1), (HEADER_BYTES + 5000) * 8);
        }
        let before = disk.reads();
        let probe = disk.fork();
        copied(&probe).unwrap();
        let mut reported = 0;
        for first in before + 1..=probe.reads() {
            let disk = disk.fork();
            disk.fail_reads(first..first + 4);
            let Ok((salvage, copy)) = copied(&disk) else { continue };
            let whole = &old.whole;
            let missing = whole.state.jobs.keys().filter(|id| !copy.state.jobs.contains_key(id));
            let (missing, max) = (missing.count() as u64, lost_max(&salvage, &whole.places));
            assert!(missing <= max, "{damaged} read {first}: {missing} lost of {max}, {salvage:?}");
            reported += usize::from(missing > 2);
        }
        assert!(reported > 2 || !damaged, "nothing was lost");
    }
}

#[test]
fn a_segment_that_cannot_be_opened_again_ends_a_salvage() {
    let disk = old().disk;
    disk.flip_bit(&Old::name(1), (HEADER_BYTES + 5000) * 8);
    // Only `opens` files can be opened. The salvage opens each segment several times.
    let salvaged = |opens| {
        let disk = disk.fork();
        disk.limit_opens(opens);
        let mut jobs = 0;
        let salvage = salvage(&disk, &mut |_| jobs += 1);
        salvage.map(|salvage| (salvage, jobs))
    };
    let (whole, jobs) = salvaged(1000).unwrap();
    assert!(whole.refusal.is_some() && jobs > 100, "{whole:?}");
    let enough = (0..1000).find(|&opens| salvaged(opens).is_ok()).unwrap();
    assert!(enough > 10, "{enough} files were opened");
    assert_eq!(salvaged(enough).unwrap().1, jobs, "no job is missing without a report");
}

#[test]
fn stray_and_missing_files_are_summarised() {
    let old = old();
    for stray in ["0000100000.seg", "4000000000.seg"] {
        let (salvage, missing, _) = old.check(stray, |disk| {
            disk.set_bytes(stray, vec![0; 5000]);
        });
        assert_eq!((missing, salvage.losses.len()), (0, 1), "{stray}: {salvage:?}");
    }
    let (salvage, missing, _) = old.check("two missing", |disk| {
        disk.remove_file(&Old::name(1));
        disk.remove_file(&Old::name(2));
    });
    assert!(missing > 40);
    let reported = salvage.losses.iter().filter(|loss| loss.what == "missing").collect::<Vec<_>>();
    assert_eq!(reported.len(), 1, "{salvage:?}");
    assert!(reported[0].file.ends_with("0000000002.seg to 0000000003.seg"), "{salvage:?}");
}

#[test]
fn random_logs_lose_no_more_than_is_reported() {
    for seed in 0..60 {
        let is_closed = seed % 2 == 0;
        let disk = FaultDisk::new(seed, CAPACITY);
        let mut world = World::new(seed, disk.clone(), settings()).unwrap();
        world.body_bytes_max = 2000;
        for _ in 0..3000 {
            world.step().unwrap();
        }
        world.log.commit_step(world.now_ms).unwrap();
        // After a kill of the process, damage to the last group looks like a torn write. So if the
        // log is not closed, the test flips only bits before `safe`.
        let safe = world.log.written();
        if is_closed {
            world.log.close(world.now_ms, world.ids_spent).unwrap();
        } else {
            world.log.fact(world.now_ms, b"last", b"value");
            world.log.commit_step(world.now_ms).unwrap();
        }
        disk.restart();
        let mut random = Random(seed);
        let first = world.log.usage().first_segment;
        let whole = recover(&disk.fork(), settings(), world.now_ms).unwrap().1;
        for _ in 0..10 {
            let disk = disk.fork();
            let mut flipped = Vec::new();
            for _ in 0..=random.below(3) {
                let number = first + random.below(u64::from(safe.segment() - first) + 1) as u32;
                let name = format!("{number:010}.seg");
                let is_last = number == safe.segment() && !is_closed;
                let bytes = if is_last { safe.offset() } else { 64 << 10 };
                let bit = random.below(bytes * 8);
                disk.flip_bit(&name, bit);
                flipped.push((name, bit / 8));
            }
            let refused = recover(&disk.fork(), settings(), world.now_ms).is_err();
            let (salvage, copy) = repaired(&disk);
            assert_eq!(salvage.refusal.is_some(), refused);
            let missing: BTreeSet<_> =
                whole.state.jobs.keys().filter(|id| !copy.state.jobs.contains_key(id)).collect();
            assert!(
                missing.len() as u64 <= lost_max(&salvage, &whole.places),
                "seed {seed} {flipped:?}: {missing:?} lost, {salvage:?}"
            );
            for (id, job) in &copy.state.jobs {
                let reported = whole.state.jobs.get(id);
                assert!(
                    reported.is_none_or(|reported| reported.body == job.body),
                    "seed {seed}: job {id}"
                );
            }
        }
    }
}

#[test]
fn the_copy_has_only_the_facts_that_the_caller_keeps() {
    let disk = FaultDisk::new(5, CAPACITY);
    let world = World::new(5, disk.clone(), settings()).unwrap();
    for key in [b"stays", b"other"] {
        world.log.fact(world.now_ms, key, b"value");
    }
    world.log.close(world.now_ms, 1).unwrap();
    disk.restart();
    let copy = FaultDisk::new(6, CAPACITY);
    repair(&disk, Arc::new(copy.clone()), &|key| key == b"stays").unwrap();
    copy.restart();
    let found = recover(&copy, settings(), 0).unwrap().1;
    let keys: Vec<_> = found.state.facts.keys().collect();
    assert_eq!(keys, [&b"stays".to_vec()]);
}

#[test]
fn facts_of_a_void_segment_stay_away() {
    let disk = FaultDisk::new(1, CAPACITY);
    let mut world = World::new(1, disk.clone(), settings()).unwrap();
    world.log.fact(world.now_ms, b"stays", b"value");
    world.log.fact(world.now_ms, b"goes", b"value");
    world.log.commit_step(world.now_ms).unwrap();
    let first = disk.bytes(&Old::name(0)).unwrap();
    world.work_up_to(2);
    world.log.fact(world.now_ms, b"goes", b"");
    world.work_up_to(4);
    while world.log.usage().first_segment < 3 {
        assert!(world.reclaim());
        world.log.commit_step(world.now_ms).unwrap();
        world.log.prepare_step().unwrap();
    }
    world.log.close(world.now_ms, world.ids_spent).unwrap();
    // Restore the file of the first segment, but not of the second one. An interrupted removal of
    // both files can have the same result.
    disk.set_bytes(&Old::name(0), first);
    disk.flip_bit(&Old::name(2), (HEADER_BYTES + 200) * 8);
    let (salvage, copy) = repaired(&disk);
    assert!(salvage.refusal.is_some());
    let keys: Vec<_> = copy.state.facts.keys().collect();
    assert_eq!(keys, [b"stays"]);
}

#[test]
fn a_copy_for_which_there_is_no_room_fails() {
    let old = old();
    let copy = FaultDisk::new(77, 2 * (64 << 10));
    let error = repair(&old.disk, Arc::new(copy), &|_| true).unwrap_err();
    assert!(error.to_string().contains("cannot allocate"), "{error}");
}

#[test]
fn a_copy_that_has_no_room_for_its_reserve_loses_no_counters() {
    let disk = FaultDisk::new(5, CAPACITY);
    let (log, _) = recover(&disk, settings(), 1000).unwrap();
    for id in 1..=400 {
        let (slot, _) = log.put(1000, QUEUES[0], &meta(id), &[id as u8; 500]);
        log.count(1000, slot, b"counters");
    }
    log.close(1001, 401).unwrap();
    disk.restart();
    let (mut copies, mut refusals) = (0, 0);
    for segments in 4..20 {
        let copy = FaultDisk::new(77, segments * (64 << 10));
        match repair(&disk.fork(), Arc::new(copy.clone()), &|_| true) {
            Ok(_) => {
                copy.set_capacity(CAPACITY);
                copy.crash();
                let found = recover(&copy, settings(), 5000).unwrap().1;
                assert_eq!(found.counters.len(), 400, "on {segments} segments");
                copies += 1;
            }
            Err(error) => {
                assert!(error.to_string().contains("cannot allocate"), "{error}");
                refusals += 1;
            }
        }
    }
    assert!(copies > 0 && refusals > 0, "{copies} {refusals}");
}

#[test]
fn a_log_is_read_without_being_changed() {
    let old = old();
    let calls = old.disk.calls();
    let mut jobs = 0;
    let found = salvage(&old.disk, &mut |_| jobs += 1).unwrap();
    assert_eq!(old.disk.calls(), calls);
    assert_eq!((found.report.jobs + found.report.facts, found.refusal.is_some()), (jobs, false));
    let error = salvage(&old.disk, &mut |_| ()).unwrap_err();
    assert!(matches!(error, OpenError::Locked { .. }), "{error}");
}
