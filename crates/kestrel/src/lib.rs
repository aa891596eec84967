//! Kestrel's dialects: bytes to requests and outcomes to bytes, without I/O.
//!
//! A session is one connection: a [`MemcacheSession`] or a [`TextSession`]. Whoever owns the socket
//! hands it the bytes that came in and a turn of the broker; replies go to the connection's outbox.
//!
//! - `server`, `counters`: what all sessions of a process share, over all of Kestrel's ports.
//!
//! It knows no clock, socket, file or thread, nor the other dialects.

mod counters;
mod name;
mod server;
mod thrift;

pub use counters::{Count, Counters};
pub use server::{Controls, ITEM_BYTES_MAX_DEFAULT, Server, ServerOptions};
pub use thrift::ThriftSession;
