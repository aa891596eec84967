//! Index files: a start with all, some or none of them restores the same jobs.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use common::{Random, Recovered, World, classify, recover, settings};
use lineshaft_log::{
    BlockId, BlockSummary, BodyRef, Current, Disk, FaultDisk, IndexError, Log, Meta, Owner,
    Position, QueueRef, Restored, Settings, Slot, Sync, repair,
};

const DISK_BYTES: u64 = 64 << 20;

fn indexed() -> Settings {
    Settings { classify: Some(classify), ..settings(Sync::Always) }
}

/// A world with many small jobs.
fn world(seed: u64, disk: FaultDisk) -> World {
    let mut world = World::new(seed, disk, indexed()).unwrap();
    world.body_bytes_max = 120;
    world.jobs_aim = 4000;
    world
}

/// Makes random actions, with more puts than usual. Stops if the log fails.
fn work(world: &mut World, steps: u32) {
    for _ in 0..steps {
        if world.state.jobs.len() < world.jobs_aim {
            world.put();
        }
        if world.step().is_err() || world.disk.has_crashed() {
            return;
        }
    }
}

/// Works for a while, then stops the process.
fn busy(seed: u64, steps: u32) -> FaultDisk {
    let mut world = world(seed, FaultDisk::new(seed, DISK_BYTES));
    work(&mut world, steps);
    world.log.commit_step(world.now_ms).unwrap();
    while world.log.index_step().unwrap().is_some() {}
    let disk = world.disk.clone();
    disk.restart();
    disk
}

fn indexes(disk: &FaultDisk) -> Vec<String> {
    disk.names()
        .into_iter()
        .filter(|name| name.split_once('.').is_some_and(|(_, end)| end == "idx"))
        .collect()
}

/// Opens a copy of the disk.
fn open(disk: &FaultDisk, settings: Settings) -> (FaultDisk, Log, Recovered) {
    let disk = disk.fork();
    let (log, found) = recover(&disk, settings, 2_000_000).unwrap();
    (disk, log, found)
}

/// Checks that two starts found the same.
fn same((log, found): (&Log, &Recovered), (other, wanted): (&Log, &Recovered)) {
    assert_eq!(found.state, wanted.state);
    assert_eq!((&found.places, &found.counters), (&wanted.places, &wanted.counters));
    let mut report = found.report.clone();
    report.indexed = wanted.report.indexed;
    assert_eq!(report, wanted.report);
    let (mut usage, wanted) = (log.usage(), other.usage());
    usage.index_bytes = wanted.index_bytes;
    assert_eq!(usage, wanted);
}

#[test]
fn a_start_finds_the_same_with_any_indexes() {
    let mut blocks = 0;
    for seed in 0..4 {
        let disk = busy(seed, 6_000);
        let (_, plain, wanted) = open(&disk, settings(Sync::Always));
        assert_eq!(wanted.report.indexed, 0);
        let (_, log, found) = open(&disk, indexed());
        assert_eq!(found.report.indexed as usize, log.indexed().len());
        assert!(found.report.indexed > 0, "no index was used");
        blocks += found.blocks.len();
        same((&log, &found), (&plain, &wanted));
        let mut random = Random(seed);
        for _ in 0..4 {
            let spoiled = disk.fork();
            for name in indexes(&disk) {
                let bytes = disk.bytes(&name).unwrap();
                match random.below(5) {
                    0 => spoiled.remove_file(&name),
                    1 => spoiled.flip_bit(&name, random.below(bytes.len() as u64 * 8)),
                    2 => spoiled.set_bytes(&name, bytes[..bytes.len() - 1].to_vec()),
                    _ => {}
                }
            }
            let (_, log, found) = open(&spoiled, indexed());
            same((&log, &found), (&plain, &wanted));
            // Blocks with damaged rows are read from their segments.
            for segment in log.indexed() {
                let index = log.index(segment).unwrap();
                for number in 0..index.blocks().len() as u32 {
                    let rows = log.read_block(BlockId { segment, number }).unwrap();
                    assert_eq!(rows.len(), index.blocks()[number as usize].rows as usize);
                    assert_eq!(log.index(segment).unwrap().read_block(number).unwrap(), rows);
                }
            }
        }
    }
    assert!(blocks > 50, "the histories have too few blocks: {blocks}");
}

#[test]
fn work_goes_on_after_starts_with_indexes() {
    let mut used = 0;
    for seed in 0..15 {
        let mut random = Random(seed ^ 0xABCD);
        let mut world = world(seed, FaultDisk::new(seed, DISK_BYTES));
        for _ in 0..6 {
            if random.one_in(2) {
                world.disk.crash_at(world.disk.calls() + 1 + random.below(1500));
            }
            work(&mut world, 1500);
            let acknowledged = if !world.disk.has_crashed() && random.one_in(2) {
                world.disk.restart();
                world.log.written()
            } else {
                world.disk.crash();
                world.log.durable()
            };
            world.disk.plan_nothing();
            world.reopen(acknowledged).unwrap();
            used += world.log.indexed().len();
        }
    }
    assert!(used > 20, "the starts used too few indexes: {used}");
}

#[test]
fn every_id_is_found_in_its_block() {
    let disk = busy(3, 6_000);
    let (_, log, found) = open(&disk, indexed());
    let log = Arc::new(log);
    let mut in_blocks = 0;
    for segment in log.indexed() {
        let index = log.index(segment).unwrap();
        for (number, block) in (0..).zip(index.blocks()) {
            let rows = index.read_block(number).unwrap();
            assert_eq!(rows.len(), block.rows as usize);
            for row in rows {
                assert_eq!(index.find(row.id).unwrap(), Some(number));
                let is_live = found.places.get(&row.id) == Some(&row.slot);
                assert_eq!(log.is_live(row.slot), is_live);
                if is_live {
                    let name = &found.state.jobs[&row.id].queue;
                    let changed = index.queue_name(block.queue) != name;
                    in_blocks += usize::from(!changed);
                }
            }
        }
        assert_eq!((index.find(0).unwrap(), index.find(u64::MAX).unwrap()), (None, None));
    }
    assert!(in_blocks > 50, "{in_blocks}");
}

const QUEUE: QueueRef<'static> = QueueRef { number: 0, name: b"mails" };

/// A log with sealed segments, full of small plain jobs that are all live.
fn filled(disk: &FaultDisk, settings: Settings, segments: u32) -> (Log, Vec<Slot>) {
    let (log, found) = recover(disk, settings, 1_000_000).unwrap();
    let mut slots = Vec::new();
    let mut id = found.report.next_id;
    let last = log.usage().last_segment + segments;
    while log.durable().segment() < last {
        for _ in 0..100 {
            slots.push(put(&log, id, 100));
            id += 1;
        }
        log.commit_step(1_000_000).unwrap();
        log.prepare_step().unwrap();
    }
    (log, slots)
}

fn plain_meta(id: u64, priority: u32) -> Meta<'static> {
    Meta { id, priority, ttr: id as u32 ^ 7, created_ms: id * 3, due_ms: 0, state: 1, options: b"" }
}

fn put(log: &Log, id: u64, body: usize) -> Slot {
    log.put(1_000_000, QUEUE, &plain_meta(id, 7), &vec![id as u8; body]).0
}

#[test]
fn an_index_is_the_same_when_it_is_built_again() {
    let disk = busy(7, 6_000);
    let (again, log, _) = open(&disk, indexed());
    let names = indexes(&again);
    assert!(!names.is_empty());
    drop(log);
    again.restart();
    let before: Vec<_> = names.iter().map(|name| again.bytes(name).unwrap()).collect();
    for name in &names {
        again.remove_file(name);
    }
    let (log, _) = recover(&again, indexed(), 2_000_000).unwrap();
    while log.index_step().unwrap().is_some() {}
    for (name, before) in names.iter().zip(before) {
        // A segment without enough live jobs gets no index.
        if let Some(bytes) = again.bytes(name) {
            assert_eq!(bytes, before, "{name}");
        }
    }
    assert!(!indexes(&again).is_empty());
}

#[test]
fn a_crash_while_an_index_is_written_costs_only_the_index() {
    let disk = FaultDisk::new(1, DISK_BYTES);
    let (log, slots) = filled(&disk, indexed(), 2);
    log.finish_many(1_000_000, &slots[..300]);
    log.commit_step(1_000_000).unwrap();
    let before = disk.calls();
    while log.index_step().unwrap().is_some() {}
    let calls = disk.calls() - before;
    assert!(calls >= 8, "two indexes were written");
    let mut with_index = 0;
    for call in 1..=calls {
        for fails in [false, true] {
            let disk = FaultDisk::new(1, DISK_BYTES);
            let (log, slots) = filled(&disk, indexed(), 2);
            log.finish_many(1_000_000, &slots[..300]);
            log.commit_step(1_000_000).unwrap();
            if fails {
                disk.fail_at(before + call);
            } else {
                disk.crash_at(before + call);
            }
            let results: Vec<_> = (0..3).map(|_| log.index_step()).collect();
            assert!(fails || disk.has_crashed(), "nothing happened at call {call}");
            if fails {
                let failed = results.iter().filter(|result| result.is_err()).count();
                assert_eq!(failed, 1, "one step reports the failure");
                assert!(log.failure().is_none(), "the log goes on");
                let sizes = indexes(&disk).into_iter().map(|name| disk.bytes(&name).unwrap().len());
                assert_eq!(log.usage().index_bytes, sizes.sum::<usize>() as u64);
                put(&log, 1 << 19, 100);
                log.commit_step(1_000_001).unwrap();
                disk.restart();
            } else {
                disk.crash();
            }
            let (_, found) = recover(&disk, indexed(), 1_000_002).unwrap();
            assert_eq!(found.state.jobs.len(), slots.len() - 300 + usize::from(fails));
            with_index += found.report.indexed;
            let left = disk.names().into_iter().filter(|name| name.ends_with(".idx-new"));
            assert_eq!(left.count(), 0, "unfinished index files are removed");
        }
    }
    assert!(with_index > 0);
}

#[test]
fn a_segment_takes_its_index_along() {
    let disk = FaultDisk::new(1, DISK_BYTES);
    let (log, slots) = filled(&disk, indexed(), 3);
    assert_eq!(log.index_step().unwrap(), Some(3));
    assert_eq!(log.index_step().unwrap(), Some(2));
    assert_eq!(log.index_step().unwrap(), Some(1));
    assert_eq!(log.index_step().unwrap(), None);
    assert_eq!(log.indexed(), [1, 2, 3]);
    let blocks = |segment| log.index(segment).unwrap().blocks().len();
    let blocks_bytes = (1..=3).map(blocks).sum::<usize>() * size_of::<BlockSummary>();
    assert!(log.index_memory_bytes() >= blocks_bytes as u64);
    let used: u64 =
        indexes(&disk).iter().map(|name| disk.open(name).unwrap().size().unwrap()).sum();
    assert_eq!(log.usage().index_bytes, used);
    let index = log.index(1).unwrap();
    let hold = log.hold(1).unwrap();
    for slots in slots.chunks(1000) {
        log.finish_many(1_000_000, slots);
    }
    let reclaim = || {
        log.commit_step(1_000_000).unwrap();
        while log.reclaim_wanted()
            && let Some(mut slice) = log.reclaim_read().unwrap()
        {
            while !log.reclaim_copy(1_000_000, &mut slice, &mut NoJobs).unwrap() {}
            log.commit_step(1_000_000).unwrap();
        }
        log.prepare_step().unwrap();
    };
    reclaim();
    assert_eq!(indexes(&disk).len(), 3, "somebody holds the first segment");
    assert_eq!(index.read_block(0).unwrap().len(), 256);
    drop(hold);
    reclaim();
    assert_eq!(indexes(&disk), [""; 0]);
    assert_eq!((log.usage().index_bytes, log.indexed().len()), (0, 0));
    assert_eq!(log.index_memory_bytes(), 0);
}

/// The owner of no jobs.
struct NoJobs;

impl Owner for NoJobs {
    fn current(&mut self, _: Slot, id: u64) -> Option<Current<'_>> {
        panic!("job {id} is finished");
    }

    fn moved(&mut self, _: Slot, _: Slot, _: u64, _: Position, _: BodyRef<'_>) {}
}

#[test]
fn a_damaged_index_is_built_again_on_request() {
    let disk = FaultDisk::new(1, DISK_BYTES);
    let (log, _) = filled(&disk, indexed(), 2);
    while log.index_step().unwrap().is_some() {}
    let index = log.index(1).unwrap();
    let name = &indexes(&disk)[0];
    let whole = disk.bytes(name).unwrap();
    // The last byte belongs to a list of ids.
    disk.flip_bit(name, whole.len() as u64 * 8 - 1);
    let ids = (1..3000).map(|id| (id, index.find(id)));
    let damaged: Vec<u64> = ids.filter(|(_, found)| found.is_err()).map(|(id, _)| id).collect();
    assert!(!damaged.is_empty());
    let found: Vec<Option<u32>> =
        damaged.iter().map(|id| log.find_in_segment(1, *id).unwrap()).collect();
    assert_eq!(disk.bytes(name).unwrap(), whole);
    for (id, number) in damaged.into_iter().zip(found) {
        assert!(number.is_some());
        assert_eq!(index.find(id).unwrap(), number);
    }
    assert_eq!(log.find_in_segment(1, u64::MAX >> 2).unwrap(), None);
}

/// Opens the log without reading bodies. Returns the ids of all jobs, if the start is not refused.
fn ids(disk: &FaultDisk) -> Option<Vec<u64>> {
    let mut ids = Vec::new();
    let mut has_failed = false;
    let mut restore = |restored: Restored<'_>| match restored {
        Restored::Job { meta, .. } => ids.push(meta.id),
        Restored::Block { rows, .. } => match rows.read() {
            Ok(rows) => ids.extend(rows.iter().map(|row| row.id)),
            Err(_) => has_failed = true,
        },
        Restored::Fact { .. } => {}
    };
    Log::open(Arc::new(disk.clone()), indexed(), 2_000_000, &mut restore).ok()?;
    ids.sort_unstable();
    Some(ids).filter(|_| !has_failed)
}

#[test]
fn a_failed_read_of_an_index_file_costs_only_time() {
    let disk = busy(11, 6_000);
    let counted = disk.fork();
    let first = counted.reads();
    let wanted = ids(&counted).unwrap();
    let reads = first..counted.reads();
    let mut refused = 0;
    for read in reads.clone() {
        let faulty = disk.fork();
        faulty.fail_read_at(read);
        match ids(&faulty) {
            Some(found) => assert_eq!(found, wanted, "read {read}"),
            // The start needs the headers of the segments, and the last segment.
            None => refused += 1,
        }
    }
    assert!(refused * 2 < reads.count(), "{refused} starts were refused");
}

#[test]
fn a_log_that_stops_builds_no_index() {
    let disk = FaultDisk::new(12, DISK_BYTES);
    let (log, _) = filled(&disk, indexed(), 2);
    let rests = disk.rests();
    log.stop_indexing();
    assert!(matches!(log.index_step(), Ok(None)));
    assert!(matches!(log.find_in_segment(log.first_segment(), 1), Err(IndexError::Stopped)));
    assert!(indexes(&disk).is_empty());
    assert_eq!(disk.rests(), rests);
}

#[test]
fn a_build_rests_unless_it_must_hurry() {
    let disk = FaultDisk::new(12, DISK_BYTES);
    let (log, _) = filled(&disk, indexed(), 2);
    let rests_of_a_build = |hurries| {
        log.hurry_indexing(hurries);
        let before = disk.rests();
        assert!(matches!(log.index_step(), Ok(Some(_))));
        disk.rests() - before
    };
    assert_eq!(rests_of_a_build(true), 0);
    // The file is read once. Then a thousand rows are gone through two times, each time with some
    // rests.
    let rests = rests_of_a_build(false);
    assert!(rests >= 8, "{rests}");
}

#[test]
fn a_log_can_begin_to_use_indexes() {
    let disk = FaultDisk::new(13, DISK_BYTES);
    let (log, _) = filled(&disk, settings(Sync::Always), 2);
    assert!(matches!(log.index_step(), Ok(None)));
    log.use_indexes(classify);
    assert!(matches!(log.index_step(), Ok(Some(_))));
    assert_eq!(indexes(&disk).len(), 1);
}

#[test]
fn an_index_of_another_log_is_not_used() {
    let disks = [FaultDisk::new(1, DISK_BYTES), FaultDisk::new(2, DISK_BYTES)];
    for disk in &disks {
        let (log, _) = filled(disk, indexed(), 2);
        while log.index_step().unwrap().is_some() {}
        drop(log);
        disk.restart();
    }
    let [disk, other] = disks;
    for name in indexes(&disk) {
        disk.set_bytes(&name, other.bytes(&name).unwrap());
    }
    let (_, found) = recover(&disk, indexed(), 1_000_000).unwrap();
    assert_eq!(found.report.indexed, 0);
    assert_eq!(indexes(&disk), [""; 0], "wrong index files are removed");
}

#[test]
fn a_log_without_the_setting_uses_no_index_but_removes_it_with_its_segment() {
    let disk = FaultDisk::new(1, DISK_BYTES);
    let (log, slots) = filled(&disk, indexed(), 2);
    while log.index_step().unwrap().is_some() {}
    drop(log);
    disk.restart();
    let (log, found) = recover(&disk, settings(Sync::Always), 1_000_000).unwrap();
    assert_eq!((found.report.indexed, indexes(&disk).len()), (0, 2));
    assert_eq!((log.index_step().unwrap(), log.indexed().len()), (None, 0));
    for slots in slots.chunks(1000) {
        log.finish_many(1_000_000, slots);
    }
    for _ in 0..8 {
        log.commit_step(1_000_000).unwrap();
        if let Some(mut slice) = log.reclaim_read().unwrap() {
            while !log.reclaim_copy(1_000_000, &mut slice, &mut NoJobs).unwrap() {}
        }
        log.prepare_step().unwrap();
    }
    assert_eq!(indexes(&disk), [""; 0]);
}

#[test]
fn no_index_is_written_when_room_is_short() {
    for bytes_max in [None, Some(0)] {
        let disk = FaultDisk::new(1, DISK_BYTES);
        let (log, _) = filled(&disk, indexed(), 2);
        let usage = log.usage();
        drop(log);
        disk.restart();
        let taken = usage.data_bytes + usage.ahead_bytes;
        let bytes_max = bytes_max.map(|_| taken + (200 << 10));
        if bytes_max.is_none() {
            disk.set_capacity(disk.used() + (200 << 10));
        }
        let (log, _) = recover(&disk, Settings { bytes_max, ..indexed() }, 1_000_000).unwrap();
        assert_eq!(log.index_step().unwrap(), None);
        assert_eq!(indexes(&disk), [""; 0]);
        assert!(log.failure().is_none());
    }
}

#[test]
fn an_index_that_finds_no_room_is_written_when_there_is_room_again() {
    let disk = FaultDisk::new(1, DISK_BYTES);
    let (log, _) = recover(&disk, indexed(), 1_000_000).unwrap();
    // The index repeats the options of each job, so it is much larger than the log expects.
    let options = [9_u8; 1000];
    for id in 1.. {
        log.put(1_000_000, QUEUE, &Meta { options: &options, ..plain_meta(id, 7) }, b"");
        log.commit_step(1_000_000).unwrap();
        log.prepare_step().unwrap();
        if log.durable().segment() == 3 {
            break;
        }
    }
    let step = |room| {
        disk.set_capacity(disk.used() + room);
        let reads = disk.reads();
        let written = log.index_step().unwrap();
        (disk.reads() > reads, written)
    };
    let mut room = 0;
    while step(room) == (false, None) {
        room += 16 << 10;
    }
    assert_eq!((indexes(&disk).len(), log.usage().index_bytes), (0, 0), "it was only built");
    assert_eq!(step(room), (false, None), "it is not built in vain again");
    assert_eq!(step(DISK_BYTES), (true, Some(2)));
    assert_eq!(log.indexed(), [2]);
}

#[test]
fn a_repair_uses_only_the_segments() {
    let disk = busy(5, 3_000);
    let (_, plain, wanted) = open(&disk, settings(Sync::Always));
    for name in indexes(&disk) {
        disk.set_bytes(&name, vec![7; 5000]);
    }
    let repaired = FaultDisk::new(9, DISK_BYTES);
    let salvage = repair(&disk.fork(), Arc::new(repaired.clone()), &|_| true).unwrap();
    assert!(salvage.refusal.is_none());
    repaired.restart();
    let (_, log, found) = open(&repaired, indexed());
    assert_eq!((indexes(&repaired).len(), &found.state), (0, &wanted.state));
    drop((plain, log));
}

/// The owner of many plain jobs: the slot and the priority of each live job.
#[derive(Default)]
struct Plain(BTreeMap<u64, (Slot, u32)>);

impl Owner for Plain {
    fn current(&mut self, slot: Slot, id: u64) -> Option<Current<'_>> {
        let &(known, priority) = self.0.get(&id)?;
        assert_eq!(known, slot);
        Some(Current { queue: QUEUE, meta: plain_meta(id, priority) })
    }

    fn moved(&mut self, _: Slot, new: Slot, id: u64, _: Position, _: BodyRef<'_>) {
        self.0.get_mut(&id).unwrap().0 = new;
    }
}

#[test]
fn a_hundred_thousand_jobs_come_back() {
    let big = |settings| Settings { segment_bytes: 1 << 20, ..settings };
    let disk = FaultDisk::new(1, 256 << 20);
    let (log, _) = recover(&disk, big(indexed()), 1_000_000).unwrap();
    let mut owner = Plain::default();
    for id in 1..=100_000 {
        owner.0.insert(id, (put(&log, id, id as usize % 40), 7));
        // Three quarters of the jobs stay. Older jobs end and change, far from the end of the log.
        if id % 4 == 0
            && let Some((slot, _)) = owner.0.remove(&(id / 2))
        {
            log.finish(1_000_000, slot);
        }
        if id % 9 == 0
            && let Some((slot, priority)) = owner.0.get_mut(&(id / 3))
        {
            *priority = id as u32;
            log.update(1_000_000, *slot, QUEUE, &plain_meta(id / 3, *priority));
        }
        if id % 11 == 0
            && let Some((slot, _)) = owner.0.get(&(id - id / 5))
        {
            log.count(1_000_000, *slot, &id.to_le_bytes());
        }
        if id % 500 == 0 {
            log.commit_step(1_000_000).unwrap();
            log.prepare_step().unwrap();
            if let Some(mut slice) = log.reclaim_read().unwrap().filter(|_| id % 1500 == 0) {
                while !log.reclaim_copy(1_000_000, &mut slice, &mut owner).unwrap() {}
            }
        }
        if id % 3000 == 0 {
            log.index_step().unwrap();
        }
    }
    log.commit_step(1_000_000).unwrap();
    assert!(log.usage().copies > 5000, "{:?}", log.usage());
    drop(log);
    disk.restart();
    let (_, plain, wanted) = open(&disk, big(settings(Sync::Always)));
    assert_eq!(wanted.state.jobs.len(), owner.0.len());
    let (_, log, found) = open(&disk, big(indexed()));
    assert!(found.report.indexed > 2 && found.blocks.len() > 50, "{:?}", found.report);
    same((&log, &found), (&plain, &wanted));
    for (id, job) in &found.state.jobs {
        assert_eq!((found.places[id], job.priority), owner.0[id]);
    }
}
