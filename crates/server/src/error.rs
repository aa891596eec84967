//! The errors with which a server fails to start, or ends. Each kind of error has its own exit
//! code.

use std::io;
use std::path::PathBuf;

use broker::BrokerError;
use notation::address::{Address, ListenAddress};

use crate::cluster::ClusterFailure;
use crate::config::sources::Mistakes;
use crate::net::tls::TlsError;

/// Why a server failed to start, or ended.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The configuration has mistakes.
    #[error(transparent)]
    Config(#[from] Mistakes),
    /// No listener is configured.
    #[error("every listener is off; name at least one, for example --beanstalk 127.0.0.1:11300")]
    NothingToListenOn,
    /// The address is in use.
    #[error(
        "cannot listen on {0}: the address is in use; stop the other server, or choose another address"
    )]
    AddressInUse(ListenAddress),
    /// Configured addresses are in use. There is at least one.
    #[error("{}", in_use(.0))]
    ListenersInUse(Vec<TakenListener>),
    /// There is already a file with the path of the socket, and it is not a socket.
    #[error("cannot listen on {0}: another file is there; move it away, or choose another path")]
    NotASocket(ListenAddress),
    /// The server has no permission to listen on the address.
    #[error("cannot listen on {}: no permission; {}", .0, permission_advice(.0))]
    ListenForbidden(ListenAddress),
    /// The server cannot listen on the address for another reason.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: ListenAddress,
        /// The system's error.
        source: io::Error,
    },
    /// A protocol should speak TLS, but the service manager passed a socket of this protocol that
    /// speaks plain text.
    #[error(
        "listen.{0} requires TLS, but the service manager passed a socket without it: name the socket {0}-tls, \
         or change listen.{0}"
    )]
    InheritedWithoutTls(&'static str),
    /// The service manager passed a socket with an unknown name. The server does not guess, because
    /// after a wrong guess clients could speak plain text instead of TLS.
    #[error(
        "the service manager passed a socket named `{0}`: use the name of a protocol as under [listen], with \
         -tls for TLS, for example gearman-tls; or no name"
    )]
    InheritedName(String),
    /// The TLS listeners cannot use the certificate.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A socket from the service manager cannot be used.
    #[error("cannot use an inherited socket: {0}")]
    Inherited(io::Error),
    /// The data folder cannot be used.
    #[error("cannot use the data folder {dir}: {source}; {}", advice(.source))]
    Folder {
        /// The folder.
        dir: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The log cannot be opened.
    #[error(transparent)]
    Open(#[from] BrokerError),
    /// The node of a cluster cannot go on.
    #[error(transparent)]
    Cluster(#[from] ClusterFailure),
    /// The system refused a thread, a runtime or a signal handler.
    #[error("cannot {doing}: {source}")]
    System {
        /// The failed operation.
        doing: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The log could not be written or synced while the server ran.
    #[error(
        "the log failed: {0}; the server acknowledged nothing that was not durable. Fix the disk, then restart the server"
    )]
    LogFailed(log::Failure),
}

/// Exit codes. They come from `sysexits.h` if it has a code for the case.
pub mod exit {
    /// The server cannot accept the content of the log.
    pub const DAMAGED_DATA: u8 = 65;
    /// The server cannot listen on an address.
    pub const ADDRESS_UNAVAILABLE: u8 = 69;
    /// The system lacks a resource.
    pub const SYSTEM: u8 = 71;
    /// The disk cannot be read or written.
    pub const DISK: u8 = 74;
    /// Another process uses the data folder.
    pub const FOLDER_LOCKED: u8 = 75;
    /// Another node of the cluster leads. The next start follows it.
    pub const NOT_LEADER: u8 = 76;
    /// The server has no permission.
    pub const NO_PERMISSION: u8 = 77;
    /// The configuration is wrong.
    pub const BAD_CONFIGURATION: u8 = 78;
}

/// A configured address that another program uses.
#[derive(Debug)]
pub struct TakenListener {
    /// The address.
    pub address: ListenAddress,
    /// The name of the listener's protocol.
    pub protocol: &'static str,
}

/// Names all addresses that are in use, so that one new start is enough.
fn in_use(taken: &[TakenListener]) -> String {
    if let [TakenListener { address, protocol }] = taken {
        let flag = protocol.replace('_', "-");
        return format!(
            "cannot listen on {address}: the address is in use; stop the other server, or set \
             listen.{protocol} to another address (lineshaft serve --{flag} HOST:PORT), or to \"off\""
        );
    }
    let named = taken.iter().map(|one| format!("{} (listen.{})", one.address, one.protocol));
    let named: Vec<String> = named.collect();
    format!(
        "cannot listen on {}: these addresses are in use; stop the other servers, or set these listeners \
         to other addresses or to \"off\"",
        named.join(", ")
    )
}

impl ServeError {
    /// The exit code of the process.
    pub fn exit_code(&self) -> u8 {
        match self {
            ServeError::Config(_)
            | ServeError::NothingToListenOn
            | ServeError::InheritedWithoutTls(_)
            | ServeError::InheritedName(_) => exit::BAD_CONFIGURATION,
            ServeError::Tls(error) => match error {
                TlsError::Read { source, .. } => code_of(source, exit::BAD_CONFIGURATION),
                TlsError::Unset(_)
                | TlsError::Missing { .. }
                | TlsError::Unusable { .. }
                | TlsError::Mismatch { .. } => exit::BAD_CONFIGURATION,
            },
            ServeError::AddressInUse(_)
            | ServeError::ListenersInUse(_)
            | ServeError::NotASocket(_)
            | ServeError::Inherited(_) => exit::ADDRESS_UNAVAILABLE,
            ServeError::ListenForbidden(_) => exit::NO_PERMISSION,
            ServeError::Listen { source, .. } => code_of(source, exit::ADDRESS_UNAVAILABLE),
            ServeError::Folder { source, .. } => match source.kind() {
                io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => {
                    exit::BAD_CONFIGURATION
                }
                _ => code_of(source, exit::DISK),
            },
            ServeError::Open(error) => code_of_open(error),
            ServeError::System { source, .. } => code_of(source, exit::SYSTEM),
            ServeError::LogFailed(_) => exit::DISK,
            ServeError::Cluster(failure) => failure.exit_code(),
        }
    }
}

/// What the operator can do about an unusable data folder.
fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => {
            "a file has this name: name a folder"
        }
        io::ErrorKind::PermissionDenied => "give the server's user read and write access to it",
        io::ErrorKind::ReadOnlyFilesystem => {
            "mount the file system for writing, or use a folder elsewhere"
        }
        io::ErrorKind::NotFound => "it cannot be created there: use a folder elsewhere",
        _ => "fix the disk, or use a folder elsewhere",
    }
}

/// What the operator can do about a missing permission to listen.
fn permission_advice(address: &ListenAddress) -> &'static str {
    if matches!(address.address, Address::Unix(_)) {
        "give the server's user write access to the socket's folder, and to the socket if it exists"
    } else {
        "choose a port from 1024 on, or another user"
    }
}

fn code_of(error: &io::Error, usual: u8) -> u8 {
    if error.kind() == io::ErrorKind::PermissionDenied { exit::NO_PERMISSION } else { usual }
}

fn code_of_open(error: &BrokerError) -> u8 {
    match error {
        BrokerError::Log(log::OpenError::Locked { .. }) => exit::FOLDER_LOCKED,
        BrokerError::Log(log::OpenError::Permission { .. }) => exit::NO_PERMISSION,
        // A write or sync that fails at the start ends the server, like a later failure.
        BrokerError::Log(
            log::OpenError::Io { .. } | log::OpenError::Full { .. } | log::OpenError::Failed(_),
        ) => exit::DISK,
        BrokerError::Log(_) | BrokerError::Meta(_) | BrokerError::Restore(_) => exit::DAMAGED_DATA,
        // The configuration and the folder do not fit together.
        BrokerError::Cluster(_) => exit::BAD_CONFIGURATION,
        BrokerError::Thread(_) => exit::SYSTEM,
    }
}
