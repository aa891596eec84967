//! The durable log: segments, group commit, recovery and reclaim.
//!
//! Its promise: what survives a crash is a prefix of the whole log, and contains everything that
//! was acknowledged. It knows jobs only as slots with a meta and a body, and facts as keys with
//! values; their owner knows the meaning. `docs/log-format.md` has every byte and the rules of
//! recovery.
//!
//! Who calls what:
//!
//! - The **owner** (the broker), under its own lock: [`Log::put`], [`Log::update`], [`Log::count`],
//!   [`Log::finish`], [`Log::fact`], and **[`Log::wake`] once after each batch of them**. An append
//!   does not wake the committer: if a group began with the first entry of a batch, the rest would
//!   wait for two syncs.
//! - The threads of a [`Committer`], or a simulator step by step: [`Log::commit_step`] and
//!   [`Log::prepare_step`].
//! - Reclaim: [`Log::reclaim_wanted`] and [`Log::reclaim_read`] without the owner's lock, then
//!   [`Log::reclaim_copy`] under it.
//! - Tools, while no other process uses the folder: [`salvage`] and [`repair`].
//!
//! Modules: `log` (the interface), `write` (from an append to the disk), `files`, `format` (every
//! byte), `recovery` (a start), `reclaim` and `liveness` (freeing space), `salvage`, `disk` (the
//! two disks).
//!
//! A [`Position`] is where an entry ends: it is written or durable when [`Log::written`] or [`Log::durable`]
//! has reached it.

mod disk;
mod error;
mod files;
mod format;
mod liveness;
mod log;
mod reclaim;
mod recovery;
mod salvage;
mod settings;
mod types;
mod write;

#[cfg(feature = "fault")]
pub use crate::disk::fault::FaultDisk;
pub use crate::disk::posix::PosixDisk;
pub use crate::disk::{Disk, DiskFile, Space};
pub use crate::error::{Failure, OpenError, ReclaimError};
pub use crate::log::{Log, OnProgress, Usage};
pub use crate::reclaim::{Current, Owner, Slice};
pub use crate::recovery::replay::Begin;
pub use crate::salvage::{Loss, Salvage, repair, salvage};
pub use crate::settings::{Settings, Sync};
pub use crate::types::{Committed, Meta, Position, QueueRef, RecoveryReport, Restored, Slot};
pub use crate::write::committer::{Clock, Committer};
