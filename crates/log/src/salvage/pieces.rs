//! Walks over one segment, damaged or not: what proves itself is told, what does not is a gap.

use crc32fast::Hasher;

use crate::entry::{ENTRY_HEAD_BYTES, Entry, Kind, META_BYTES};
use crate::format::{
    GROUP_HEADER_BYTES, GroupHeader, HEADER_BYTES, get_u16, get_u32, padded, seeded,
};
use crate::types::Position;

/// What a disk loses in one piece.
const SECTOR_BYTES: u64 = 512;

/// Where an entry has its flags, which are 0.
const FLAGS_AT: usize = 9;

/// The bytes of one segment.
#[derive(Debug)]
pub(super) struct Pages {
    pub(super) number: u32,
    pub(super) salt: u64,
    pub(super) bytes: Vec<u8>,
}

/// What stands in a segment, from its beginning to its end.
#[derive(Debug)]
pub(super) enum Piece<'a> {
    /// The header of a group that is whole.
    Group(GroupHeader),
    /// The offset of what looks like the header of a group that is not whole.
    BrokenGroup(u64),
    /// An entry that proves itself, and where it starts.
    Entry(Position, Entry<'a>),
    /// Bytes that nothing is known of, and how many slots they held at most.
    Gap { start: u64, end: u64, slots_max: u64 },
}

/// What the whole groups of a segment say, wherever they stand.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Outline {
    /// The header of the segment's first group, if it can be read.
    pub(super) first: Option<GroupHeader>,
    /// That group is whole.
    pub(super) is_first_whole: bool,
    /// Where the unbroken chain of groups ends: the one from the first group on, or from the last that says that
    /// all before itself is durable. That one cannot be left over by a torn write, as something in front of it
    /// would be broken.
    pub(super) chain_end: u64,
    /// Where the last whole group ends that is not older than one before it: such a one was left over by a torn
    /// write.
    pub(super) end: u64,
    /// How many such groups lie beyond the end of the chain.
    pub(super) beyond: u64,
    /// The checksum of the last one.
    pub(super) crc: u32,
    /// The greatest `durable` of all groups.
    pub(super) durable: Position,
}

impl Pages {
    /// Looks for groups at every place.
    pub(super) fn outline(&self) -> Outline {
        let mut outline =
            Outline { chain_end: HEADER_BYTES, end: HEADER_BYTES, ..Outline::default() };
        outline.first = self.group_header(HEADER_BYTES);
        outline.is_first_whole = self.group(HEADER_BYTES).is_some();
        let mut previous: Option<GroupHeader> = None;
        let mut at = HEADER_BYTES;
        while at < self.bytes.len() as u64 {
            let Some(group) = self.group(at) else {
                at += 8;
                continue;
            };
            let follows = previous.is_none_or(|previous| group.follows(&previous));
            let is_in_chain = at == outline.chain_end && follows || group.durable == group.position;
            if is_in_chain {
                outline.chain_end = group.end().offset();
                outline.beyond = 0;
            }
            outline.durable = outline.durable.max(group.durable);
            if is_in_chain || previous.is_none_or(|previous| previous.time_ms <= group.time_ms) {
                outline.beyond += u64::from(!is_in_chain);
                outline.end = group.end().offset();
                outline.crc = group.crc;
                previous = Some(group);
            }
            at = group.end().offset();
        }
        outline
    }

    /// Tells everything up to `end`, in order.
    pub(super) fn walk<'a>(&'a self, end: u64, mut each: impl FnMut(Piece<'a>)) {
        let mut gap: Option<(u64, u64)> = None;
        // Where the last whole group ends: nothing but the header of another can stand there.
        let mut group_end = HEADER_BYTES;
        let mut at = HEADER_BYTES;
        while at < end {
            let (piece, next) = match self.piece(at, end, group_end) {
                Piece::Gap { end: next, slots_max, .. } => {
                    let (_, slots) = gap.get_or_insert((at, 0));
                    *slots += slots_max;
                    at = next;
                    continue;
                }
                Piece::BrokenGroup(start) => {
                    let next = at + GROUP_HEADER_BYTES as u64;
                    (Piece::BrokenGroup(start), next)
                }
                Piece::Group(group) => {
                    group_end = group.end().offset();
                    (Piece::Group(group), at + GROUP_HEADER_BYTES as u64)
                }
                Piece::Entry(position, entry) => {
                    (Piece::Entry(position, entry), at + entry.bytes as u64)
                }
            };
            if let Some((start, slots_max)) = gap.take() {
                each(Piece::Gap { start, end: at, slots_max });
            }
            each(piece);
            at = next;
        }
        if let Some((start, slots_max)) = gap {
            each(Piece::Gap { start, end, slots_max });
        }
    }

    /// What stands at an offset.
    fn piece(&self, at: u64, end: u64, group_end: u64) -> Piece<'_> {
        if let Some(group) = self.group(at) {
            return Piece::Group(group);
        }
        if self.group_header(at).is_some() {
            return Piece::BrokenGroup(at);
        }
        let position = Position::new(self.number, at);
        if let Some(entry) = self.entry(at, end) {
            return Piece::Entry(position, entry);
        }
        let mut next = at + 8;
        while next < end && !self.is_good(next, end) {
            next += 8;
        }
        let next = next.min(end);
        let lost = &self.bytes[at as usize..next as usize];
        let slots_max = if at == group_end {
            (lost.len().saturating_sub(GROUP_HEADER_BYTES) / META_BYTES) as u64
        } else if lost.len() > ENTRY_HEAD_BYTES && padded(get_u32(lost, 4) as usize) == lost.len() {
            self.slots_max(at, lost)
        } else {
            (lost.len() / META_BYTES) as u64
        };
        Piece::Gap { start: at, end: next, slots_max }
    }

    /// How many slots a broken entry made at most, whose length leads to the next thing that is good.
    fn slots_max(&self, at: u64, entry: &[u8]) -> u64 {
        let could_be = (entry.len().saturating_sub(ENTRY_HEAD_BYTES) / META_BYTES) as u64;
        let slots_of = |entry: &[u8]| match entry[8] {
            kind if kind == Kind::Put as u8 || kind == Kind::Copy as u8 => {
                get_u16(entry, 10).into()
            }
            _ => 0,
        };
        // Is one byte of kind or count the broken one? Then the right value fits the checksum.
        let (head, contents) = entry.split_at(ENTRY_HEAD_BYTES);
        // Contents are long: they are summed up once.
        let mut contents_sum = Hasher::new();
        contents_sum.update(contents);
        let mut tried: [u8; ENTRY_HEAD_BYTES] = head.try_into().expect("it was split there");
        for byte in 8..ENTRY_HEAD_BYTES {
            for value in 0..=u8::MAX {
                tried[byte] = value;
                let mut sum = seeded(self.salt, Position::new(self.number, at).0);
                sum.update(&tried[4..]);
                sum.combine(&contents_sum);
                if sum.finalize() == get_u32(entry, 0) {
                    return slots_of(&tried);
                }
            }
            tried[byte] = head[byte];
        }
        // Kind and count may be lost with a sector that begins in front of them.
        let is_split = (at + 8).is_multiple_of(SECTOR_BYTES);
        match slots_of(entry) {
            slots if !is_split && (1..=could_be).contains(&slots) => slots,
            _ => could_be,
        }
    }

    /// A group header or an entry stands at an offset.
    fn is_good(&self, at: u64, end: u64) -> bool {
        self.group_header(at).is_some() || self.entry(at, end).is_some()
    }

    /// What looks like the header of the group at an offset.
    fn group_header(&self, at: u64) -> Option<GroupHeader> {
        let header = self.bytes.get(at as usize..).and_then(GroupHeader::peek)?;
        (header.position == Position::new(self.number, at)).then_some(header)
    }

    fn group(&self, at: u64) -> Option<GroupHeader> {
        let position = Position::new(self.number, at);
        GroupHeader::check(self.bytes.get(at as usize..)?, self.salt, position)
    }

    fn entry(&self, at: u64, end: u64) -> Option<Entry<'_>> {
        let bytes = self.bytes.get(at as usize..end as usize)?;
        // In a gap any bytes may look like a length: few of them shall be summed up.
        if bytes.get(FLAGS_AT) != Some(&0) {
            return None;
        }
        Entry::read(bytes, self.salt, Position::new(self.number, at).0).ok()
    }
}
