//! The thrift dialect (spec kestrel 8): calls and replies of the service `Kestrel`.
//!
//! - `receiver`: messages, with or without frames. `walker`: where a value ends.
//! - `types`, `reader`, `writer`: values in the binary and the compact protocol.
//! - `request`: methods and their arguments.
//! - `session`: the next message, waiting, and the end of a connection. `methods`: executes each
//!   method.
//! - `collect`: a `get`, which can wait. `open_reads`: who holds open reads.

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
