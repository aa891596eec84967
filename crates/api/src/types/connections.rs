//! The JSON of connections and of the clients of a queue.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A page of the connections.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Connections {
    /// The connections of this page.
    pub items: Vec<Connection>,
    /// The parameter `cursor` of the next page. `null`: this is the last page.
    pub next: Option<String>,
    /// The number of all open connections, without those for HTTP.
    pub open: u64,
}

/// A connection of a client.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Connection {
    /// The number of the connection. `null`: its TLS handshake is not finished.
    pub id: Option<String>,
    /// The protocol.
    pub protocol: String,
    /// The address and the port of the client, or `unix`.
    pub address: String,
    /// Whether the connection uses TLS.
    pub tls: bool,
    /// When the connection was opened.
    pub opened_at: String,
    /// The time since the last byte from the client.
    pub idle_ms: u64,
    /// Bytes from the client.
    pub received_bytes: u64,
    /// Bytes of replies that were sent.
    pub sent_bytes: u64,
    /// Bytes of replies that wait.
    pub unsent_bytes: u64,
    /// The queue of the client's puts.
    pub used: Option<String>,
    /// The first 20 queues that the client watches or has registered for.
    pub queues: Vec<String>,
    /// The number of queues that the client watches.
    pub watched: u64,
    /// The number of queues that the worker has registered for.
    pub registrations: u64,
    /// The number of jobs that the client holds.
    pub holds: u64,
    /// What the client waits for.
    pub wait: Option<ConnectionWait>,
    /// The first 100 held jobs, by deadline. Only the reply about one connection has them.
    pub held: Option<Vec<HeldJob>>,
}

/// What a client waits for.
#[derive(Copy, Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ConnectionWait {
    /// What the client waits for.
    #[serde(rename = "for")]
    pub what: WaitFor,
    /// The time until the wait ends. `null`: it has no limit.
    pub left_ms: Option<u64>,
}

/// What a client waits for.
#[derive(Copy, Clone, Debug, Eq, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WaitFor {
    /// A job.
    Job,
    /// A job of a Gearman function: the worker sleeps.
    Work,
    /// The end of a long request.
    Request,
}

/// A job that a client holds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HeldJob {
    /// The number of the job.
    pub id: u64,
    /// The queue of the job.
    pub queue: String,
    /// The time since the hand-out.
    pub held_ms: u64,
    /// The time until the deadline. `null`: there is none.
    pub time_left_ms: Option<u64>,
}

/// A page of the clients of a queue that take jobs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Consumers {
    /// The clients of this page.
    pub items: Vec<Consumer>,
    /// The parameter `cursor` of the next page. `null`: this is the last page.
    pub next: Option<String>,
    /// The number of sessions that the server looked at for this page.
    pub looked_at: u64,
}

/// A client that watches a queue, has registered for it, or holds some of its jobs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Consumer {
    /// The number of the connection.
    pub id: String,
    /// The protocol.
    pub protocol: String,
    /// The address and the port of the client, or `unix`.
    pub address: String,
    /// The time since the last byte from the client.
    pub idle_ms: u64,
    /// Whether the client watches the queue.
    pub watches: bool,
    /// Whether the worker has registered for the queue.
    pub is_worker: bool,
    /// The number of jobs of the queue among the first 200 jobs that the client holds.
    pub holds: u64,
    /// The time until the first deadline of these jobs. `null`: there is none.
    pub time_left_ms: Option<u64>,
    /// What the client waits for.
    pub wait: Option<ConnectionWait>,
}
