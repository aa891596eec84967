//! Builds the index of a sealed segment from the segment's file. The result depends only on the
//! bytes of the segment and on the owner's function [`Classify`].

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::disk::{Disk, DiskFile};
use crate::files::groups::{Buffers, Group, GroupFault, GroupReader, SegmentBytes};
use crate::files::segments::segment_name;
use crate::format::entry::{Entry, EntryKind, StoredSlot, read_meta};
use crate::format::{GROUP_HEADER_BYTES, SegmentHeader};
use crate::index::codec::{RowWriter, put_difference, put_number};
use crate::index::file::{Changed, Fence, IndexFact, Outline, Tables, encode, encode_others, sum};
use crate::index::packed::PackedRows;
use crate::index::reader::SegmentIndex;
use crate::index::{
    BLOCK_ROWS, BlockSummary, Classify, IndexError, LIST_ROWS_MIN, OwnedRow, Place,
};
use crate::liveness::class_of;
use crate::settings::ID_LIMIT_MAX;
use crate::types::{Position, Slot};
use crate::write::lazy::SlotMap;

/// The segment is read in pieces of this many bytes, or of a whole group.
const READ_BYTES: u64 = 1 << 20;
/// The number of ids in a list.
const LIST_IDS: usize = 256;
/// The build rests after this many rows and entries. They take well under a millisecond.
const WITHOUT_REST: usize = 1000;

/// A sealed segment.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Sealed<'a> {
    pub(crate) file: &'a dyn DiskFile,
    pub(crate) header: SegmentHeader,
    /// The offset where the last group ends, and the checksum of this group.
    pub(crate) end: (u64, u32),
    /// The number of slots, if it is known, or else 0. The index is built faster with it.
    pub(crate) slots: usize,
}

/// When a build rests, so that other threads come first. A scheduler can let a thread run for
/// milliseconds, although a commit waits for its processor.
pub(crate) struct Pace<'a> {
    /// Lets the thread rest. Returns false if the build must stop.
    rest: &'a dyn Fn() -> bool,
    /// The rows and entries since the last rest.
    since_rest: Cell<usize>,
}

impl<'a> Pace<'a> {
    pub(crate) fn new(rest: &'a dyn Fn() -> bool) -> Pace<'a> {
        Pace { rest, since_rest: Cell::new(0) }
    }

    /// Builds without rests.
    pub(crate) fn hurried() -> Pace<'static> {
        Pace::new(&|| true)
    }

    fn rest(&self) -> bool {
        self.since_rest.set(0);
        (self.rest)()
    }

    /// Rests if this many rows and those before them were enough work.
    fn worked(&self, rows: usize) {
        self.since_rest.set(self.since_rest.get() + rows);
        if self.since_rest.get() >= WITHOUT_REST {
            self.rest();
        }
    }
}

/// A finished index.
#[derive(Debug)]
pub(crate) struct Built {
    outline: Outline,
    tables: Tables,
    pieces: Vec<u8>,
    rows: PackedRows,
    /// The slot indexes of the rows of all blocks, one block after the other.
    order: Vec<u32>,
}

impl Built {
    /// The segment's number.
    pub(crate) fn segment(&self) -> u32 {
        self.outline.segment.number
    }

    /// The bytes of the index file.
    pub(crate) fn file(&self) -> Vec<u8> {
        encode(&self.outline, &self.tables, &self.pieces)
    }

    /// The index of the file with these bytes. To read the file again would take longer, and the
    /// kernel may let no other thread run during a long read.
    pub(crate) fn index(&self, disk: Arc<dyn Disk>, file: &[u8]) -> SegmentIndex {
        let Tables { names, blocks, fences, .. } = &self.tables;
        let pieces_at = (file.len() - self.pieces.len()) as u64;
        let parts = (names.clone(), blocks.clone(), fences.clone());
        SegmentIndex::with(disk, &self.outline.segment, parts, pieces_at)
    }

    /// The section of the rows that are in no block.
    pub(crate) fn others(&self) -> &[u8] {
        &self.tables.others
    }

    /// The number of the block that has the job with this id.
    pub(crate) fn find(&self, id: u64) -> Option<u32> {
        let mut rows = self.rows.reader();
        let mut place = self.order.iter().position(|&index| rows.row(index).id == id)?;
        let blocks = (0..).zip(&self.tables.blocks);
        for (number, block) in blocks {
            let Some(behind) = place.checked_sub(block.rows as usize) else { return Some(number) };
            place = behind;
        }
        None
    }

    /// The rows of a block. `None`: there is no such block.
    pub(crate) fn block(&self, number: u32) -> Option<Vec<OwnedRow>> {
        let before = self.tables.blocks.get(..number as usize)?;
        let start = before.iter().map(|block| block.rows as usize).sum::<usize>();
        let len = self.tables.blocks.get(number as usize)?.rows as usize;
        let order = &self.order[start..start + len];
        let mut rows = self.rows.reader();
        Some(order.iter().map(|&index| rows.row(index)).collect())
    }
}

/// Reads a sealed segment. Stops with an error if the pace says so.
pub(crate) fn build(
    sealed: Sealed<'_>,
    classify: Classify,
    pace: Pace<'_>,
) -> Result<Built, IndexError> {
    let name = segment_name(sealed.header.number);
    let mut walk = Walk::new(sealed, classify, pace);
    walk.groups(sealed, &name)?;
    walk.finish().map_err(|what| IndexError::damaged(&name, what))
}

/// The position and the value of a fact.
type FactValue = (Position, Box<[u8]>);

/// The key and the slot index of a job.
type Keyed = ((u64, u64), u32);

/// What is known of the segment after some of its groups.
struct Walk<'a> {
    classify: Classify,
    pace: Pace<'a>,
    outline: Outline,
    tables: Tables,
    rows: PackedRows,
    /// The queue of each row.
    queues: Vec<u32>,
    /// The rows of each list of each queue.
    lists: BTreeMap<(u32, u8), Vec<Keyed>>,
    /// The rows of an entry, and their queues, until the length of their body is known.
    of_entry: Vec<(u32, OwnedRow)>,
    changes: SlotMap<Changed>,
    facts: HashMap<Box<[u8]>, FactValue>,
}

impl<'a> Walk<'a> {
    fn new(sealed: Sealed<'_>, classify: Classify, pace: Pace<'a>) -> Walk<'a> {
        let outline = Outline {
            segment: sealed.header,
            end: sealed.end.0,
            end_crc: sealed.end.1,
            previous_end: Position(0),
            previous_crc: 0,
            groups: 0,
            bytes: 0,
            time_ms: 0,
            slots: 0,
            id_max: 0,
            id_limit: (Position(0), 0),
        };
        Walk {
            classify,
            pace,
            outline,
            tables: Tables::default(),
            rows: PackedRows::new(sealed.header.number),
            queues: Vec::with_capacity(sealed.slots),
            lists: BTreeMap::new(),
            of_entry: Vec::new(),
            changes: SlotMap::default(),
            facts: HashMap::new(),
        }
    }

    fn groups(&mut self, sealed: Sealed<'_>, name: &str) -> Result<(), IndexError> {
        let bytes = SegmentBytes::File(sealed.file);
        let buffers = Buffers::default();
        let segment = (sealed.header, sealed.end.0);
        let mut end = None;
        for groups in GroupReader::new(bytes, segment, READ_BYTES, &buffers) {
            let groups = groups.map_err(|fault| match fault {
                GroupFault::Read(source) => IndexError::read(name, source),
                GroupFault::Damaged(_, what) => IndexError::damaged(name, what),
            })?;
            if !self.pace.rest() {
                return Err(IndexError::Stopped);
            }
            if end.is_none() {
                self.outline.previous_end = groups.first.previous_end;
                self.outline.previous_crc = groups.first.previous_crc;
            }
            for group in groups.each() {
                self.group(&group).map_err(|what| IndexError::damaged(name, what))?;
            }
            end = Some((groups.last.end().offset(), groups.last.crc));
            buffers.give_back(groups);
        }
        (end == Some(sealed.end)).then_some(()).ok_or_else(|| IndexError::damaged(name, "the end"))
    }

    fn group(&mut self, group: &Group<'_>) -> Result<(), &'static str> {
        let header = &group.header;
        self.outline.time_ms = self.outline.time_ms.max(header.time_ms);
        self.outline.groups += 1;
        self.outline.bytes += GROUP_HEADER_BYTES as u64 + u64::from(header.len);
        let mut count = 0;
        // The checksum of the group covers the entries, too.
        for (position, entry) in group.entries() {
            let rows_before = self.rows.len();
            self.entry(&entry?, position)?;
            // Each row is read, and added to its list.
            self.pace.worked(1 + 2 * (self.rows.len() - rows_before));
            count += 1;
        }
        (count == header.count).then_some(()).ok_or("the number of entries")
    }

    /// Notes an entry. Refuses what a start refuses.
    fn entry(&mut self, entry: &Entry<'_>, position: Position) -> Result<(), &'static str> {
        const CONTENTS: &str = "an entry's contents";
        match entry.kind {
            EntryKind::Open => self.limit(position, entry.open().ok_or(CONTENTS)?.1)?,
            EntryKind::Ids => self.limit(position, entry.ids().ok_or(CONTENTS)?)?,
            EntryKind::Trim => {
                entry.trim().ok_or(CONTENTS)?;
            }
            EntryKind::Name => {
                let (number, name) = entry.name().ok_or(CONTENTS)?;
                if number as usize != self.tables.names.len() {
                    return Err("a queue's number");
                }
                self.tables.names.push(name.into());
            }
            EntryKind::Put | EntryKind::Copy => {
                let mut fault = None;
                let body = entry.for_each_slot(|stored| {
                    fault = fault.or(self.slot(position, entry, &stored).err());
                });
                let body_len = body.ok_or(CONTENTS)?.len() as u32;
                fault.map_or(Ok(()), Err)?;
                let mut rows = std::mem::take(&mut self.of_entry);
                for (queue, row) in rows.drain(..) {
                    self.add(queue, &OwnedRow { body_len, ..row });
                }
                self.of_entry = rows;
            }
            EntryKind::Finish => {
                for slot in entry.finished_slots().ok_or(CONTENTS)? {
                    self.kill(slot)?;
                }
            }
            EntryKind::Update => {
                let (slot, meta) = entry.split_slot().ok_or(CONTENTS)?;
                let (_, queue, rest) = read_meta(meta).ok_or(CONTENTS)?;
                if !rest.is_empty() || queue as usize >= self.tables.names.len() {
                    return Err(CONTENTS);
                }
                self.check_age(slot)?;
                self.changes.entry(slot).or_default().update = Some((position, meta.into()));
            }
            EntryKind::Count => {
                let (slot, counters) = entry.split_slot().ok_or(CONTENTS)?;
                self.check_age(slot)?;
                self.changes.entry(slot).or_default().count = Some((position, counters.into()));
            }
            EntryKind::Fact => {
                let (key, value) = entry.fact().ok_or(CONTENTS)?;
                self.facts.insert(key.into(), (position, value.into()));
            }
        }
        Ok(())
    }

    fn limit(&mut self, position: Position, limit: u64) -> Result<(), &'static str> {
        self.outline.id_limit = (position, limit);
        (limit <= ID_LIMIT_MAX).then_some(()).ok_or("a limit of ids that is too high")
    }

    fn slot(
        &mut self,
        position: Position,
        entry: &Entry<'_>,
        stored: &StoredSlot<'_>,
    ) -> Result<(), &'static str> {
        if stored.queue as usize >= self.tables.names.len() {
            return Err("a queue's number");
        }
        let meta = &stored.meta;
        if meta.id >= ID_LIMIT_MAX {
            return Err("a job's id that is too high");
        }
        self.outline.id_max = self.outline.id_max.max(meta.id);
        if let Some(slot) = stored.replaces.filter(|slot| slot.segment != 0) {
            self.kill(slot)?;
        }
        let class = class_of((entry.bytes / usize::from(entry.n.max(1))) as u64);
        match self.tables.classes.last_mut() {
            Some((run, last)) if *last == class => *run += 1,
            _ => self.tables.classes.push((1, class)),
        }
        let end = position.0 + entry.bytes as u64;
        if Position(end).segment() != position.segment() {
            return Err("an entry that is too long");
        }
        let row = OwnedRow {
            slot: Slot { segment: position.segment(), index: self.outline.slots },
            entry_at: position.offset() as u32,
            position: Position(end),
            // The caller sets it for all slots of the entry.
            body_len: 0,
            id: meta.id,
            priority: meta.priority,
            ttr: meta.ttr,
            created_ms: meta.created_ms,
            due_ms: meta.due_ms,
            state: meta.state,
            options: meta.options.into(),
        };
        self.of_entry.push((stored.queue, row));
        self.outline.slots += 1;
        Ok(())
    }

    /// Adds a row of a queue.
    fn add(&mut self, queue: u32, row: &OwnedRow) {
        if let Some(class) = (self.classify)(&row.meta()) {
            let list = self.lists.entry((queue, class.list)).or_default();
            list.push((class.key, row.slot.index));
        }
        self.queues.push(queue);
        self.rows.push(row);
    }

    fn kill(&mut self, slot: Slot) -> Result<(), &'static str> {
        self.check_age(slot)?;
        self.tables.kills.push(slot);
        Ok(())
    }

    fn check_age(&self, slot: Slot) -> Result<(), &'static str> {
        let here = self.outline.segment.number;
        let older = slot.segment < here || slot.segment == here && slot.index < self.outline.slots;
        older.then_some(()).ok_or("a job is named before it was written")
    }

    fn finish(mut self) -> Result<Built, &'static str> {
        self.tables.kills.sort_unstable();
        if self.tables.kills.is_sorted_by(|a, b| a < b) {
            self.tables.changes = self.changes.drain().collect();
            self.tables.changes.sort_unstable_by_key(|(slot, _)| *slot);
            let facts = self.facts.drain();
            let facts = facts.map(|(key, (position, value))| IndexFact { position, key, value });
            self.tables.facts = facts.collect();
            self.tables.facts.sort_unstable_by_key(|fact| fact.position);
            Ok(self.blocks())
        } else {
            Err("a job was ended twice")
        }
    }

    /// Cuts the rows into blocks.
    fn blocks(mut self) -> Built {
        let (classify, pace, mut lists) = (self.classify, self.pace, self.lists);
        let salt = self.outline.segment.salt;
        let segment = self.outline.segment.number;
        lists.retain(|_, list| list.len() >= LIST_ROWS_MIN);
        // With more memory than they need, the largest tables would double the memory of a build.
        let listed: usize = lists.values().map(Vec::len).sum();
        let mut order = Vec::with_capacity(listed);
        let mut ids: Vec<(u64, u32)> = Vec::with_capacity(listed);
        let mut is_in_block = vec![false; self.rows.len()];
        let mut pieces = Vec::new();
        let mut reader = self.rows.reader();
        for (list, mut keys) in lists {
            keys.sort_unstable();
            for keys in keys.chunks(BLOCK_ROWS) {
                pace.worked(keys.len());
                let rows: Vec<OwnedRow> =
                    keys.iter().map(|&(_, index)| reader.row(index)).collect();
                let start = pieces.len();
                let mut writer = RowWriter::new(segment);
                for row in &rows {
                    writer.write(&mut pieces, row);
                }
                let place = place_of(salt, &pieces, start);
                let number = self.tables.blocks.len() as u32;
                self.tables.blocks.extend(BlockSummary::of(list, &rows, classify, place));
                ids.extend(rows.iter().map(|row| (row.id, number)));
                for &(_, index) in keys {
                    is_in_block[index as usize] = true;
                }
                order.extend(keys.iter().map(|&(_, index)| index));
            }
        }
        let others = (0..).zip(&self.queues).zip(is_in_block);
        let others = others.filter(|(_, is_in_block)| !is_in_block);
        let others = others.map(|((index, &queue), _)| {
            pace.worked(1);
            (queue, reader.row(index))
        });
        self.tables.others = encode_others(segment, others);
        ids.sort_unstable();
        for list in ids.chunks(LIST_IDS) {
            pace.worked(list.len());
            let start = pieces.len();
            let (mut at, mut block) = (0, 0);
            for &(id, number) in list {
                put_number(&mut pieces, id - at);
                put_difference(&mut pieces, u64::from(number).wrapping_sub(block));
                (at, block) = (id, number.into());
            }
            let place = place_of(salt, &pieces, start);
            let (first, last) = (list[0].0, list[list.len() - 1].0);
            self.tables.fences.push(Fence { first, last, place });
        }
        Built { outline: self.outline, tables: self.tables, pieces, rows: self.rows, order }
    }
}

/// The place of the piece that begins at `start` and ends with the bytes.
fn place_of(salt: u64, pieces: &[u8], start: usize) -> Place {
    let bytes = &pieces[start..];
    let at = start as u64;
    Place { at, len: bytes.len() as u32, crc: sum(salt, at, bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_rests_after_each_stretch_of_rows() {
        let rests = Cell::new(0);
        let rest = || {
            rests.set(rests.get() + 1);
            true
        };
        let pace = Pace::new(&rest);
        for _ in 0..3 * WITHOUT_REST {
            pace.worked(1);
        }
        assert_eq!(rests.get(), 3);
        // A put into a queue with many children is one entry with many rows.
        pace.worked(WITHOUT_REST - 1);
        assert_eq!(rests.get(), 3);
        pace.worked(257);
        assert_eq!(rests.get(), 4);
        // After a read, the build rests in any case.
        pace.worked(WITHOUT_REST - 1);
        assert!(pace.rest());
        pace.worked(WITHOUT_REST - 1);
        assert_eq!(rests.get(), 5);
    }
}
