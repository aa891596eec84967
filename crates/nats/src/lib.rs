//! The driver of the replicated stream: NATS JetStream.
//!
//! It does what a [`replica::node::Node`] requests, and decides nothing itself.
//!
//! - [`driver`]: the tasks of a driver. `append.rs`, `read.rs` and `follow.rs` have one connection
//!   each.
//! - [`stream`]: how the stream must be configured.
//! - [`guard`]: whether the servers flush before they acknowledge.
//!
//! What was measured about NATS is in `docs/replication-format.md`.

mod append;
pub mod driver;
mod follow;
pub mod guard;
mod read;
pub mod stream;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_nats::{Client, ConnectOptions};

/// A request that takes longer counts as lost.
pub(crate) const REQUEST_MAX: Duration = Duration::from_secs(1);
const CONNECT_MAX: Duration = Duration::from_millis(500);
/// Two pings without an answer end a connection.
const PING: Duration = Duration::from_millis(500);
/// Commands that wait in a client. A client whose connection breaks sends them again, so there are
/// few.
const WAITING_MAX: usize = 4;

/// Where the stream is.
#[derive(Clone, Debug)]
pub struct Place {
    /// The servers: `nats://host:port`, or `tls://host:port`.
    pub servers: Vec<String>,
    /// The name of the cluster: letters, digits, `-` and `_`.
    pub name: String,
    /// Replicas of the stream: 3 or 5.
    pub replicas: usize,
}

impl Place {
    /// The name of the stream.
    #[must_use]
    pub fn stream(&self) -> String {
        format!("LS_{}_LOG_000", self.name)
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

/// Connects to one server after the other. A server that hangs must not be tried again and again,
/// so each connection begins with the next one.
#[derive(Debug)]
pub(crate) struct Connector {
    place: Place,
    next: AtomicUsize,
}

impl Connector {
    pub(crate) fn new(place: Place) -> Connector {
        Connector { place, next: AtomicUsize::new(0) }
    }

    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// A connection to one server. It does not move to another one.
    pub(crate) async fn connect(&self) -> Option<Client> {
        let servers = &self.place.servers;
        let at = self.next.fetch_add(1, Ordering::Relaxed) % servers.len();
        let options = ConnectOptions::new()
            .name("lineshaft")
            .max_reconnects(1)
            .client_capacity(WAITING_MAX)
            .ignore_discovered_servers()
            .connection_timeout(CONNECT_MAX)
            .request_timeout(Some(REQUEST_MAX))
            .ping_interval(PING);
        // The library's own limit covers the connection, but not the handshake.
        let connecting = options.connect(servers[at].as_str());
        tokio::time::timeout(2 * CONNECT_MAX, connecting).await.ok()?.ok()
    }
}
