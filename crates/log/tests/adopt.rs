//! Tests copies that arrive in the folder of another log. After a crash at any call, a start finds
//! either the old log or the whole copy, and a later attempt goes on.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::io::Read as _;
use std::sync::Arc;

use common::{State, World, recover, settings};
use lineshaft_log::{
    BackupPoint, BackupSource, CopyError, FaultDisk, IncomingCopy, OpenError, Sync,
};

const DISK_BYTES: u64 = 1 << 30;
const NOW_MS: u64 = 2_000_000;

/// A backup of a log of a few segments, and the log.
struct Source {
    world: World,
    point: BackupPoint,
    state: State,
    segments: BTreeMap<u32, Vec<u8>>,
}

impl Source {
    fn new(seed: u64) -> Source {
        let disk = FaultDisk::new(seed, DISK_BYTES);
        let mut world = World::new(seed, disk, settings(Sync::Always)).unwrap();
        world.body_bytes_max = 20_000;
        world.jobs_aim = 60;
        grow(&mut world, 3);
        Source::of(world)
    }

    fn of(world: World) -> Source {
        world.log.commit_step(world.now_ms).unwrap();
        let hold = world.log.begin_backup();
        while hold.point().is_none() {
            world.log.commit_step(world.now_ms).unwrap();
        }
        let point = hold.point().unwrap();
        let state = world.state_at(point.end());
        let source = BackupSource::new(&world.disk, point);
        let read = |number| {
            let mut bytes = Vec::new();
            source.open(number).unwrap().read_to_end(&mut bytes).unwrap();
            (number, bytes)
        };
        let segments = source.segments().map(read).collect();
        drop(hold);
        Source { world, point, state, segments }
    }

    /// Writes the copy into a folder. Returns the first segment that was not there yet.
    fn copy_to(&self, disk: &FaultDisk) -> Result<u32, CopyError> {
        let mut copy = IncomingCopy::begin(Arc::new(disk.clone()), self.point)?;
        let first = copy.next_segment().unwrap();
        while let Some(number) = copy.next_segment() {
            let bytes = &self.segments[&number];
            copy.begin_segment(bytes.len() as u64)?;
            for piece in bytes.chunks(70_000) {
                copy.write(piece)?;
            }
        }
        copy.finish()?;
        Ok(first)
    }
}

/// Steps until the log has this many more segments.
fn grow(world: &mut World, segments: u32) {
    let end = world.log.written().segment() + segments;
    while world.log.written().segment() < end {
        world.step().unwrap();
    }
}

/// A disk with a log of its own, which no process uses, and the state of that log.
fn own_log(seed: u64) -> (FaultDisk, State) {
    let disk = Source::new(seed).world.disk;
    disk.crash();
    let state = open(&disk).unwrap();
    disk.crash();
    (disk, state)
}

/// Starts on the folder, and ends the process.
fn open(disk: &FaultDisk) -> Result<State, OpenError> {
    let opened = recover(disk, settings(Sync::Always), NOW_MS);
    let state = opened.map(|(_, found)| found.state);
    disk.restart();
    state
}

fn copy_files(disk: &FaultDisk) -> Vec<String> {
    disk.names().into_iter().filter(|name| name.starts_with("copy-")).collect()
}

#[test]
fn a_power_failure_while_a_copy_arrives_leaves_the_old_log_or_the_copy() {
    for seed in 0..3 {
        let source = Source::new(seed);
        let (base, own) = own_log(seed + 100);
        assert!(own != source.state);
        let whole = base.fork();
        let before = whole.calls();
        source.copy_to(&whole).unwrap();
        assert!(whole.calls() - before > 15);
        let (mut olds, mut news, mut resumed) = (0, 0, 0);
        for call in before + 1..=whole.calls() {
            let disk = base.fork();
            disk.crash_at(call);
            source.copy_to(&disk).unwrap_err();
            disk.crash();
            let state = open(&disk).unwrap();
            if state == source.state {
                news += 1;
                assert_eq!(copy_files(&disk), [""; 0], "call {call}");
                continue;
            }
            assert!(state == own, "call {call}: neither the old log nor the copy");
            olds += 1;
            let first = source.copy_to(&disk).unwrap();
            resumed += u32::from(first > source.point.first());
            disk.crash();
            assert!(open(&disk).unwrap() == source.state, "call {call}");
        }
        assert!(olds > 10 && resumed > 0, "{olds} old, {news} new, {resumed} resumed");
    }
}

#[test]
fn an_adoption_ends_after_a_power_failure_at_any_call() {
    for seed in 0..3 {
        let source = Source::new(seed);
        let (base, _) = own_log(seed + 100);
        source.copy_to(&base).unwrap();
        base.crash();
        let whole = base.fork();
        let before = whole.calls();
        assert!(open(&whole).unwrap() == source.state);
        let mut finished = 0;
        for call in before + 1..=whole.calls() {
            for fails in [false, true] {
                let disk = base.fork();
                if fails {
                    disk.fail_at(call);
                } else {
                    disk.crash_at(call);
                }
                // If only a spare cannot be made, the start succeeds.
                let _ = open(&disk);
                if fails {
                    disk.restart();
                } else {
                    disk.crash();
                }
                finished += u32::from(copy_files(&disk).is_empty());
                let state = open(&disk).unwrap_or_else(|error| panic!("call {call}: {error}"));
                assert!(state == source.state, "call {call}");
                assert_eq!(copy_files(&disk), [""; 0], "call {call}");
                // What a power failure leaves is the copy, too.
                disk.crash();
                assert!(open(&disk).unwrap() == source.state, "call {call}");
            }
        }
        assert!(finished > 0);
    }
}

#[test]
fn a_later_copy_keeps_the_sealed_segments_of_an_earlier_attempt() {
    let earlier = Source::new(7);
    let (disk, _) = own_log(107);
    // The earlier attempt gets all segments, but does not finish.
    let mut copy = IncomingCopy::begin(Arc::new(disk.clone()), earlier.point).unwrap();
    for bytes in earlier.segments.values() {
        copy.begin_segment(bytes.len() as u64).unwrap();
        copy.write(bytes).unwrap();
    }
    assert_eq!(copy.next_segment(), None);
    drop(copy);
    let Source { mut world, point, .. } = earlier;
    grow(&mut world, 1);
    let later = Source::of(world);
    let first = later.copy_to(&disk).unwrap();
    let reached = later.point.first() == point.first();
    assert_eq!(first, if reached { point.last() } else { later.point.first() });
    assert!(open(&disk).unwrap() == later.state);
}

#[test]
fn the_zeros_after_the_end_need_not_arrive() {
    let source = Source::new(11);
    let (disk, _) = own_log(111);
    let copy = |groups: usize| -> Result<(), CopyError> {
        let mut copy = IncomingCopy::begin(Arc::new(disk.clone()), source.point)?;
        while let Some(number) = copy.next_segment() {
            let bytes = &source.segments[&number];
            copy.begin_segment(bytes.len() as u64)?;
            let is_last = number == source.point.last();
            copy.write(&bytes[..if is_last { groups } else { bytes.len() }])?;
            if is_last && groups < bytes.len() {
                copy.end_with_zeros()?;
            }
        }
        copy.finish()
    };
    let end = source.point.end().offset() as usize;
    let error = copy(end - 8).unwrap_err();
    assert!(matches!(error, CopyError::Damage(_)), "{error}");
    copy(end).unwrap();
    disk.crash();
    assert!(open(&disk).unwrap() == source.state);
}

#[test]
fn segments_of_another_log_are_not_kept() {
    let (one, other) = (Source::new(8), Source::new(9));
    let (disk, own) = own_log(108);
    let mut copy = IncomingCopy::begin(Arc::new(disk.clone()), one.point).unwrap();
    let bytes = &one.segments[&one.point.first()];
    copy.begin_segment(bytes.len() as u64).unwrap();
    copy.write(bytes).unwrap();
    drop(copy);
    assert_eq!(copy_files(&disk).len(), 1);
    assert!(open(&disk).unwrap() == own);
    assert_eq!(other.copy_to(&disk).unwrap(), other.point.first());
    assert!(open(&disk).unwrap() == other.state);
    // A copy that nobody needs any more goes.
    one.copy_to(&disk).unwrap();
    IncomingCopy::discard(&disk).unwrap();
    assert_eq!(copy_files(&disk), [""; 0]);
    assert!(open(&disk).unwrap() == other.state);
}

#[test]
fn damaged_and_cut_copies_are_refused() {
    let source = Source::new(10);
    let (disk, own) = own_log(110);
    let arc = || Arc::new(disk.clone());
    let mut copy = IncomingCopy::begin(arc(), source.point).unwrap();
    let mut bytes = source.segments[&source.point.first()].clone();
    let size = bytes.len() as u64;
    copy.begin_segment(size).unwrap();
    let error = copy.write(&[bytes.clone(), vec![0]].concat()).unwrap_err();
    assert!(matches!(error, CopyError::TooLong), "{error}");
    bytes[100] ^= 1;
    let mut copy = IncomingCopy::begin(arc(), source.point).unwrap();
    copy.begin_segment(size).unwrap();
    let error = copy.write(&bytes).unwrap_err();
    assert!(matches!(error, CopyError::Damage(_)), "{error}");
    assert!(open(&disk).unwrap() == own);

    // The last segment ends before the point.
    let mut cut = Source { segments: source.segments.clone(), ..Source::new(10) };
    let last = cut.segments.get_mut(&source.point.last()).unwrap();
    last[source.point.end().offset() as usize - 8..].fill(0);
    let error = cut.copy_to(&disk).unwrap_err();
    assert!(matches!(error, CopyError::Damage(_)), "{error}");
    assert!(open(&disk).unwrap() == own);

    // Somebody has removed a file of a whole copy.
    source.copy_to(&disk).unwrap();
    disk.remove_file("copy-new");
    disk.remove_file(&BackupSource::name(source.point.last()));
    let error = open(&disk).unwrap_err();
    assert!(matches!(error, OpenError::CutBackup { .. }), "{error}");
}
