//! The rows of a segment while its index is built, as bytes in the order of their slots. A segment can
//! have more than a million slots, and most rows need only a few bytes each.

use crate::index::OwnedRow;
use crate::index::codec::{Reader, RowReader, RowWriter};

/// Rows are read from the start of a stretch of this many rows. So a single row needs no more reads.
const STRETCH_ROWS: usize = 32;

/// The rows of one segment.
#[derive(Debug)]
pub(crate) struct PackedRows {
    segment: u32,
    bytes: Vec<u8>,
    /// Where each stretch begins in `bytes`.
    stretches: Vec<usize>,
    writer: RowWriter,
    len: usize,
}

impl PackedRows {
    pub(crate) fn new(segment: u32) -> PackedRows {
        let writer = RowWriter::new(segment);
        PackedRows { segment, bytes: Vec::new(), stretches: Vec::new(), writer, len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Adds the row of the next slot.
    pub(crate) fn push(&mut self, row: &OwnedRow) {
        if self.len.is_multiple_of(STRETCH_ROWS) {
            self.stretches.push(self.bytes.len());
            self.writer = RowWriter::new(self.segment);
        }
        self.writer.write(&mut self.bytes, row);
        self.len += 1;
    }

    pub(crate) fn reader(&self) -> PackedReader<'_> {
        let (rest, rows) = (Reader(&self.bytes), RowReader::new(self.segment));
        PackedReader { packed: self, next: 0, rest, rows }
    }
}

/// Reads rows. It is fast if they follow each other.
#[derive(Debug)]
pub(crate) struct PackedReader<'a> {
    packed: &'a PackedRows,
    /// The next row, and the bytes from it on.
    next: usize,
    rest: Reader<'a>,
    rows: RowReader,
}

impl PackedReader<'_> {
    /// The row of the slot with this index. Panics if there is none.
    pub(crate) fn row(&mut self, index: u32) -> OwnedRow {
        let index = index as usize;
        let stretch = index / STRETCH_ROWS;
        let start = stretch * STRETCH_ROWS;
        if !(start + 1..=index).contains(&self.next) {
            self.next = start;
            self.rest = Reader(&self.packed.bytes[self.packed.stretches[stretch]..]);
            self.rows = RowReader::new(self.packed.segment);
        }
        loop {
            let row = self.rows.read(&mut self.rest).expect("a row was written there");
            self.next += 1;
            if self.next > index {
                return row;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{Position, Slot};

    #[test]
    fn rows_come_back_in_any_order() {
        let row = |index: u32| {
            let entry_at = 4152 + index * 200;
            OwnedRow {
                slot: Slot { segment: 3, index },
                entry_at,
                position: Position::new(3, u64::from(entry_at) + 160),
                body_len: 7,
                id: u64::from(index * 7919 % 1009),
                priority: index % 5,
                ttr: 60,
                created_ms: 1 << 40,
                due_ms: u64::from(index % 3),
                state: 1,
                options: vec![9; index as usize % 4].into(),
            }
        };
        let mut rows = PackedRows::new(3);
        (0..200).for_each(|index| rows.push(&row(index)));
        assert_eq!((rows.len(), rows.stretches.len()), (200, 7));
        let mut reader = rows.reader();
        for index in (0..200).chain((0..200).rev()).chain((0..200).map(|at| at * 77 % 200)) {
            assert_eq!(reader.row(index), row(index));
            assert_eq!(reader.row(index), row(index), "again");
        }
    }
}
