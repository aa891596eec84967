//! The audit of a whole stream.
#![allow(clippy::unwrap_used)]

mod common;

use common::{OURS, Writer};
use replica::Lineage;
use replica::audit::{Audit, AuditError, Summary};
use replica::reader::ReadError;
use replica::record::PART_BYTES_MAX;

/// A stream of two leaders, with two late records of the first one, and a group of three parts.
fn stream() -> Vec<Vec<u8>> {
    let mut first = Writer::new(1);
    let mut records = vec![first.claim()];
    first.epoch = 1;
    records.push(first.record(b"a"));
    records.push(first.alive());
    let mut late = first;
    let mut second = Writer { node: 2, ..first };
    records.push(second.claim());
    second.epoch = 4;
    records.push(late.record(b"never accepted"));
    let large = second.group(vec![7; 2 * PART_BYTES_MAX + 1]);
    records.extend((0..large.parts()).map(|part| large.record(part, OURS, 2)));
    records.push(second.renewal());
    records.push(first.renewal());
    records.push(second.record(b"c"));
    records.push(second.resign());
    records
}

/// Audits the records from the one with this number on.
fn audit(records: &[Vec<u8>], from: u64) -> Result<Audit, AuditError> {
    let mut audit = Audit::new(OURS);
    for (seq, record) in (1..).zip(records).skip(from as usize - 1) {
        audit.record(seq, record)?;
    }
    Ok(audit)
}

#[test]
fn a_whole_stream_is_verified_from_any_record_on() {
    let records = stream();
    let whole = audit(&records, 1).unwrap();
    let expected = Summary {
        records: 12,
        first_group: 1,
        groups: 3,
        claims: 2,
        renewals: 1,
        stale: 2,
        cut: 0,
    };
    assert_eq!(whole.summary(), expected);
    assert_eq!((whole.at().unwrap().number, whole.tail()), (3, 12));
    for from in 2..=12 {
        let part = audit(&records, from).unwrap();
        assert_eq!(part.tail(), 12, "from {from}");
        assert_eq!(part.at().unwrap().number, 3, "from {from}");
        assert_eq!(part.at().unwrap().chain, whole.at().unwrap().chain, "from {from}");
    }
    // A trim cuts the group with three parts.
    assert_eq!(audit(&records, 7).unwrap().summary().cut, 2);
    // A late record came first.
    assert_eq!(audit(&records, 5).unwrap().summary().stale, 2);
    assert_eq!(audit(&records, 10).unwrap().summary().stale, 1);
    assert_eq!(Audit::new(OURS).at(), None);
}

#[test]
fn every_missing_or_damaged_record_is_noticed() {
    let records = stream();
    for missing in 2..12 {
        let mut audit = Audit::new(OURS);
        let mut rest = (1..).zip(&records).filter(|(seq, _)| *seq != missing);
        let error = rest.find_map(|(seq, record)| audit.record(seq, record).err());
        assert_eq!(error, Some(AuditError::Missing { from: missing, to: missing }));
    }
    for damaged in 0..12 {
        let mut records = records.clone();
        let last = records[damaged].len() - 1;
        records[damaged][last] ^= 1;
        let error = audit(&records, 1).unwrap_err();
        assert!(matches!(error, AuditError::Read(ReadError::Record { .. })), "{error}");
    }
}

#[test]
fn another_history_is_noticed() {
    let mut writer = Writer::new(1);
    let mut records = vec![writer.claim()];
    writer.epoch = 1;
    let mut other = writer;
    records.push(writer.record(b"a"));
    other.record(b"b");
    records.push(other.record(b"c"));
    let error = audit(&records, 1).unwrap_err();
    assert!(matches!(error, AuditError::Read(ReadError::Diverged { number: 1, .. })), "{error}");

    let mut audit = Audit::new(Lineage([9; 16]));
    let error = audit.record(1, &records[0]).unwrap_err();
    assert_eq!(error, AuditError::Read(ReadError::Lineage { seq: 1 }));
}
