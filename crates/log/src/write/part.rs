//! A group that is not written yet. Its bytes are in a buffer, except for large bodies that the owner
//! shares: the group keeps these as they are. So an append copies no large body, although the owner
//! holds its lock meanwhile.

use std::iter::once;

use triomphe::Arc;

use crate::format::entry::{EntryKind, begin_entry, finish_entry, sum_entries};
use crate::format::{GROUP_HEADER_BYTES, GroupHeader, get_u32, padded, seeded};
use crate::types::Position;

/// A group that is not written yet. Its bytes begin with room for the header. The entries follow.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) segment: u32,
    /// The minimum size of the segment. The segment's file may not exist yet, because the committer
    /// takes the file later.
    pub(crate) segment_size: u64,
    /// The offset of the group in the segment.
    pub(crate) start: u64,
    pub(crate) count: u32,
    /// The value of `Open::entries` minus `Open::copies` when the part ended. 0 before its end.
    pub(crate) appended: u64,
    /// The bytes of the group, without the bodies in `shared`.
    pub(crate) bytes: Vec<u8>,
    /// Large bodies, in the order of their entries.
    shared: Vec<SharedBody>,
    /// The bytes of these bodies.
    shared_bytes: usize,
}

/// A body between the bytes of a group.
#[derive(Debug)]
struct SharedBody {
    /// Where its entry begins in `Part::bytes`.
    entry_at: usize,
    /// The body comes before this byte of `Part::bytes`.
    at: usize,
    body: Arc<[u8]>,
}

impl Part {
    /// An empty group. `recycled`: a buffer for its bytes.
    pub(crate) fn new(
        segment: u32,
        segment_size: u64,
        start: u64,
        recycled: Option<Vec<u8>>,
    ) -> Part {
        let mut bytes = recycled.unwrap_or_default();
        bytes.clear();
        bytes.resize(GROUP_HEADER_BYTES, 0);
        let (shared, shared_bytes) = (Vec::new(), 0);
        Part { segment, segment_size, start, count: 0, appended: 0, bytes, shared, shared_bytes }
    }

    /// The bytes of the group in the file.
    pub(crate) fn size(&self) -> usize {
        self.bytes.len() + self.shared_bytes
    }

    pub(crate) fn end(&self) -> Position {
        Position::new(self.segment, self.start + self.size() as u64)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Appends an entry that ends with this body, and keeps the body. `write` writes the contents
    /// before the body. Returns the size of the entry.
    pub(crate) fn append_shared(
        &mut self,
        kind: EntryKind,
        n: u16,
        body: &Arc<[u8]>,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> usize {
        let size_before = self.size();
        let entry_at = begin_entry(&mut self.bytes, kind, n);
        write(&mut self.bytes);
        let at = self.bytes.len();
        finish_entry(&mut self.bytes, entry_at, body.len());
        self.shared.push(SharedBody { entry_at, at, body: body.clone() });
        self.shared_bytes += body.len();
        self.count += 1;
        self.size() - size_before
    }

    /// Writes the checksums of the entries, then the header with the checksum of the group. Returns
    /// this checksum.
    pub(crate) fn seal(&mut self, header: &GroupHeader, salt: u64) -> u32 {
        assert_eq!(self.size(), GROUP_HEADER_BYTES + header.len as usize, "len counts the entries");
        self.sum_entries(header.position, salt);
        header.write(&mut self.bytes);
        let mut hasher = seeded(salt, header.position.0);
        for piece in self.pieces(8) {
            hasher.update(piece);
        }
        let crc = hasher.finalize();
        self.bytes[4..8].copy_from_slice(&crc.to_le_bytes());
        crc
    }

    fn sum_entries(&mut self, group: Position, salt: u64) {
        let Part { bytes, shared, .. } = self;
        let mut at = GROUP_HEADER_BYTES;
        let mut position = group.0 + at as u64;
        for SharedBody { entry_at, at: body_at, body } in &*shared {
            sum_entries(&mut bytes[at..*entry_at], salt, position);
            position += (*entry_at - at) as u64;
            let len = get_u32(bytes, *entry_at + 4) as usize;
            at = *body_at + padded(len) - len;
            let mut hasher = seeded(salt, position);
            hasher.update(&bytes[*entry_at + 4..*body_at]);
            hasher.update(body);
            hasher.update(&bytes[*body_at..at]);
            let crc = hasher.finalize();
            bytes[*entry_at..*entry_at + 4].copy_from_slice(&crc.to_le_bytes());
            position += padded(len) as u64;
        }
        sum_entries(&mut bytes[at..], salt, position);
    }

    /// The bytes of the group behind the first `skipped` bytes of its header, in pieces. There is one
    /// piece if the group has no large body.
    pub(crate) fn pieces(&self, skipped: usize) -> impl Iterator<Item = &[u8]> {
        let places = self.shared.iter().map(|shared| shared.at);
        let ranges = once(skipped).chain(places.clone()).zip(places.chain([self.bytes.len()]));
        let bodies = self.shared.iter().map(|shared| Some(&*shared.body)).chain([None]);
        let pieces = ranges.zip(bodies).flat_map(move |((start, end), body)| {
            [Some(&self.bytes[start..end]), body].into_iter().flatten()
        });
        pieces.filter(|piece| !piece.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SALT: u64 = 1234;

    fn header(part: &Part) -> GroupHeader {
        let position = Position::new(part.segment, part.start);
        GroupHeader {
            crc: 0,
            len: (part.size() - GROUP_HEADER_BYTES) as u32,
            count: part.count,
            position,
            durable: position,
            previous_end: position,
            previous_crc: 7,
            time_ms: 9,
        }
    }

    /// Seals a part. Returns its bytes as they come into the file.
    fn sealed(part: &mut Part) -> (Vec<u8>, u32) {
        let header = header(part);
        let crc = part.seal(&header, SALT);
        (part.pieces(0).flatten().copied().collect(), crc)
    }

    fn append(part: &mut Part, contents: &[u8]) {
        let entry_at = begin_entry(&mut part.bytes, EntryKind::Put, 1);
        part.bytes.extend_from_slice(contents);
        finish_entry(&mut part.bytes, entry_at, 0);
        part.count += 1;
    }

    #[test]
    fn a_group_passes_only_in_its_life_and_place() {
        let mut part = Part::new(3, 1 << 20, 8192, None);
        append(&mut part, b"abcd");
        let (bytes, crc) = sealed(&mut part);
        let header = header(&part);
        let position = header.position;
        assert_eq!(GroupHeader::check(&bytes, SALT, position), Some(GroupHeader { crc, ..header }));
        assert_eq!(
            GroupHeader::check(&bytes, SALT + 1, position),
            None,
            "another life of the file"
        );
        for place in [Position::new(2, 8192), Position::new(3, 8200)] {
            assert_eq!(GroupHeader::check(&bytes, SALT, place), None, "another place");
        }
        assert_eq!(GroupHeader::check(&bytes[..bytes.len() - 1], SALT, position), None);
    }

    #[test]
    fn a_kept_body_and_a_copied_one_give_the_same_bytes() {
        for body_bytes in [1, 7, 8, 100] {
            let body: Arc<[u8]> = (0..body_bytes).collect();
            for layout in ["s", "ss", "os", "so", "oosoosso"] {
                let mut kept = Part::new(3, 1 << 20, 8192, None);
                let mut copied = Part::new(3, 1 << 20, 8192, None);
                for entry in layout.chars() {
                    if entry == 'o' {
                        append(&mut kept, b"other");
                        append(&mut copied, b"other");
                        continue;
                    }
                    let before = copied.size();
                    append(&mut copied, &[b"meta", &body[..]].concat());
                    let size = kept.append_shared(EntryKind::Put, 1, &body, |bytes| {
                        bytes.extend_from_slice(b"meta");
                    });
                    assert_eq!(size, copied.size() - before);
                }
                assert_eq!(kept.end(), copied.end());
                assert_eq!(sealed(&mut kept), sealed(&mut copied), "{layout}, {body_bytes} bytes");
                assert_eq!(copied.pieces(0).count(), 1);
            }
            assert_eq!(Arc::strong_count(&body), 1);
        }
    }
}
