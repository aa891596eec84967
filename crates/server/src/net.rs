//! Sockets: from the listener to the dialect and back.
//!
//! - `listen`, `listen_file`: sockets that clients connect to, and where scripts read their addresses.
//! - `accept`: new connections, handed to the I/O threads in turn. `limits`: how many, and how much they may hold.
//! - `connection`: one connection of an I/O thread. `pending`: its bytes that no command has used yet.
//! - `sessions`: how a session of each protocol begins. `first_line`: browsers are turned away.
//! - `tls`: certificates. `tls_stream`: TLS between socket and dialect.
//! - `socket`: a socket that the runtime watches.

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
pub(crate) mod socket;
pub(crate) mod tls;
#[cfg(test)]
mod tls_script;
pub(crate) mod tls_stream;
#[cfg(test)]
mod tls_tests;
