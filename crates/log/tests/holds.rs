//! Tests holds: while a segment is held, reclaim does not free or change its file.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;

use common::{Random, World, settings};
use lineshaft_log::{FaultDisk, SegmentHold, Sync};

const SEGMENT: u64 = 256 << 10;

/// A hold, and the durable bytes of all files that must not change during the hold.
struct Held {
    hold: SegmentHold,
    files: BTreeMap<String, Vec<u8>>,
}

impl Held {
    /// Holds the oldest segment, and so all segments.
    fn all(world: &World) -> Held {
        let usage = world.log.usage();
        let hold = world.log.hold(usage.first_segment).expect("the oldest segment is in use");
        let end = world.log.durable();
        let segments = hold.segment()..=end.segment();
        let file = |number| {
            let name = format!("{number:010}.seg");
            let mut bytes = world.disk.bytes(&name).unwrap();
            if number == end.segment() {
                bytes.truncate(end.offset() as usize);
            }
            (name, bytes)
        };
        let files = segments.map(file).collect();
        Held { hold, files }
    }

    fn check(&self, world: &World) {
        for (name, bytes) in &self.files {
            let now = world.disk.bytes(name).unwrap_or_else(|| panic!("{name} is gone"));
            assert!(now.starts_with(bytes), "{name} was written");
        }
    }
}

/// Puts and finishes jobs, with all the background work.
fn work(world: &mut World, steps: usize) {
    for _ in 0..steps {
        world.put();
        world.finish(1);
        while world.reclaim_wanted() && world.reclaim() {
            world.log.commit_step(world.now_ms).unwrap();
        }
        world.log.commit_step(world.now_ms).unwrap();
        world.log.prepare_step().unwrap();
    }
}

#[test]
fn reclaim_goes_on_behind_a_hold_and_frees_the_files_after_it() {
    let disk = FaultDisk::new(1, 1 << 30);
    let mut world = World::new(1, disk, settings(Sync::Always)).unwrap();
    world.work_up_to(4);
    let held = Held::all(&world);
    let second = Held::all(&world);
    work(&mut world, 2000);
    held.check(&world);
    let usage = world.log.usage();
    assert!(usage.first_segment > held.hold.segment() + 10, "reclaim went on: {usage:?}");
    drop(held);
    work(&mut world, 10);
    second.check(&world);
    let first = second.files.keys().next().unwrap().clone();
    drop(second);
    work(&mut world, 10);
    assert!(world.disk.bytes(&first).is_none(), "the file is freed");
    let usage = world.log.usage();
    let files = usage.data_bytes + usage.ahead_bytes;
    assert!(files <= 2 * usage.live_bytes + 5 * SEGMENT, "{usage:?}");
    assert!(world.log.hold(1).is_none(), "segment 1 is gone");
}

#[test]
fn holds_at_any_moment_keep_their_files_and_the_log_survives_a_crash() {
    for seed in 0..40 {
        let mut random = Random(seed ^ 0x0401D);
        let disk = FaultDisk::new(seed, 1 << 30);
        let mut world = World::new(seed, disk, settings(Sync::Always)).unwrap();
        world.jobs_aim = 8;
        for _ in 0..3 {
            let mut held = Vec::new();
            for _ in 0..600 {
                world.step().unwrap();
                match random.below(40) {
                    0 => held.push(Held::all(&world)),
                    1 if !held.is_empty() => {
                        let held: Held = held.swap_remove(random.below(held.len() as u64) as usize);
                        held.check(&world);
                    }
                    _ => {}
                }
            }
            for held in &held {
                held.check(&world);
            }
            let durable = world.log.durable();
            world.disk.crash();
            // A crash ends the holds. The next process frees the segments that were held.
            drop(held);
            world.reopen(durable).unwrap();
            world.log.prepare_step().unwrap();
            let first = world.log.usage().first_segment;
            let stale =
                (1..first).any(|number| world.disk.bytes(&format!("{number:010}.seg")).is_some());
            assert!(!stale, "seed {seed}: void files are left");
        }
    }
}

#[test]
fn a_start_waits_for_few_of_the_files_that_were_held() {
    let disk = FaultDisk::new(1, 1 << 30);
    let mut world = World::new(1, disk, settings(Sync::Always)).unwrap();
    world.work_up_to(4);
    let held = Held::all(&world);
    work(&mut world, 2000);
    let void = |world: &World| {
        let numbers = 1..world.log.usage().first_segment;
        let names = numbers.map(|number| format!("{number:010}.seg"));
        names.filter(|name| world.disk.bytes(name).is_some()).count()
    };
    let before = void(&world);
    assert!(before > 30, "{before} files wait");
    let end = world.log.written();
    world.disk.restart();
    drop(held);
    let calls = world.disk.calls();
    world.reopen(end).unwrap();
    let left = void(&world);
    assert!((before - 4..before).contains(&left), "{left} of {before} files are left");
    let calls = world.disk.calls() - calls;
    assert!(calls < 4 * before as u64, "{calls} calls for {before} files");
    assert!(world.log.usage().data_bytes >= left as u64 * SEGMENT, "they count");
    // A crash does not matter.
    let end = world.log.durable();
    world.disk.crash();
    world.reopen(end).unwrap();
    world.log.prepare_step().unwrap();
    assert_eq!(void(&world), 0, "the helper frees them");
}

#[test]
fn a_start_on_a_full_disk_frees_files_until_this_gives_room() {
    let disk = FaultDisk::new(1, 1 << 30);
    let mut world = World::new(1, disk, settings(Sync::Always)).unwrap();
    world.work_up_to(4);
    let held = Held::all(&world);
    work(&mut world, 2000);
    let end = world.log.written();
    let disk = world.disk.clone();
    disk.restart();
    drop(held);
    // A backup has the oldest files, so they give no room. Another program uses the room of the reserve.
    let names = disk.names();
    for name in names.iter().filter(|name| name.ends_with("seg")).take(8) {
        disk.link(name, &format!("backup-{name}"));
    }
    for name in names.iter().filter(|name| name.contains('-')) {
        disk.remove_file(name);
    }
    disk.set_capacity(disk.used());
    world.reopen(end).unwrap();
    let ahead = world.log.usage().ahead_bytes;
    assert!(ahead >= 2 * SEGMENT, "only {ahead} bytes are in reserve");
}

#[test]
fn a_full_disk_has_room_again_when_the_hold_ends() {
    let disk = FaultDisk::new(3, 8 << 20);
    let mut world = World::new(3, disk, settings(Sync::Always)).unwrap();
    world.plain = true;
    world.work_up_to(3);
    let held = Held::all(&world);
    // The log cannot free the segments that reclaim gives up now.
    while world.put() {
        world.finish(1);
        world.log.commit_step(world.now_ms).unwrap();
        world.log.prepare_step().unwrap();
        while world.reclaim_wanted() && world.reclaim() {
            world.log.commit_step(world.now_ms).unwrap();
        }
    }
    assert!(world.log.usage().short && world.log.is_held_back(), "{:?}", world.log.usage());
    held.check(&world);
    drop(held);
    assert!(!world.log.is_held_back());
    for _ in 0..100 {
        world.log.commit_step(world.now_ms).unwrap();
        world.log.prepare_step().unwrap();
    }
    assert!(world.put(), "{:?}", world.log.usage());
}
