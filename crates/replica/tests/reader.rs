//! Which records of a stream count.
#![allow(clippy::unwrap_used)]

mod common;

use common::{OURS, Writer, origin};
use replica::Lineage;
use replica::chain::Chain;
use replica::claim::{Claim, Leader, Reason, Resignation};
use replica::group::At;
use replica::reader::{Meaning, ReadError, Reader};
use replica::record::{Kind, PART_BYTES_MAX, RecordError};

/// Reads records from the beginning of the stream, and returns what the last one means.
fn read_all(records: &[Vec<u8>]) -> Result<Meaning, ReadError> {
    let mut reader = Reader::new(OURS, origin(), 0, 0);
    let mut last = None;
    for record in records {
        last = Some(reader.read(reader.tail() + 1, record)?);
    }
    Ok(last.unwrap())
}

fn numbers(records: &[Vec<u8>]) -> Vec<u64> {
    let mut reader = Reader::new(OURS, origin(), 0, 0);
    let mut numbers = Vec::new();
    for record in records {
        if let Meaning::Group(group) = reader.read(reader.tail() + 1, record).unwrap() {
            numbers.push(group.number);
        }
    }
    assert_eq!(reader.at().number, numbers.last().copied().unwrap_or(0));
    numbers
}

#[test]
fn groups_of_the_current_epoch_count() {
    let mut first = Writer::new(1);
    let mut records = vec![first.claim()];
    first.epoch = 1;
    records.push(first.record(b"a"));
    records.push(first.alive());
    records.push(first.record(b"b"));
    let mut second = Writer { node: 2, ..first };
    records.push(second.claim());
    second.epoch = 5;
    records.push(second.record(b"c"));
    records.push(second.resign());
    assert_eq!(numbers(&records), [1, 2, 3]);
    assert_eq!(read_all(&records), Ok(Meaning::Resign(Resignation { successor: 2 })));
}

#[test]
fn late_records_of_a_former_leader_are_skipped() {
    let mut first = Writer::new(1);
    let mut records = vec![first.claim()];
    first.epoch = 1;
    records.push(first.record(b"a"));
    let mut second = Writer { node: 2, ..first };
    records.push(second.claim());
    second.epoch = 3;
    // All of these were appended without their conditions.
    let mut late = first;
    records.push(late.record(b"never accepted"));
    records.push(late.record(b"nor this"));
    records.push(first.alive());
    records.push(first.resign());
    records.push(first.claim());
    records.push(second.record(b"b"));
    assert_eq!(numbers(&records), [1, 2]);
    let mut reader = Reader::new(OURS, origin(), 0, 0);
    let meanings = records.iter().map(|record| reader.read(reader.tail() + 1, record).unwrap());
    let stale = meanings.filter(|meaning| *meaning == Meaning::Stale).count();
    assert_eq!(stale, 5);
    assert_eq!(reader.epoch(), 3);
}

#[test]
fn a_group_that_comes_twice_counts_once() {
    let mut writer = Writer::new(1);
    let mut records = vec![writer.claim()];
    writer.epoch = 1;
    let group = writer.record(b"a");
    records.extend([group.clone(), group.clone(), writer.record(b"b"), group]);
    assert_eq!(numbers(&records), [1, 2]);
}

#[test]
fn a_claim_that_was_overtaken_does_not_count() {
    let mut first = Writer::new(1);
    let mut records = vec![first.claim()];
    first.epoch = 1;
    let overtaken = Writer { node: 2, ..first };
    records.push(first.record(b"a"));
    records.push(overtaken.claim());
    assert_eq!(read_all(&records), Ok(Meaning::Stale));
    records.push(first.record(b"b"));
    assert_eq!(numbers(&records), [1, 2]);
}

#[test]
fn a_renewal_keeps_the_epoch() {
    let mut writer = Writer::new(1);
    let mut records = vec![writer.claim()];
    writer.epoch = 1;
    records.push(writer.record(b"a"));
    records.push(writer.renewal());
    assert_eq!(read_all(&records), Ok(Meaning::Renewal));
    records.push(writer.record(b"b"));
    // A renewal that comes again late changes nothing, also if it is the last claim of the stream.
    records.push(records[2].clone());
    assert_eq!(read_all(&records), Ok(Meaning::Stale));
    records.push(writer.record(b"c"));
    assert_eq!(numbers(&records), [1, 2, 3]);
    let mut reader = Reader::new(OURS, origin(), 0, 0);
    for (record, claim) in records.iter().zip([1, 1, 3, 3, 5, 5]) {
        reader.read(reader.tail() + 1, record).unwrap();
        assert_eq!((reader.epoch(), reader.claim()), (1, claim));
    }
    let (leader, claim) = reader.leader().unwrap();
    assert_eq!((*leader, claim.incarnation), (1, 101));
}

#[test]
fn only_the_leader_renews() {
    let mut first = Writer::new(1);
    let mut records = vec![first.claim()];
    first.epoch = 1;
    records.push(first.record(b"a"));
    // Another node cannot share the epoch.
    let imitator = Writer { node: 2, ..first };
    let imitated = [&records[..], &[imitator.renewal()]].concat();
    assert_eq!(read_all(&imitated), Err(ReadError::Imitated { seq: 3, writer: 2 }));
    // Neither can another process of the same node.
    let process = Claim { reason: Reason::Silence, incarnation: 7, leader: Leader::default() };
    let header = first.header(Kind::Renewal, &process.encode());
    let restarted = [&records[..], &[header.encode(&process.encode())]].concat();
    assert_eq!(read_all(&restarted), Err(ReadError::Imitated { seq: 3, writer: 1 }));
    // A renewal of a former leader comes too late.
    let mut second = Writer { node: 2, ..first };
    records.push(second.claim());
    second.epoch = 3;
    records.push(first.renewal());
    assert_eq!(read_all(&records), Ok(Meaning::Stale));
    records.push(second.record(b"b"));
    assert_eq!(numbers(&records), [1, 2]);
}

#[test]
fn a_reader_that_never_saw_the_claim_learns_from_the_renewal_who_leads() {
    let mut writer = Writer { epoch: 5, ..Writer::new(1) };
    writer.record(b"a");
    let mut reader = Reader::new(OURS, writer.at, 5, 20);
    assert_eq!(reader.read(21, &writer.renewal()), Ok(Meaning::Renewal));
    assert_eq!(reader.leader().map(|(node, _)| *node), Some(1));
    let imitator = Writer { node: 2, ..writer };
    let imitated = Err(ReadError::Imitated { seq: 22, writer: 2 });
    assert_eq!(reader.read(22, &imitator.renewal()), imitated);
}

#[test]
fn missing_records_are_noticed() {
    let mut writer = Writer::new(1);
    let claim = writer.claim();
    writer.epoch = 1;
    let (first, second) = (writer.record(b"a"), writer.record(b"b"));
    let gap = |records: &[Vec<u8>]| matches!(read_all(records), Err(ReadError::Gap { .. }));
    assert!(gap(&[first]), "no claim");
    assert!(gap(&[claim.clone(), second]), "no first group");
    assert!(gap(&[claim.clone(), writer.alive()]), "two groups are missing");
    let ahead = Writer { node: 2, ..writer };
    assert!(gap(&[claim, ahead.claim()]), "the claimant has groups that are missing");
}

#[test]
fn another_history_is_noticed() {
    let mut writer = Writer::new(1);
    let claim = writer.claim();
    writer.epoch = 1;
    let mut other = writer;
    let first = writer.record(b"a");
    let different = other.record(b"other");
    let diverged = |records: &[Vec<u8>]| match read_all(records) {
        Err(ReadError::Diverged { number, .. }) => number,
        result => panic!("{result:?}"),
    };
    assert_eq!(diverged(&[claim.clone(), first.clone(), other.record(b"b")]), 1);
    assert_eq!(diverged(&[claim.clone(), first.clone(), different]), 1);
    let claimant = Writer { node: 2, at: At { number: 1, ..other.at }, ..other };
    assert_eq!(diverged(&[claim.clone(), first, claimant.claim()]), 1);
    let foreign = Writer { at: At { chain: Chain(1), ..origin() }, ..Writer::new(3) };
    assert_eq!(diverged(&[foreign.claim()]), 0);
}

#[test]
fn foreign_records_stop_the_reader() {
    let writer = Writer::new(1);
    let mut header = writer.header(Kind::Alive, b"");
    header.lineage = Lineage([6; 16]);
    assert_eq!(read_all(&[header.encode(b"")]), Err(ReadError::Lineage { seq: 1 }));
    let error = RecordError::Length;
    assert_eq!(read_all(&[b"hello".to_vec()]), Err(ReadError::Record { seq: 1, error }));
}

#[test]
fn parts_of_a_large_group() {
    let mut writer = Writer::new(1);
    let claim = writer.claim();
    writer.epoch = 1;
    let before = writer;
    let body: Vec<u8> = (0..2 * PART_BYTES_MAX + 5).map(|at| at as u8).collect();
    let group = writer.group(body);
    let parts: Vec<Vec<u8>> = (0..3).map(|part| group.record(part, OURS, 1)).collect();

    let whole = [vec![claim.clone()], parts.clone()].concat();
    assert_eq!(read_all(&whole), Ok(Meaning::Group(group)));
    assert_eq!(read_all(&whole[..3]), Ok(Meaning::Part));

    // A part that comes again is skipped.
    let mut doubled = whole.clone();
    doubled.insert(3, parts[1].clone());
    doubled.insert(2, parts[0].clone());
    assert_eq!(numbers(&doubled), [1]);

    // A renewal that comes again late does not end the group.
    let mut renewed = whole.clone();
    renewed.insert(2, before.renewal());
    assert_eq!(numbers(&renewed), [1]);

    // A missing part is noticed.
    let gap = |records: &[Vec<u8>]| matches!(read_all(records), Err(ReadError::Gap { .. }));
    assert!(gap(&[claim.clone(), parts[0].clone(), parts[2].clone()]));
    assert!(gap(&[claim.clone(), parts[1].clone()]));

    // A takeover in the middle voids the group. The next leader uses its number again.
    let mut next = Writer { node: 2, ..before };
    let mut records = vec![claim, parts[0].clone(), parts[1].clone(), next.claim()];
    next.epoch = 4;
    records.push(parts[2].clone());
    records.push(next.record(b"instead"));
    assert_eq!(numbers(&records), [1]);
}
