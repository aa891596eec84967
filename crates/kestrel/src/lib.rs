//! Kestrel's dialects: bytes to requests and outcomes to bytes, without I/O.
//!
//! A session is one connection: a [`MemcacheSession`], a [`TextSession`] or a [`ThriftSession`].
//! The owner of the socket passes it the received bytes and a turn of the broker. Replies go to the
//! connection's outbox.
//!
//! - `memcache`, `text`, `thrift`: one dialect each.
//! - `line`: framing. `name`, `expiry`, `status`: parsing of words.
//! - `session`, `client`, `monitor`: the connection, fetching, waiting and open reads, shared by
//!   memcache and text.
//! - `stats`: the output of `STATS` and similar commands.
//! - `server`, `counters`, `latency`: state that all sessions of a process share, over all of
//!   Kestrel's ports.
//!
//! It knows no clock, socket, file or thread, and no other dialect.

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
