//! The numbers and rows of an index file as bytes.
//!
//! A number has seven bits per byte, the lowest bits first. The highest bit of a byte says that
//! another byte follows. A row stores only what differs from the row before it.

use crate::format::entry::{ENTRY_HEAD_BYTES, META_BYTES};
use crate::format::padded;
use crate::index::OwnedRow;
use crate::types::{Position, Slot};

/// The fields of a row that differ from the expected value. A set bit says that the field follows.
const SLOT: u8 = 1;
const ENTRY: u8 = 1 << 1;
const BODY_LEN: u8 = 1 << 2;
const ID: u8 = 1 << 3;
const PRIORITY: u8 = 1 << 4;
const TTR: u8 = 1 << 5;
const CREATED: u8 = 1 << 6;
/// A byte with more bits follows.
const MORE: u8 = 1 << 7;

const DUE: u8 = 1;
const STATE: u8 = 1 << 1;
const OPTIONS: u8 = 1 << 2;
/// The entry is longer than a PUT of this job alone.
const LONGER: u8 = 1 << 3;

pub(crate) fn put_number(buffer: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        buffer.push(value as u8 | 0x80);
        value >>= 7;
    }
    buffer.push(value as u8);
}

/// Writes a difference. Small numbers need few bytes, whatever their sign.
pub(crate) fn put_difference(buffer: &mut Vec<u8>, value: u64) {
    let value = value as i64;
    put_number(buffer, (value << 1 ^ value >> 63) as u64);
}

pub(crate) fn put_bytes(buffer: &mut Vec<u8>, bytes: &[u8]) {
    put_number(buffer, bytes.len() as u64);
    buffer.extend_from_slice(bytes);
}

/// Reads from the start of some bytes. Each function returns `None` if the bytes are too short, or
/// are not the wanted value.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    pub(crate) fn number(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = u64::from(self.byte()?);
            let bits = byte & 0x7F;
            if bits << shift >> shift != bits {
                return None;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    pub(crate) fn number_u32(&mut self) -> Option<u32> {
        self.number()?.try_into().ok()
    }

    pub(crate) fn difference(&mut self) -> Option<u64> {
        let value = self.number()?;
        Some(value >> 1 ^ (value & 1).wrapping_neg())
    }

    pub(crate) fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = self.number()?;
        self.take(usize::try_from(len).ok()?)
    }
}

/// The row before the first row.
fn before(segment: u32) -> OwnedRow {
    OwnedRow {
        slot: Slot { segment, index: u32::MAX },
        entry_at: 0,
        position: Position::new(segment, 0),
        body_len: 0,
        id: 0,
        priority: 0,
        ttr: 0,
        created_ms: 0,
        due_ms: 0,
        state: 0,
        options: Box::default(),
    }
}

/// The bytes of a PUT of this job alone.
fn put_len(options: usize, body_len: u32) -> u64 {
    padded(ENTRY_HEAD_BYTES + META_BYTES + options + body_len as usize) as u64
}

/// The fields of a row that the next row is compared with.
fn without_options(row: &OwnedRow) -> OwnedRow {
    OwnedRow { options: Box::default(), ..*row }
}

/// Writes rows one after the other.
#[derive(Debug)]
pub(crate) struct RowWriter {
    before: OwnedRow,
}

impl RowWriter {
    pub(crate) fn new(segment: u32) -> RowWriter {
        RowWriter { before: before(segment) }
    }

    pub(crate) fn write(&mut self, buffer: &mut Vec<u8>, row: &OwnedRow) {
        let before = &self.before;
        let start = buffer.len();
        buffer.push(0);
        let mut bits = 0;
        let mut field = |bit, value: u64, expected: u64| {
            if value != expected {
                bits |= bit;
                put_difference(buffer, value.wrapping_sub(expected));
            }
        };
        field(SLOT, row.slot.index.into(), before.slot.index.wrapping_add(1).into());
        field(ENTRY, row.entry_at.into(), before.position.offset());
        field(BODY_LEN, row.body_len.into(), before.body_len.into());
        field(ID, row.id, before.id.wrapping_add(1));
        field(PRIORITY, row.priority.into(), before.priority.into());
        field(TTR, row.ttr.into(), before.ttr.into());
        field(CREATED, row.created_ms, before.created_ms);
        let len = row.position.offset().wrapping_sub(row.entry_at.into());
        let longer = len.wrapping_sub(put_len(row.options.len(), row.body_len));
        let mut more = 0;
        for (bit, differs) in [
            (DUE, row.due_ms != before.due_ms),
            (STATE, row.state != before.state),
            (OPTIONS, !row.options.is_empty()),
            (LONGER, longer != 0),
        ] {
            more |= if differs { bit } else { 0 };
        }
        if more != 0 {
            bits |= MORE;
            buffer.push(more);
            if more & DUE != 0 {
                put_difference(buffer, row.due_ms.wrapping_sub(before.due_ms));
            }
            if more & STATE != 0 {
                buffer.push(row.state);
            }
            if more & OPTIONS != 0 {
                put_bytes(buffer, &row.options);
            }
            if more & LONGER != 0 {
                put_number(buffer, longer);
            }
        }
        buffer[start] = bits;
        self.before = without_options(row);
    }
}

/// Reads rows one after the other.
#[derive(Debug)]
pub(crate) struct RowReader {
    before: OwnedRow,
}

impl RowReader {
    pub(crate) fn new(segment: u32) -> RowReader {
        RowReader { before: before(segment) }
    }

    pub(crate) fn read(&mut self, reader: &mut Reader<'_>) -> Option<OwnedRow> {
        let before = &self.before;
        let bits = reader.byte()?;
        let mut field = |bit, expected: u64| {
            let differs = bits & bit != 0;
            let difference = if differs { reader.difference()? } else { 0 };
            Some(expected.wrapping_add(difference))
        };
        let small = |value: u64| u32::try_from(value).ok();
        let index = small(field(SLOT, before.slot.index.wrapping_add(1).into())?)?;
        let entry_at = small(field(ENTRY, before.position.offset())?)?;
        let body_len = small(field(BODY_LEN, before.body_len.into())?)?;
        let id = field(ID, before.id.wrapping_add(1))?;
        let priority = small(field(PRIORITY, before.priority.into())?)?;
        let ttr = small(field(TTR, before.ttr.into())?)?;
        let created_ms = field(CREATED, before.created_ms)?;
        let more = if bits & MORE == 0 { 0 } else { reader.byte()? };
        let due_ms = match more & DUE {
            0 => before.due_ms,
            _ => before.due_ms.wrapping_add(reader.difference()?),
        };
        let state = if more & STATE == 0 { before.state } else { reader.byte()? };
        // The options of the row before are not repeated. Otherwise a row of one byte could need much
        // memory.
        let options: Box<[u8]> =
            if more & OPTIONS == 0 { Box::default() } else { reader.bytes()?.into() };
        let longer = if more & LONGER == 0 { 0 } else { reader.number()? };
        // The length of options is a u16 in a meta.
        u16::try_from(options.len()).ok()?;
        let len = put_len(options.len(), body_len).checked_add(longer)?;
        let end = small(u64::from(entry_at).checked_add(len)?)?;
        let segment = before.slot.segment;
        let row = OwnedRow {
            slot: Slot { segment, index },
            entry_at,
            position: Position::new(segment, end.into()),
            body_len,
            id,
            priority,
            ttr,
            created_ms,
            due_ms,
            state,
            options,
        };
        self.before = without_options(&row);
        Some(row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_and_long_ones_do_not() {
        for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
            let mut bytes = Vec::new();
            put_number(&mut bytes, value);
            put_difference(&mut bytes, value);
            let mut reader = Reader(&bytes);
            assert_eq!((reader.number(), reader.difference()), (Some(value), Some(value)));
            assert!(reader.is_empty());
        }
        assert_eq!(Reader(&[0xFF; 9]).number(), None, "cut off");
        assert_eq!(Reader(&[0xFF; 11]).number(), None, "more than 64 bits");
    }

    #[test]
    fn rows_come_back() {
        let mut plain = before(3);
        (plain.slot.index, plain.entry_at, plain.body_len) = (0, 4152, 100);
        plain.position = Position::new(3, 4152 + put_len(0, 100));
        (plain.id, plain.state, plain.created_ms) = (7, 1, 1 << 41);
        let mut next = plain.clone();
        (next.slot.index, next.id) = (1, 8);
        next.entry_at = plain.position.offset() as u32;
        next.position = Position::new(3, plain.position.offset() + put_len(0, 100));
        let mut other = next.clone();
        (other.slot.index, other.id, other.due_ms, other.state) = (0, u64::MAX, 5, 4);
        other.options = [1, 2, 3].into();
        other.position = Position::new(3, u64::from(u32::MAX) - 7);
        let rows = [plain, next, other.clone(), other];
        let mut bytes = Vec::new();
        let mut writer = RowWriter::new(3);
        let mut lens = Vec::new();
        for row in &rows {
            writer.write(&mut bytes, row);
            lens.push(bytes.len());
        }
        assert_eq!(lens[1] - lens[0], 1, "the next plain job needs one byte");
        let mut reader = Reader(&bytes);
        let mut back = RowReader::new(3);
        for row in &rows {
            assert_eq!(back.read(&mut reader).as_ref(), Some(row));
        }
        assert!(reader.is_empty());
    }
}
