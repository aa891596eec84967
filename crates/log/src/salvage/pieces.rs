//! Divides a segment into pieces: groups and entries with a correct checksum, and gaps between
//! them.

use crc32fast::Hasher;

use crate::format::entry::{ENTRY_HEAD_BYTES, Entry, EntryKind, META_BYTES};
use crate::format::{GROUP_HEADER_BYTES, GroupHeader, HEADER_BYTES, get_u32, seeded};
use crate::types::Position;

/// The size of a disk's sectors. A disk loses whole sectors.
const SECTOR_BYTES: u64 = 512;

/// The offset of the length in an entry's head.
const LENGTH_AT: usize = 4;
/// The offset of the kind in an entry's head. Flags and count follow.
const KIND_AT: usize = 8;
/// The offset of the flags in an entry's head. In this format, all flags are 0.
const FLAGS_AT: usize = 9;

/// The bytes of one segment.
#[derive(Debug)]
pub(super) struct Pages {
    pub(super) number: u32,
    pub(super) salt: u64,
    pub(super) bytes: Vec<u8>,
}

/// A piece of a segment.
#[derive(Debug)]
pub(super) enum Piece<'a> {
    /// The header of an intact group. The group's entries are separate pieces.
    Group(GroupHeader),
    /// The offset of a header whose group has a wrong checksum.
    BrokenGroup(u64),
    /// An intact entry, and its position.
    Entry(Position, Entry<'a>),
    /// Bytes that cannot be read, and bounds of the number of slots in them.
    Gap { start: u64, end: u64, slots: Slots },
}

/// Bounds of a number of slots.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Slots {
    pub(super) min: u64,
    pub(super) max: u64,
}

impl Slots {
    /// The bounds for this many bytes with unknown content.
    fn up_to(bytes: usize) -> Self {
        Self { min: 0, max: (bytes / META_BYTES) as u64 }
    }
}

/// Data about a segment from its intact groups. The groups can be at any offset, also after gaps.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Outline {
    /// The header of the segment's first group, if it can be read.
    pub(super) first: Option<GroupHeader>,
    /// Whether the segment's first group is intact.
    pub(super) is_first_whole: bool,
    /// The end of the unbroken chain of groups. The chain starts at the first group, or at the last
    /// group whose `durable` is its own position. Such a group is part of the log: when it was
    /// written, everything before it was durable. So it was not left over from a torn write.
    pub(super) chain_end: u64,
    /// The end of the last intact group that was not left over from a torn write. A group was left
    /// over if it is older than a group before it.
    pub(super) end: u64,
    /// The number of groups after `chain_end` that were not left over from torn writes.
    pub(super) beyond: u64,
    /// The checksum of the group that ends at `end`.
    pub(super) crc: u32,
    /// The greatest `durable` of all intact groups.
    pub(super) durable: Position,
}

impl Pages {
    /// Looks for intact groups at every offset where a group can begin.
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

    /// Calls `each` for all pieces up to `end`, in order. Joins neighbouring gaps.
    pub(super) fn walk<'a>(&'a self, end: u64, mut each: impl FnMut(Piece<'a>)) {
        let mut gap: Option<(u64, Slots)> = None;
        // The end of the last intact group. A group's header must be at this offset.
        let mut group_end = HEADER_BYTES;
        let mut at = HEADER_BYTES;
        while at < end {
            let (piece, next) = match self.piece(at, end, group_end) {
                Piece::Gap { end: next, slots: more, .. } => {
                    let (_, slots) = gap.get_or_insert((at, Slots::default()));
                    slots.min += more.min;
                    slots.max += more.max;
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
            if let Some((start, slots)) = gap.take() {
                each(Piece::Gap { start, end: at, slots });
            }
            each(piece);
            at = next;
        }
        if let Some((start, slots)) = gap {
            each(Piece::Gap { start, end, slots });
        }
    }

    /// The piece at an offset.
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
        let slots = if at == group_end {
            // The lost bytes begin with a group's header, which has no slots.
            Slots::up_to(lost.len().saturating_sub(GROUP_HEADER_BYTES))
        } else {
            self.slots(at, lost)
        };
        Piece::Gap { start: at, end: next, slots }
    }

    /// The number of slots in the lost bytes at an offset. Usually these bytes were one entry. The
    /// module comment of `remains.rs` says why an exact number matters.
    fn slots(&self, at: u64, lost: &[u8]) -> Slots {
        let Some((head, contents)) = lost.split_first_chunk() else { return Slots::default() };
        // `fits` is called for many heads. The contents can be long, so compute their checksum only
        // once.
        let mut contents_sum = Hasher::new();
        contents_sum.update(contents);
        let fits = |head: &[u8; ENTRY_HEAD_BYTES]| {
            let mut sum = seeded(self.salt, Position::new(self.number, at).0);
            sum.update(&head[4..]);
            sum.combine(&contents_sum);
            sum.finalize() == get_u32(head, 0)
        };
        let repaired = repaired_heads(head, lost.len()).find(fits).and_then(|head| {
            let entry = [&head, contents].concat();
            Entry::parse(&entry).ok().and_then(|entry| slots_of(&entry))
        });
        let exact = repaired.or_else(|| slots_stated(at, lost));
        exact.map_or_else(|| Slots::up_to(lost.len()), |count| Slots { min: count, max: count })
    }

    /// Whether a group's header or an intact entry is at an offset.
    fn is_good(&self, at: u64, end: u64) -> bool {
        self.group_header(at).is_some() || self.entry(at, end).is_some()
    }

    /// The group's header at an offset, if the bytes look like one. The group may be damaged.
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
        // In a gap, any bytes may look like a length. Check the flags first, because a checksum
        // takes long.
        if bytes.get(FLAGS_AT) != Some(&0) {
            return None;
        }
        Entry::read(bytes, self.salt, Position::new(self.number, at).0).ok()
    }
}

/// All heads that the entry may have had before the damage. Each differs from the broken head in
/// the length, or in one byte after the length. The length must fit the entry's size.
fn repaired_heads(
    head: &[u8; ENTRY_HEAD_BYTES],
    entry_bytes: usize,
) -> impl Iterator<Item = [u8; ENTRY_HEAD_BYTES]> {
    let lengths = (0..8).filter_map(move |padding| {
        let length = u32::try_from(entry_bytes.checked_sub(padding)?).ok()?;
        let mut head = *head;
        head[LENGTH_AT..KIND_AT].copy_from_slice(&length.to_le_bytes());
        Some(head)
    });
    let bytes = (KIND_AT..ENTRY_HEAD_BYTES).flat_map(move |at| {
        (0..=u8::MAX).map(move |value| {
            let mut head = *head;
            head[at] = value;
            head
        })
    });
    lengths.chain(bytes)
}

/// The number of slots according to the head of a broken entry. A plausible head counts as intact,
/// because the damage can be in the checksum or in the contents.
fn slots_stated(at: u64, lost: &[u8]) -> Option<u64> {
    // If a sector begins at the kind, the kind and the count may be lost, although the length is
    // intact.
    let is_split = (at + KIND_AT as u64).is_multiple_of(SECTOR_BYTES);
    let entry = Entry::parse(lost).ok().filter(|entry| entry.bytes == lost.len())?;
    if is_split || lost[FLAGS_AT] != 0 { None } else { slots_of(&entry) }
}

/// The number of slots that an entry makes, if its count `n` is plausible.
fn slots_of(entry: &Entry<'_>) -> Option<u64> {
    match entry.kind {
        EntryKind::Put | EntryKind::Copy => {
            let has_room = usize::from(entry.n) * META_BYTES <= entry.payload.len();
            (entry.n > 0 && has_room).then_some(u64::from(entry.n))
        }
        EntryKind::Finish => entry.finished_slots().map(|_| 0),
        _ => (entry.n == 0).then_some(0),
    }
}
