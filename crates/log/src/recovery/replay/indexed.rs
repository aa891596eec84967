//! Reads a sealed segment by its index file, and restores the segment's jobs from it.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::disk::Disk;
use crate::error::OpenError;
use crate::files::folder::Found;
use crate::index::file::{IndexFile, Outline, Tables, for_each_other};
use crate::index::reader::SegmentIndex;
use crate::index::{BlockId, BlockSummary, Classify, IndexError, OwnedRow, Place, index_name};
use crate::liveness::Liveness;
use crate::recovery::ahead::Seam;
use crate::recovery::replay::changes::ChangeKind;
use crate::recovery::replay::{Killed, NEVER_WRITTEN, Replay, StoredJob};
use crate::recovery::restored::{BlockSource, Restored, RestoredBody, RestoredRows};
use crate::types::{Position, Slot};

/// What a start needs to use index files.
#[derive(Clone, Debug)]
pub(crate) struct UsedIndexes {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) classify: Classify,
}

/// A segment that was read by its index file.
#[derive(Debug)]
pub(super) struct Indexed {
    index: Arc<SegmentIndex>,
    outline: Outline,
    /// The length of the file.
    len: u64,
    classes: Vec<(u32, u8)>,
    /// The section of the rows that are in no block.
    others_at: Place,
}

impl Replay<'_> {
    /// Reads a segment by its index file, if it has a valid one. `next` is where the next segment
    /// continues. Returns where this segment continues the one before it.
    pub(super) fn read_index(
        &mut self,
        found: &Found,
        next: Seam,
    ) -> Result<Option<Seam>, OpenError> {
        let Some(used) = self.used_indexes.clone() else { return Ok(None) };
        if !self.folder.indexes.contains(&index_name(found.number)) {
            return Ok(None);
        }
        let header = found.header()?;
        let Ok(file) = open_index(&*used.disk, found.number) else { return Ok(None) };
        let outline = file.outline;
        let end = Position::new(found.number, outline.end);
        if outline.segment != header || (end, outline.end_crc) != next {
            return Ok(None);
        }
        self.apply(found, used, file)?;
        Ok(Some((outline.previous_end, outline.previous_crc)))
    }

    /// Notes everything in the index, as if the segment's entries were read.
    fn apply(
        &mut self,
        found: &Found,
        used: UsedIndexes,
        mut file: IndexFile,
    ) -> Result<(), OpenError> {
        let outline = file.outline;
        let damaged = |what| found.damaged(0, what);
        let segment = &mut self.segments[(found.number - self.tail.first) as usize];
        segment.end = outline.end;
        segment.names.clone_from(&file.tables.names);
        segment.slots = outline.slots;
        self.time_ms = self.time_ms.max(outline.time_ms);
        self.id_max = self.id_max.max(outline.id_max);
        self.report.indexed += 1;
        self.report.groups += u64::from(outline.groups);
        self.report.bytes += outline.bytes;
        if outline.id_limit.0 != Position(0) {
            self.limit(outline.id_limit.0, outline.id_limit.1).map_err(damaged)?;
        }
        let Tables { classes, kills, changes, facts, .. } = &mut file.tables;
        let end = Position::new(found.number, outline.end);
        for slot in kills {
            self.kill(*slot, end).map_err(damaged)?;
        }
        for (slot, changed) in changes {
            if let Some((position, meta)) = &changed.update {
                self.change(*slot, ChangeKind::Update, *position, meta).map_err(damaged)?;
            }
            if let Some((position, counters)) = &changed.count {
                self.change(*slot, ChangeKind::Count, *position, counters).map_err(damaged)?;
            }
        }
        for fact in facts {
            self.fact(&fact.key, &fact.value, fact.position);
        }
        let classes = std::mem::take(classes);
        // The rows that are in no block are read again when they are restored. So memory holds those
        // of one segment at a time.
        let (len, others_at) = (file.len, file.others_at);
        let index = Arc::new(SegmentIndex::new(used.disk, file));
        let segment = &mut self.segments[(found.number - self.tail.first) as usize];
        if segment.killed.end() > segment.slots {
            return Err(damaged(NEVER_WRITTEN));
        }
        segment.index = Some(Indexed { index, outline, len, classes, others_at });
        Ok(())
    }

    /// The indexes that were used, and the lengths of their files.
    pub(crate) fn indexes(&self) -> Vec<(Arc<SegmentIndex>, u64)> {
        let indexed = self.segments.iter().filter_map(|segment| segment.index.as_ref());
        indexed.map(|indexed| (Arc::clone(&indexed.index), indexed.len)).collect()
    }

    /// The live slots with a newer UPDATE or COUNT, for each segment that was read by its index.
    pub(super) fn changed_slots(&self) -> BTreeMap<u32, BTreeSet<u32>> {
        let mut changed: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        for slot in self.changes.slots() {
            let segment = &self.segments[(slot.segment - self.tail.first) as usize];
            if segment.index.is_some() && !segment.killed.contains(slot.index) {
                changed.entry(slot.segment).or_default().insert(slot.index);
            }
        }
        changed
    }

    /// Restores the live jobs of a segment that was read by its index: first the jobs that are in
    /// no block, then the blocks. The jobs of a block that have changed follow the block.
    pub(super) fn restore_indexed<E: From<OpenError>>(
        &self,
        number: u32,
        indexed: &Indexed,
        changed: &BTreeSet<u32>,
        live: &mut Liveness,
        restore: &mut dyn FnMut(Restored<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(used) = &self.used_indexes else { return Ok(()) };
        let segment = &self.segments[(number - self.tail.first) as usize];
        let killed = &segment.killed;
        indexed.classes.iter().for_each(|&(run, class)| live.push_run(run, class));
        for index in killed.indexes() {
            live.kill(Slot { segment: number, index });
        }
        let source = BlockSource {
            index: &indexed.index,
            found: &self.folder.segments[&number],
            header: indexed.outline.segment,
            end: (indexed.outline.end, indexed.outline.end_crc),
            classify: used.classify,
            built: OnceCell::new(),
        };
        let others = source.others(indexed.others_at)?;
        let mut restored = Ok(());
        let decoded = for_each_other(&others, number, |queue, row| {
            if restored.is_ok() && !killed.contains(row.slot.index) {
                restored = self.restore_row(&source, queue, &row, restore);
            }
        });
        restored?;
        decoded.ok_or_else(|| source.found.damaged(0, "the index of the segment is wrong"))?;
        for (block_number, block) in (0..).zip(indexed.index.blocks()) {
            let block_id = BlockId { segment: number, number: block_number };
            let queue = &segment.names[block.queue as usize];
            let slots = block.slot_min..=block.slot_max;
            if !killed.any_in(&slots) && changed.range(slots).next().is_none() {
                let rows = RestoredRows::new(&source, block_number, None);
                restore(Restored::Block { block: block_id, summary: *block, queue, rows })?;
                continue;
            }
            let mut rows = source.rows(block_number)?;
            rows.retain(|row| !killed.contains(row.slot.index));
            let (others, rows): (Vec<_>, Vec<_>) =
                rows.into_iter().partition(|row| changed.contains(&row.slot.index));
            let list = (block.queue, block.list);
            match BlockSummary::of(list, &rows, used.classify, block.place) {
                Some(summary) => {
                    let rows = RestoredRows::new(&source, block_number, Some(&rows));
                    restore(Restored::Block { block: block_id, summary, queue, rows })?;
                }
                None => {
                    for row in &rows {
                        self.restore_row(&source, block.queue, row, restore)?;
                    }
                }
            }
            for row in &others {
                self.restore_row(&source, block.queue, row, restore)?;
            }
        }
        Ok(())
    }

    fn restore_row<E>(
        &self,
        source: &BlockSource<'_>,
        queue: u32,
        row: &OwnedRow,
        restore: &mut dyn FnMut(Restored<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let body = RestoredBody::stored(source.found, source.header, row);
        let stored = StoredJob {
            slot: row.slot,
            entry_at: row.entry_at,
            position: row.position,
            queue,
            meta: row.meta(),
        };
        self.restore_job(&stored, body, restore)
    }
}

fn open_index(disk: &dyn Disk, segment: u32) -> Result<IndexFile, IndexError> {
    let name = index_name(segment);
    let file = disk.open(&name).map_err(|source| IndexError::read(&name, source))?;
    IndexFile::read(&*file, segment)
}

impl Killed {
    /// The indexes of all ended slots.
    fn indexes(&self) -> impl Iterator<Item = u32> {
        (0..).zip(&self.0).flat_map(|(number, &word)| {
            let bits = (0..64).filter(move |bit| word >> bit & 1 == 1);
            bits.map(move |bit| number * 64 + bit)
        })
    }

    /// Whether a slot in this range has ended.
    fn any_in(&self, range: &RangeInclusive<u32>) -> bool {
        let (first, last) = (*range.start() as usize / 64, *range.end() as usize / 64);
        let words = self.0.iter().enumerate().take(last + 1).skip(first);
        words.into_iter().any(|(number, &word)| {
            let from = if number == first { range.start() % 64 } else { 0 };
            let to = if number == last { range.end() % 64 } else { 63 };
            word & (u64::MAX << from) & (u64::MAX >> (63 - to)) != 0
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ended_slots_are_found_in_ranges() {
        let mut killed = Killed::default();
        for index in [3, 63, 64, 200] {
            assert!(killed.insert(index));
        }
        assert_eq!(killed.indexes().collect::<Vec<_>>(), [3, 63, 64, 200]);
        for (range, any) in [
            (0..=2, false),
            (0..=3, true),
            (4..=62, false),
            (4..=63, true),
            (64..=64, true),
            (65..=199, false),
            (100..=1000, true),
            (201..=1000, false),
        ] {
            assert_eq!(killed.any_in(&range), any, "{range:?}");
        }
    }
}
