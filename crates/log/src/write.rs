//! Writes entries: from the append to the sync of the disk.
//!
//! - `batch`: the open batch. An append encodes its entry into this batch. `part`: a group of it, with
//!   the large bodies that it shares. `lazy`: counters that no reply waits for.
//! - `commit`: one write and one sync for a group. `committer`: the threads that call it. `fill`: how
//!   long a group fills before it is written. `second`: a second sync while the first one lasts. `syncs`:
//!   the syncs in progress.
//! - `positions`: the positions up to which the log is written and durable. `sleeper`: lets a
//!   thread sleep until it is woken. `serving`: whether the threads that serve clients have work.
//! - `primitives`: imports from the standard library that a model checker replaces.

pub(crate) mod batch;
pub(crate) mod commit;
pub(crate) mod committer;
pub(crate) mod fill;
pub(crate) mod lazy;
mod part;
pub(crate) mod positions;
mod primitives;
pub(crate) mod second;
pub(crate) mod serving;
pub(crate) mod sleeper;
pub(crate) mod syncs;
