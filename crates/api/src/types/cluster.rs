//! The JSON of the cluster.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The cluster that the server is a node of. If it is alone, texts are empty, numbers are 0, and the
/// rest is missing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Cluster {
    /// What this server does. Followers pass requests on, so the answer is that of the leader.
    pub role: ClusterRole,
    /// The name of the cluster.
    pub name: String,
    /// The name of the node that answers.
    pub node: String,
    /// The name of the node that leads.
    pub leader: String,
    /// The number of the leader's claim in the stream.
    pub epoch: u64,
    /// The last group of changes that the stream has.
    pub group: u64,
    /// All known nodes, by their names.
    pub nodes: Vec<ClusterNode>,
    /// The stream.
    pub stream: Option<ClusterStream>,
    /// The servers of NATS, as the newest check has found them.
    pub nats: Vec<NatsServer>,
    /// The newest check of NATS. `null`: there was none yet.
    pub check: Option<ClusterCheck>,
}

/// What a server does.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ClusterRole {
    /// It belongs to no cluster.
    #[default]
    Alone,
    /// It leads.
    Leader,
    /// It follows the leader.
    Follower,
}

/// A node, as it has told about itself within the last seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ClusterNode {
    /// Its name.
    pub name: String,
    /// Its number: 16 hexadecimal digits.
    pub number: String,
    /// What it does.
    pub state: NodeState,
    /// Its address for other nodes.
    pub address: String,
    /// The version of its program.
    pub version: String,
    /// The epoch that it leads or follows.
    pub epoch: u64,
    /// The last group that it has applied.
    pub group: u64,
    /// The last group that is durable in its folder.
    pub durable_group: u64,
    /// The groups that it has not applied yet.
    pub lag_groups: u64,
    /// How far it is behind: the age of the first change that it has read and not applied.
    pub lag_ms: u64,
    /// The jobs in its folder.
    pub jobs: u64,
    /// The time since it told something new.
    pub silent_ms: u64,
    /// Why it does not serve, or does not begin to lead.
    pub problem: Option<String>,
}

/// What a node does.
#[derive(Copy, Clone, Debug, Eq, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum NodeState {
    /// It leads.
    Leads,
    /// It follows.
    Follows,
    /// It looks for its place in the stream.
    Starts,
    /// It has told nothing new for five seconds.
    Silent,
}

/// The stream, at most ten seconds ago.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ClusterStream {
    /// The name of the stream.
    pub name: String,
    /// Its first record.
    pub first_record: u64,
    /// Its last record.
    pub last_record: u64,
    /// Its size.
    pub bytes: u64,
    /// The size that it should not exceed.
    pub max_bytes: u64,
}

/// A server of NATS.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NatsServer {
    /// Its name. If it did not answer, its monitoring address.
    pub name: String,
    /// Whether it answered.
    pub answers: bool,
    /// Its version.
    pub version: Option<String>,
    /// Whether it flushes each record before it acknowledges it.
    pub flushes: Option<bool>,
    /// Whether it has a replica of the stream.
    pub has_replica: Option<bool>,
    /// Why it did not answer.
    pub problem: Option<String>,
}

/// A check of the servers of NATS and of the stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ClusterCheck {
    /// Whether a node may begin to lead.
    pub safe: bool,
    /// How long ago it was.
    pub age_ms: u64,
    /// Everything that it found wrong.
    pub problems: Vec<String>,
}
