//! Reads bodies back from the files. The log writes only when a test calls `commit_step`.

use std::sync::Arc;

use lineshaft_log::{BodyError, BodyReader, FaultDisk, Log, Meta, QueueRef, Settings, put_bytes};

const QUEUE: QueueRef<'_> = QueueRef { number: 0, name: b"q" };

fn meta(id: u64) -> Meta<'static> {
    Meta { id, priority: 0, ttr: 60, created_ms: 1, due_ms: 0, state: 0, options: b"opt" }
}

fn log(disk: &FaultDisk) -> Log {
    let settings = Settings { segment_bytes: 1 << 20, ..Settings::default() };
    Log::open(Arc::new(disk.clone()), settings, 1, &mut |_| ()).expect("the disk is empty").0
}

/// Puts bodies of these sizes. Returns the segment, the offset of the entry, and the bytes of each
/// body.
fn put_all(log: &Log, sizes: &[usize]) -> Vec<(u32, u32, Vec<u8>)> {
    let mut put = |(number, &size): (usize, &usize)| {
        let body: Vec<u8> = (0..size).map(|byte| (byte * 7 + number) as u8).collect();
        let (slot, end) = log.put(1, QUEUE, &meta(number as u64 + 1), &body);
        let entry_at = end.offset() - put_bytes(1, 3, size);
        if number % 50 == 49 {
            log.commit_step(1).expect("the disk works");
            log.prepare_step().expect("the disk works");
        }
        (slot.segment, entry_at as u32, body)
    };
    let all = sizes.iter().enumerate().map(&mut put).collect();
    log.commit_step(1).expect("the disk works");
    all
}

#[test]
fn bodies_of_all_sizes_are_read_in_any_selection() {
    let disk = FaultDisk::new(1, 64 << 20);
    let log = log(&disk);
    let sizes: Vec<usize> = (0..600)
        .map(|number| [0, 1, 100, 5000, 70_000, 300_000][number * number % 17 % 6])
        .collect();
    let all = put_all(&log, &sizes);
    let mut reader = BodyReader::default();
    for step in [1, 2, 7, 100] {
        let some: Vec<_> = all.iter().step_by(step).collect();
        for run in some.chunk_by(|one, next| one.0 == next.0) {
            let entries: Vec<u32> = run.iter().map(|(_, entry_at, _)| *entry_at).collect();
            let mut seen = 0;
            reader.read(&log, run[0].0, &entries, |index, body| {
                assert!(body.unwrap() == run[index].2, "the body of {index}");
                seen += 1;
            });
            assert_eq!(seen, entries.len());
        }
    }
}

#[test]
fn what_is_not_the_entry_is_never_taken_for_it() {
    let disk = FaultDisk::new(1, 64 << 20);
    let log = log(&disk);
    let all = put_all(&log, &[100, 100, 100]);
    let (segment, entry_at, _) = all[1].clone();
    let read = |reader: &mut BodyReader, entry_at: u32| {
        let mut found = None;
        reader.read(&log, segment, &[entry_at], |_, body| found = Some(body.map(<[u8]>::to_vec)));
        found.unwrap()
    };
    let mut reader = BodyReader::default();
    assert_eq!(read(&mut reader, entry_at).unwrap(), all[1].2);
    for wrong in [entry_at + 8, entry_at - 8, 4096, (1 << 20) - 8, u32::MAX - 7] {
        assert!(matches!(read(&mut reader, wrong), Err(BodyError::Damaged { .. })), "{wrong}");
    }
    let name = "0000000001.seg";
    for byte in [0, 4, 12, 60, 150] {
        let bit = (u64::from(entry_at) + byte) * 8;
        disk.flip_bit(name, bit);
        let damaged = read(&mut reader, entry_at);
        assert!(matches!(damaged, Err(BodyError::Damaged { .. })), "byte {byte}: {damaged:?}");
        disk.flip_bit(name, bit);
    }
}

#[test]
fn a_read_that_fails_for_a_moment_is_repeated() {
    let disk = FaultDisk::new(1, 64 << 20);
    let log = log(&disk);
    let all = put_all(&log, &[100, 100, 100]);
    let entries: Vec<u32> = all.iter().map(|(_, entry_at, _)| *entry_at).collect();
    let read = |reader: &mut BodyReader| {
        let mut results = Vec::new();
        reader.read(&log, all[0].0, &entries, |index, body| {
            results.push(match body {
                Ok(body) => Some(body == all[index].2),
                Err(error) => {
                    assert!(matches!(error, BodyError::Read { .. }), "{error}");
                    None
                }
            });
        });
        results
    };
    for failing in [1, 2, 3, 5] {
        disk.fail_reads(disk.reads() + 1..disk.reads() + 1 + failing);
        assert_eq!(read(&mut BodyReader::default()), [Some(true); 3], "{failing} failing reads");
    }
    disk.fail_reads(0..u64::MAX);
    assert_eq!(read(&mut BodyReader::default()), [None; 3]);
    disk.plan_nothing();
    assert_eq!(read(&mut BodyReader::default()), [Some(true); 3]);
}

#[test]
fn a_bad_sector_fails_only_the_entries_in_it() {
    let disk = FaultDisk::new(1, 64 << 20);
    let log = log(&disk);
    let all = put_all(&log, &[1000; 100]);
    let entries: Vec<u32> = all.iter().map(|(_, entry_at, _)| *entry_at).collect();
    disk.fail_sector("0000000001.seg", u64::from(entries[50]) + 500);
    let mut failed = Vec::new();
    BodyReader::default().read(&log, all[0].0, &entries, |index, body| match body {
        Ok(body) => assert!(body == all[index].2, "the body of {index}"),
        Err(_) => failed.push(index),
    });
    assert!(failed.contains(&50) && failed.len() <= 2, "{failed:?}");
}

#[test]
fn a_missing_segment_fails_each_of_its_bodies() {
    let disk = FaultDisk::new(1, 64 << 20);
    let log = log(&disk);
    let mut failed = 0;
    BodyReader::default().read(&log, 77, &[4096, 8192], |_, body| {
        assert!(matches!(body, Err(BodyError::Read { .. })));
        failed += 1;
    });
    assert_eq!(failed, 2);
}
