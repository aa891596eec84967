//! The bytes of segment headers and group headers, and the seeds of the checksums. All numbers are
//! little-endian. `docs/log-format.md` has the tables.
//!
//! `entry` has the bytes of entries.

pub(crate) mod entry;

use crc32fast::Hasher;

use crate::types::Position;

/// The first bytes of every segment.
pub(crate) const SEGMENT_MAGIC: &[u8; 8] = b"LINESHFT";
/// The version of the format.
pub(crate) const FORMAT: u32 = 1;
/// Bytes of a segment's header. The first group follows.
pub(crate) const HEADER_BYTES: u64 = 4096;
/// The number of bytes of a segment's header that its checksum covers.
const HEADER_SUMMED: usize = 48;
/// The first bytes of every group: "LSGP".
pub(crate) const GROUP_MAGIC: u32 = 0x5047_534C;
/// Bytes of a group's header. The entries follow.
pub(crate) const GROUP_HEADER_BYTES: usize = 56;

pub(crate) fn get_u16(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().expect("two bytes"))
}

pub(crate) fn get_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

pub(crate) fn get_u64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// Rounds up to the alignment of entries and groups.
pub(crate) fn padded(len: usize) -> usize {
    len.next_multiple_of(8)
}

/// The start value of a checksum. It depends on the segment's salt and on the position. So old
/// bytes of the file, and bytes at the wrong place, fail the check.
pub(crate) fn seeded(salt: u64, position: u64) -> Hasher {
    let mixed =
        (salt ^ position.wrapping_mul(0x9E37_79B9_7F4A_7C15)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    Hasher::new_with_initial((mixed >> 32) as u32)
}

/// The first 4096 bytes of a segment.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) struct SegmentHeader {
    pub(crate) log_id: [u8; 16],
    pub(crate) number: u32,
    pub(crate) size: u64,
    pub(crate) salt: u64,
}

/// Why a segment header was not accepted.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) enum HeaderFault {
    /// The bytes are not a header, or the header is damaged.
    Damaged,
    /// The header has this version of the format. This program reads only [`FORMAT`].
    Format(u32),
}

impl SegmentHeader {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES as usize);
        bytes.extend_from_slice(SEGMENT_MAGIC);
        bytes.extend_from_slice(&FORMAT.to_le_bytes());
        bytes.extend_from_slice(&self.log_id);
        bytes.extend_from_slice(&self.number.to_le_bytes());
        bytes.extend_from_slice(&self.size.to_le_bytes());
        bytes.extend_from_slice(&self.salt.to_le_bytes());
        assert_eq!(bytes.len(), HEADER_SUMMED, "the header's fields fill its summed part");
        let crc = crc32fast::hash(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes.resize(HEADER_BYTES as usize, 0);
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<SegmentHeader, HeaderFault> {
        if bytes.len() < HEADER_BYTES as usize
            || crc32fast::hash(&bytes[..HEADER_SUMMED]) != get_u32(bytes, HEADER_SUMMED)
            || &bytes[..8] != SEGMENT_MAGIC
            || bytes[HEADER_SUMMED + 4..HEADER_BYTES as usize].iter().any(|&byte| byte != 0)
        {
            return Err(HeaderFault::Damaged);
        }
        let format = get_u32(bytes, 8);
        if format != FORMAT {
            return Err(HeaderFault::Format(format));
        }
        Ok(SegmentHeader {
            log_id: bytes[12..28].try_into().expect("sixteen bytes"),
            number: get_u32(bytes, 28),
            size: get_u64(bytes, 32),
            salt: get_u64(bytes, 40),
        })
    }
}

/// The header of a group.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) struct GroupHeader {
    pub(crate) crc: u32,
    /// Bytes of the entries.
    pub(crate) len: u32,
    pub(crate) count: u32,
    /// The start of the group.
    pub(crate) position: Position,
    /// Everything before this position was durable when the group was written.
    pub(crate) durable: Position,
    pub(crate) previous_end: Position,
    pub(crate) previous_crc: u32,
    pub(crate) time_ms: u64,
}

impl GroupHeader {
    /// Writes the header into the first bytes of a group, without the group's checksum.
    pub(crate) fn write(&self, group: &mut [u8]) {
        group[0..4].copy_from_slice(&GROUP_MAGIC.to_le_bytes());
        group[8..12].copy_from_slice(&self.len.to_le_bytes());
        group[12..16].copy_from_slice(&self.count.to_le_bytes());
        group[16..24].copy_from_slice(&self.position.0.to_le_bytes());
        group[24..32].copy_from_slice(&self.durable.0.to_le_bytes());
        group[32..40].copy_from_slice(&self.previous_end.0.to_le_bytes());
        group[40..44].copy_from_slice(&self.previous_crc.to_le_bytes());
        group[44..48].copy_from_slice(&[0; 4]);
        group[48..56].copy_from_slice(&self.time_ms.to_le_bytes());
    }

    /// The header at the start of `bytes`, if `bytes` begin with an intact group of this segment.
    pub(crate) fn check(bytes: &[u8], salt: u64, position: Position) -> Option<GroupHeader> {
        let header = GroupHeader::peek(bytes)?;
        let end = GROUP_HEADER_BYTES.checked_add(header.len as usize)?;
        if header.position != position || end > bytes.len() {
            return None;
        }
        let mut hasher = seeded(salt, position.0);
        hasher.update(&bytes[8..end]);
        (hasher.finalize() == header.crc).then_some(header)
    }

    /// The header at the start of `bytes`, without a check of the checksum and the position.
    pub(crate) fn peek(bytes: &[u8]) -> Option<GroupHeader> {
        if bytes.len() < GROUP_HEADER_BYTES || get_u32(bytes, 0) != GROUP_MAGIC {
            return None;
        }
        let header = GroupHeader {
            crc: get_u32(bytes, 4),
            len: get_u32(bytes, 8),
            count: get_u32(bytes, 12),
            position: Position(get_u64(bytes, 16)),
            durable: Position(get_u64(bytes, 24)),
            previous_end: Position(get_u64(bytes, 32)),
            previous_crc: get_u32(bytes, 40),
            time_ms: get_u64(bytes, 48),
        };
        (header.len.is_multiple_of(8) && get_u32(bytes, 44) == 0).then_some(header)
    }

    /// Whether this group follows `previous` in the chain.
    pub(crate) fn follows(&self, previous: &GroupHeader) -> bool {
        (self.previous_end, self.previous_crc) == (previous.end(), previous.crc)
    }

    pub(crate) fn end(&self) -> Position {
        Position(self.position.0 + GROUP_HEADER_BYTES as u64 + u64::from(self.len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_header_comes_back() {
        let header = SegmentHeader { log_id: [5; 16], number: 77, size: 1 << 18, salt: 99 };
        assert_eq!(SegmentHeader::decode(&header.encode()), Ok(header));
    }
}
