//! The node of a cluster: it follows the node that leads, and leads when that one is gone.
//!
//! ```text
//!   start.rs: follower.rs waits -------- lead -------> serves clients -- stop --> resign
//!                  ^                                        |
//!   thread "cluster" (node.rs): Node and Driver  <-- groups, acknowledgements
//!                  |
//!   thread "follow" (apply.rs): applies groups to the broker
//! ```
//!
//! - `join.rs`: what a node must know about the stream before it opens its folder.
//! - `node.rs`: the thread that has the state machine, [`replica::node::Node`], and does what it asks
//!   for. `apply.rs`: the thread that applies the groups of the leader.
//! - `handover.rs`: the operator's order that another node should lead.
//! - `guards.rs`: checks again and again that the servers of NATS are safe. `hints.rs`: what the nodes
//!   tell people and each other.
//! - `follower.rs`: what the main thread does while the node follows.
//! - `copy.rs`: a node that is new, or too far behind, fetches a copy of another node's folder.
//! - `peers.rs`: the thread "peers", with the links between nodes. `keys.rs`: their TLS;
//!   `handshakes.rs`: the limit of those that are not known yet; `line.rs`: their lines;
//!   `reporters.rs`: which of their processes live. `pass.rs`, `pass_http.rs`: pass the clients of a
//!   follower on to the leader; `entrance.rs`: how they reach the leader's threads; `carry.rs`: carries
//!   their bytes, at both nodes;
//!   `connects.rs`: how many of them connect to the leader at once; `tls_steps.rs`: their own TLS.
//! - `status.rs`: what the node says about itself. `view.rs`: the whole cluster, for the API.
//!
//! Invariant: a process leads at most once, and has one folder. A leader that is deposed ends at once,
//! and so does a node that has a copy of another folder. The service manager starts it again, as a
//! follower.

mod apply;
mod carry;
mod connects;
pub(crate) mod copy;
pub(crate) mod entrance;
pub(crate) mod follower;
mod guards;
mod handover;
mod handshakes;
mod hints;
pub(crate) mod join;
pub(crate) mod keys;
mod line;
pub(crate) mod node;
mod pass;
mod pass_http;
pub(crate) mod peers;
mod reporters;
pub(crate) mod status;
mod tls_steps;
pub(crate) mod view;

use broker::ApplyError;
use nats::stream::StreamError;
use replica::node::Fault;

use crate::error::exit;

/// Why the node of a cluster cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum ClusterFailure {
    /// The stream cannot be used.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// Another node leads now.
    #[error("node {0} leads now; this process ends, and follows after its next start")]
    Deposed(String),
    /// The operator wants another node to lead, and this one has resigned.
    #[error(
        "the lead is handed over to node {0}; this process ends, and follows after its next start"
    )]
    HandedOver(String),
    /// The operator wants another node to lead, but the stream did not take the resignation.
    #[error(
        "node {0} was to lead, but the stream did not answer: this process ends without a resignation, and follows \
         after its next start"
    )]
    Unresigned(String),
    /// The folder hangs, and another node leads instead.
    #[error("the data folder hangs; this process ends, and another node leads")]
    FolderHangs,
    /// A copy of another node's folder is here. Only a start can adopt it.
    #[error(
        "this node has a whole copy of the folder of node {0}; this process ends, and follows from there after \
         its next start"
    )]
    Copied(String),
    /// The folder lacks groups that the stream has no longer, or never had. The system refuses what
    /// a copy needs.
    #[error("this node cannot fetch a copy of another node's folder: {0}")]
    Fetch(std::io::Error),
    /// The stream or the folder is wrong.
    #[error("{0}; this node serves nothing until an operator has looked at it")]
    Fault(#[from] Fault),
    /// A group could not be applied.
    #[error("{0}")]
    Apply(#[from] ApplyError),
    /// No ids are left.
    #[error("this node cannot lead: {0}")]
    Ids(String),
}

impl ClusterFailure {
    /// The end of a leader that was to hand its lead over to the node with this name.
    pub(crate) fn after_order(name: String, has_resigned: bool) -> ClusterFailure {
        if has_resigned {
            ClusterFailure::HandedOver(name)
        } else {
            ClusterFailure::Unresigned(name)
        }
    }

    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            ClusterFailure::Stream(_) => exit::BAD_CONFIGURATION,
            ClusterFailure::Deposed(_)
            | ClusterFailure::HandedOver(_)
            | ClusterFailure::Unresigned(_)
            | ClusterFailure::FolderHangs
            | ClusterFailure::Copied(_) => exit::NOT_LEADER,
            ClusterFailure::Fetch(_) => exit::SYSTEM,
            ClusterFailure::Fault(_) | ClusterFailure::Apply(_) | ClusterFailure::Ids(_) => {
                exit::DAMAGED_DATA
            }
        }
    }
}
