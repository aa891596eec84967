//! Kestrel's dialects: bytes to requests and outcomes to bytes, without I/O.
//!
//! A session is one connection: a [`MemcacheSession`], a [`TextSession`] or a [`ThriftSession`]. Whoever owns the socket
//! hands it the bytes that came in and a turn of the broker; replies go to the connection's outbox.
//!
//! - `memcache`, `text`, `thrift`: a dialect each.
//! - `line`: framing. `name`, `expiry`, `status`: what words mean.
//! - `session`, `client`, `monitor`: a connection, fetching, waiting, and open reads, which memcache and text have in
//!   common.
//! - `stats`: what `STATS` and its kin print.
//! - `server`, `counters`, `latency`: what all sessions of a process share, over all of Kestrel's ports.
//!
//! It knows no clock, socket, file or thread, nor the other dialects.

mod client;
mod counters;
mod expiry;
mod latency;
mod line;
mod listing;
mod memcache;
mod monitor;
mod name;
mod server;
mod session;
mod stats;
mod status;
mod text;
mod thrift;

pub use counters::{Count, Counters};
pub use latency::Latencies;
pub use memcache::MemcacheSession;
pub use server::{Controls, ITEM_BYTES_MAX_DEFAULT, Server, ServerOptions};
pub use text::TextSession;
pub use thrift::ThriftSession;
