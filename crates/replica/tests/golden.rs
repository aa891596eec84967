//! Checks that the format of the stream does not change by accident. The code must read stored
//! records correctly, and must write the same bytes for the same values.
//!
//! `corpus/replication/format-1` has the stored records, and a list of their contents. If you
//! change the format on purpose, add another folder, and keep `format-1`: new versions must still
//! read format 1. `LINESHAFT_WRITE_GOLDEN=1` writes files that are missing.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test reads its files")]

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use replica::Lineage;
use replica::chain::{Chain, Mix};
use replica::claim::{Claim, Leader, Reason, Resignation};
use replica::group::SealedGroup;
use replica::record::{Header, Kind, PART_BYTES_MAX};

const LINEAGE: Lineage = Lineage(*b"a lineage of 16.");
const WRITER: u64 = 0x0123_4567_89ab_cdef;

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus/replication/format-1"))
}

fn header(kind: Kind, body: &[u8]) -> Header {
    Header {
        kind,
        lineage: LINEAGE,
        epoch: 41,
        number: 7,
        part: 0,
        parts: 1,
        body_bytes: body.len() as u64,
        time_ms: 1_700_000_000_123,
        before: Chain(0x1111_2222_3333_4444),
        after: Chain(0x1111_2222_3333_4444),
        state: 0x5555_6666_7777_8888,
        jobs: 1000,
        id_limit: 1 << 21,
        writer: WRITER,
        facts: 0,
        body_crc: crc32fast::hash(body),
    }
}

fn group(body: Vec<u8>) -> SealedGroup {
    let mut header = header(Kind::Group, &body);
    header.after = header.before.then(&header.link());
    SealedGroup {
        number: header.number,
        epoch: header.epoch,
        time_ms: header.time_ms,
        before: header.before,
        after: header.after,
        state: header.state,
        jobs: header.jobs,
        id_limit: header.id_limit,
        facts: 3,
        body_crc: header.body_crc,
        body,
    }
}

fn records() -> Vec<(&'static str, Vec<u8>)> {
    let leader = Leader {
        name: "north".into(),
        address: "10.0.0.1:7301".into(),
        version: "0.1.0".into(),
        settings: "0011aabb".into(),
    };
    let claim = Claim { reason: Reason::Silence, incarnation: 99, leader }.encode();
    let resignation = Resignation { successor: 5 }.encode();
    let large = group((0..PART_BYTES_MAX + 9).map(|at| (at % 251) as u8).collect());
    vec![
        ("claim", header(Kind::Claim, &claim).encode(&claim)),
        ("renewal", header(Kind::Renewal, &claim).encode(&claim)),
        ("group", group(b"three facts".to_vec()).record(0, LINEAGE, WRITER)),
        ("group-last-part", large.record(1, LINEAGE, WRITER)),
        ("alive", header(Kind::Alive, b"").encode(b"")),
        ("resign", header(Kind::Resign, &resignation).encode(&resignation)),
    ]
}

fn describe(name: &str, bytes: &[u8], text: &mut String) {
    let (header, body) = Header::decode(bytes).unwrap();
    writeln!(text, "# {name}\n{header:#?}").unwrap();
    match header.kind {
        Kind::Claim | Kind::Renewal => {
            writeln!(text, "{:#?}", Claim::decode(body).unwrap()).unwrap();
        }
        Kind::Resign => writeln!(text, "{:#?}", Resignation::decode(body).unwrap()).unwrap(),
        Kind::Group | Kind::Alive => {
            writeln!(text, "{:?}", String::from_utf8_lossy(body)).unwrap();
        }
    }
}

#[test]
fn stored_records_are_read_and_written_as_before() {
    let mut text = String::new();
    for (name, bytes) in records() {
        let path = folder().join(format!("{name}.record"));
        if std::env::var_os("LINESHAFT_WRITE_GOLDEN").is_some() && !path.exists() {
            fs::create_dir_all(folder()).unwrap();
            fs::write(&path, &bytes).unwrap();
        }
        let stored = fs::read(&path).unwrap();
        assert!(stored == bytes, "{name} is written in another way");
        describe(name, &stored, &mut text);
    }
    let path = folder().join("records.txt");
    if std::env::var_os("LINESHAFT_WRITE_GOLDEN").is_some() && !path.exists() {
        fs::write(&path, &text).unwrap();
    }
    assert_eq!(text, fs::read_to_string(&path).unwrap());
}

#[test]
fn hashes_are_part_of_the_format() {
    assert_eq!(Mix::new().value(), 0x6c73_6d69_7865_6431);
    assert_eq!(Mix::new().word(1).value(), 0xe639_abe6_acdf_0cfa);
    assert_eq!(Mix::new().bytes(b"lineshaft").value(), 0xbf12_3423_f794_770a);
    assert_eq!(Chain::origin(LINEAGE, 1, 2).0, 0xf5d0_12d7_5151_b9bc);
}
