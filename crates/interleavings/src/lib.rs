//! Explores all interleavings of the code that synchronizes the server's threads. That code lets
//! threads sleep, wakes them, and reports the positions that the log has released. The model
//! checker is loom. It also explores all reorderings that a weakly ordered processor allows. loom
//! treats a `SeqCst` access like a weaker access. So the checked code uses fences for the order
//! that it needs.
//!
//! This crate compiles five files of the product again, with loom's primitives. These files are
//! `positions.rs`, `serving.rs`, `sleeper.rs` and `syncs.rs` of the log, and `wakeup.rs` of the server.
//! `committer.rs`, `two_committers.rs` and `io_thread.rs` simulate the threads that use these files.

#![cfg(test)]

#[path = "../../log/src/write/positions.rs"]
mod positions;
mod primitives;
#[path = "../../log/src/write/serving.rs"]
mod serving;
#[path = "../../log/src/write/sleeper.rs"]
mod sleeper;
#[path = "../../log/src/write/syncs.rs"]
mod syncs;
#[path = "../../server/src/threads/wakeup.rs"]
mod wakeup;

mod committer;
mod io_thread;
mod two_committers;
