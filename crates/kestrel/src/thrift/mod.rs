//! The thrift dialect (spec kestrel 8): calls and replies of the service `Kestrel`.
//!
//! - `receiver`: splits the received bytes into messages, with or without frames. `walker`: finds
//!   the end of a message and its arguments while the bytes arrive, so that no turn walks a whole
//!   long message.
//! - `types`, `reader`, `writer`: read and write values in the binary and the compact protocol.
//! - `request`: methods and their arguments.
//! - `session`: reads the next message, waits, and ends a connection. `methods`: executes each
//!   method.
//! - `collect`: the call `get`, which can wait. `open_reads`: the holder of all open reads, and
//!   their numbers per queue. `lists`: calls with lists, which can be long.

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
