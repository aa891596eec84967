//! Tests the parser of beanstalkd's binlog. The tests write their binlogs as the specification
//! describes them (spec beanstalkd 8).

use std::io;

use lineshaft_import::{Backlog, Job, State, beanstalkd};

const SECOND: u64 = 1_000_000_000;

/// The fields of a record that the tests choose. Times are nanoseconds.
#[derive(Clone, Copy, Default)]
struct Fields {
    id: u64,
    state: u8,
    priority: u32,
    delay: u64,
    due: u64,
}

/// A record of version 7. With a body, it is a full record of the tube `tt`.
fn record(fields: Fields, body: Option<&[u8]>) -> Vec<u8> {
    record_of(7, fields, body)
}

fn record_of(version: i32, fields: Fields, body: Option<&[u8]>) -> Vec<u8> {
    let Fields { id, state, priority, delay, due } = fields;
    let time = |nanos: u64| if version == 5 { nanos / 1000 } else { nanos };
    let name: &[u8] = if body.is_some() { b"tt" } else { b"" };
    let size = body.map_or(5, |body| body.len() as i32 + 2);
    let mut job = [0; 80];
    let mut set = |offset: usize, bytes: &[u8]| {
        job[offset..offset + bytes.len()].copy_from_slice(bytes);
    };
    set(0, &id.to_le_bytes());
    set(8, &priority.to_le_bytes());
    set(16, &time(delay).to_le_bytes());
    set(24, &time(60 * SECOND).to_le_bytes());
    set(32, &size.to_le_bytes());
    set(40, &time(1_700_000_000 * SECOND).to_le_bytes());
    set(48, &time(due).to_le_bytes());
    for (offset, count) in [(56, 1_u32), (60, 2), (64, 3), (68, 4), (72, 5)] {
        set(offset, &count.to_le_bytes());
    }
    set(76, &[state]);
    let mut bytes = match version {
        5 => (name.len() as u64).to_le_bytes().to_vec(),
        _ => (name.len() as i32).to_le_bytes().to_vec(),
    };
    bytes.extend(name);
    bytes.extend(&job[..if version == 5 { 77 } else { 80 }]);
    if let Some(body) = body {
        bytes.extend(body);
        bytes.extend(b"\r\n");
    }
    bytes
}

fn put(id: u64, body: &[u8]) -> Vec<u8> {
    record(Fields { id, state: 1, ..Fields::default() }, Some(body))
}

fn change(id: u64, state: u8) -> Vec<u8> {
    record(Fields { id, state, ..Fields::default() }, None)
}

fn file(records: &[Vec<u8>]) -> Vec<u8> {
    [&7_i32.to_le_bytes()[..], &records.concat()].concat()
}

fn bodies(backlog: &Backlog) -> Vec<(u64, Vec<u8>)> {
    let body = |job: &Job| (job.id.unwrap(), backlog.body(job).unwrap());
    backlog.jobs.iter().map(body).collect()
}

#[test]
fn both_versions_are_read_with_all_facts() {
    for version in [7, 5] {
        let due = 1_800_000_000 * SECOND;
        let delayed = Fields { id: 9, state: 4, priority: 3, delay: 7 * SECOND, due };
        let buried = Fields { id: 4, state: 3, ..Fields::default() };
        let held = Fields { id: 5, state: 2, due, ..Fields::default() };
        let records = [(delayed, "abc"), (buried, ""), (held, "x")];
        let records =
            records.map(|(fields, body)| record_of(version, fields, Some(body.as_bytes())));
        let bytes = [&version.to_le_bytes()[..], &records.concat(), &[0; 300]].concat();
        let backlog = beanstalkd::parse(&[&bytes]);
        assert_eq!(backlog.losses, []);
        let wanted = [(4, b"".to_vec()), (5, b"x".to_vec()), (9, b"abc".to_vec())];
        assert_eq!(bodies(&backlog), wanted);
        let [buried, held, delayed] = &backlog.jobs[..] else { panic!("three jobs") };
        assert_eq!((buried.state, held.state, held.due_ms), (State::Buried, State::Ready, 0));
        assert_eq!((delayed.state, delayed.due_ms), (State::Delayed, 1_800_000_000_000));
        assert_eq!((delayed.priority, delayed.delay_s, delayed.ttr_s), (3, 7, 60));
        assert_eq!(delayed.created_ms, Some(1_700_000_000_000));
        let counters = delayed.counters;
        assert_eq!((counters.takes, counters.timeouts, counters.releases), (1, 2, 3));
        assert_eq!((counters.buries, counters.kicks), (4, 5));
        assert_eq!(&*backlog.queues[0].name, b"tt");
    }
}

#[test]
fn the_last_record_of_a_job_counts_over_all_files() {
    let moved = Fields { id: 1, state: 1, priority: 8, ..Fields::default() };
    let first = file(&[put(1, b"a"), put(2, b"b"), put(3, b"c"), change(2, 3), change(3, 3)]);
    let second = file(&[change(3, 1), change(1, 0), change(7, 3), change(3, 3), vec![0; 4096]]);
    let third = file(&[record(moved, Some(b"again")), change(2, 3)]);
    let backlog = beanstalkd::parse(&[&first, &second, &third]);
    assert_eq!(backlog.losses, []);
    let wanted = [(1, b"again".to_vec()), (2, b"b".to_vec()), (3, b"c".to_vec())];
    assert_eq!(bodies(&backlog), wanted);
    assert_eq!(backlog.jobs[0].priority, 8);
    // After job 2 was buried, job 3 was kicked and buried again.
    assert!(backlog.jobs[1].buried < backlog.jobs[2].buried);
}

/// After a cut at any byte, exactly the complete records are read.
#[test]
fn every_prefix_gives_exactly_its_whole_records() {
    let records = [
        put(1, b"first"),
        put(2, b""),
        change(1, 3),
        change(2, 0),
        put(3, b"\r\n\0\0"),
        change(3, 4),
    ];
    let whole = file(&records);
    let mut ends = vec![4];
    for record in &records {
        ends.push(ends[ends.len() - 1] + record.len());
    }
    for version in [whole.clone(), [whole.clone(), vec![0; 200]].concat()] {
        for len in 0..=version.len() {
            let backlog = beanstalkd::parse(&[&version[..len]]);
            let complete = ends.iter().filter(|end| **end <= len).count().saturating_sub(1);
            let wanted = beanstalkd::parse(&[&file(&records[..complete])]);
            assert_eq!(wanted.losses, []);
            assert_eq!(backlog.jobs, wanted.jobs, "of {len} bytes");
            let cut = &version[ends[complete].min(len)..len];
            let is_named = !backlog.losses.is_empty();
            assert_eq!(is_named, len > 4 && cut.iter().any(|byte| *byte != 0), "of {len} bytes");
        }
    }
}

#[test]
fn what_is_broken_is_named_with_its_offset() {
    let broken = |bytes: &[u8]| {
        let good = file(&[put(1, b"good")]);
        let all = [&good[..], bytes].concat();
        let backlog = beanstalkd::parse(&[&all, &file(&[put(2, b"later")])]);
        assert_eq!(bodies(&backlog), [(1, b"good".to_vec()), (2, b"later".to_vec())]);
        let [loss] = &backlog.losses[..] else { panic!("{:?}", backlog.losses) };
        assert_eq!(loss.place, format!("binlog.1 at offset {}", good.len()));
        loss.what.clone()
    };
    let mut wrong_length = put(3, b"long enough");
    wrong_length[4 + 2 + 32] = 3;
    assert!(broken(&wrong_length).contains("wrong length"));
    assert!(broken(&change(1, 5)).contains("unknown state 5"));
    assert!(broken(&[0xFF; 200]).contains("name is invalid"));
    assert!(broken(&put(3, b"cut off")[..80]).contains("cut off"));
    assert!(broken(&put(0, b"no number")).contains("without a job"));
    assert!(broken(&[&[0; 84][..], &put(3, b"behind")].concat()).contains("more bytes follow"));
}

#[test]
fn other_versions_are_named_and_left() {
    let later = file(&[put(2, b"later")]);
    let backlog = beanstalkd::parse(&[&6_i32.to_le_bytes(), &[0; 4096], b"", &later]);
    assert_eq!(bodies(&backlog), [(2, b"later".to_vec())]);
    let [loss] = &backlog.losses[..] else { panic!("{:?}", backlog.losses) };
    assert!(loss.place.starts_with("binlog.1 ") && loss.what.contains("version 6"));
}

fn found(files: &[(&str, Vec<u8>)]) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        std::fs::write(folder.path().join(name), bytes).unwrap();
    }
    let file = beanstalkd::file_with_jobs(folder.path()).unwrap()?;
    Some(file.file_name().unwrap().to_str().unwrap().to_owned())
}

#[test]
fn a_file_with_a_job_is_found() {
    assert_eq!(found(&[]), None);
    assert_eq!(found(&[("binlog.1", file(&[vec![0; 4096]]))]), None);
    assert_eq!(found(&[("binlog.1", file(&[put(1, b"abc"), change(1, 0)]))]), None);
    let over_two = [
        ("binlog.9", file(&[put(1, b"abc")])),
        ("binlog.12", file(&[change(1, 3), change(1, 0), vec![0; 100]])),
    ];
    assert_eq!(found(&over_two), None);
    let left = file(&[put(1, b"abc"), put(2, b"abc"), change(1, 0)]);
    assert_eq!(found(&[("binlog.3", left)]), Some("binlog.3".to_owned()));
    let torn = file(&[put(1, b"abc")[..40].to_vec()]);
    assert_eq!(found(&[("binlog.1", torn)]), Some("binlog.1".to_owned()));
    assert_eq!(found(&[("binlog.x", file(&[put(1, b"abc")])), ("lock", vec![])]), None);
}

#[test]
fn a_folder_is_read_in_the_order_of_its_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes| std::fs::write(folder.path().join(name), bytes).unwrap();
    write("binlog.9", file(&[put(1, b"a"), put(2, b"b")]));
    write("binlog.11", file(&[change(1, 0)]));
    write("binlog.11.bak", file(&[put(7, b"not read")]));
    let backlog = beanstalkd::open(folder.path()).unwrap();
    assert_eq!(bodies(&backlog), [(2, b"b".to_vec())]);
    let [loss] = &backlog.losses[..] else { panic!("{:?}", backlog.losses) };
    assert_eq!(loss.place, "binlog.10");
    std::fs::create_dir(folder.path().join("binlog.12")).unwrap();
    let error = beanstalkd::file_with_jobs(folder.path()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
}

#[test]
fn two_files_can_have_the_highest_number() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes| std::fs::write(folder.path().join(name), bytes).unwrap();
    write(&format!("binlog.{}", u64::MAX), file(&[put(1, b"a")]));
    write(&format!("binlog.0{}", u64::MAX), file(&[put(2, b"b")]));
    let backlog = beanstalkd::open(folder.path()).unwrap();
    assert_eq!(backlog.losses, []);
    assert_eq!(bodies(&backlog), [(1, b"a".to_vec()), (2, b"b".to_vec())]);
}
