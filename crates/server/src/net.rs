//! Sockets: from the listener to the dialect and back.
//!
//! - `listen`, `listen_file`: listening sockets, and the file with their addresses.
//! - `accept`: accepts connections, and distributes them to the I/O threads in turn.
//! - `limits`: limits of connections and their memory.
//! - `connection`: one connection of an I/O thread. `pending`: bytes that its dialect has not used
//!   yet.
//! - `sessions`: opens the session of a connection. `first_line`: rejects browsers.
//! - `tls`: certificates. `tls_stream`: TLS between socket and dialect. `verifiers`: refuse long chains
//!   of certificates.

pub(crate) mod accept;
pub(crate) mod connection;
mod first_line;
#[cfg(test)]
mod first_line_script;
pub(crate) mod limits;
pub(crate) mod listen;
pub(crate) mod listen_file;
mod pending;
pub(crate) mod sessions;
pub(crate) mod tls;
#[cfg(test)]
mod tls_script;
pub(crate) mod tls_stream;
#[cfg(test)]
mod tls_tests;
pub(crate) mod verifiers;
