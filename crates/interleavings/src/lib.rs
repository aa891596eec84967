//! Explores all interleavings of the code that synchronizes the server's threads: how they fall
//! asleep, are woken, and learn what the log has released. The model checker is loom, which also
//! reorders what a weakly ordered processor may reorder. It treats `SeqCst` accesses as weaker
//! ones, so the code relies on fences.
//!
//! This crate compiles three files of the product again, over loom's primitives: `positions.rs` and
//! `sleeper.rs` of the log, and `wakeup.rs` of the server. `committer.rs` and `io_thread.rs` play
//! the threads that use them.

#![cfg(test)]

#[path = "../../log/src/write/positions.rs"]
mod positions;
mod primitives;
#[path = "../../log/src/write/sleeper.rs"]
mod sleeper;
#[path = "../../server/src/threads/wakeup.rs"]
mod wakeup;

mod committer;
mod io_thread;
