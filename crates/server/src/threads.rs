//! The I/O threads.
//!
//! - `io_thread`: the loop of one thread. `table`: its connections.
//! - `mailbox`: messages from other threads. `inspections`: questions of operators. `wakeup`: how a
//!   thread sleeps and wakes.
//! - `yields`: when a thread passes its processor on. `turn_time`: how long a turn can last. `rests`:
//!   how a thread slows its clients down. `request_times`: how long requests take.
//! - `primitives`: the standard library's atomics, which the model checker replaces.

pub(crate) mod client_mix;
pub(crate) mod inspections;
pub(crate) mod io_thread;
pub(crate) mod mailbox;
mod primitives;
pub(crate) mod request_times;
mod rests;
pub(crate) mod sockets;
mod table;
pub(crate) mod turn_time;
mod wakeup;
mod yields;
