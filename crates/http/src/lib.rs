//! HTTP: sites, the connections that serve them, and the server's own site with health and metrics.
//!
//! A [`Site`] is a router of axum. Its handlers read the broker, and facts that the server passes
//! to them. [`serve`] speaks HTTP/1 on one connection, with limits of sizes and times. The server
//! owns sockets, threads and the clock. Kestrel's admin commands are another site, in
//! `crates/kestrel-admin`.
//!
//! - `answer`: sites, requests and responses. `connection`, `stall`, `peer`: one connection.
//!   `received`: bodies of requests. `unread`: the limit of responses that clients have not read yet.
//! - `door`: lets handlers use the broker, and wait for it.
//! - `starting`: health during the start. `overview`: health and metrics. `metrics`, `exposition`:
//!   the numbers, and their text format for Prometheus.

mod answer;
mod cluster;
mod connection;
mod door;
mod exposition;
mod guarded;
mod metrics;
mod overview;
mod peer;
mod received;
mod stall;
mod starting;
mod unread;

pub use answer::{
    Answer, HTML, Head, Request, Site, TEXT, answer, claims, complete, forbidden, head_of,
    method_not_allowed, only_looks,
};
pub use cluster::ClusterFacts;
pub use connection::{Client, LongResponse, ReplaceableResponse, serve};
pub use door::{Door, DoorError, DoorSession, SessionKind, between_turns};
pub use metrics::{ProcessFacts, QueueTimes, RequestTimes, escaped_name};
pub use overview::{Overview, QueueNames, health_router, metrics_router};
pub use peer::{Peer, sha256};
pub use received::{ReceiveError, Received, Sender, read_body, read_parts};
pub use starting::{PassOn, RefuseMetrics, StartState, Starting};
pub use unread::Unread;
