//! A writer of records, for tests.
#![allow(dead_code, reason = "each test uses a part")]

use replica::chain::{Chain, Link};
use replica::claim::{Claim, Leader, Reason, Resignation};
use replica::group::{At, SealedGroup};
use replica::record::{Header, Kind};
use replica::{Epoch, Lineage, NodeId};

pub(crate) const OURS: Lineage = Lineage([5; 16]);

/// A writer that follows the rules, or a test that breaks one of them.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Hash)]
pub(crate) struct Writer {
    pub(crate) node: NodeId,
    pub(crate) epoch: Epoch,
    pub(crate) at: At,
}

impl Writer {
    pub(crate) fn new(node: NodeId) -> Writer {
        Writer { node, epoch: 0, at: origin() }
    }

    pub(crate) fn header(&self, kind: Kind, body: &[u8]) -> Header {
        Header {
            kind,
            lineage: OURS,
            epoch: self.epoch,
            number: self.at.number,
            part: 0,
            parts: 1,
            body_bytes: body.len() as u64,
            time_ms: self.at.time_ms,
            before: self.at.chain,
            after: self.at.chain,
            state: self.at.state,
            jobs: self.at.jobs,
            id_limit: self.at.id_limit,
            writer: self.node,
            facts: 0,
            body_crc: crc32fast::hash(body),
        }
    }

    pub(crate) fn claim(&self) -> Vec<u8> {
        let body = self.claim_body();
        self.header(Kind::Claim, &body).encode(&body)
    }

    /// Repeats the claim of the writer.
    pub(crate) fn renewal(&self) -> Vec<u8> {
        let body = self.claim_body();
        self.header(Kind::Renewal, &body).encode(&body)
    }

    fn claim_body(&self) -> Vec<u8> {
        let (reason, incarnation) = (Reason::Silence, self.node + 100);
        Claim { reason, incarnation, leader: Leader::default() }.encode()
    }

    pub(crate) fn alive(&self) -> Vec<u8> {
        self.header(Kind::Alive, b"").encode(b"")
    }

    pub(crate) fn resign(&self) -> Vec<u8> {
        let body = Resignation { successor: 2 }.encode();
        self.header(Kind::Resign, &body).encode(&body)
    }

    /// The next group. The writer counts it as accepted.
    pub(crate) fn group(&mut self, body: Vec<u8>) -> SealedGroup {
        let mut group = SealedGroup {
            number: self.at.number + 1,
            epoch: self.epoch,
            time_ms: self.at.time_ms + 1,
            before: self.at.chain,
            after: Chain(0),
            state: self.at.state + 1,
            jobs: self.at.jobs + 1,
            id_limit: self.at.id_limit,
            facts: 1,
            body_crc: crc32fast::hash(&body),
            body,
        };
        let link = Link {
            epoch: group.epoch,
            number: group.number,
            time_ms: group.time_ms,
            state: group.state,
            jobs: group.jobs,
            id_limit: group.id_limit,
            body_bytes: group.body.len() as u64,
            body_crc: group.body_crc,
        };
        group.after = group.before.then(&link);
        self.at = group.at();
        group
    }

    pub(crate) fn record(&mut self, body: &[u8]) -> Vec<u8> {
        let node = self.node;
        self.group(body.to_vec()).record(0, OURS, node)
    }
}

pub(crate) fn origin() -> At {
    At { chain: Chain::origin(OURS, 0, 0), time_ms: 10, id_limit: 5, ..At::default() }
}
