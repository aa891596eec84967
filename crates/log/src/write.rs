//! The path of an entry from an append to the disk.
//!
//! - `batch`: the open batch, into which entries are encoded. `lazy`: counters that no reply waits
//!   for.
//! - `commit`: one write and one sync for a group. `committer`: the threads that do it.
//! - `positions`: how far the log is written and durable. `sleeper`: how the threads sleep and are
//!   woken.
//! - `primitives`: the atomics of the standard library, which the model checker replaces.

pub(crate) mod batch;
pub(crate) mod commit;
pub(crate) mod committer;
pub(crate) mod lazy;
pub(crate) mod positions;
mod primitives;
pub(crate) mod sleeper;
