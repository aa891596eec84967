//! The bytes of an index file: a header, the sections, then the *pieces*. The pieces are the rows of
//! the blocks, and the lists of ids. A start reads the header and the sections. It reads pieces only
//! when somebody needs them.

use std::io;

use crate::disk::DiskFile;
use crate::format::entry::read_meta;
use crate::format::{SegmentHeader, get_u32, get_u64, seeded};
use crate::index::codec::{Reader, RowReader, RowWriter, put_bytes, put_number};
use crate::index::{BLOCK_ROWS, BlockSummary, IndexError, OwnedRow, Place, index_name};
use crate::settings::{ID_LIMIT_MAX, TIME_MS_MAX};
use crate::types::{Position, Slot};

const MAGIC: &[u8; 8] = b"LINESIDX";
/// The version of index files. A file of another version is not used.
const VERSION: u32 = 4;
const SECTIONS: usize = 8;
/// The number of the section of the rows that are in no block.
const OTHERS: usize = 5;
const SECTIONS_AT: usize = 128;
const SUMMED: usize = SECTIONS_AT + 16 * SECTIONS;
pub(crate) const INDEX_HEADER_BYTES: usize = SUMMED + 4;

/// The fixed part of an index.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) struct Outline {
    pub(crate) segment: SegmentHeader,
    /// The offset where the segment's last group ends.
    pub(crate) end: u64,
    /// The checksum of this group.
    pub(crate) end_crc: u32,
    /// The end and the checksum of the group before the segment's first group.
    pub(crate) previous_end: Position,
    pub(crate) previous_crc: u32,
    /// The number and the bytes of the segment's groups.
    pub(crate) groups: u32,
    pub(crate) bytes: u64,
    /// The time of the newest group.
    pub(crate) time_ms: u64,
    pub(crate) slots: u32,
    /// The highest id of a job.
    pub(crate) id_max: u64,
    /// The newest limit of ids, and the position of its entry. `Position(0)`: there is none.
    pub(crate) id_limit: (Position, u64),
}

/// The newest UPDATE and the newest COUNT of a slot in the segment: their positions and contents.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Changed {
    pub(crate) update: Option<(Position, Box<[u8]>)>,
    pub(crate) count: Option<(Position, Box<[u8]>)>,
}

/// A fact: the newest value of a key in the segment.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct IndexFact {
    pub(crate) position: Position,
    pub(crate) key: Box<[u8]>,
    pub(crate) value: Box<[u8]>,
}

/// The lowest and the highest id of a list of ids, and the place of the list.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) struct Fence {
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) place: Place,
}

/// The sections of an index.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Tables {
    /// The names of the queues, by their numbers.
    pub(crate) names: Vec<Box<[u8]>>,
    /// The classes of the sizes of slots: how many slots, and their class.
    pub(crate) classes: Vec<(u32, u8)>,
    /// The slots that entries of this segment end, in ascending order.
    pub(crate) kills: Vec<Slot>,
    /// In the order of the slots.
    pub(crate) changes: Vec<(Slot, Changed)>,
    /// In the order of their positions.
    pub(crate) facts: Vec<IndexFact>,
    /// The rows that are in no block, in the order of their slots, as the bytes of their section. A
    /// segment can have very many of them, so they are decoded one by one: see [`for_each_other`].
    pub(crate) others: Vec<u8>,
    pub(crate) blocks: Vec<BlockSummary>,
    pub(crate) fences: Vec<Fence>,
}

/// The header and the sections of an index file.
#[derive(Debug)]
pub(crate) struct IndexFile {
    pub(crate) outline: Outline,
    pub(crate) tables: Tables,
    /// The section of the rows that are in no block, with its offset in the file.
    pub(crate) others_at: Place,
    /// The offset of the first piece.
    pub(crate) pieces_at: u64,
    /// The length of the file.
    pub(crate) len: u64,
}

/// The checksum of a piece of the file.
pub(crate) fn sum(salt: u64, at: u64, bytes: &[u8]) -> u32 {
    let mut hasher = seeded(salt, at);
    hasher.update(bytes);
    hasher.finalize()
}

/// The section of the rows that are in no block. Each row has the number of its queue.
pub(crate) fn encode_others(
    segment: u32,
    rows: impl IntoIterator<Item = (u32, OwnedRow)>,
) -> Vec<u8> {
    let mut section = Vec::new();
    let mut writer = RowWriter::new(segment);
    for (queue, row) in rows {
        put_number(&mut section, queue.into());
        writer.write(&mut section, &row);
    }
    section
}

/// Calls `each` with each row of such a section, and the number of its queue. Returns `None` if the
/// section is wrong.
pub(crate) fn for_each_other(
    section: &[u8],
    segment: u32,
    mut each: impl FnMut(u32, OwnedRow),
) -> Option<()> {
    let mut section = Reader(section);
    let mut reader = RowReader::new(segment);
    while !section.is_empty() {
        let queue = section.number_u32()?;
        each(queue, reader.read(&mut section)?);
    }
    Some(())
}

/// The bytes of an index file.
pub(crate) fn encode(outline: &Outline, tables: &Tables, pieces: &[u8]) -> Vec<u8> {
    let sections = tables.encode();
    let len = INDEX_HEADER_BYTES + sections.iter().map(Vec::len).sum::<usize>() + pieces.len();
    let mut bytes = Vec::with_capacity(len);
    let segment = &outline.segment;
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&segment.log_id);
    bytes.extend_from_slice(&segment.number.to_le_bytes());
    bytes.extend_from_slice(&segment.size.to_le_bytes());
    bytes.extend_from_slice(&segment.salt.to_le_bytes());
    bytes.extend_from_slice(&outline.end.to_le_bytes());
    bytes.extend_from_slice(&outline.end_crc.to_le_bytes());
    bytes.extend_from_slice(&outline.groups.to_le_bytes());
    bytes.extend_from_slice(&outline.bytes.to_le_bytes());
    bytes.extend_from_slice(&outline.previous_end.0.to_le_bytes());
    bytes.extend_from_slice(&outline.previous_crc.to_le_bytes());
    bytes.extend_from_slice(&outline.slots.to_le_bytes());
    bytes.extend_from_slice(&outline.time_ms.to_le_bytes());
    bytes.extend_from_slice(&outline.id_max.to_le_bytes());
    bytes.extend_from_slice(&outline.id_limit.0.0.to_le_bytes());
    bytes.extend_from_slice(&outline.id_limit.1.to_le_bytes());
    bytes.extend_from_slice(&(len as u64).to_le_bytes());
    assert_eq!(bytes.len(), SECTIONS_AT, "the fields fill the header");
    let mut at = INDEX_HEADER_BYTES as u64;
    for section in &sections {
        bytes.extend_from_slice(&(section.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&sum(segment.salt, at, section).to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        at += section.len() as u64;
    }
    let crc = crc32fast::hash(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    for section in &sections {
        bytes.extend_from_slice(section);
    }
    bytes.extend_from_slice(pieces);
    bytes
}

impl Outline {
    /// The outline, and the length and checksum of each section.
    fn decode(bytes: &[u8], file_len: u64) -> Option<(Outline, [(u64, u32); SECTIONS])> {
        if bytes.len() < INDEX_HEADER_BYTES
            || crc32fast::hash(&bytes[..SUMMED]) != get_u32(bytes, SUMMED)
            || &bytes[..8] != MAGIC
            || get_u32(bytes, 8) != VERSION
            || get_u64(bytes, 120) != file_len
        {
            return None;
        }
        let outline = Outline {
            segment: SegmentHeader {
                log_id: bytes[12..28].try_into().ok()?,
                number: get_u32(bytes, 28),
                size: get_u64(bytes, 32),
                salt: get_u64(bytes, 40),
            },
            end: get_u64(bytes, 48),
            end_crc: get_u32(bytes, 56),
            groups: get_u32(bytes, 60),
            bytes: get_u64(bytes, 64),
            previous_end: Position(get_u64(bytes, 72)),
            previous_crc: get_u32(bytes, 80),
            slots: get_u32(bytes, 84),
            time_ms: get_u64(bytes, 88),
            id_max: get_u64(bytes, 96),
            id_limit: (Position(get_u64(bytes, 104)), get_u64(bytes, 112)),
        };
        let mut sections = [(0, 0); SECTIONS];
        for (index, section) in sections.iter_mut().enumerate() {
            let at = SECTIONS_AT + 16 * index;
            *section = (get_u64(bytes, at), get_u32(bytes, at + 8));
        }
        // Each slot needs more than 40 bytes of its segment. So memory for the slots is never
        // allocated from a wrong number.
        let fits = u64::from(outline.slots) <= outline.segment.size / 40
            && outline.end <= outline.segment.size
            && outline.time_ms <= TIME_MS_MAX
            && outline.id_max < ID_LIMIT_MAX
            && outline.id_limit.1 <= ID_LIMIT_MAX;
        fits.then_some((outline, sections))
    }
}

impl IndexFile {
    /// Reads the header and the sections of a segment's index file.
    pub(crate) fn read(file: &dyn DiskFile, segment: u32) -> Result<IndexFile, IndexError> {
        let name = index_name(segment);
        let failed = |source: io::Error| IndexError::read(&name, source);
        let damaged = |what| IndexError::damaged(&name, what);
        let len = file.size().map_err(failed)?;
        let mut header = vec![0; INDEX_HEADER_BYTES];
        let read = file.read_at(&mut header, 0).map_err(failed)?;
        let (outline, sections) =
            Outline::decode(&header[..read], len).ok_or_else(|| damaged("the header"))?;
        let start = INDEX_HEADER_BYTES as u64;
        let sections_len = sections.iter().try_fold(0u64, |sum, (len, _)| sum.checked_add(*len));
        let sections_len = sections_len
            .filter(|sections| sections.checked_add(start).is_some_and(|end| end <= len))
            .ok_or_else(|| damaged("the length of a section"))?;
        let mut bytes = vec![0; sections_len as usize];
        let read = file.read_at(&mut bytes, start).map_err(failed)?;
        if read < bytes.len() {
            return Err(damaged("the file is too short"));
        }
        let mut rest = &bytes[..];
        let mut parts = [&bytes[..0]; SECTIONS];
        let mut at = start;
        let mut others_at = Place::default();
        for (number, (part, (len, crc))) in parts.iter_mut().zip(sections).enumerate() {
            (*part, rest) = rest.split_at(len as usize);
            if sum(outline.segment.salt, at, part) != crc {
                return Err(damaged("a section"));
            }
            if number == OTHERS {
                let len = u32::try_from(len).map_err(|_| damaged("the length of a section"))?;
                others_at = Place { at, len, crc };
            }
            at += len;
        }
        let pieces_at = start + sections_len;
        let tables = Tables::decode(parts, &outline, len - pieces_at)
            .ok_or_else(|| damaged("the contents of a section"))?;
        Ok(IndexFile { outline, tables, others_at, pieces_at, len })
    }
}

impl Tables {
    fn encode(&self) -> [Vec<u8>; SECTIONS] {
        let mut sections = [const { Vec::new() }; SECTIONS];
        let [names, classes, kills, changes, facts, others, blocks, fences] = &mut sections;
        others.extend_from_slice(&self.others);
        self.names.iter().for_each(|name| put_bytes(names, name));
        for &(slots, class) in &self.classes {
            put_number(classes, slots.into());
            classes.push(class);
        }
        let mut before = 0;
        for slot in &self.kills {
            put_number(kills, slot.to_u64() - before);
            before = slot.to_u64();
        }
        let mut before = 0;
        for (slot, changed) in &self.changes {
            put_number(changes, slot.to_u64() - before);
            before = slot.to_u64();
            changes
                .push(u8::from(changed.update.is_some()) | u8::from(changed.count.is_some()) << 1);
            for (position, contents) in [&changed.update, &changed.count].into_iter().flatten() {
                put_number(changes, position.offset());
                put_bytes(changes, contents);
            }
        }
        for fact in &self.facts {
            put_number(facts, fact.position.offset());
            put_bytes(facts, &fact.key);
            put_bytes(facts, &fact.value);
        }
        self.blocks.iter().for_each(|block| put_block(blocks, block));
        for fence in &self.fences {
            fences.extend_from_slice(&fence.first.to_le_bytes());
            fences.extend_from_slice(&fence.last.to_le_bytes());
            put_place(fences, fence.place);
        }
        sections
    }

    fn decode(parts: [&[u8]; SECTIONS], outline: &Outline, pieces_len: u64) -> Option<Tables> {
        let [
            mut names,
            mut classes,
            mut kills,
            mut changes,
            mut facts,
            others,
            mut blocks,
            mut fences,
        ] = parts.map(Reader);
        let here = outline.segment.number;
        let place = |offset: u64| {
            let inside = (1..outline.end).contains(&offset);
            inside.then(|| Position::new(here, offset))
        };
        let mut tables = Tables::default();
        while !names.is_empty() {
            tables.names.push(names.bytes()?.into());
        }
        let mut slots = 0u32;
        while !classes.is_empty() {
            let (run, class) = (classes.number_u32()?, classes.byte()?);
            slots = slots.checked_add(run)?;
            tables.classes.push((run, class));
        }
        if slots != outline.slots {
            return None;
        }
        let slot_after = |before: &mut u64, reader: &mut Reader<'_>| {
            *before = before.checked_add(reader.number()?)?;
            let slot = Slot::from_u64(*before);
            let is_older = slot.segment < here || slot.segment == here && slot.index < slots;
            is_older.then_some(slot)
        };
        let mut before = 0;
        while !kills.is_empty() {
            tables.kills.push(slot_after(&mut before, &mut kills)?);
        }
        let mut before = 0;
        while !changes.is_empty() {
            let slot = slot_after(&mut before, &mut changes)?;
            let bits = changes.byte().filter(|bits| (1..4).contains(bits))?;
            let mut entry = |bit| {
                if bits & bit == 0 {
                    return Some(None);
                }
                Some(Some((place(changes.number()?)?, Box::from(changes.bytes()?))))
            };
            let (update, count) = (entry(1)?, entry(2)?);
            tables.changes.push((slot, Changed { update, count }));
        }
        while !facts.is_empty() {
            let position = place(facts.number()?)?;
            let (key, value) = (facts.bytes()?.into(), facts.bytes()?.into());
            tables.facts.push(IndexFact { position, key, value });
        }
        tables.others = others.0.into();
        while !blocks.is_empty() {
            tables.blocks.push(block(&mut blocks)?);
        }
        while !fences.is_empty() {
            let (first, last) = (fences.u64()?, fences.u64()?);
            tables.fences.push(Fence { first, last, place: read_place(&mut fences)? });
        }
        tables.agrees_with(outline, pieces_len).then_some(tables)
    }

    /// Whether all numbers are in their ranges.
    fn agrees_with(&self, outline: &Outline, pieces_len: u64) -> bool {
        let is_inside = |place: Place| {
            place.at.checked_add(place.len.into()).is_some_and(|end| end <= pieces_len)
        };
        let queues = self.names.len();
        let in_blocks: u64 = self.blocks.iter().map(|block| u64::from(block.rows)).sum();
        let is_known = |block: &BlockSummary| {
            let in_bands: u64 = block.bands.iter().copied().map(u64::from).sum();
            (block.queue as usize) < queues
                && (1..=BLOCK_ROWS as u32).contains(&block.rows)
                && in_bands == u64::from(block.rows)
                // Each body is in the segment.
                && block.body_bytes <= u64::from(block.rows).saturating_mul(outline.end)
                && block.slot_min <= block.slot_max
                && block.slot_max < outline.slots
                && is_inside(block.place)
        };
        let (mut in_no_block, mut next_index, mut are_rows) = (0u64, 0, true);
        let decoded = for_each_other(&self.others, outline.segment.number, |queue, row| {
            are_rows &= (queue as usize) < queues
                && (next_index..outline.slots).contains(&row.slot.index)
                && row.position.offset() <= outline.end;
            next_index = row.slot.index.saturating_add(1);
            in_no_block += 1;
        });
        let is_meta = |meta: &[u8]| {
            read_meta(meta)
                .is_some_and(|(_, queue, rest)| rest.is_empty() && (queue as usize) < queues)
        };
        let updates = self.changes.iter().filter_map(|(_, changed)| changed.update.as_ref());
        self.blocks.iter().all(is_known)
            && updates.into_iter().all(|(_, meta)| is_meta(meta))
            && self.fences.iter().all(|fence| is_inside(fence.place))
            && decoded.is_some()
            && are_rows
            && in_blocks + in_no_block == u64::from(outline.slots)
    }
}

fn put_block(buffer: &mut Vec<u8>, block: &BlockSummary) {
    buffer.extend_from_slice(&block.queue.to_le_bytes());
    buffer.extend_from_slice(&u32::from(block.list).to_le_bytes());
    for key in [block.first_key, block.last_key, block.first_next_key] {
        buffer.extend_from_slice(&key.0.to_le_bytes());
        buffer.extend_from_slice(&key.1.to_le_bytes());
    }
    buffer.extend_from_slice(&block.first_created_ms.to_le_bytes());
    buffer.extend_from_slice(&block.body_bytes.to_le_bytes());
    buffer.extend_from_slice(&block.rows.to_le_bytes());
    block.bands.iter().for_each(|band| buffer.extend_from_slice(&band.to_le_bytes()));
    buffer.extend_from_slice(&block.slot_min.to_le_bytes());
    buffer.extend_from_slice(&block.slot_max.to_le_bytes());
    put_place(buffer, block.place);
}

fn block(reader: &mut Reader<'_>) -> Option<BlockSummary> {
    let (queue, list) = (reader.u32()?, reader.u32()?.try_into().ok()?);
    let first_key = (reader.u64()?, reader.u64()?);
    let last_key = (reader.u64()?, reader.u64()?);
    let first_next_key = (reader.u64()?, reader.u64()?);
    let (first_created_ms, body_bytes) = (reader.u64()?, reader.u64()?);
    let rows = reader.u32()?;
    let bands = [reader.u32()?, reader.u32()?, reader.u32()?, reader.u32()?];
    let (slot_min, slot_max) = (reader.u32()?, reader.u32()?);
    let place = read_place(reader)?;
    Some(BlockSummary {
        queue,
        list,
        first_key,
        last_key,
        first_next_key,
        rows,
        first_created_ms,
        bands,
        body_bytes,
        slot_min,
        slot_max,
        place,
    })
}

fn put_place(buffer: &mut Vec<u8>, place: Place) {
    buffer.extend_from_slice(&place.at.to_le_bytes());
    buffer.extend_from_slice(&place.len.to_le_bytes());
    buffer.extend_from_slice(&place.crc.to_le_bytes());
}

fn read_place(reader: &mut Reader<'_>) -> Option<Place> {
    Some(Place { at: reader.u64()?, len: reader.u32()?, crc: reader.u32()? })
}
