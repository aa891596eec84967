//! Index files whose checksums are right, but whose contents are not. No reader may panic.

use std::sync::Arc;

use crate::disk::Disk;
use crate::disk::fault::FaultDisk;
use crate::format::SegmentHeader;
use crate::index::codec::{RowWriter, put_difference, put_number};
use crate::index::file::{
    Changed, Fence, INDEX_HEADER_BYTES, IndexFact, IndexFile, Outline, Tables, encode,
    encode_others, sum,
};
use crate::index::reader::SegmentIndex;
use crate::index::{BlockSummary, Class, OwnedRow, Place, index_name};
use crate::types::{Meta, Position, Slot};

const SALT: u64 = 99;
const SEGMENT: u32 = 5;

fn row(index: u32) -> OwnedRow {
    let entry_at = 4152 + index * 160;
    OwnedRow {
        slot: Slot { segment: SEGMENT, index },
        entry_at,
        position: Position::new(SEGMENT, u64::from(entry_at) + 160),
        body_len: 100,
        id: u64::from(index) + 1000,
        priority: 1,
        ttr: 60,
        created_ms: 1 << 40,
        due_ms: 0,
        state: 1,
        options: Box::from(&b"options"[..usize::from(index.is_multiple_of(3)) * 7]),
    }
}

pub(super) fn classify(meta: &Meta<'_>) -> Option<Class> {
    (meta.id != 0).then_some(Class { list: 0, key: (0, meta.id), next_key: (0, meta.id), band: 1 })
}

fn outline(slots: u32) -> Outline {
    Outline {
        segment: SegmentHeader { log_id: [3; 16], number: SEGMENT, size: 1 << 20, salt: SALT },
        end: 1 << 19,
        end_crc: 1,
        previous_end: Position::new(SEGMENT - 1, 9000),
        previous_crc: 2,
        groups: 3,
        bytes: 4,
        time_ms: 5,
        slots,
        id_max: 6,
        id_limit: (Position::new(SEGMENT, 4096), 7),
    }
}

/// An index with something in every section.
fn sample() -> (Outline, Tables, Vec<u8>) {
    let rows: Vec<OwnedRow> = (0..80).map(row).collect();
    let (listed, others) = rows.split_at(70);
    let mut pieces = Vec::new();
    let mut writer = RowWriter::new(SEGMENT);
    for row in listed {
        writer.write(&mut pieces, row);
    }
    let place = Place { at: 0, len: pieces.len() as u32, crc: sum(SALT, 0, &pieces) };
    let start = pieces.len();
    for index in 0..70 {
        put_number(&mut pieces, if index == 0 { 1000 } else { 1 });
        put_difference(&mut pieces, 0);
    }
    let at = start as u64;
    let crc = sum(SALT, at, &pieces[start..]);
    let ids = Place { at, len: (pieces.len() - start) as u32, crc };
    let mut meta = Vec::new();
    crate::format::entry::write_meta(&mut meta, 1, &rows[3].meta());
    let position = Position::new(SEGMENT, 20_000);
    let update = Some((position, meta.into()));
    let count = Some((position, Box::from(&b"counters"[..])));
    let slot = |segment, index| Slot { segment, index };
    let tables = Tables {
        names: vec![b"mails".as_slice().into(), b"other".as_slice().into()],
        classes: vec![(60, 40), (20, 41)],
        kills: vec![slot(3, 7), slot(3, 9), slot(SEGMENT, 2)],
        changes: vec![
            (slot(4, 1), Changed { update, count: None }),
            (slot(SEGMENT, 70), Changed { update: None, count }),
        ],
        facts: vec![IndexFact { position, key: b"key".as_slice().into(), value: Box::default() }],
        others: encode_others(SEGMENT, others.iter().map(|row| (1, row.clone()))),
        blocks: BlockSummary::of((0, 0), listed, classify, place).into_iter().collect(),
        fences: vec![Fence { first: 1000, last: 1069, place: ids }],
    };
    (outline(80), tables, pieces)
}

/// Opens a file, and reads all of it.
fn read_all(bytes: Vec<u8>) -> Option<Tables> {
    let disk = FaultDisk::new(1, 1 << 30);
    disk.create(&index_name(SEGMENT)).ok()?;
    disk.set_bytes(&index_name(SEGMENT), bytes);
    let open = || IndexFile::read(&*disk.open(&index_name(SEGMENT)).ok()?, SEGMENT).ok();
    let tables = open()?.tables;
    let index = SegmentIndex::new(Arc::new(disk.clone()), open()?);
    for number in 0..=index.blocks().len() as u32 {
        let _ = index.read_block(number);
    }
    for id in [0, 1000, 1001, 1069, 1070, u64::MAX] {
        let _ = index.find(id);
    }
    Some(tables)
}

/// Computes the checksums of the header and the sections again.
fn seal(bytes: &mut [u8]) {
    let mut at = INDEX_HEADER_BYTES;
    for section in 0..8 {
        let field = 128 + 16 * section;
        let len = u64::from_le_bytes(bytes[field..field + 8].try_into().unwrap()) as usize;
        let Some(part) = at.checked_add(len).and_then(|end| bytes.get(at..end)) else { break };
        let crc = sum(SALT, at as u64, part);
        bytes[field + 8..field + 12].copy_from_slice(&crc.to_le_bytes());
        at += len;
    }
    let crc = crc32fast::hash(&bytes[..256]);
    bytes[256..260].copy_from_slice(&crc.to_le_bytes());
}

#[test]
fn an_index_file_comes_back() {
    let (outline, tables, pieces) = sample();
    let bytes = encode(&outline, &tables, &pieces);
    // If this changes, the version of index files must change, too.
    assert_eq!((bytes.len(), crc32fast::hash(&bytes)), (1131, 418_272_289));
    assert_eq!(read_all(bytes), Some(tables));
}

#[test]
fn a_flipped_bit_of_the_sections_is_seen() {
    let (outline, tables, pieces) = sample();
    let bytes = encode(&outline, &tables, &pieces);
    for bit in 0..(bytes.len() - pieces.len()) * 8 {
        let mut bytes = bytes.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(read_all(bytes), None, "bit {bit}");
    }
}

#[test]
fn a_block_counts_its_rows_and_bodies_of_its_segment() {
    let (outline, tables, pieces) = sample();
    let read = |change: &dyn Fn(&mut BlockSummary)| {
        let mut tables = tables.clone();
        change(&mut tables.blocks[0]);
        read_all(encode(&outline, &tables, &pieces))
    };
    assert!(read(&|_| ()).is_some());
    for bands in [[u32::MAX, 1, 0, 0], [0, 71, 0, 0], [0, 69, 0, 0], [0; 4]] {
        assert_eq!(read(&|block| block.bands = bands), None, "{bands:?}");
    }
    for body_bytes in [u64::MAX, 70 * outline.end + 1] {
        assert_eq!(read(&|block| block.body_bytes = body_bytes), None, "{body_bytes}");
    }
}

#[test]
fn no_byte_with_a_right_checksum_makes_a_reader_panic() {
    let (outline, tables, pieces) = sample();
    let bytes = encode(&outline, &tables, &pieces);
    let mut accepted = 0;
    for at in 0..bytes.len() {
        for value in [0, 1, 0x7F, 0x80, 0xFF, bytes[at] ^ 1, bytes[at].wrapping_add(1)] {
            let mut bytes = bytes.clone();
            bytes[at] = value;
            seal(&mut bytes);
            accepted += u32::from(read_all(bytes).is_some());
        }
    }
    assert!(accepted > 100, "nothing but the checksums was tested");
}
