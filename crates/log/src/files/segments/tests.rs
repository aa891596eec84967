//! Tests names of segments, and how the next segment is filled.

use super::*;
use crate::disk::fault::FaultDisk;
use crate::{Log, Settings};

#[test]
fn names_and_numbers() {
    assert_eq!(segment_name(7), "0000000007.seg");
    assert_eq!(segment_number("0000000007.seg"), Some(7));
    for name in ["7.seg", "0000000007.idx", "00000000a7.seg", "9999999999.seg", "lock"] {
        assert_eq!(segment_number(name), None, "{name}");
    }
}
/// Long rests leave the processor to clients. But they must not delay what clients wait for.
#[test]
fn the_next_segment_is_filled_slowly_only_while_it_is_well_ahead() {
    const SEGMENT: u64 = 32 << 20;
    let open = |disk: &FaultDisk| {
        let settings = Settings { segment_bytes: SEGMENT, ..Settings::default() };
        Log::open(Arc::new(disk.clone()), settings, 1, &mut |_| ()).map(|(log, _)| log)
    };
    // The long and the short rests of the background work while it fills a segment with zeros,
    // in 512 pieces.
    let rests = |disk: &FaultDisk, log: &Log| {
        assert!(log.segments.is_ready());
        let (rests, micros) = (disk.rests(), disk.rested().as_micros() as u64);
        let long = (micros - 300 * rests) / (10_000 - 300);
        (long, rests - long)
    };
    // The rests, and the calls to the disk.
    let prepared = |head_left, has_more_work: bool, large_pieces: bool| {
        let disk = FaultDisk::new(1, 1 << 30);
        let log = open(&disk).unwrap();
        let wanted = Wanted { ahead_bytes: log.ahead_wanted(), durable: log.durable() };
        let before = disk.calls();
        let (has_more_work, large_pieces) = (|| has_more_work, || large_pieces);
        log.segments.prepare(wanted, &|| head_left, &has_more_work, &large_pieces).unwrap();
        (rests(&disk, &log), disk.calls() - before)
    };
    let with = |head_left, has_more_work| prepared(head_left, has_more_work, false).0;
    // The head is empty, so the next segment is soon 2 MiB ahead.
    assert_eq!(with(THOUSAND, false), (479, 32));
    assert_eq!(with(THOUSAND, true), (0, 511));
    // An eighth of the head is used. If half of it is used, there is no time for long rests, and
    // if more than three quarters are used, none to rest.
    assert_eq!(with(THOUSAND * 7 / 8, false), (351, 93));
    assert_eq!(with(THOUSAND / 2, false), (0, 177));
    assert_eq!(with(THOUSAND / 5, false), (0, 0));
    // Nothing of the head is free. So there is no time for syncs.
    let calls = |head_left| prepared(head_left, false, false).1;
    assert!(calls(0) < 150 && calls(THOUSAND / 5) > 200, "128 pieces of 256 KiB, or smaller ones");
    // Without quiet clients, it works in larger pieces, but not while there is plenty of time.
    assert_eq!(prepared(THOUSAND, false, true).0, (479, 8));
    assert_eq!(prepared(THOUSAND, true, true).0, (0, 127));
    assert_eq!(prepared(THOUSAND / 2, false, true).0, (0, 65));
    assert_eq!(prepared(THOUSAND / 5, false, true).0, (0, 25));

    let disk = FaultDisk::new(1, 1 << 30);
    let log = open(&disk).unwrap();
    log.prepare_once(false).unwrap();
    assert!(rests(&disk, &log).0 > 470);
    // The caller waits.
    let disk = FaultDisk::new(1, 1 << 30);
    let log = open(&disk).unwrap();
    log.prepare_step().unwrap();
    assert_eq!(rests(&disk, &log), (0, 511));
    // The reserve lacks a file. A step that ends soon can try again to allocate it.
    let (disk, log) = (1..400)
        .find_map(|call| {
            let disk = FaultDisk::new(1, 1 << 30);
            disk.fail_at(call);
            let log = open(&disk).ok()?;
            (log.usage().ahead_bytes == SEGMENT).then_some((disk, log))
        })
        .unwrap();
    disk.set_capacity(disk.used());
    log.prepare_once(false).unwrap();
    assert_eq!(rests(&disk, &log), (0, 511));
}
