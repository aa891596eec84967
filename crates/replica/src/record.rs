//! One record: the payload of one message of the stream.
//!
//! A record is a header of 128 bytes and a body. A checksum covers the header, another one the
//! body. So a record with a flipped bit is refused. The message's headers mean nothing to a reader.

use crate::chain::{Chain, Link};
use crate::{Epoch, Lineage, NodeId};

/// Bytes of a record's header.
pub const HEADER_BYTES: usize = 128;
/// A larger body goes out in several records. With its header, such a record is smaller than the
/// default limit of a message, 1 MiB.
pub const PART_BYTES_MAX: usize = 512 << 10;
/// The version of the format that this crate writes, and the only one that it reads.
pub const FORMAT: u16 = 1;

const MAGIC: &[u8; 4] = b"LSR1";
/// The header's checksum covers the bytes before it.
const CRC_AT: usize = HEADER_BYTES - 4;
/// The flag of a GROUP record without facts.
const KEEPS_LEASE: u8 = 1;
/// The flag of a CLAIM record that repeats a claim.
const REPEATS: u8 = 1;

/// What a record says.
#[derive(Copy, Clone, Debug, Eq, PartialEq, Hash)]
pub enum Kind {
    /// The writer leads from now on. The record's own sequence number is the epoch.
    Claim,
    /// The leader repeats its claim, so that the stream can be trimmed behind the old record. The
    /// epoch goes on.
    Renewal,
    /// Facts, or one part of them.
    Group,
    /// The leader is alive, and has nothing to append.
    Alive,
    /// The writer leads no more.
    Resign,
}

/// The header of a record.
#[derive(Clone, Debug, Eq, PartialEq, Hash)]
pub struct Header {
    /// What the record says.
    pub kind: Kind,
    /// The history that the record belongs to.
    pub lineage: Lineage,
    /// The epoch of the writer. In a claim: the epoch before it.
    pub epoch: Epoch,
    /// The number of the group. In other records: the number of the last group.
    pub number: u64,
    /// Which part of the body this record has. The first one is 0.
    pub part: u16,
    /// The number of parts.
    pub parts: u16,
    /// Bytes of the whole body.
    pub body_bytes: u64,
    /// The time in milliseconds of log time.
    pub time_ms: u64,
    /// The chain before the group.
    pub before: Chain,
    /// The chain after the group. In other records, it is equal to `before`.
    pub after: Chain,
    /// The state hash after the group.
    pub state: u64,
    /// The number of logged jobs after the group.
    pub jobs: u64,
    /// Ids below this limit may have been used.
    pub id_limit: u64,
    /// The node that wrote the record.
    pub writer: NodeId,
    /// The number of facts in the whole body.
    pub facts: u32,
    /// The checksum of the whole body.
    pub body_crc: u32,
}

/// Why bytes are not a record.
#[derive(Copy, Clone, Debug, Eq, PartialEq, Hash, thiserror::Error)]
pub enum RecordError {
    /// The bytes end too early, or other bytes follow.
    #[error("a record has a wrong length")]
    Length,
    /// Another program wrote this message.
    #[error("a message of the stream is not a record of Lineshaft")]
    Magic,
    /// A checksum is wrong.
    #[error("a record is damaged: its checksum is wrong")]
    Checksum,
    /// A newer version wrote the record.
    #[error("a record has format {0}, which this version does not know; upgrade this node first")]
    Format(u16),
    /// The checksums are right, but the values contradict each other.
    #[error("a record is invalid: {0}")]
    Invalid(&'static str),
}

impl Header {
    /// Writes a record with this header and `body`, which is the whole body, or one part of it.
    #[must_use]
    pub fn encode(&self, body: &[u8]) -> Vec<u8> {
        let (kind, flags) = match self.kind {
            Kind::Claim => (1, 0),
            Kind::Renewal => (1, REPEATS),
            Kind::Group => (2, 0),
            Kind::Alive => (2, KEEPS_LEASE),
            Kind::Resign => (3, 0),
        };
        let mut bytes = Vec::with_capacity(HEADER_BYTES + body.len());
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&FORMAT.to_le_bytes());
        bytes.extend_from_slice(&[kind, flags]);
        bytes.extend_from_slice(&self.lineage.0);
        bytes.extend_from_slice(&self.epoch.to_le_bytes());
        bytes.extend_from_slice(&self.number.to_le_bytes());
        bytes.extend_from_slice(&self.part.to_le_bytes());
        bytes.extend_from_slice(&self.parts.to_le_bytes());
        bytes.extend_from_slice(&(body.len() as u32).to_le_bytes());
        for word in [
            self.body_bytes,
            self.time_ms,
            self.before.0,
            self.after.0,
            self.state,
            self.jobs,
            self.id_limit,
            self.writer,
        ] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.extend_from_slice(&self.facts.to_le_bytes());
        bytes.extend_from_slice(&self.body_crc.to_le_bytes());
        bytes.extend_from_slice(&crc32fast::hash(body).to_le_bytes());
        let crc = crc32fast::hash(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes.extend_from_slice(body);
        bytes
    }

    /// Reads a record, and returns its header and its body. Each value that this crate cannot have
    /// written is refused.
    ///
    /// # Errors
    ///
    /// The bytes are not a record of this format.
    pub fn decode(bytes: &[u8]) -> Result<(Header, &[u8]), RecordError> {
        let (head, body) = bytes.split_at_checked(HEADER_BYTES).ok_or(RecordError::Length)?;
        let at = Fields(head);
        if head[..4] != MAGIC[..] {
            return Err(RecordError::Magic);
        }
        if crc32fast::hash(&head[..CRC_AT]) != at.u32(CRC_AT) {
            return Err(RecordError::Checksum);
        }
        if at.u16(4) != FORMAT {
            return Err(RecordError::Format(at.u16(4)));
        }
        if at.u32(44) as usize != body.len() {
            return Err(RecordError::Length);
        }
        if crc32fast::hash(body) != at.u32(120) {
            return Err(RecordError::Checksum);
        }
        let kind = match (head[6], head[7]) {
            (1, 0) => Kind::Claim,
            (1, REPEATS) => Kind::Renewal,
            (2, 0) => Kind::Group,
            (2, KEEPS_LEASE) => Kind::Alive,
            (3, 0) => Kind::Resign,
            _ => return Err(RecordError::Invalid("kind")),
        };
        let mut lineage = Lineage::default();
        lineage.0.copy_from_slice(&head[8..24]);
        let header = Header {
            kind,
            lineage,
            epoch: at.u64(24),
            number: at.u64(32),
            part: at.u16(40),
            parts: at.u16(42),
            body_bytes: at.u64(48),
            time_ms: at.u64(56),
            before: Chain(at.u64(64)),
            after: Chain(at.u64(72)),
            state: at.u64(80),
            jobs: at.u64(88),
            id_limit: at.u64(96),
            writer: at.u64(104),
            facts: at.u32(112),
            body_crc: at.u32(116),
        };
        header.check(body)?;
        Ok((header, body))
    }

    /// The number of parts of a body.
    #[must_use]
    pub fn parts_of(body_bytes: u64) -> u64 {
        body_bytes.div_ceil(PART_BYTES_MAX as u64).max(1)
    }

    /// What the chain covers.
    #[must_use]
    pub fn link(&self) -> Link {
        Link {
            epoch: self.epoch,
            number: self.number,
            time_ms: self.time_ms,
            state: self.state,
            jobs: self.jobs,
            id_limit: self.id_limit,
            body_bytes: self.body_bytes,
            body_crc: self.body_crc,
        }
    }

    /// Whether the body of the group ends with this record.
    #[must_use]
    pub fn is_last_part(&self) -> bool {
        self.part + 1 == self.parts
    }

    fn check(&self, body: &[u8]) -> Result<(), RecordError> {
        let need = |is_right: bool, what| {
            if is_right { Ok(()) } else { Err(RecordError::Invalid(what)) }
        };
        need(u64::from(self.parts) == Header::parts_of(self.body_bytes), "parts")?;
        need(self.part < self.parts, "part")?;
        let from = u64::from(self.part) * PART_BYTES_MAX as u64;
        let expected = (self.body_bytes - from).min(PART_BYTES_MAX as u64);
        need(body.len() as u64 == expected, "bytes of the part")?;
        if self.parts == 1 {
            need(self.body_crc == crc32fast::hash(body), "checksum of the body")?;
        }
        match self.kind {
            Kind::Group => {
                need(self.number > 0, "number")?;
                need(self.after == self.before.then(&self.link()), "chain")
            }
            Kind::Claim | Kind::Renewal | Kind::Alive | Kind::Resign => {
                need(self.parts == 1 && self.facts == 0, "facts outside a group")?;
                need(self.after == self.before, "chain outside a group")?;
                need(self.kind != Kind::Alive || body.is_empty(), "body of an empty group")
            }
        }
    }
}

/// Numbers at fixed offsets of a header.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn u16(&self, at: usize) -> u16 {
        u16::from_le_bytes([self.0[at], self.0[at + 1]])
    }

    fn u32(&self, at: usize) -> u32 {
        u32::from(self.u16(at)) | u32::from(self.u16(at + 2)) << 16
    }

    fn u64(&self, at: usize) -> u64 {
        u64::from(self.u32(at)) | u64::from(self.u32(at + 4)) << 32
    }
}
