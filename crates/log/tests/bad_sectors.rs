//! Tests what becomes of the log if sectors cannot be read that it does not need: in files of former
//! segments, and after the end of the log.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeSet;

use common::{Job, World, recover, settings};
use lineshaft_log::{
    BodyReader, FaultDisk, Meta, OpenError, Position, QueueRef, Restored, Sync, salvage,
};

const FIRST: &str = "0000000001.seg";
/// A bad sector spoils its whole block.
const BLOCK: u64 = 4096;
/// Each group begins with a header of this size.
const GROUP_HEADER: u64 = 56;

/// A log whose end is in segment 3. Segment 4 is prepared.
fn world() -> World {
    let disk = FaultDisk::new(1, 1 << 30);
    let mut world = World::new(1, disk, settings(Sync::Always)).unwrap();
    // Each put is one job, which is finished at once. So nothing is left in the older segments.
    world.plain = true;
    world.work_up_to(3);
    assert!(world.put());
    world.log.commit_step(world.now_ms).unwrap();
    world
}

fn name(number: u32) -> String {
    format!("{number:010}.seg")
}

/// The first block that has nothing of a header at this position.
fn block_after(end: Position) -> u64 {
    (end.offset() + GROUP_HEADER).next_multiple_of(BLOCK)
}

/// Makes a sector bad, and ends the process.
fn fail_sector(disk: &FaultDisk, number: u32, offset: u64) {
    let bytes = disk.bytes(&name(number)).expect("the log has this file");
    assert!(offset < bytes.len() as u64, "the sector is in the file");
    disk.fail_sector(&name(number), offset);
    disk.restart();
}

/// The number of blocks that a start reports. The start is made on a copy of the disk.
fn unreadable_blocks(world: &World) -> u64 {
    let opened = recover(&world.disk.fork(), settings(Sync::Always), world.now_ms);
    opened.unwrap().1.report.unreadable_blocks
}

fn files(disk: &FaultDisk) -> Vec<(String, Option<Vec<u8>>)> {
    disk.names().into_iter().map(|name| (name.clone(), disk.bytes(&name))).collect()
}

#[test]
fn a_file_that_could_not_be_read_is_not_used_again() {
    let mut world = world();
    world.disk.fail_sector(FIRST, BLOCK + 100);
    // The first entry of the segment.
    let entries = [(BLOCK + GROUP_HEADER) as u32];
    BodyReader::default().read(&world.log, 1, &entries, |_, body| assert!(body.is_err()));
    assert!(world.reclaim_wanted(), "nothing of it is left");
    world.reclaim();
    world.log.commit_step(world.now_ms).unwrap();
    world.log.prepare_step().unwrap();
    assert!(world.log.usage().first_segment > 1);
    let spares = world.disk.names().iter().filter(|name| name.starts_with("spare-")).count();
    assert!(!world.disk.names().contains(&FIRST.to_owned()) && spares == 0, "it is removed");
    // In the spoiled file, a group that fills only a part of a block could not be written.
    world.work_up_to(9);
    let end = world.log.written();
    world.disk.restart();
    world.reopen(end).unwrap();
}

#[test]
fn bad_sectors_after_the_end_of_the_log_stop_no_start() {
    // The first block after the end, and a later one.
    for blocks in [0, 5] {
        let mut world = world();
        let end = world.log.written();
        let bad = block_after(end) + blocks * BLOCK;
        fail_sector(&world.disk, end.segment(), bad + 700);
        world.reopen(end).unwrap();
        // The start has written the block, so the log goes on through it.
        world.work_up_to(end.segment() + 2);
        let end = world.log.written();
        world.disk.restart();
        world.reopen(end).unwrap();
    }
}

#[test]
fn a_bad_block_of_zeros_before_the_end_of_the_log_is_written_again() {
    let disk = FaultDisk::new(1, 1 << 30);
    let start = || recover(&disk, settings(Sync::Always), 1000).unwrap();
    let (log, found) = start();
    let job = Job {
        queue: b"mails".to_vec(),
        priority: 1,
        due_ms: 0,
        state: 1,
        options: Vec::new(),
        body: vec![0; 3 * BLOCK as usize],
    };
    let id = found.report.next_id;
    let queue = QueueRef { number: 0, name: &job.queue };
    let (_, end) = log.put(1000, queue, &job.meta(id), &job.body);
    log.commit_step(1000).unwrap();
    // The log says that it is durable beyond the block. So a start does not write it again for the sync.
    log.close(2000, id + 1).unwrap();
    drop(log);
    // A whole block of the body, before the padding.
    let bad = (end.offset() - 8) / BLOCK * BLOCK - BLOCK;
    fail_sector(&disk, end.segment(), bad + 600);
    for unreadable in [1, 0] {
        let (log, found) = start();
        assert_eq!(found.state.jobs.get(&id), Some(&job));
        assert_eq!(found.report.unreadable_blocks, unreadable);
        drop(log);
        disk.restart();
    }
}

#[test]
fn a_prepared_segment_with_bad_sectors_is_not_used() {
    for blocks in [2, 7] {
        let mut world = world();
        let end = world.log.written();
        fail_sector(&world.disk, end.segment() + 1, blocks * BLOCK);
        assert_eq!(unreadable_blocks(&world), 1);
        world.reopen(end).unwrap();
        world.work_up_to(end.segment() + 5);
        let end = world.log.written();
        world.disk.restart();
        world.reopen(end).unwrap();
    }
}

#[test]
fn a_start_is_refused_if_a_bad_sector_may_hide_a_group() {
    let world = world();
    let end = world.log.written();
    let (last, next) = (end.segment(), end.segment() + 1);
    let bad = [(last, BLOCK), (last, end.offset() - 1), (last, end.offset()), (next, BLOCK)];
    for (number, offset) in bad {
        let disk = world.disk.fork();
        fail_sector(&disk, number, offset);
        let before = files(&disk);
        let refused = recover(&disk, settings(Sync::Always), world.now_ms).map(|_| ());
        assert!(matches!(refused, Err(OpenError::Io { .. })), "{number} {offset}: {refused:?}");
        assert!(files(&disk) == before, "{number} {offset}: a refused start changed files");
        // The disk can read the sector again.
        disk.plan_nothing();
        disk.restart();
        let found = recover(&disk, settings(Sync::Always), world.now_ms).unwrap().1;
        world.check(&found, end);
    }
}

#[test]
fn a_write_that_meets_a_bad_sector_leads_to_refused_starts_and_the_log_can_be_repaired() {
    let world = world();
    let end = world.log.written();
    let disk = &world.disk;
    let bad = block_after(end);
    disk.fail_sector(&name(end.segment()), bad);
    // The header of the group is in the blocks before the bad one, and comes into the kernel's cache. The
    // group ends in the bad block.
    let body = vec![7; (bad + 1000 - end.offset()) as usize];
    let queue = QueueRef { number: 0, name: b"a" };
    let job =
        Meta { id: 1000, priority: 0, ttr: 0, created_ms: 0, due_ms: 0, state: 0, options: b"" };
    let (_, put) = world.log.put(world.now_ms, queue, &job, &body);
    assert!(put.segment() == end.segment() && put.offset() < bad + BLOCK, "it ends in the block");
    let failure = world.log.commit_step(world.now_ms).unwrap_err();
    assert_eq!((failure.doing, failure.file), ("write", name(end.segment())));
    for _ in 0..2 {
        disk.restart();
        let before = files(disk);
        let refused = recover(disk, settings(Sync::Always), world.now_ms).map(|_| ()).unwrap_err();
        assert!(matches!(refused, OpenError::Io { .. }), "{refused}");
        let message = format!("cannot read {} in ", name(end.segment()));
        assert!(refused.to_string().starts_with(&message), "{refused}");
        assert!(files(disk) == before, "a refused start changed files");
    }
    disk.restart();
    let mut ids = BTreeSet::new();
    let salvage = salvage(disk, &mut |restored| {
        if let Restored::Job { meta, .. } = restored {
            ids.insert(meta.id);
        }
    });
    assert!(salvage.unwrap().refusal.is_some());
    assert!(!world.state.jobs.is_empty() && !ids.contains(&1000));
    assert!(world.state.jobs.keys().all(|id| ids.contains(id)), "what was acknowledged is there");
}

#[test]
fn a_file_that_the_log_does_not_need_may_be_unreadable() {
    let mut world = world();
    // The log gives segment 1 up, and ends before it frees the file.
    assert!(world.reclaim_wanted() && world.reclaim(), "nothing of it is left");
    world.log.commit_step(world.now_ms).unwrap();
    let end = world.log.written();
    let names = world.disk.names();
    let spare = names.iter().find(|name| name.starts_with("blank-")).expect("there is a reserve");
    assert!(world.log.usage().first_segment > 1 && names.contains(&FIRST.to_owned()));
    world.disk.fail_sector(spare, 0);
    fail_sector(&world.disk, 1, 0);
    assert_eq!(unreadable_blocks(&world), 1, "only the spare may belong to somebody else");
    world.reopen(end).unwrap();
    world.work_up_to(end.segment() + 5);
    let names = world.disk.names();
    assert!(names.contains(spare), "it may not belong to the log");
    assert!(!names.contains(&FIRST.to_owned()), "it is removed");
    let end = world.log.written();
    world.disk.restart();
    world.reopen(end).unwrap();
}
