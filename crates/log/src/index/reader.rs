//! Reads the blocks of an index file, and finds the block of a job.

use std::ops::Range;
use std::sync::Arc;

use crate::disk::Disk;
use crate::format::SegmentHeader;
use crate::index::codec::{Reader, RowReader};
use crate::index::file::{Fence, IndexFile, Tables, sum};
use crate::index::{BlockSummary, IndexError, OwnedRow, Place, index_name};

/// The index of one segment. In memory are the summaries of its blocks and the names of its queues.
/// The other functions read the file, and must not be called with the owner's lock.
///
/// The file exists while the log has the segment. A reader that must be sure of this holds the
/// segment ([`Log::hold`](crate::Log::hold)).
#[derive(Debug)]
pub struct SegmentIndex {
    disk: Arc<dyn Disk>,
    segment: u32,
    salt: u64,
    pieces_at: u64,
    pub(crate) names: Vec<Box<[u8]>>,
    blocks: Vec<BlockSummary>,
    fences: Vec<Fence>,
    /// See [`SegmentIndex::memory_bytes`].
    memory_bytes: u64,
}

impl SegmentIndex {
    /// The index of this file.
    pub(crate) fn new(disk: Arc<dyn Disk>, file: IndexFile) -> SegmentIndex {
        let IndexFile { outline, tables: Tables { names, blocks, fences, .. }, pieces_at, .. } =
            file;
        SegmentIndex::with(disk, &outline.segment, (names, blocks, fences), pieces_at)
    }

    /// The index with these names, blocks and lists of ids, whose file has its first piece at
    /// `pieces_at`.
    pub(crate) fn with(
        disk: Arc<dyn Disk>,
        segment: &SegmentHeader,
        (names, blocks, fences): (Vec<Box<[u8]>>, Vec<BlockSummary>, Vec<Fence>),
        pieces_at: u64,
    ) -> SegmentIndex {
        let texts_bytes: usize = names.iter().map(|name| name.len().next_multiple_of(16)).sum();
        let tables_bytes =
            size_of_val(&names[..]) + size_of_val(&blocks[..]) + size_of_val(&fences[..]);
        SegmentIndex {
            memory_bytes: (texts_bytes + tables_bytes) as u64,
            disk,
            segment: segment.number,
            salt: segment.salt,
            pieces_at,
            names,
            blocks,
            fences,
        }
    }

    /// The segment's number.
    pub fn segment(&self) -> u32 {
        self.segment
    }

    /// The memory of the names, the summaries and the bounds of the lists of ids, in bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }

    /// The summaries of the blocks, by their numbers.
    pub fn blocks(&self) -> &[BlockSummary] {
        &self.blocks
    }

    /// The name of a queue with this number in the segment. Panics if there is none.
    pub fn queue_name(&self, queue: u32) -> &[u8] {
        &self.names[queue as usize]
    }

    /// Reads all rows of a block in the order of their keys, also those of jobs that have ended
    /// since.
    pub fn read_block(&self, number: u32) -> Result<Vec<OwnedRow>, IndexError> {
        let damaged = || self.damaged("a block");
        let block = self.blocks.get(number as usize).ok_or_else(damaged)?;
        self.rows(block, &self.piece(block.place)?)
    }

    /// Reads the rows of blocks that follow each other in the file, with one read. Otherwise a disk
    /// would need as long for each block as for all of them.
    pub fn read_blocks(&self, numbers: Range<u32>) -> Result<Vec<Vec<OwnedRow>>, IndexError> {
        let damaged = || self.damaged("a block");
        let numbers = numbers.start as usize..numbers.end as usize;
        let blocks = self.blocks.get(numbers).ok_or_else(damaged)?;
        let Some((first, last)) = blocks.first().zip(blocks.last()) else { return Ok(Vec::new()) };
        let start = first.place.at;
        let end = last.place.at + u64::from(last.place.len);
        let bytes =
            self.bytes(self.pieces_at + start, end.checked_sub(start).ok_or_else(damaged)?)?;
        let rows = blocks.iter().map(|block| {
            let at = block.place.at.checked_sub(start).ok_or_else(damaged)? as usize;
            let piece = bytes.get(at..at + block.place.len as usize).ok_or_else(damaged)?;
            self.check(block.place, piece)?;
            self.rows(block, piece)
        });
        rows.collect()
    }

    fn rows(&self, block: &BlockSummary, bytes: &[u8]) -> Result<Vec<OwnedRow>, IndexError> {
        let damaged = || self.damaged("a block");
        let mut reader = Reader(bytes);
        let mut rows_reader = RowReader::new(self.segment);
        let mut rows = Vec::with_capacity(block.rows as usize);
        for _ in 0..block.rows {
            let row = rows_reader.read(&mut reader).ok_or_else(damaged)?;
            if !(block.slot_min..=block.slot_max).contains(&row.slot.index) {
                return Err(damaged());
            }
            rows.push(row);
        }
        reader.is_empty().then_some(rows).ok_or_else(damaged)
    }

    /// Whether a block may have the job with this id. Reads no file.
    pub(crate) fn may_have(&self, id: u64) -> bool {
        self.fence_of(id).is_some()
    }

    fn fence_of(&self, id: u64) -> Option<&Fence> {
        let after = self.fences.partition_point(|fence| fence.last < id);
        self.fences.get(after).filter(|fence| fence.first <= id)
    }

    /// The number of the block that has the job with this id. `None`: no block has it.
    pub fn find(&self, id: u64) -> Result<Option<u32>, IndexError> {
        let Some(fence) = self.fence_of(id) else { return Ok(None) };
        let bytes = self.piece(fence.place)?;
        let mut reader = Reader(&bytes);
        let (mut at, mut block) = (0u64, 0u64);
        while !reader.is_empty() {
            let (step, step_block) = reader
                .number()
                .zip(reader.difference())
                .ok_or_else(|| self.damaged("a list of ids"))?;
            at = at.wrapping_add(step);
            block = block.wrapping_add(step_block);
            if at == id {
                let number = u32::try_from(block).ok();
                let known = number.filter(|number| (*number as usize) < self.blocks.len());
                return known.map(Some).ok_or_else(|| self.damaged("a list of ids"));
            }
        }
        Ok(None)
    }

    /// Reads a section of the file again. `section` has the section's offset in the file.
    pub(crate) fn section(&self, section: Place) -> Result<Vec<u8>, IndexError> {
        self.read(section, section.at)
    }

    /// Reads a piece of the file.
    fn piece(&self, place: Place) -> Result<Vec<u8>, IndexError> {
        self.read(place, self.pieces_at + place.at)
    }

    /// Reads bytes of the file at this offset, and checks them.
    fn read(&self, place: Place, offset: u64) -> Result<Vec<u8>, IndexError> {
        let bytes = self.bytes(offset, place.len.into())?;
        self.check(place, &bytes)?;
        Ok(bytes)
    }

    /// Reads bytes of the file at this offset. The length comes from places, which were checked
    /// against the length of the file when the index was opened.
    fn bytes(&self, offset: u64, len: u64) -> Result<Vec<u8>, IndexError> {
        let name = index_name(self.segment);
        let failed = |source| IndexError::read(&name, source);
        let file = self.disk.open(&name).map_err(failed)?;
        let mut bytes = vec![0; len as usize];
        let read = file.read_at(&mut bytes, offset).map_err(failed)?;
        if read < bytes.len() { Err(self.damaged("a piece")) } else { Ok(bytes) }
    }

    fn check(&self, place: Place, bytes: &[u8]) -> Result<(), IndexError> {
        let is_whole = sum(self.salt, place.at, bytes) == place.crc;
        if is_whole { Ok(()) } else { Err(self.damaged("a piece")) }
    }

    fn damaged(&self, what: &'static str) -> IndexError {
        IndexError::damaged(&index_name(self.segment), what)
    }
}
