//! A group as a value, and the place in the history that a folder or a reader has reached.

use crate::chain::Chain;
use crate::record::{Header, Kind, PART_BYTES_MAX};
use crate::{Epoch, Lineage, NodeId};

/// Facts that become true together. The body's format is in `docs/replication-format.md`.
#[derive(Clone, Debug, Eq, PartialEq, Hash)]
pub struct SealedGroup {
    /// 1, 2, 3 and so on, over the whole life of the cluster.
    pub number: u64,
    /// The epoch of the leader that made the group.
    pub epoch: Epoch,
    /// The leader's engine time when it cut the group, in milliseconds of log time.
    pub time_ms: u64,
    /// The chain before the group.
    pub before: Chain,
    /// The chain after the group.
    pub after: Chain,
    /// The state hash after the group.
    pub state: u64,
    /// The number of logged jobs after the group.
    pub jobs: u64,
    /// Ids below this limit may have been used.
    pub id_limit: u64,
    /// The number of facts.
    pub facts: u32,
    /// The checksum of the body.
    pub body_crc: u32,
    /// The facts.
    pub body: Vec<u8>,
}

/// A place in the history: everything up to a group, and nothing later. A folder stores it, so that
/// its node finds the next group.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq, Hash)]
pub struct At {
    /// The epoch of the group.
    pub epoch: Epoch,
    /// The group's number. 0: before the first group.
    pub number: u64,
    /// The chain after the group.
    pub chain: Chain,
    /// The state hash after the group.
    pub state: u64,
    /// The number of logged jobs after the group.
    pub jobs: u64,
    /// The time of the group, in milliseconds of log time.
    pub time_ms: u64,
    /// Ids below this limit may have been used.
    pub id_limit: u64,
}

impl SealedGroup {
    /// The place after the group.
    #[must_use]
    pub fn at(&self) -> At {
        At {
            epoch: self.epoch,
            number: self.number,
            chain: self.after,
            state: self.state,
            jobs: self.jobs,
            time_ms: self.time_ms,
            id_limit: self.id_limit,
        }
    }

    /// The number of records that carry the group.
    #[must_use]
    pub fn parts(&self) -> u16 {
        let parts = Header::parts_of(self.body.len() as u64);
        u16::try_from(parts).expect("a body is smaller than 32 GiB")
    }

    /// The record of one part.
    #[must_use]
    pub fn record(&self, part: u16, lineage: Lineage, writer: NodeId) -> Vec<u8> {
        let header = Header {
            kind: Kind::Group,
            lineage,
            epoch: self.epoch,
            number: self.number,
            part,
            parts: self.parts(),
            body_bytes: self.body.len() as u64,
            time_ms: self.time_ms,
            before: self.before,
            after: self.after,
            state: self.state,
            jobs: self.jobs,
            id_limit: self.id_limit,
            writer,
            facts: self.facts,
            body_crc: self.body_crc,
        };
        let from = usize::from(part) * PART_BYTES_MAX;
        let end = self.body.len().min(from + PART_BYTES_MAX);
        header.encode(&self.body[from..end])
    }
}

/// A group whose parts arrive one after the other.
#[derive(Clone, Debug, Eq, PartialEq, Hash)]
pub(crate) struct Assembly {
    first: Header,
    next_part: u16,
    body: Vec<u8>,
}

impl Assembly {
    /// Begins with part 0.
    pub(crate) fn begin(header: Header, body: &[u8]) -> Assembly {
        Assembly { first: header, next_part: 1, body: body.to_vec() }
    }

    /// Adds the next part. False: this record is not the next part of this group.
    pub(crate) fn add(&mut self, header: &Header, body: &[u8]) -> bool {
        let expected = Header { part: self.next_part, ..self.first.clone() };
        if *header != expected {
            return false;
        }
        self.body.extend_from_slice(body);
        self.next_part += 1;
        true
    }

    /// Whether this part is here already.
    pub(crate) fn has(&self, header: &Header) -> bool {
        let same = Header { part: header.part, ..self.first.clone() };
        *header == same && header.part < self.next_part
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.next_part == self.first.parts
    }

    /// The group, if the checksum of all parts together is right.
    pub(crate) fn finish(self) -> Option<SealedGroup> {
        let header = self.first;
        (crc32fast::hash(&self.body) == header.body_crc).then_some(SealedGroup {
            number: header.number,
            epoch: header.epoch,
            time_ms: header.time_ms,
            before: header.before,
            after: header.after,
            state: header.state,
            jobs: header.jobs,
            id_limit: header.id_limit,
            facts: header.facts,
            body_crc: header.body_crc,
            body: self.body,
        })
    }
}
