//! Random workloads with power failures, restarts and failures at any call to the disk.
//!
//! If a seed fails, the test prints the command that repeats the failure.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use common::{Random, World, recover, settings};
use lineshaft_log::{Disk, FaultDisk, Log, OpenError, Position, Restored, Sync};

const DISK_BYTES: u64 = 64 << 20;

fn sync_of(seed: u64) -> Sync {
    match seed % 3 {
        0 | 1 if !seed.is_multiple_of(5) => Sync::Always,
        0 | 1 => Sync::Never,
        _ => Sync::Every(Duration::from_millis(50)),
    }
}

/// The seeds to run: the seed in the environment variable, or all seeds below `count`.
fn seeds(count: u64) -> Vec<u64> {
    match std::env::var("LINESHAFT_SEED") {
        Ok(seed) => vec![seed.parse().unwrap()],
        Err(_) => (0..count).collect(),
    }
}

fn for_each_seed(test: &str, count: u64, run: impl Fn(u64)) {
    for seed in seeds(count) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| run(seed))) {
            eprintln!(
                "replay: LINESHAFT_SEED={seed} cargo test -p lineshaft-log --test crash -- {test}"
            );
            std::panic::resume_unwind(panic);
        }
    }
}

/// Opens the log, and retries until this works. A planned fault may happen during recovery. If this
/// fault is a power failure, entries that were written but not durable are lost.
fn open_until_it_works(world: &mut World, mut acknowledged: Position, random: &mut Random) {
    let durable = world.log.durable();
    for attempt in 0.. {
        assert!(attempt < 50, "recovery never came through");
        match world.reopen(acknowledged) {
            Ok(()) => return,
            Err(error) => {
                let planned = world.disk.has_crashed()
                    || matches!(error, OpenError::Failed(_) | OpenError::Io { .. });
                assert!(planned, "a healthy log was refused: {error}");
                if world.disk.has_crashed() || random.one_in(2) {
                    world.disk.crash();
                    acknowledged = durable;
                } else {
                    world.disk.restart();
                }
                if attempt < 3 && random.one_in(2) {
                    world.disk.crash_at(world.disk.calls() + 1 + random.below(8));
                }
            }
        }
    }
}

#[test]
fn acknowledged_jobs_survive_power_failures() {
    for_each_seed("acknowledged_jobs_survive_power_failures", 200, |seed| {
        let mut random = Random(seed ^ 0xABCD);
        let disk = FaultDisk::new(seed, DISK_BYTES);
        let mut world = World::new(seed, disk, settings(sync_of(seed))).unwrap();
        world.has_second = seed % 2 == 0;
        for _ in 0..8 {
            let call = world.disk.calls() + 1 + random.below(120);
            let fails = random.one_in(4);
            if fails {
                world.disk.fail_at(call);
            } else {
                world.disk.crash_at(call);
            }
            let stops_at = 50 + random.below(1500);
            for _ in 0..stops_at {
                if world.step().is_err() || world.disk.has_crashed() {
                    break;
                }
            }
            // Stop the machine, or only the process. If only the process stops, everything written
            // survives.
            let killed = !world.disk.has_crashed() && random.one_in(3);
            let acknowledged = if killed { world.log.written() } else { world.log.durable() };
            if killed {
                world.disk.restart();
            } else {
                world.disk.crash();
            }
            if random.one_in(3) {
                world.disk.crash_at(world.disk.calls() + 1 + random.below(12));
            }
            open_until_it_works(&mut world, acknowledged, &mut random);
            world.disk.plan_nothing();
        }
    });
}

#[test]
fn a_period_loses_no_more_than_itself() {
    let period = Duration::from_millis(50);
    let disk = FaultDisk::new(1, DISK_BYTES);
    let mut world = World::new(1, disk, settings(Sync::Every(period))).unwrap();
    let mut written = Vec::new();
    for _ in 0..3000 {
        world.put();
        world.finish(1);
        world.log.commit_step(world.now_ms).unwrap();
        world.log.prepare_step().unwrap();
        written.push((world.now_ms, world.log.written()));
        world.now_ms += world.random.below(9);
        if world.log.next_step_ms().is_some_and(|due_ms| due_ms <= world.now_ms) {
            world.log.commit_step(world.now_ms).unwrap();
        }
        let old = written.iter().rev().find(|(at_ms, _)| at_ms + 50 <= world.now_ms);
        assert!(old.is_none_or(|&(_, position)| world.log.durable() >= position));
    }
}

#[test]
fn an_id_limit_counts_only_when_it_is_durable() {
    // The step writes into two segments. The limit of ids is in the second segment. If any write or
    // sync fails, the new ids must not be used.
    let mut failures = 0;
    for call in 1..10 {
        let disk = FaultDisk::new(1, DISK_BYTES);
        let mut world = World::new(1, disk, settings(Sync::Always)).unwrap();
        world.log.prepare_step().unwrap();
        world.plain = true;
        for _ in 0..15 {
            world.put();
        }
        let limit = world.log.id_limit();
        world.log.note_next_id(world.now_ms, limit);
        world.disk.fail_at(world.disk.calls() + call);
        // If only the creation of a spare fails, the log does not fail.
        let failed = world.log.commit_step(world.now_ms).is_err();
        assert_eq!(failed, world.log.id_limit() == limit, "call {call}");
        failures += u32::from(failed);
    }
    assert!(failures >= 4, "two writes and two syncs");
}

/// Checks that a failed write or sync is final: afterwards the log publishes, writes and retries
/// nothing.
fn check_that_it_stays_failed(world: &mut World) {
    let before =
        (world.log.written(), world.log.durable(), world.log.id_limit(), world.disk.calls());
    assert!(world.log.failure().is_some());
    for _ in 0..3 {
        world.put();
        assert!(world.log.commit_step(world.now_ms).is_err());
        assert!(world.log.prepare_step().is_err());
        world.now_ms += 2000;
    }
    let after =
        (world.log.written(), world.log.durable(), world.log.id_limit(), world.disk.calls());
    assert_eq!(before, after);
}

#[test]
fn every_call_may_be_the_last() {
    for_each_seed("every_call_may_be_the_last", 3, |seed| {
        let run = |plan: &dyn Fn(&FaultDisk)| {
            let disk = FaultDisk::new(seed, DISK_BYTES);
            plan(&disk);
            let mut world = match World::new(seed, disk.clone(), settings(sync_of(seed))) {
                Ok(world) => world,
                Err(error) => {
                    disk.crash();
                    recover(&disk, settings(sync_of(seed)), 1)
                        .unwrap_or_else(|error| panic!("{error}"));
                    return Err(error);
                }
            };
            world.has_second = seed == 1;
            for _ in 0..500 {
                if world.step().is_err() {
                    check_that_it_stays_failed(&mut world);
                    break;
                }
                if world.disk.has_crashed() {
                    break;
                }
            }
            Ok(world)
        };
        let calls = run(&|_| ()).unwrap().disk.calls();
        assert!(calls > 100, "{calls} calls");
        for call in 1..=calls {
            for crash in [true, false] {
                let plan =
                    |disk: &FaultDisk| if crash { disk.crash_at(call) } else { disk.fail_at(call) };
                let Ok(mut world) = run(&plan) else { continue };
                let (durable, written) = (world.log.durable(), world.log.written());
                // After a failed call, stop the machine or only the process. If only the process
                // stops, the kernel's cache stays.
                if crash || call % 2 == 0 {
                    world.disk.crash();
                } else {
                    world.disk.restart();
                }
                let acknowledged = if crash || call % 2 == 0 { durable } else { written };
                world.reopen(acknowledged).unwrap_or_else(|error| panic!("call {call}: {error}"));
                // Everything that recovery used must be durable now. So crash, and open the log
                // once more.
                let durable = world.log.durable();
                world.disk.crash();
                world.reopen(durable).unwrap_or_else(|error| panic!("call {call}, again: {error}"));
            }
        }
    });
}

#[test]
fn a_start_reports_how_much_it_has_read() {
    let disk = FaultDisk::new(1, DISK_BYTES);
    let mut world = World::new(1, disk, settings(Sync::Always)).unwrap();
    world.work_up_to(4);
    world.disk.crash();
    let mut reports = Vec::new();
    let disk = Arc::new(world.disk.clone());
    let settings = settings(Sync::Always);
    let mut note = |progress| reports.push(progress);
    let mut restore = |_: Restored<'_>| Ok(());
    let opened = Log::open_at::<OpenError>(
        disk,
        settings,
        &mut |_| 1,
        &mut restore,
        &mut |_| Ok(()),
        &mut note,
    );
    let (_, report) = opened.unwrap();
    assert_eq!(reports.len() as u64, 2 * report.segments, "each segment is read twice");
    assert!(reports.is_sorted_by_key(|progress| progress.read_bytes));
    let last = reports.last().unwrap();
    assert_eq!(last.read_bytes, last.total_bytes);
    assert_eq!(last.total_bytes, 2 * report.segments * (256 << 10));
}

#[test]
fn a_crash_leaves_a_sector_as_it_was_before_any_of_the_writes_to_it() {
    let left = |seed| {
        let disk = FaultDisk::new(seed, 1 << 20);
        let file = disk.create("file").unwrap();
        file.write_at(&[1; 512], 0).unwrap();
        file.sync_all().unwrap();
        disk.sync_folder().unwrap();
        file.write_at(&[2; 512], 0).unwrap();
        file.write_at(&[3; 512], 0).unwrap();
        disk.crash();
        disk.bytes("file").unwrap()[0]
    };
    let left: BTreeSet<u8> = (0..50).map(left).collect();
    assert!(left.iter().eq(&[1, 2, 3]), "{left:?}");
}
