//! Kestrel's dialects. They turn bytes into requests and outcomes into bytes, without I/O.
//!
//! A session is one connection: a [`MemcacheSession`], a [`TextSession`] or a [`ThriftSession`].
//! The owner of the socket passes the received bytes and a turn of the broker to the session. The
//! session writes its replies into the connection's outbox.
//!
//! - `memcache`, `text`, `thrift`: the three dialects.
//! - `line`: lines and their words. `name`, `expiry`, `status`: parse single words.
//! - `session`, `client`, `monitor`: the common parts of memcache and text connections, which are
//!   requests, fetches, waits and open reads.
//! - `stats`: the output of `STATS` and similar commands.
//! - `open_lists`: the open reads of a connection.
//! - `server`, `counters`, `latency`: state that all sessions of a process share, over all of
//!   Kestrel's ports.
//!
//! This crate uses no clock, socket, file or thread, and no other dialect.

mod client;
mod counters;
mod expiry;
mod latency;
mod line;
mod listing;
mod memcache;
mod monitor;
mod name;
mod open_lists;
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
