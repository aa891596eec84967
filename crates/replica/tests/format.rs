//! Every record is read as it was written, and no damaged record is accepted.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use replica::chain::Chain;
use replica::claim::{Claim, Leader, Reason, Resignation};
use replica::group::SealedGroup;
use replica::record::{Header, Kind, PART_BYTES_MAX, RecordError};
use replica::{Lineage, record};

fn group(number: u64, before: u64, body: Vec<u8>) -> SealedGroup {
    let mut group = SealedGroup {
        number,
        epoch: 3,
        time_ms: 1_700_000_000_000 + number,
        before: Chain(before),
        after: Chain(0),
        state: before ^ number,
        jobs: number / 2,
        id_limit: number + 10,
        facts: body.len() as u32 / 7,
        body_crc: crc32fast::hash(&body),
        body,
    };
    let header = unchecked_header(&group);
    group.after = group.before.then(&header.link());
    group
}

/// The header of a group whose chain is not yet known.
fn unchecked_header(group: &SealedGroup) -> Header {
    Header {
        kind: Kind::Group,
        lineage: Lineage([5; 16]),
        epoch: group.epoch,
        number: group.number,
        part: 0,
        parts: group.parts(),
        body_bytes: group.body.len() as u64,
        time_ms: group.time_ms,
        before: group.before,
        after: group.after,
        state: group.state,
        jobs: group.jobs,
        id_limit: group.id_limit,
        writer: 77,
        facts: group.facts,
        body_crc: group.body_crc,
    }
}

fn without_facts(kind: Kind, body: &[u8]) -> Vec<u8> {
    let header = Header {
        kind,
        lineage: Lineage([5; 16]),
        epoch: 3,
        number: 8,
        part: 0,
        parts: 1,
        body_bytes: body.len() as u64,
        time_ms: 9,
        before: Chain(4),
        after: Chain(4),
        state: 5,
        jobs: 6,
        id_limit: 7,
        writer: 77,
        facts: 0,
        body_crc: crc32fast::hash(body),
    };
    header.encode(body)
}

fn claim() -> Claim {
    let leader = Leader {
        name: "north".into(),
        address: "10.0.0.1:7301".into(),
        version: "0.1.0".into(),
        settings: "c0ffee".into(),
    };
    Claim { reason: Reason::Silence, incarnation: 0xdead_beef, leader }
}

fn records() -> Vec<Vec<u8>> {
    let lineage = Lineage([5; 16]);
    let facts: Vec<u8> = (0..90).collect();
    vec![
        group(1, 2, facts).record(0, lineage, 77),
        group(4, 2, Vec::new()).record(0, lineage, 77),
        without_facts(Kind::Claim, &claim().encode()),
        without_facts(Kind::Renewal, &claim().encode()),
        without_facts(Kind::Alive, b""),
        without_facts(Kind::Resign, &Resignation { successor: 9 }.encode()),
    ]
}

#[test]
fn every_flipped_bit_is_refused() {
    for record in records() {
        Header::decode(&record).unwrap();
        for bit in 0..record.len() * 8 {
            let mut damaged = record.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            Header::decode(&damaged).unwrap_err();
        }
    }
}

#[test]
fn every_other_length_is_refused() {
    for record in records() {
        for len in 0..record.len() {
            assert_eq!(Header::decode(&record[..len]), Err(RecordError::Length), "{len} bytes");
        }
        let longer = [&record[..], b"x"].concat();
        assert_eq!(Header::decode(&longer), Err(RecordError::Length));
    }
}

#[test]
fn a_newer_format_and_other_messages_have_their_own_errors() {
    let mut newer = records().swap_remove(0);
    newer[4] = 2;
    let crc = crc32fast::hash(&newer[..124]);
    newer[124..128].copy_from_slice(&crc.to_le_bytes());
    assert_eq!(Header::decode(&newer), Err(RecordError::Format(2)));
    assert_eq!(Header::decode(&[b'x'; 200]), Err(RecordError::Magic));
}

#[test]
fn values_that_contradict_each_other_are_refused() {
    let whole = group(1, 2, vec![1; 20]);
    let header = unchecked_header(&whole);
    Header::decode(&header.encode(&whole.body)).unwrap();
    let wrong = |change: fn(&mut Header), body: &[u8]| {
        let mut header = header.clone();
        change(&mut header);
        let error = Header::decode(&header.encode(body)).unwrap_err();
        assert!(matches!(error, RecordError::Invalid(_)), "{error}");
    };
    wrong(|header| header.parts = 2, &whole.body);
    wrong(|header| header.parts = 0, &whole.body);
    wrong(|header| header.part = 1, &whole.body);
    wrong(|header| header.body_bytes = 21, &whole.body);
    wrong(|header| header.body_bytes = u64::MAX, &whole.body);
    wrong(|header| header.number = 0, &whole.body);
    wrong(|header| header.state += 1, &whole.body);
    wrong(|header| header.time_ms += 1, &whole.body);
    wrong(|header| header.epoch += 1, &whole.body);
    wrong(|header| header.body_crc ^= 1, &whole.body);
    wrong(|header| header.kind = Kind::Alive, &whole.body);
    wrong(|header| header.kind = Kind::Claim, &whole.body);
    wrong(|header| header.kind = Kind::Renewal, &whole.body);
    wrong(|_| (), &[2; 20]);
}

#[test]
fn claims_and_resignations_are_read_as_they_were_written() {
    assert_eq!(Claim::decode(&claim().encode()), Ok(claim()));
    for reason in [Reason::First, Reason::ProcessGone, Reason::Resigned, Reason::Forced] {
        let claim = Claim { reason, ..claim() };
        assert_eq!(Claim::decode(&claim.encode()), Ok(claim));
    }
    let bytes = claim().encode();
    for len in 0..bytes.len() {
        Claim::decode(&bytes[..len]).unwrap_err();
    }
    Claim::decode(&[&bytes[..], b"x"].concat()).unwrap_err();
    let mut unknown = bytes;
    unknown[0] = 6;
    Claim::decode(&unknown).unwrap_err();
    let long = Leader { name: "ü".repeat(200), ..Leader::default() };
    let read = Claim::decode(&Claim { leader: long, ..claim() }.encode()).unwrap();
    assert_eq!(read.leader.name, "ü".repeat(127));
    assert_eq!(Resignation::decode(&7_u64.to_le_bytes()), Ok(Resignation { successor: 7 }));
    Resignation::decode(b"1234567").unwrap_err();
}

#[test]
fn a_large_body_has_several_parts() {
    for (bytes, parts) in
        [(0, 1), (1, 1), (PART_BYTES_MAX, 1), (PART_BYTES_MAX + 1, 2), (3 * PART_BYTES_MAX, 3)]
    {
        let whole = group(7, 1, vec![3; bytes]);
        assert_eq!(whole.parts(), parts);
        let mut joined = Vec::new();
        for part in 0..parts {
            let record = whole.record(part, Lineage([5; 16]), 77);
            assert!(record.len() < 1 << 20, "a message has at most 1 MiB");
            let (header, body) = Header::decode(&record).unwrap();
            assert_eq!(header.is_last_part(), part + 1 == parts);
            joined.extend_from_slice(body);
        }
        assert!(joined == whole.body);
    }
}

proptest! {
    #[test]
    fn groups_are_read_as_they_were_written(
        number in 1..=u64::MAX,
        before: u64,
        body in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let whole = group(number.max(20) - 19, before, body);
        let record = whole.record(0, Lineage([5; 16]), 77);
        let (header, body) = Header::decode(&record).unwrap();
        prop_assert_eq!(&header, &unchecked_header(&whole));
        prop_assert_eq!(body, &whole.body[..]);
        prop_assert_eq!(header.encode(body), record);
    }

    #[test]
    fn any_bytes_are_refused_or_written_again_as_they_were(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        is_sealed: bool,
    ) {
        script::check(&bytes, is_sealed);
    }
}

#[path = "format/script.rs"]
mod script;

#[test]
fn the_format_is_version_1() {
    assert_eq!((record::FORMAT, record::HEADER_BYTES), (1, 128));
}
