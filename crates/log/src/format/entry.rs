//! The bytes of entries. Appends write them into the open batch. Recovery and reclaim read them.
//!
//! An entry has a head of 12 bytes: checksum, length, kind, flags and a count. Its contents follow,
//! padded to a multiple of 8 bytes. The committer writes the checksum later, without the appenders'
//! lock.

use crate::format::{get_u16, get_u32, get_u64, padded, seeded};
use crate::types::{Meta, Slot};

/// Bytes of an entry's head. The contents follow.
pub(crate) const ENTRY_HEAD_BYTES: usize = 12;
/// Bytes of a meta without its options.
pub(crate) const META_BYTES: usize = 40;

/// Kinds of entries. 8 is reserved for a flush of a whole queue.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
#[repr(u8)]
pub(crate) enum EntryKind {
    Open = 1,
    Name = 2,
    Put = 3,
    Copy = 4,
    Update = 5,
    Count = 6,
    Finish = 7,
    Fact = 9,
    Ids = 10,
    Trim = 11,
}

/// Starts an entry at the end of a buffer, and returns its offset. `finish_entry` completes the
/// entry.
pub(crate) fn begin_entry(buffer: &mut Vec<u8>, kind: EntryKind, n: u16) -> usize {
    let start = buffer.len();
    let mut head = [0; ENTRY_HEAD_BYTES];
    head[8] = kind as u8;
    head[10..12].copy_from_slice(&n.to_le_bytes());
    buffer.extend_from_slice(&head);
    start
}

/// Writes the length of the entry at `start`, and the padding. `apart`: the bytes of the entry's body
/// that are not in the buffer.
pub(crate) fn finish_entry(buffer: &mut Vec<u8>, start: usize, apart: usize) {
    let len = buffer.len() - start + apart;
    buffer[start + 4..start + 8].copy_from_slice(&(len as u32).to_le_bytes());
    let pad = padded(len) - len;
    buffer.extend_from_slice(&[0; 8][..pad]);
}

/// A FINISH entry grows up to this many bytes. A damaged entry brings its jobs back, so a larger one
/// would do more harm.
pub(crate) const SHARED_FINISH_BYTES_MAX: usize = 4096;

/// Adds slots to the FINISH entry at `start`, which must be the last entry of the buffer. Returns
/// false if the entry would be too long.
pub(crate) fn extend_finish(buffer: &mut Vec<u8>, start: usize, slots: &[Slot]) -> bool {
    let len = get_u32(buffer, start + 4) as usize;
    if len + 8 * slots.len() > SHARED_FINISH_BYTES_MAX {
        return false;
    }
    let n = get_u16(buffer, start + 10) + slots.len() as u16;
    buffer.truncate(start + len);
    write_slots(buffer, slots);
    buffer[start + 10..start + 12].copy_from_slice(&n.to_le_bytes());
    finish_entry(buffer, start, 0);
    true
}

pub(crate) fn write_slots(buffer: &mut Vec<u8>, slots: &[Slot]) {
    for slot in slots {
        buffer.extend_from_slice(&slot.to_u64().to_le_bytes());
    }
}

/// Appends the bytes of a meta: see `docs/log-format.md`. `queue` is the queue's number.
pub fn write_meta(buffer: &mut Vec<u8>, queue: u32, meta: &Meta<'_>) {
    let mut bytes = [0; META_BYTES];
    bytes[0..8].copy_from_slice(&meta.id.to_le_bytes());
    bytes[8..12].copy_from_slice(&queue.to_le_bytes());
    bytes[12..16].copy_from_slice(&meta.priority.to_le_bytes());
    bytes[16..20].copy_from_slice(&meta.ttr.to_le_bytes());
    bytes[20..28].copy_from_slice(&meta.created_ms.to_le_bytes());
    bytes[28..36].copy_from_slice(&meta.due_ms.to_le_bytes());
    bytes[36] = meta.state;
    let options_len = u16::try_from(meta.options.len()).expect("options are at most 65,535 bytes");
    bytes[38..40].copy_from_slice(&options_len.to_le_bytes());
    buffer.extend_from_slice(&bytes);
    buffer.extend_from_slice(meta.options);
}

/// Writes the checksums of all entries of one group. `position` is the position of the first entry.
pub(crate) fn sum_entries(entries: &mut [u8], salt: u64, position: u64) {
    let mut at = 0;
    while at < entries.len() {
        let end = at + padded(get_u32(entries, at + 4) as usize);
        let mut hasher = seeded(salt, position + at as u64);
        hasher.update(&entries[at + 4..end]);
        let crc = hasher.finalize();
        entries[at..at + 4].copy_from_slice(&crc.to_le_bytes());
        at = end;
    }
}

/// One entry in a buffer.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Entry<'a> {
    pub(crate) kind: EntryKind,
    pub(crate) n: u16,
    /// The entry's contents, without padding.
    pub(crate) payload: &'a [u8],
    /// The entry's size in bytes, with head and padding.
    pub(crate) bytes: usize,
}

impl<'a> Entry<'a> {
    /// The entry at the start of `bytes`, if its checksum is right.
    pub(crate) fn read(
        bytes: &'a [u8],
        salt: u64,
        position: u64,
    ) -> Result<Entry<'a>, &'static str> {
        let entry = Entry::parse(bytes)?;
        let mut hasher = seeded(salt, position);
        hasher.update(&bytes[4..entry.bytes]);
        if hasher.finalize() != get_u32(bytes, 0) {
            return Err("entry checksum");
        }
        Ok(entry)
    }

    /// The entry at the start of `bytes`, without a check of its checksum.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Entry<'a>, &'static str> {
        if bytes.len() < ENTRY_HEAD_BYTES {
            return Err("entry runs over the end");
        }
        let len = get_u32(bytes, 4) as usize;
        let end = padded(len);
        if len < ENTRY_HEAD_BYTES || end > bytes.len() {
            return Err("entry length");
        }
        let kind = match bytes[8] {
            1 => EntryKind::Open,
            2 => EntryKind::Name,
            3 => EntryKind::Put,
            4 => EntryKind::Copy,
            5 => EntryKind::Update,
            6 => EntryKind::Count,
            7 => EntryKind::Finish,
            9 => EntryKind::Fact,
            10 => EntryKind::Ids,
            11 => EntryKind::Trim,
            _ => return Err("unknown kind of entry"),
        };
        let payload = &bytes[ENTRY_HEAD_BYTES..len];
        Ok(Entry { kind, n: get_u16(bytes, 10), payload, bytes: end })
    }

    /// OPEN: the lowest segment that is not void, and the limit of ids. All ids below this limit
    /// may have been used.
    pub(crate) fn open(&self) -> Option<(u32, u64)> {
        (self.payload.len() == 12).then(|| (get_u32(self.payload, 0), get_u64(self.payload, 4)))
    }

    /// NAME: the queue's number in this segment, and its name.
    pub(crate) fn name(&self) -> Option<(u32, &'a [u8])> {
        (self.payload.len() >= 4).then(|| (get_u32(self.payload, 0), &self.payload[4..]))
    }

    /// PUT and COPY: calls `each` for every slot, and returns the body.
    pub(crate) fn for_each_slot(&self, mut each: impl FnMut(StoredSlot<'a>)) -> Option<&'a [u8]> {
        let mut rest = self.payload;
        for _ in 0..self.n {
            let replaces = match self.kind {
                EntryKind::Copy => {
                    let (slot, tail) = rest.split_at_checked(8)?;
                    rest = tail;
                    Some(Slot::from_u64(get_u64(slot, 0)))
                }
                _ => None,
            };
            let (meta, queue, tail) = read_meta(rest)?;
            rest = tail;
            each(StoredSlot { replaces, queue, meta });
        }
        Some(rest)
    }

    /// UPDATE and COUNT: the entry's slot, and the meta or the counters.
    pub(crate) fn split_slot(&self) -> Option<(Slot, &'a [u8])> {
        let (slot, rest) = self.payload.split_at_checked(8)?;
        Some((Slot::from_u64(get_u64(slot, 0)), rest))
    }

    /// FINISH: the slots that end.
    pub(crate) fn finished_slots(&self) -> Option<impl Iterator<Item = Slot> + use<'a>> {
        let payload = self.payload;
        (payload.len() == usize::from(self.n) * 8)
            .then(|| payload.chunks_exact(8).map(|raw| Slot::from_u64(get_u64(raw, 0))))
    }

    /// FACT: the key and the value.
    pub(crate) fn fact(&self) -> Option<(&'a [u8], &'a [u8])> {
        let (len, rest) = self.payload.split_at_checked(4)?;
        rest.split_at_checked(get_u32(len, 0) as usize)
    }

    /// IDS: the limit of ids. All ids below this limit may have been used.
    pub(crate) fn ids(&self) -> Option<u64> {
        (self.payload.len() == 8).then(|| get_u64(self.payload, 0))
    }

    /// TRIM: the lowest segment that is not void.
    pub(crate) fn trim(&self) -> Option<u32> {
        (self.payload.len() == 4).then(|| get_u32(self.payload, 0))
    }
}

/// One slot of a PUT or COPY.
#[derive(Copy, Clone, Debug)]
pub(crate) struct StoredSlot<'a> {
    /// In a COPY: the slot that the job had before. The COPY ends this slot. `None` in a PUT.
    pub(crate) replaces: Option<Slot>,
    /// The queue's number in this segment.
    pub(crate) queue: u32,
    pub(crate) meta: Meta<'a>,
}

/// Reads a meta at the start of `bytes`. Returns the meta, its queue's number and the bytes after
/// the meta. `None`: the bytes end too early.
pub fn read_meta(bytes: &[u8]) -> Option<(Meta<'_>, u32, &[u8])> {
    let (fixed, rest) = bytes.split_at_checked(META_BYTES)?;
    let (options, rest) = rest.split_at_checked(usize::from(get_u16(fixed, 38)))?;
    let meta = Meta {
        id: get_u64(fixed, 0),
        priority: get_u32(fixed, 12),
        ttr: get_u32(fixed, 16),
        created_ms: get_u64(fixed, 20),
        due_ms: get_u64(fixed, 28),
        state: fixed[36],
        options,
    };
    Some((meta, get_u32(fixed, 8), rest))
}
