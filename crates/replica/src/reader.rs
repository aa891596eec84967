//! Decides which records of the stream count.
//!
//! Every node reads the same records in the same order, so all nodes accept the same groups. The
//! conditions of an append should keep all other records out of the stream. This reader does not
//! rely on them: after a power failure, a stream can contain a late record of a former leader.

use crate::chain::Chain;
use crate::claim::{Claim, Resignation};
use crate::group::{Assembly, At, SealedGroup};
use crate::record::{Header, Kind, RecordError};
use crate::{Epoch, Lineage, NodeId, Seq};

/// The place of a reader in the stream.
#[derive(Clone, Debug, Eq, PartialEq, Hash)]
pub struct Reader {
    lineage: Lineage,
    tail: Seq,
    epoch: Epoch,
    /// The last claim or renewal of the stream, also if it does not count.
    claim: Seq,
    at: At,
    leader: Option<(NodeId, Claim)>,
    assembly: Option<Assembly>,
    time_ms: u64,
    id_limit: u64,
}

/// What a record means to a reader.
#[derive(Clone, Debug, Eq, PartialEq, Hash)]
pub enum Meaning {
    /// A group is complete. The next step is to apply it.
    Group(SealedGroup),
    /// One part of a group, but not the last one.
    Part,
    /// The leader is alive.
    Alive,
    /// Another epoch begins.
    Claim(NodeId, Claim),
    /// The leader has repeated its claim. The epoch goes on.
    Renewal,
    /// The leader resigned.
    Resign(Resignation),
    /// The record does not count: it came too late, or a second time.
    Stale,
}

/// Why a node cannot read on. It must not serve.
#[derive(Copy, Clone, Debug, Eq, PartialEq, Hash, thiserror::Error)]
pub enum ReadError {
    /// A message is not a valid record.
    #[error("record {seq} of the stream: {error}")]
    Record {
        /// The record.
        seq: Seq,
        /// What is wrong with it.
        error: RecordError,
    },
    /// The record belongs to another cluster, or to the time before a disaster.
    #[error("record {seq} of the stream belongs to another lineage")]
    Lineage {
        /// The record.
        seq: Seq,
    },
    /// A record needs an epoch or a group that this reader never got.
    #[error("record {seq} of the stream follows group {number} of epoch {epoch}, which is missing")]
    Gap {
        /// The record.
        seq: Seq,
        /// The group that comes before the record.
        number: u64,
        /// The epoch of the record.
        epoch: Epoch,
    },
    /// A node has repeated the claim of another node. No node does that.
    #[error("record {seq} of the stream: node {writer:016x} renews the claim of another node")]
    Imitated {
        /// The record.
        seq: Seq,
        /// The node.
        writer: NodeId,
    },
    /// Two nodes have different histories.
    #[error(
        "this node and node {writer:016x} differ at group {number}: chains {:016x} and {:016x}",
        ours.0,
        theirs.0
    )]
    Diverged {
        /// The last group that both have.
        number: u64,
        /// The other node.
        writer: NodeId,
        /// The chain of this reader.
        ours: Chain,
        /// The chain of the record.
        theirs: Chain,
    },
}

impl Reader {
    /// A reader that has read everything up to the record `tail`. `epoch` is the latest claim up to
    /// there, and `at` is the last group.
    #[must_use]
    pub fn new(lineage: Lineage, at: At, epoch: Epoch, tail: Seq) -> Reader {
        Reader {
            lineage,
            tail,
            epoch,
            claim: epoch,
            at,
            leader: None,
            assembly: None,
            time_ms: at.time_ms,
            id_limit: at.id_limit,
        }
    }

    /// The last record that was read.
    #[must_use]
    pub fn tail(&self) -> Seq {
        self.tail
    }

    /// The last claim or renewal of the stream, also if it does not count. The conditions of the next
    /// append name it: the stream does not know which claims count.
    #[must_use]
    pub fn claim(&self) -> Seq {
        self.claim
    }

    /// The latest claim that counts.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The last complete group.
    #[must_use]
    pub fn at(&self) -> At {
        self.at
    }

    /// The node that leads, if its claim was read.
    #[must_use]
    pub fn leader(&self) -> Option<&(NodeId, Claim)> {
        self.leader.as_ref()
    }

    /// The latest time of a record that counts.
    #[must_use]
    pub fn time_ms(&self) -> u64 {
        self.time_ms
    }

    /// The limit of ids of the last record that counts.
    #[must_use]
    pub fn id_limit(&self) -> u64 {
        self.id_limit
    }

    /// The last claim or renewal up to the tail, which this reader has not read. Returns whether it is
    /// that of the leader.
    pub(crate) fn introduce(&mut self, seq: Seq, header: &Header, claim: Claim) -> bool {
        self.claim = seq;
        let epoch = if header.kind == Kind::Claim { seq } else { header.epoch };
        if epoch == self.epoch {
            self.leader = Some((header.writer, claim));
        }
        epoch == self.epoch
    }

    /// Passes the next part of a group that this node wrote itself.
    pub(crate) fn passed(&mut self, seq: Seq) {
        assert_eq!(seq, self.tail + 1, "the parts of a group have no gap");
        self.tail = seq;
    }

    /// Counts a group that this node wrote itself.
    pub(crate) fn reached(&mut self, at: At) {
        assert_eq!(at.epoch, self.epoch, "a leader writes in its own epoch");
        self.at = at;
        self.time_ms = self.time_ms.max(at.time_ms);
        self.id_limit = at.id_limit;
    }

    /// Reads the record after the tail.
    ///
    /// # Errors
    ///
    /// The record shows that this node or the stream is damaged, or that they do not belong
    /// together.
    pub fn read(&mut self, seq: Seq, bytes: &[u8]) -> Result<Meaning, ReadError> {
        assert_eq!(seq, self.tail + 1, "the caller passes records without a gap");
        let (header, body) =
            Header::decode(bytes).map_err(|error| ReadError::Record { seq, error })?;
        if header.lineage != self.lineage {
            return Err(ReadError::Lineage { seq });
        }
        let is_claim = matches!(header.kind, Kind::Claim | Kind::Renewal);
        let meaning = self.judge(seq, header, body)?;
        self.tail = seq;
        if is_claim {
            self.claim = seq;
        }
        Ok(meaning)
    }

    fn judge(&mut self, seq: Seq, header: Header, body: &[u8]) -> Result<Meaning, ReadError> {
        // A claim names the epoch that it ends. So one comparison fits all kinds.
        if header.epoch < self.epoch {
            return Ok(Meaning::Stale);
        }
        let before = match header.kind {
            Kind::Group => header.number - 1,
            Kind::Claim | Kind::Renewal | Kind::Alive | Kind::Resign => header.number,
        };
        if header.epoch > self.epoch || before > self.at.number {
            return Err(ReadError::Gap { seq, number: before, epoch: header.epoch });
        }
        if before < self.at.number {
            return self.check_repeated(&header);
        }
        if header.before != self.at.chain {
            return Err(self.diverged(before, &header, header.before));
        }
        let invalid = |what| ReadError::Record { seq, error: RecordError::Invalid(what) };
        let meaning = match header.kind {
            Kind::Group => return self.group(seq, header, body),
            Kind::Claim => {
                let claim = Claim::decode(body).map_err(|_| invalid("claim"))?;
                self.epoch = seq;
                self.leader = Some((header.writer, claim.clone()));
                // The next leader uses the number of an unfinished group again.
                self.assembly = None;
                Meaning::Claim(header.writer, claim)
            }
            Kind::Renewal => {
                let claim = Claim::decode(body).map_err(|_| invalid("claim"))?;
                let owner = (header.writer, claim);
                // A reader that began behind the claim learns here who leads.
                if *self.leader.get_or_insert_with(|| owner.clone()) != owner {
                    return Err(ReadError::Imitated { seq, writer: header.writer });
                }
                Meaning::Renewal
            }
            Kind::Resign => {
                let resignation = Resignation::decode(body).map_err(|_| invalid("resignation"))?;
                Meaning::Resign(resignation)
            }
            Kind::Alive => Meaning::Alive,
        };
        self.accept(&header);
        Ok(meaning)
    }

    fn group(&mut self, seq: Seq, header: Header, body: &[u8]) -> Result<Meaning, ReadError> {
        let (number, epoch) = (header.number, header.epoch);
        let gap = ReadError::Gap { seq, number: number - 1, epoch };
        let assembly = match self.assembly.take() {
            None if header.part == 0 => Assembly::begin(header.clone(), body),
            None => return Err(gap),
            Some(mut assembly) => {
                if assembly.has(&header) {
                    self.assembly = Some(assembly);
                    return Ok(Meaning::Stale);
                }
                if !assembly.add(&header, body) {
                    return Err(gap);
                }
                assembly
            }
        };
        if !assembly.is_complete() {
            self.assembly = Some(assembly);
            return Ok(Meaning::Part);
        }
        let group = assembly.finish().ok_or(ReadError::Record {
            seq,
            error: RecordError::Invalid("checksum of the body"),
        })?;
        self.accept(&header);
        self.at = group.at();
        Ok(Meaning::Group(group))
    }

    /// A record whose place is already taken. It is stale, unless it contradicts the last group.
    fn check_repeated(&self, header: &Header) -> Result<Meaning, ReadError> {
        let is_last = header.kind == Kind::Group && header.number == self.at.number;
        if is_last && header.epoch == self.at.epoch && header.after != self.at.chain {
            return Err(self.diverged(header.number, header, header.after));
        }
        Ok(Meaning::Stale)
    }

    fn diverged(&self, number: u64, header: &Header, theirs: Chain) -> ReadError {
        ReadError::Diverged { number, writer: header.writer, ours: self.at.chain, theirs }
    }

    fn accept(&mut self, header: &Header) {
        self.time_ms = self.time_ms.max(header.time_ms);
        self.id_limit = header.id_limit;
    }
}
