//! Small blocking clients for the command-line tools: what the protocols share is here, and a module
//! for each.
//!
//! Sending and receiving are two halves of a connection ([`Requests`], [`Replies`]) so that `put` can keep
//! many jobs in flight; the clients join them for everything that asks one thing at a time.

mod address;
mod beanstalk;
pub(crate) mod gearman;
mod stream;

pub(crate) use address::{Address, Protocol, ServerName};
pub(crate) use beanstalk::{
    Client, Job, Replies, Reply, Schedule, Stats, Survey, WaitingState, unexpected,
};
pub(crate) use stream::Requests;

use std::io;
use std::time::Duration;

/// What can go wrong between a tool and the server.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    /// No connection could be made.
    #[error(
        "cannot reach {address}: {}; is the server running? start one with `lineshaft serve`",
        plain_reason(reason)
    )]
    Unreachable {
        /// The address as the user gave it.
        address: Address,
        /// What the system said. Not called `source`, which would be shown a second time.
        reason: io::Error,
    },
    /// The connection broke while it was in use.
    #[error("the connection to the server broke: {}", plain_reason(.0))]
    Broken(io::Error),
    /// The server closed the connection.
    #[error("the server closed the connection")]
    Closed,
    /// The server answered something that is no legal reply to the command.
    #[error("the server answered `{reply}` to `{command}`")]
    Unexpected {
        /// The command line that was sent, without the body.
        command: String,
        /// The first line of the reply.
        reply: String,
    },
    /// The bytes received are not this protocol.
    #[error("this is no beanstalkd server: it answered `{0}`{hint}", hint = what_it_may_be(.0))]
    Garbled(String),
    /// The bytes received are not Gearman's protocol.
    #[error("this is no Gearman server: it answered `{0}`{hint}", hint = where_gearman_may_be(.0))]
    NotGearman(String),
    /// Longer than a packet of Gearman can say.
    #[error("a Gearman job cannot have more than 4 GiB")]
    PacketTooBig,
    /// The name cannot be sent: it would break the command line.
    #[error("`{0}` cannot be a queue's name: a name has no spaces and no control characters")]
    Name(String),
    /// The server refused the name.
    #[error(
        "the server does not take the queue name `{0}`: use letters, digits and -+/;.$_() only, at \
         most 200 of them, and no - at the beginning"
    )]
    NameRefused(String),
}

/// The system's message without Rust's "(os error 111)" and in lower case, fit for one line.
fn plain_reason(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or(&text);
    let mut characters = text.chars();
    match characters.next() {
        Some(first) => first.to_lowercase().chain(characters).collect(),
        None => text.to_owned(),
    }
}

/// Begins what a server of TLS answers to anything else: an alert, of protocol version 3.
pub(crate) const TLS_ALERT: [u8; 2] = [0x15, 0x03];

/// What to do when something else than a beanstalkd server answers.
fn what_it_may_be(reply: &str) -> &'static str {
    if is_tls(reply) {
        TLS_HINT
    } else if reply.starts_with("ERR UNKNOWN_COMMAND ") {
        "; to put or work at a Gearman server, say --protocol gearman"
    } else {
        ""
    }
}

/// What to do when something else than a Gearman server answers.
fn where_gearman_may_be(reply: &str) -> &'static str {
    if is_tls(reply) {
        TLS_HINT
    } else {
        "; name the server's Gearman address with --server (its port is 4730, unless it was set \
         otherwise)"
    }
}

const TLS_HINT: &str =
    "; it seems to speak TLS, and the tools connect without TLS: name a plain address";

/// Whether a reply, as it is shown, is an alert of TLS.
fn is_tls(reply: &str) -> bool {
    reply.starts_with(&TLS_ALERT.escape_ascii().to_string())
}

/// How long a patient caller waits for an answer, which takes a server far less than a second: long
/// enough for a stalled disk, short enough to notice a dead network.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A server that does not even take the connection within this time is treated as unreachable.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

impl ClientError {
    /// Whether a new connection may help: the line broke, rather than the server saying no.
    pub(crate) fn is_disconnect(&self) -> bool {
        match self {
            ClientError::Unreachable { .. } | ClientError::Broken(_) | ClientError::Closed => true,
            ClientError::Unexpected { .. }
            | ClientError::Garbled(_)
            | ClientError::NotGearman(_)
            | ClientError::PacketTooBig
            | ClientError::Name(_)
            | ClientError::NameRefused(_) => false,
        }
    }
}

/// The error for an answer that did not come in time.
pub(crate) fn no_answer() -> ClientError {
    ClientError::Broken(io::Error::new(io::ErrorKind::TimedOut, "no answer for too long"))
}
