//! The I/O threads.
//!
//! - `io_thread`: the loop of one thread. `table`: its connections.
//! - `mailbox`: how other threads tell it something. `wakeup`: how it falls asleep and is woken.
//! - `primitives`: the atomics of the standard library, which the model checker replaces.

pub(crate) mod io_thread;
pub(crate) mod mailbox;
mod primitives;
mod table;
mod wakeup;
