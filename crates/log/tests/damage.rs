//! Damages small logs in many ways. Recovery must restore the whole log, or refuse the log. There
//! is one exception: recovery may cut off the last group as a torn write, if nothing proves that
//! this group was durable.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Recovered, State, World, recover, settings};
use std::sync::Arc;

use lineshaft_log::{
    FaultDisk, Log, Meta, OpenError, QueueRef, ReclaimError, Restored, Settings, Slot, Sync,
};

const FIRST: &str = "0000000001.seg";
const HEADER_BYTES: usize = 4096;
const QUEUE: QueueRef<'static> = QueueRef { number: 0, name: b"mails" };

fn plain_meta(id: u64) -> Meta<'static> {
    Meta {
        id,
        priority: 1,
        ttr: id as u32 ^ 7,
        created_ms: id * 3,
        due_ms: 0,
        state: 0,
        options: b"o",
    }
}

/// A small log with every kind of entry.
struct Small {
    disk: FaultDisk,
    /// The state before the last group.
    before_last: State,
    /// The state after the last group.
    whole: State,
    /// The start of the last group with entries.
    last_group: usize,
    /// The durable position in the header of the last group with entries.
    durable: usize,
    /// The end of the log.
    end: usize,
    next_id: u64,
}

fn small(closed: bool) -> Small {
    let disk = FaultDisk::new(1, 64 << 20);
    let (log, _) = recover(&disk, settings(Sync::Always), 1000).unwrap();
    let meta = |id: u64| Meta {
        id,
        priority: 1,
        ttr: id as u32 ^ 7,
        created_ms: id * 3,
        due_ms: 0,
        state: 0,
        options: b"o",
    };
    let put = |id: u64| log.put(1000, QUEUE, &meta(id), b"a body").0;
    let slots: Vec<Slot> = (1..4).map(put).collect();
    log.commit_step(1000).unwrap();
    log.count(1000, slots[1], b"counted");
    log.update(1000, slots[0], QueueRef { number: 1, name: b"other" }, &meta(1));
    log.fact(1000, b"key", b"value");
    log.commit_step(1000).unwrap();
    log.finish(1000, slots[2]);
    log.commit_step(1000).unwrap();
    log.commit_step(1100).unwrap();
    let before = disk.fork();
    before.restart();
    let before_last = recover(&before, settings(Sync::Always), 1100).unwrap().1.state;
    let last_group = log.written().offset() as usize;
    let durable = log.durable().offset() as usize;
    put(4);
    log.fact(1000, b"key", b"");
    log.commit_step(1101).unwrap();
    if closed {
        log.close(1102, 9).unwrap();
    }
    let end = log.written().offset() as usize;
    disk.restart();
    let found = recover(&disk.fork(), settings(Sync::Always), 1200).unwrap().1;
    Small {
        disk,
        before_last,
        whole: found.state,
        last_group,
        durable,
        end,
        next_id: found.report.next_id,
    }
}

impl Small {
    /// Changes a copy of the disk, and opens the log on it. Returns true if recovery cut off the
    /// last group.
    fn outcome(&self, what: &str, change: impl FnOnce(&FaultDisk)) -> Result<bool, OpenError> {
        let disk = self.disk.fork();
        change(&disk);
        let (_, found): (_, Recovered) = recover(&disk, settings(Sync::Always), 1200)?;
        if found.state == self.whole {
            return Ok(false);
        }
        assert!(found.state == self.before_last, "{what}: another state came back");
        Ok(true)
    }

    fn with_bytes(&self, what: &str, change: impl FnOnce(&mut Vec<u8>)) -> Result<bool, OpenError> {
        self.outcome(what, |disk| {
            let mut bytes = disk.bytes(FIRST).unwrap();
            change(&mut bytes);
            disk.set_bytes(FIRST, bytes);
        })
    }
}

#[test]
fn every_flipped_bit_is_seen() {
    for closed in [false, true] {
        let small = small(closed);
        assert_ne!(small.before_last, small.whole);
        let header = (0..HEADER_BYTES).filter(|at| *at < 64 || at % 61 == 0);
        for byte in header.chain(HEADER_BYTES..small.end + 64) {
            for bit in 0..8 {
                let what = format!("byte {byte} bit {bit} closed {closed}");
                let result =
                    small.outcome(&what, |disk| disk.flip_bit(FIRST, byte as u64 * 8 + bit));
                match result {
                    Ok(false) => assert!(byte >= small.durable, "{what}: was not seen"),
                    Ok(true) => {
                        // Nothing proves that the last two groups were durable: a mark, and then
                        // the last group with entries. So damage to the mark can also cut off the
                        // group with entries.
                        let in_last = (small.durable..small.end).contains(&byte);
                        assert!(in_last && !closed, "{what}: more than a torn write was cut");
                    }
                    Err(OpenError::Damaged { .. } | OpenError::Format { .. }) => {
                        assert!(byte < small.end, "{what}: bytes beyond the end do no harm");
                    }
                    Err(error) => panic!("{what}: {error}"),
                }
            }
        }
    }
}

/// The owner reads the clock before it lets the last sync end.
#[test]
fn a_close_at_an_older_time_than_the_last_sync_proves_that_all_was_durable() {
    let disk = FaultDisk::new(1, 64 << 20);
    let log = recover(&disk, settings(Sync::Always), 1000).unwrap().0;
    log.put(2000, QUEUE, &plain_meta(1), b"body");
    log.commit_step(2000).unwrap();
    log.close(1990, 2).unwrap();
    // The last group is a mark of 56 bytes. So this is in the group before.
    let bit = (log.durable().offset() - 60) * 8;
    drop(log);
    disk.restart();
    disk.flip_bit(FIRST, bit);
    assert!(recover(&disk, settings(Sync::Always), 3000).is_err());
}

/// Makes a log of at least three segments, and runs reclaim. The log has copies, jobs that share a
/// body, and a TRIM. Returns its disk, its live contents, the numbers of its segments, and the end
/// of the last segment.
fn reclaimed() -> (FaultDisk, State, std::ops::RangeInclusive<u32>, usize) {
    let disk = FaultDisk::new(8, 64 << 20);
    let settings = Settings { segment_bytes: 64 << 10, ..settings(Sync::Always) };
    let mut world = World::new(8, disk.clone(), settings).unwrap();
    world.body_bytes_max = 4000;
    let usage = |world: &World| world.log.usage();
    while usage(&world).copies < 20 || usage(&world).last_segment < usage(&world).first_segment + 2
    {
        world.step().unwrap();
    }
    world.log.close(world.now_ms, world.ids_spent).unwrap();
    let segments = usage(&world).first_segment..=usage(&world).last_segment;
    assert!(*segments.start() > 1);
    disk.restart();
    (disk, world.state, segments, world.log.written().offset() as usize)
}

#[test]
fn damage_to_any_segment_is_seen() {
    let (disk, whole, segments, last_end) = reclaimed();
    let open = |disk: &FaultDisk| recover(disk, settings(Sync::Always), 2_000_000);
    assert_eq!(open(&disk.fork()).unwrap().1.state, whole);
    let name = |number: u32| format!("{number:010}.seg");
    for number in segments.clone() {
        // The first group of the next segment says where this segment ends.
        let (end, proven) = match disk.bytes(&name(number + 1)) {
            Some(next) if number < *segments.end() => {
                let at = HEADER_BYTES + 32;
                let end = u32::from_le_bytes(next[at..at + 4].try_into().unwrap()) as usize;
                (end, end)
            }
            // If the final mark is damaged, recovery can cut it off as a torn write. This loses
            // nothing, because a mark has no entries.
            _ => (last_end, last_end - 56),
        };
        let header = (0..64).chain((64..HEADER_BYTES).step_by(89));
        let begin = HEADER_BYTES..HEADER_BYTES + 400;
        let rest = (HEADER_BYTES + 400..end).step_by(61);
        for byte in header.chain(begin).chain(rest).chain(end - 80..end + 40) {
            let what = format!("segment {number} byte {byte}");
            let disk = disk.fork();
            if byte as u64 >= 64 << 10 {
                continue;
            }
            disk.flip_bit(&name(number), byte as u64 * 8 + byte as u64 % 8);
            match open(&disk) {
                Ok((_, found)) => {
                    assert!(byte >= proven, "{what}: was not seen");
                    assert!(found.state == whole, "{what}: another state came back");
                }
                Err(OpenError::Damaged { .. } | OpenError::Format { .. }) => {
                    assert!(byte < end, "{what}: bytes beyond the end do no harm");
                }
                Err(error) => panic!("{what}: {error}"),
            }
        }
        for len in (0..64 << 10).step_by(1021).chain([4095, 4096, (64 << 10) - 1]) {
            let disk = disk.fork();
            let mut bytes = disk.bytes(&name(number)).unwrap();
            bytes.truncate(len);
            disk.set_bytes(&name(number), bytes);
            let result = open(&disk).map(|_| ());
            assert!(matches!(result, Err(OpenError::Damaged { .. })), "{number} {len}: {result:?}");
        }
    }
}

#[test]
fn a_tail_lost_at_any_byte_is_cut_or_refused() {
    let small = small(false);
    for at in HEADER_BYTES..=small.end {
        // If the zeros begin at `durable` or later, fill the rest of the file with zeros, as if the
        // last write had not reached the disk. If they begin earlier, keep the last group: its
        // header proves that the bytes before `durable` were durable.
        let end = if at < small.durable { small.last_group } else { usize::MAX };
        let what = format!("zeros from {at}");
        let result = small.with_bytes(&what, |bytes| {
            let end = end.min(bytes.len());
            bytes[at..end].fill(0);
        });
        match result {
            // The last bytes of an entry may be padding, so they may have been zeros before.
            Ok(cut) => assert!(at + 8 > small.durable && (cut || at + 8 > small.end), "{what}"),
            Err(error) => {
                assert!(matches!(error, OpenError::Damaged { .. }), "{what}: {error}");
                assert!(at < small.durable, "{what}: a torn write was refused");
            }
        }
    }
    for len in (0..small.end + 100).chain([100_000, (256 << 10) - 1]) {
        let what = format!("cut to {len}");
        let result = small.with_bytes(&what, |bytes| bytes.truncate(len));
        assert!(matches!(result, Err(OpenError::Damaged { .. })), "{what}: {result:?}");
    }
}

#[test]
fn misplaced_bytes_are_seen() {
    let small = small(true);
    // Copy 64 bytes from every place to a place 8, 64 or 512 bytes away.
    for from in (HEADER_BYTES..small.end).step_by(8) {
        for distance in [8_usize, 64, 512] {
            for to in [from + distance, from.saturating_sub(distance)] {
                if to < HEADER_BYTES {
                    continue;
                }
                let what = format!("bytes of {from} at {to}");
                let result = small.with_bytes(&what, |bytes| {
                    let piece = bytes[from..from + 64].to_vec();
                    bytes[to..to + 64].copy_from_slice(&piece);
                });
                match result {
                    Ok(cut) => assert!(!cut, "{what}: durable entries were cut"),
                    Err(error) => {
                        assert!(matches!(error, OpenError::Damaged { .. }), "{what}: {error}");
                    }
                }
            }
        }
    }
    // Copy the segment to a file with another number.
    let result = small.outcome("doubled", |disk| {
        disk.set_bytes("0000000002.seg", disk.bytes(FIRST).unwrap());
    });
    assert!(matches!(result, Err(OpenError::Damaged { .. })), "{result:?}");
}

#[test]
fn a_stale_sector_is_seen() {
    let disk = FaultDisk::new(2, 64 << 20);
    let (log, _) = recover(&disk, settings(Sync::Always), 1000).unwrap();
    let mut ages = Vec::new();
    for id in 1..60 {
        ages.push(disk.bytes(FIRST).unwrap());
        log.put(1000, QUEUE, &plain_meta(id), &vec![id as u8; id as usize * 3]);
        log.commit_step(1000).unwrap();
    }
    log.close(1000, 60).unwrap();
    // Leave out the sector of the final mark: no later group proves that the mark was durable.
    let last_sector = (log.written().offset() as usize - 56) / 512;
    disk.restart();
    for sector in HEADER_BYTES / 512..last_sector {
        let range = sector * 512..sector * 512 + 512;
        for age in &ages {
            let disk = disk.fork();
            let mut bytes = disk.bytes(FIRST).unwrap();
            if bytes[range.clone()] == age[range.clone()] {
                continue;
            }
            bytes[range.clone()].copy_from_slice(&age[range.clone()]);
            disk.set_bytes(FIRST, bytes);
            let result = recover(&disk, settings(Sync::Always), 1000).map(|_| ());
            assert!(
                matches!(result, Err(OpenError::Damaged { .. })),
                "sector {sector}: {result:?}"
            );
        }
    }
}

#[test]
fn a_group_left_over_beyond_a_torn_one_never_counts() {
    let disk = FaultDisk::new(2, 64 << 20);
    let (log, _) = recover(&disk, settings(Sync::Never), 1000).unwrap();
    let put = |id: u64| log.put(1000, QUEUE, &plain_meta(id), b"a body").0;
    let slots: Vec<Slot> = (1..4).map(put).collect();
    log.commit_step(1000).unwrap();
    // Write two groups without a sync. The first group is torn, the second one reached the disk.
    log.finish(1000, slots[0]);
    let start = log.written().offset() as usize;
    log.commit_step(1000).unwrap();
    let end = log.written().offset() as usize;
    log.finish(1000, slots[1]);
    log.commit_step(1000).unwrap();
    disk.restart();
    let mut bytes = disk.bytes(FIRST).unwrap();
    bytes[start..end].fill(0);
    disk.set_bytes(FIRST, bytes);
    let (log, found) = recover(&disk, settings(Sync::Never), 2000).unwrap();
    assert_eq!((found.state.jobs.len(), found.report.cut_groups), (3, 1));
    // The group that recovery appended ends exactly where the second group starts.
    assert_eq!(log.written().offset() as usize, end);
    disk.crash();
    let (_, again) = recover(&disk, settings(Sync::Never), 3000).unwrap();
    assert_eq!(again.state, found.state);
    // The second group is still in the file, but recovery does not report it again.
    assert_eq!((again.report.cut_groups, again.report.cut_bytes), (0, 0));
}

#[test]
fn recovery_twice_gives_the_same() {
    for closed in [false, true] {
        let small = small(closed);
        let again = || recover(&small.disk.fork(), settings(Sync::Always), 1200).unwrap().1;
        let (one, two) = (again(), again());
        assert_eq!((&one.state, &one.places, &one.report), (&two.state, &two.places, &two.report));
        let disk = small.disk.fork();
        drop(recover(&disk, settings(Sync::Always), 1200).unwrap());
        disk.restart();
        let three = recover(&disk, settings(Sync::Always), 1300).unwrap().1;
        assert_eq!((&one.state, &one.places), (&three.state, &three.places));
        assert!(three.report.next_id > one.report.next_id, "ids go on");
        assert_eq!(one.report.next_id, small.next_id);
        // The log's time does not go back at a restart, even if the clock is wrong.
        assert_eq!(one.report.last_time_ms, if closed { 1202 } else { 1101 });
        assert_eq!(one.report.next_id == 9, closed);
    }
}

#[test]
fn bytes_that_change_between_the_passes_are_seen() {
    let (disk, whole, segments, _) = reclaimed();
    let (first, next) = (*segments.start(), format!("{:010}.seg", segments.start() + 1));
    // Recovery does not keep all segments in memory, so it reads the older segments twice.
    for byte in (HEADER_BYTES..60_000).step_by(997) {
        let disk = disk.fork();
        let mut restored = 0;
        let mut flip = |restored_now: Restored<'_>| {
            if matches!(restored_now, Restored::Job { slot, .. } if slot.segment == first) {
                restored += 1;
            }
            if restored == 1 {
                disk.flip_bit(&next, byte as u64 * 8);
                restored += 1;
            }
        };
        let settings = settings(Sync::Always);
        let result = Log::open(Arc::new(disk.clone()), settings, 2_000_000, &mut flip);
        assert!(restored > 1 && whole.jobs.len() > 1, "nothing was flipped");
        assert!(matches!(result, Err(OpenError::Damaged { .. })), "byte {byte}");
    }
}

#[test]
fn a_failing_read_stops_the_start_or_nothing() {
    let small = small(true);
    let disk = small.disk.fork();
    drop(recover(&disk, settings(Sync::Always), 1200).unwrap());
    let reads = disk.reads();
    let mut refused = 0;
    for read in small.disk.reads() + 1..=reads {
        let disk = small.disk.fork();
        disk.fail_read_at(read);
        match recover(&disk, settings(Sync::Always), 1200) {
            // A read of the last segment is repeated block by block.
            Ok((_, found)) => {
                assert_eq!((&found.state, found.report.next_id), (&small.whole, small.next_id));
                continue;
            }
            Err(OpenError::Io { .. }) => refused += 1,
            Err(error) => panic!("read {read}: {error}"),
        }
        disk.restart();
        let found = recover(&disk, settings(Sync::Always), 1200).unwrap().1;
        assert_eq!((&found.state, found.report.next_id), (&small.whole, small.next_id));
    }
    assert!(refused > 0, "each start can do without one of its reads");
}

#[test]
fn reclaim_stops_where_a_file_was_cut_off() {
    for len in [20_000, 30_001, 40_000] {
        let disk = FaultDisk::new(4, 64 << 20);
        let settings = Settings { segment_bytes: 64 << 10, ..settings(Sync::Always) };
        let mut world = World::new(4, disk.clone(), settings).unwrap();
        while world.log.written().segment() < 3 {
            world.put();
            world.log.commit_step(world.now_ms).unwrap();
        }
        let mut bytes = disk.bytes(FIRST).unwrap();
        bytes.truncate(len);
        disk.set_bytes(FIRST, bytes);
        let error = loop {
            match world.log.reclaim_read() {
                Ok(slice) => assert!(slice.is_some(), "nothing was seen"),
                Err(error) => break error,
            }
            world.reclaim_once();
        };
        assert!(matches!(error, ReclaimError::Damaged { .. }), "{error}");
        assert_eq!(world.log.usage().first_segment, 1);
    }
}

#[test]
fn files_that_do_not_belong_are_named() {
    let small = small(true);
    let other = FaultDisk::new(99, 64 << 20);
    drop(recover(&other, settings(Sync::Always), 1000).unwrap());
    let foreign = other.bytes(FIRST).unwrap();

    let mut bytes = foreign.clone();
    bytes[28..32].copy_from_slice(&2_u32.to_le_bytes());
    let crc = crc32fast::hash(&bytes[..48]);
    bytes[48..52].copy_from_slice(&crc.to_le_bytes());
    let result = small.outcome("foreign", |disk| disk.set_bytes("0000000002.seg", bytes));
    assert!(matches!(result, Err(OpenError::ForeignLog { .. })), "{result:?}");

    let result = small.with_bytes("format", |bytes| {
        bytes[8..12].copy_from_slice(&9_u32.to_le_bytes());
        let crc = crc32fast::hash(&bytes[..48]);
        bytes[48..52].copy_from_slice(&crc.to_le_bytes());
    });
    assert!(matches!(result, Err(OpenError::Format { found: 9, .. })), "{result:?}");
}

#[test]
fn a_segment_of_another_log_with_a_higher_number_does_not_void_this_one() {
    let many_segments = |seed| {
        let disk = FaultDisk::new(seed, 64 << 20);
        let (log, _) = recover(&disk, settings(Sync::Always), 1000).unwrap();
        for id in 1..=12 {
            log.put(1000, QUEUE, &plain_meta(id), &vec![1; 100_000]);
            log.commit_step(1000).unwrap();
        }
        assert!(log.written().segment() >= 5);
        disk
    };
    let other = many_segments(99);
    let highest = "0000000005.seg";
    let foreign = other.bytes(highest).unwrap();
    let small = small(true);
    let disk = small.disk.fork();
    disk.set_bytes(highest, foreign);
    let before = disk.names();
    let error = recover(&disk, settings(Sync::Always), 1200).unwrap_err();
    assert!(matches!(error, OpenError::ForeignLog { .. }), "{error}");
    assert_eq!(disk.names(), before);
    disk.restart();
    disk.remove_file(highest);
    let found = recover(&disk, settings(Sync::Always), 1200).unwrap().1;
    assert_eq!(found.state, small.whole);
}

#[test]
fn ids_that_cannot_be_are_refused() {
    for job in [true, false] {
        let disk = FaultDisk::new(3, 64 << 20);
        let (log, _) = recover(&disk, settings(Sync::Always), 1000).unwrap();
        if job {
            log.put(1000, QUEUE, &Meta { id: u64::MAX, ..plain_meta(1) }, b"");
        }
        log.close(1000, if job { 2 } else { u64::MAX }).unwrap();
        disk.restart();
        let error = recover(&disk, settings(Sync::Always), 1000).unwrap_err();
        assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
    }
}

#[test]
fn a_missing_segment_is_named() {
    let disk = FaultDisk::new(3, 64 << 20);
    let (log, _) = recover(&disk, settings(Sync::Always), 1000).unwrap();
    let meta = |id: u64| Meta {
        id,
        priority: 1,
        ttr: id as u32 ^ 7,
        created_ms: id * 3,
        due_ms: 0,
        state: 0,
        options: b"",
    };
    for id in 1..=12 {
        log.put(1000, QUEUE, &meta(id), &vec![1; 100_000]);
        log.commit_step(1000).unwrap();
    }
    let last = log.written().segment();
    assert!(last >= 5);
    disk.restart();
    for number in 1..last {
        let disk = disk.fork();
        disk.remove_file(&format!("{number:010}.seg"));
        let error = recover(&disk, settings(Sync::Always), 1000).unwrap_err();
        assert!(matches!(error, OpenError::MissingSegment { .. }), "{number}: {error}");
    }
}
