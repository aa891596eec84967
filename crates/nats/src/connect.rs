//! Connections: one server after the other, and why one failed.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_nats::jetstream::{self, Context};
use async_nats::{Client, ConnectErrorKind, ConnectOptions, rustls};

use crate::access::AccessError;
use crate::{Place, REQUEST_MAX};

const CONNECT_MAX: Duration = Duration::from_millis(500);
/// Two pings without an answer end a connection.
const PING: Duration = Duration::from_millis(500);
/// Commands that wait in a client. A client whose connection breaks sends them again, so there are
/// few.
const WAITING_MAX: usize = 4;

/// Why a server cannot be used.
#[derive(Clone, Debug, thiserror::Error)]
#[error("cannot connect to NATS server {server}: {cause}")]
pub struct ConnectError {
    /// The server, without a password.
    pub server: String,
    /// What failed.
    pub cause: ConnectCause,
}

/// What failed when a node connected to a server.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ConnectCause {
    /// A file of the configuration cannot be used.
    #[error("{0}")]
    Access(Arc<AccessError>),
    /// The server does not accept the user.
    #[error(
        "it refuses this user; compare cluster.nats_credentials or cluster.nats_user with the users \
         of the server"
    )]
    User,
    /// No TLS session.
    #[error(
        "TLS failed: {0}; check cluster.nats_ca, cluster.nats_certificate, and the names in the \
         server's certificate"
    )]
    Tls(String),
    /// The address is wrong.
    #[error("{0}; check cluster.nats")]
    Address(String),
    /// No answer in time.
    #[error("no answer within a second; check that the server runs, and cluster.nats")]
    Silent,
    /// Anything else, for example that nothing listens there.
    #[error("{0}")]
    Other(String),
}

/// Connects to one server after the other. A server that hangs must not be tried again and again,
/// so each connection begins with the next one.
#[derive(Debug)]
pub(crate) struct Connector {
    place: Place,
    next: AtomicUsize,
    problem: Mutex<Option<ConnectError>>,
}

impl Connector {
    pub(crate) fn new(place: Place) -> Connector {
        Connector { place, next: AtomicUsize::new(0), problem: Mutex::new(None) }
    }

    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// Why the last connection failed. `None`: it did not.
    pub(crate) fn problem(&self) -> Option<ConnectError> {
        self.problem.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A connection to one server. It does not move to another one.
    pub(crate) async fn connect(&self) -> Result<Client, ConnectError> {
        let servers = &self.place.servers;
        let at = self.next.fetch_add(1, Ordering::Relaxed) % servers.len();
        let server = &servers[at];
        let connected = self.connect_to(server).await;
        let connected = connected.map_err(|cause| ConnectError { server: shown(server), cause });
        let problem = connected.as_ref().err().cloned();
        *self.problem.lock().unwrap_or_else(PoisonError::into_inner) = problem;
        connected
    }

    async fn connect_to(&self, server: &str) -> Result<Client, ConnectCause> {
        let options = ConnectOptions::new()
            .name("lineshaft")
            .max_reconnects(1)
            .client_capacity(WAITING_MAX)
            .ignore_discovered_servers()
            .connection_timeout(CONNECT_MAX)
            .request_timeout(Some(REQUEST_MAX))
            .ping_interval(PING);
        let options = self.place.access.apply(options);
        let options = options.map_err(|error| ConnectCause::Access(Arc::new(error)))?;
        // The library's own limit covers the connection, but not the handshake.
        match tokio::time::timeout(2 * CONNECT_MAX, options.connect(server)).await {
            Ok(connected) => connected.map_err(|error| cause(&error)),
            Err(_) => Err(ConnectCause::Silent),
        }
    }
}

/// The servers of a place, one after the other, for one question. A server that is cut off from the
/// others accepts connections, but it cannot answer. So the question goes to the next one.
#[derive(Debug)]
pub(crate) struct Round {
    connector: Connector,
    left: usize,
}

impl Round {
    pub(crate) fn new(place: &Place) -> Round {
        Round { connector: Connector::new(place.clone()), left: place.servers.len() }
    }

    /// A connection to the next server.
    pub(crate) async fn next(&mut self) -> Result<Context, ConnectError> {
        self.left = self.left.saturating_sub(1);
        self.connector.connect().await.map(jetstream::new)
    }

    /// Whether no server is left.
    pub(crate) fn is_over(&self) -> bool {
        self.left == 0
    }
}

/// Connects to the first server that accepts a connection, for questions of operators and guards.
///
/// # Errors
///
/// No server does. The error is that of the last one.
///
/// # Panics
///
/// The place has no servers.
pub async fn connect(place: &Place) -> Result<Context, ConnectError> {
    let connector = Connector::new(place.clone());
    for _ in 1..place.servers.len() {
        if let Ok(client) = connector.connect().await {
            return Ok(jetstream::new(client));
        }
    }
    connector.connect().await.map(jetstream::new)
}

fn cause(error: &async_nats::ConnectError) -> ConnectCause {
    let detail = std::error::Error::source(error).map(ToString::to_string);
    let detail = || detail.clone().unwrap_or_else(|| error.to_string());
    match error.kind() {
        ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => {
            ConnectCause::User
        }
        ConnectErrorKind::TimedOut => ConnectCause::Silent,
        ConnectErrorKind::Tls => ConnectCause::Tls(detail()),
        ConnectErrorKind::ServerParse | ConnectErrorKind::Dns => ConnectCause::Address(detail()),
        // The library reports a failed handshake like this.
        ConnectErrorKind::Io if is_tls(error) => ConnectCause::Tls(detail()),
        ConnectErrorKind::Io | ConnectErrorKind::MaxReconnects => ConnectCause::Other(detail()),
    }
}

fn is_tls(error: &async_nats::ConnectError) -> bool {
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref());
    let inner = source.and_then(|source: &io::Error| source.get_ref());
    matches!(inner, Some(inner) if inner.is::<rustls::Error>())
}

/// A server's address without a password.
pub(crate) fn shown(server: &str) -> String {
    match (server.split_once("://"), server.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://{host}"),
        _ => server.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_shown() {
        assert_eq!(shown("nats://ann:secret@host:4222"), "nats://host:4222");
        assert_eq!(shown("tls://host:4222"), "tls://host:4222");
        assert_eq!(shown("host"), "host");
    }
}
