//! Errors of a tool's connection to the server, and time limits of a tool.

use std::io;
use std::time::Duration;

/// An error of a tool's connection to the server.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    /// The tool could not connect.
    #[error(
        "cannot connect to {address}: {}; is the server running? start it with `lineshaft serve`",
        plain_reason(reason)
    )]
    Unreachable {
        /// The address as the user gave it.
        address: String,
        /// The system's error. A field named `source` would make the error appear twice in a
        /// message.
        reason: io::Error,
    },
    /// The TLS handshake failed.
    #[error("cannot use TLS with {address}: {}{}", plain_reason(reason), tls_hint(reason))]
    Handshake {
        /// The address as the user gave it.
        address: String,
        /// The reason.
        reason: io::Error,
    },
    /// The connection broke while it was in use.
    #[error("the connection to the server broke: {}", plain_reason(.0))]
    Broken(io::Error),
    /// The server closed the connection.
    #[error("the server closed the connection")]
    Closed,
    /// The reply is part of the protocol, but not a valid reply to this command.
    #[error("the server answered `{reply}` to `{command}`")]
    Unexpected {
        /// The command line that was sent, without the body.
        command: String,
        /// The first line of the reply.
        reply: String,
    },
    /// The received bytes are not the beanstalkd protocol.
    #[error("not a beanstalkd server: it answered `{0}`{hint}", hint = garbled_reply_hint(.0))]
    Garbled(String),
    /// The received bytes are not the Gearman protocol.
    #[error("not a Gearman server: it answered `{0}`{hint}", hint = not_gearman_hint(.0))]
    NotGearman(String),
    /// The received bytes are not Kestrel's memcache protocol.
    #[error("not a Kestrel server: it answered `{0}`{hint}", hint = not_kestrel_hint(.0))]
    NotKestrel(String),
    /// The tool cannot send this queue name to a Kestrel server.
    #[error(
        "`{0}` is not a valid name of a Kestrel queue: remove slashes, spaces and control characters"
    )]
    KestrelName(String),
    /// The job is too long for a Gearman packet.
    #[error("a Gearman job cannot have more than 4 GiB")]
    PacketTooBig,
    /// The tool cannot send this queue name, because the server would not read it as one word of
    /// the command line.
    #[error("`{0}` is not a valid queue name: remove spaces and control characters")]
    Name(String),
    /// The server refused the name.
    #[error(
        "the server refuses the queue name `{0}`: use at most 200 letters, digits and -+/;.$_(), not \
         beginning with -"
    )]
    NameRefused(String),
}

/// The system's message in lower case, without Rust's "(os error 111)", so that it fits into a
/// sentence.
pub(super) fn plain_reason(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or(&text);
    let mut characters = text.chars();
    match characters.next() {
        Some(first) => first.to_lowercase().chain(characters).collect(),
        None => text.to_owned(),
    }
}

/// The first bytes of a TLS server's reply to a client without TLS: an alert record of protocol
/// version 3.
pub(crate) const TLS_ALERT: [u8; 2] = [0x15, 0x03];

/// Advice if the reply is not from a beanstalkd server.
fn garbled_reply_hint(reply: &str) -> &'static str {
    if is_tls(reply) {
        TLS_HINT
    } else if reply.starts_with("ERR UNKNOWN_COMMAND ") {
        "; to put or work at a Gearman server, say --protocol gearman"
    } else {
        ""
    }
}

/// Advice if the reply is not from a Gearman server.
fn not_gearman_hint(reply: &str) -> &'static str {
    if is_tls(reply) {
        TLS_HINT
    } else {
        "; name the server's Gearman address with --server (the default port is 4730)"
    }
}

/// Advice if the reply is not from a Kestrel server.
fn not_kestrel_hint(reply: &str) -> &'static str {
    if is_tls(reply) {
        TLS_HINT
    } else {
        "; name the server's Kestrel address with --server (the default port is 22133)"
    }
}

const TLS_HINT: &str = "; it seems to speak TLS: write tls: before its address";

/// Advice if the TLS handshake failed.
fn tls_hint(reason: &io::Error) -> &'static str {
    let cause = reason.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
    match cause {
        Some(rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer)) => {
            "; name the server's authority with --tls-ca"
        }
        Some(rustls::Error::InvalidMessage(_)) => "; does the server speak TLS at this address?",
        Some(rustls::Error::AlertReceived(rustls::AlertDescription::CertificateRequired)) => {
            "; name a certificate with --tls-certificate and --tls-key"
        }
        _ => "",
    }
}

/// True if this text shows a TLS alert.
fn is_tls(reply: &str) -> bool {
    reply.starts_with(&TLS_ALERT.escape_ascii().to_string())
}

/// How long a tool waits for a reply. A reply normally takes much less than a second. With this
/// limit, a tool does not give up while the server's disk stalls for some seconds, but soon detects
/// a dead network.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A server that does not accept the connection within this time counts as unreachable.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

impl ClientError {
    /// True if a new connection can help, because the tool could not connect, or the connection
    /// broke. False if the server refused the request.
    pub(crate) fn is_disconnect(&self) -> bool {
        match self {
            ClientError::Unreachable { .. } | ClientError::Broken(_) | ClientError::Closed => true,
            ClientError::Unexpected { .. }
            | ClientError::Handshake { .. }
            | ClientError::Garbled(_)
            | ClientError::NotGearman(_)
            | ClientError::NotKestrel(_)
            | ClientError::KestrelName(_)
            | ClientError::PacketTooBig
            | ClientError::Name(_)
            | ClientError::NameRefused(_) => false,
        }
    }
}

/// The error for a missing reply.
pub(crate) fn no_answer() -> ClientError {
    ClientError::Broken(io::Error::new(
        io::ErrorKind::TimedOut,
        "the server did not answer in time",
    ))
}
