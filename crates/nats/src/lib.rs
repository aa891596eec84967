//! The driver of the replicated stream: NATS JetStream.
//!
//! It does what a [`replica::node::Node`] requests, and decides nothing itself.
//!
//! - [`driver`]: the tasks of a driver. `append.rs`, `read.rs` and `follow.rs` have one connection
//!   each.
//! - `connect.rs`: connections. `access.rs`: users, passwords and certificates.
//! - [`stream`]: how the stream and the bucket of hints must be configured.
//! - [`guard`]: whether the servers and the stream are safe. `monitor.rs` asks each server.
//! - [`hints`]: what the nodes tell about themselves, for people and for trims.
//!
//! What was measured about NATS is in `docs/replication-format.md`.

mod access;
mod append;
mod connect;
pub mod driver;
mod follow;
pub mod guard;
pub mod hints;
mod monitor;
mod read;
pub mod stream;

use std::time::Duration;

pub use access::{Access, AccessError};
pub use connect::{ConnectCause, ConnectError, connect};

/// A request that takes longer counts as lost.
pub(crate) const REQUEST_MAX: Duration = Duration::from_secs(1);

/// Where the stream is.
#[derive(Clone, Debug)]
pub struct Place {
    /// The servers: `nats://host:port`, or `tls://host:port`.
    pub servers: Vec<String>,
    /// The name of the cluster: letters, digits, `-` and `_`.
    pub name: String,
    /// Replicas of the stream: 3 or 5.
    pub replicas: usize,
    /// Users, passwords and certificates.
    pub access: Access,
}

/// The name of the stream of the cluster with this name.
#[must_use]
pub fn stream_name(cluster: &str) -> String {
    format!("LS_{cluster}_LOG_000")
}

impl Place {
    /// The name of the stream.
    #[must_use]
    pub fn stream(&self) -> String {
        stream_name(&self.name)
    }

    /// The name of the stream that keeps the newest hint of each node: a bucket of keys and values.
    #[must_use]
    pub fn hints(&self) -> String {
        format!("KV_LS_{}_HINTS", self.name)
    }

    /// The subject of a hint with this key.
    #[must_use]
    pub fn hint(&self, key: &str) -> String {
        format!("$KV.LS_{}_HINTS.{key}", self.name)
    }

    /// The subject of groups and resignations.
    #[must_use]
    pub fn groups(&self) -> String {
        format!("ls.{}.log.000", self.name)
    }

    /// The subject of claims.
    #[must_use]
    pub fn claims(&self) -> String {
        format!("ls.{}.ep.000", self.name)
    }
}
