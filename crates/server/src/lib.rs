//! Sockets, threads, clock, signals and configuration: everything that the pure crates must not
//! use.
//!
//! [`run`], in the module `start`, starts everything. There are six modules. Each has its own
//! table of contents:
//!
//! - [`config`]: the configuration, and the sources of its values.
//! - `net`: sockets, from the listener to the dialect and back.
//! - `threads`: the I/O threads, and how they sleep and wake.
//! - `web`: health, metrics and Kestrel's admin commands over HTTP.
//! - `process`: clock, signals, reload, messages.
//! - `cluster`: the node of a cluster.
//!
//! Each I/O thread owns its connections. It sleeps until a socket is ready, the broker has an
//! event, or the log has released replies. The first I/O thread also handles the broker's alarms.
//! The tasks that accept connections and handle signals run on the main thread, in its runtime.
//!
//! Invariants: no thread makes a system call or awaits while it holds the broker's lock. No reply
//! is sent before the log has released it. An idle connection uses no time and no buffer.

#[cfg(test)]
mod abuse_tests;
mod cluster;
pub mod config;
mod error;
mod net;
mod process;
#[cfg(test)]
mod serving_tests;
mod start;
mod threads;
mod web;

pub use cluster::ClusterFailure;
pub use config::listener::{Access, Listener};
pub use config::protocol::Protocol;
pub use error::{ServeError, TakenListener, exit};
pub use net::limits::raise_descriptors;
pub use net::listen::{
    Bound, Keepalive, SocketOptions, bind, bind_all_addresses, inherited, inherited_as,
};
pub use net::tls::TlsError;
pub use process::backup::{ArchiveError, write_archive};
pub use process::control_socket::{
    BACKUP_DONE, BACKUP_GONE, BACKUP_HELD, BACKUP_RELEASED, BACKUP_REQUEST, ControlPath, ERROR,
};
pub use process::messages::{MessageFile, Messages, Output};
pub use process::signals::{Drain, Hangup};
pub use start::{Setup, Started, bind_configured, run};
pub use web::thread::WEB_THREAD;
