//! The thrift dialect (spec kestrel 8): calls and replies of the service `Kestrel`.
//!
//! - `receiver`: splits the received bytes into messages, with or without frames. `walker`: finds
//!   the end of a value.
//! - `types`, `reader`, `writer`: read and write values in the binary and the compact protocol.
//! - `request`: methods and their arguments.
//! - `session`: reads the next message, waits, and ends a connection. `methods`: executes each
//!   method.
//! - `collect`: a `get`, which can wait. `open_reads`: the holder of all open reads, and their
//!   counts. `lists`: calls with long lists.

mod collect;
mod lists;
mod methods;
mod open_reads;
mod reader;
mod receiver;
mod request;
mod session;
#[cfg(test)]
mod tests;
mod types;
mod walker;
mod writer;

pub(crate) use open_reads::Holder;
pub use session::ThriftSession;
