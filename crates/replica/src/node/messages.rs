//! What a node gets, and what it wants.

use std::sync::Arc;

use crate::claim::{Claim, Leader};
use crate::group::{At, SealedGroup};
use crate::reader::ReadError;
use crate::report::Report;
use crate::{Epoch, Incarnation, Lineage, NodeId, Seq};

/// What a node must know when it starts.
#[derive(Clone, Debug, Eq, PartialEq, Hash)]
pub struct Setting {
    /// The lineage of the folder.
    pub lineage: Lineage,
    /// This node.
    pub node: NodeId,
    /// This process.
    pub incarnation: Incarnation,
    /// What the claims of this node tell about it.
    pub leader: Leader,
    /// Whether the node claims without an order.
    pub can_lead: bool,
    /// Whether the folder had a place in the history at the start. A new folder can only be behind:
    /// its node never makes the first claim.
    pub has_place: bool,
    /// A leader may answer for this time after the begin of its last append.
    pub lease_ms: u64,
    /// A random time, up to 200 ms. Nodes that could claim at the same moment get different ones.
    pub jitter_ms: u64,
    /// The folder hangs if nothing becomes durable for this time, although groups wait.
    pub folder_ms: u64,
    /// A trim keeps this many bytes of the stream.
    pub keep_bytes: u64,
    /// The size that the stream must not exceed.
    pub max_bytes: u64,
}

/// What happened.
#[derive(Clone, Debug, Eq, PartialEq, Hash)]
pub enum Input {
    /// Time has passed: [`wake_at`](super::Node::wake_at).
    Tick,
    /// The driver answers.
    Answer(Answer),
    /// The owner has applied this group, and all groups before it.
    Applied {
        /// The group.
        number: u64,
        /// Ids from here on are unused in this engine.
        next_id: u64,
    },
    /// This group and all groups before it are durable in the folder.
    Durable(u64),
    /// The result of a check of the stream's servers: whether they are safe.
    Guards(bool),
    /// A group of the leader's clients. Its epoch is that of `Lead`.
    Gathered(SealedGroup),
    /// The process that leads is gone: it has closed its link, and its address refuses connections. Or
    /// another process answers. The owner repeats this, because a record that arrives later contradicts it.
    LeaderGone(Incarnation),
    /// The address of the process that leads refuses connections, but the process has not closed its
    /// link. A firewall can do this, too. So it counts only for a leader that is also silent. The owner
    /// repeats this.
    LeaderRefuses(Incarnation),
    /// A follower reports to the leader, or (not live) left a report elsewhere.
    Reported {
        /// The report.
        report: Report,
        /// Whether it came over the follower's own link.
        is_live: bool,
    },
    /// The link of a follower ended.
    Lost(NodeId),
    /// An operator: forget this node.
    Forget(NodeId),
    /// An operator: claim at once.
    Promote,
    /// The leader stops, and gathers no more. `next_id` is the first unused id.
    Resign {
        /// The node that should claim next, or 0.
        successor: NodeId,
        /// Ids from here on are unused.
        next_id: u64,
    },
}

/// What the driver must do.
#[derive(Clone, Debug, Eq, PartialEq, Hash)]
pub enum Request {
    /// Append a record under two conditions. At most one is open.
    Append {
        /// Repeated in the answer.
        id: u64,
        /// Where to append.
        subject: Subject,
        /// The conditions.
        expect: Expect,
        /// The record.
        record: Arc<[u8]>,
    },
    /// Ask the stream's leader for its first and last record. At most one is open.
    Tail,
    /// Read one record.
    Read {
        /// The record.
        seq: Seq,
    },
    /// Read the last claim or renewal of the stream.
    LastClaim,
    /// Deliver all records from here on. `None`: deliver nothing more.
    Follow {
        /// The first record.
        from: Option<Seq>,
    },
    /// Remove all records before this one. No answer is needed.
    Trim {
        /// The first record that stays.
        below: Seq,
    },
}

/// The conditions of an append.
#[derive(Copy, Clone, Debug, Eq, PartialEq, Hash)]
pub struct Expect {
    /// The last record of the stream.
    pub tail: Seq,
    /// The last claim or renewal of the stream, or 0.
    pub claim: Seq,
}

/// The two subjects of a stream.
#[derive(Copy, Clone, Debug, Eq, PartialEq, Hash)]
pub enum Subject {
    /// Groups and resignations.
    Groups,
    /// Claims and renewals.
    Claims,
}

/// What the driver answers.
#[derive(Clone, Debug, Eq, PartialEq, Hash)]
pub enum Answer {
    /// The record was appended.
    Appended {
        /// The id of the request.
        id: u64,
        /// Its place.
        seq: Seq,
    },
    /// A condition was wrong. The record can be in the stream nevertheless, from an earlier attempt
    /// that is not yet decided.
    Refused {
        /// The id of the request.
        id: u64,
    },
    /// Another append is being decided. This attempt is not in the stream.
    Busy {
        /// The id of the request.
        id: u64,
    },
    /// Anything else: the record is in the stream, or not, or it will be.
    Unknown {
        /// The id of the request.
        id: u64,
    },
    /// The first and the last record. An empty stream has a first record after the last one.
    Tail {
        /// The first record.
        first: Seq,
        /// The last record.
        last: Seq,
        /// Bytes of the stream.
        bytes: u64,
    },
    /// Nobody told the first and the last record.
    NoTail,
    /// One record.
    Read {
        /// Its place.
        seq: Seq,
        /// Its bytes.
        bytes: Arc<[u8]>,
    },
    /// The record does not exist.
    NoRecord {
        /// The record.
        seq: Seq,
    },
    /// The last claim or renewal of the stream.
    LastClaim {
        /// Its place.
        seq: Seq,
        /// Its bytes.
        bytes: Arc<[u8]>,
    },
    /// The stream has no claim.
    NoClaim,
    /// Nobody answered the request for a record, or for the last claim.
    NoRead,
    /// A record that the node follows. The driver delivers them in order.
    Record {
        /// Its place.
        seq: Seq,
        /// Its bytes.
        bytes: Arc<[u8]>,
    },
}

/// What the owner must do.
#[derive(Clone, Debug, Eq, PartialEq, Hash)]
pub enum Act {
    /// Apply a group, then pass `Applied`.
    Apply(SealedGroup),
    /// Another node leads.
    Follows(NodeId, Claim),
    /// This node leads. Each group follows `at`, in this epoch.
    Lead {
        /// The epoch.
        epoch: Epoch,
        /// The last group.
        at: At,
        /// The time of the last record.
        time_ms: u64,
        /// The leader may use ids below this limit.
        id_limit: u64,
    },
    /// The stream has the group. It can be written to the folder, and its replies can go.
    Acknowledged(u64),
    /// The leader may answer until this moment.
    MayAnswerUntil(u64),
    /// Gather a group now, even without facts.
    Cut,
    /// The folder of this leader hangs, and another node can lead: serve no clients from now on, and
    /// pass `Resign`.
    Yield,
    /// Fetch a copy of another node's folder: the stream has lost what this folder needs.
    Fetch,
    /// End the process.
    End(End),
    /// End the process, and do not serve again: something is wrong.
    Fault(Fault),
}

/// Why a node ends as it should.
#[derive(Clone, Debug, Eq, PartialEq, Hash)]
pub enum End {
    /// Another node has claimed.
    Deposed(NodeId),
    /// Another node has claimed and trimmed the stream, before this former leader could see the
    /// claim.
    Overtaken,
    /// The resignation is in the stream.
    Resigned,
    /// A claim that this node had given up came into the stream nevertheless.
    LateClaim,
}

/// Why a node must not serve.
#[derive(Copy, Clone, Debug, Eq, PartialEq, Hash, thiserror::Error)]
pub enum Fault {
    /// The stream contains something else than this node expects.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The stream ends before a record that it had.
    #[error("the stream ends at record {last}, but record {ours} was in it: the stream was lost")]
    StreamLost {
        /// A record that was in the stream.
        ours: Seq,
        /// The last record.
        last: Seq,
    },
    /// The stream does not have a record between its first and its last one.
    #[error("the stream does not have its record {seq}: it is damaged")]
    RecordLost {
        /// The record.
        seq: Seq,
    },
    /// The folder has groups that the stream never had.
    #[error("the stream ends before group {number}, which this folder has: the stream was lost")]
    FolderAhead {
        /// The last group of the folder.
        number: u64,
    },
    /// The stream ignored a condition.
    #[error("the stream put a record at {seq} instead of {expected}: it ignores conditions")]
    Misplaced {
        /// The place of the record.
        seq: Seq,
        /// Where it belongs.
        expected: Seq,
    },
    /// Somebody else appends in this leader's epoch.
    #[error("record {seq} of the stream has this node's epoch, but this node did not write it")]
    Imitated {
        /// The record.
        seq: Seq,
    },
}

/// A request to the driver, or an act of the owner.
#[derive(Clone, Debug, Eq, PartialEq, Hash)]
pub enum Output {
    /// For the driver.
    Request(Request),
    /// For the owner.
    Act(Act),
}

/// Numbers for operators.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq, Hash)]
pub struct Counts {
    /// Records that did not count.
    pub stale: u64,
    /// Appends whose conditions were wrong.
    pub refused: u64,
    /// Appends whose outcome was not known at first.
    pub unknown: u64,
    /// Appends that had to wait for another one.
    pub busy: u64,
}
