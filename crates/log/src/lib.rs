//! The durable log: segments, group commit, recovery and reclaim.
//!
//! Its promise: what survives a crash is a prefix of the whole log, at least as long as all that was
//! acknowledged. It knows jobs only as slots with a meta and a body, and facts as keys with values; what
//! they mean is the owner's affair. `docs/log-format.md` has every byte and the recovery rules.
//!
//! Who calls what:
//! * the **owner** (the broker), under its own lock: [`Log::put`], [`Log::update`], [`Log::count`],
//!   [`Log::finish`], [`Log::fact`], and **[`Log::wake`] once after each batch of them**. An append wakes
//!   nobody: a group that starts with the first entry of a batch would make the rest of it wait for two syncs;
//! * the threads of a [`Committer`], or a simulator step by step: [`Log::commit_step`] and
//!   [`Log::prepare_step`];
//! * reclaim: [`Log::reclaim_wanted`] and [`Log::reclaim_read`] without the owner's lock, then
//!   [`Log::reclaim_copy`] under it;
//! * tools, while nobody else works in the folder: [`salvage`] and [`repair`].
//!
//! A [`Position`] is where an entry ends: it is written or durable when [`Log::written`] or [`Log::durable`]
//! has reached it.

mod batch;
mod commit;
mod committer;
mod disk;
mod entry;
mod error;
#[cfg(feature = "fault")]
mod fault;
mod folder;
mod format;
mod lazy;
mod liveness;
mod log;
mod positions;
mod posix;
mod primitives;
mod reclaim;
mod recovery;
mod replay;
mod salvage;
mod segments;
mod settings;
mod sleeper;
mod tail;
mod types;

pub use crate::committer::{Clock, Committer};
pub use crate::disk::{Disk, DiskFile, Space};
pub use crate::error::{Failure, OpenError, ReclaimError};
#[cfg(feature = "fault")]
pub use crate::fault::FaultDisk;
pub use crate::log::{Log, OnProgress, Usage};
pub use crate::posix::PosixDisk;
pub use crate::reclaim::{Current, Owner, Slice};
pub use crate::salvage::{Loss, Salvage, repair, salvage};
pub use crate::settings::{Settings, Sync};
pub use crate::types::{
    Begin, Committed, Meta, Position, QueueRef, RecoveryReport, Restored, Target,
};
