//! The I/O threads.
//!
//! - `io_thread`: the loop of one thread. `table`: its connections.
//! - `mailbox`: messages from other threads. `wakeup`: how a thread sleeps and wakes.
//! - `primitives`: the standard library's atomics, which the model checker replaces.

pub(crate) mod io_thread;
pub(crate) mod mailbox;
mod primitives;
mod table;
mod wakeup;
