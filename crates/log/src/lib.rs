//! The durable log: segments, group commit, recovery and reclaim.
//!
//! The promise: after a crash, the log is a prefix of the log before the crash, and contains
//! everything that was acknowledged. To the log, a job is a slot with a meta and a body, and a fact
//! is a key with a value. Only the log's owner interprets bodies, keys, values and most fields of a
//! meta. `docs/log-format.md` describes every byte and the rules of recovery.
//!
//! The callers:
//!
//! - The **owner** (the broker), under its own lock: [`Log::put`], [`Log::update`], [`Log::count`],
//!   [`Log::finish`], [`Log::fact`]. The owner must call **[`Log::wake`] once after each batch of
//!   appends**. An append does not wake the committer. Otherwise the committer could write the
//!   first entry of a batch alone, and the other entries would wait for two syncs.
//! - The threads of a [`Committer`]: [`Log::commit_step`], [`Log::commit_beside`] after a
//!   [`Log::hurry`], and [`Log::prepare_step`]. A simulator calls the first and the last itself.
//! - Reclaim: [`Log::reclaim_wanted`] and [`Log::reclaim_read`] without the owner's lock, then
//!   [`Log::reclaim_copy`] under this lock.
//! - Index files: [`Log::index_step`] without the owner's lock, when there is nothing more urgent.
//! - An owner that replicates its changes: [`Log::cut`] and [`Log::set_gate`] decide what is one
//!   group, and when the committer may write it.
//! - Tools, while no other process uses the folder: [`salvage`] and [`repair`].
//! - A backup of a running log: [`Log::begin_backup`] in the process that owns the log, then
//!   [`BackupSource`] and [`BackupCheck`] in the process that copies. [`IncomingCopy`] writes the
//!   backup into the folder of another log, which it replaces at the next start.
//!
//! Modules: `log` (the interface), `gate` (its part for replication), `write` (from an append to the
//! disk), `files`, `format` (every byte), `index` (index files of segments), `recovery` (reads the
//! log when the server starts), `reclaim` and `liveness` (freeing space), `salvage`, `backup`,
//! `disk` (the two disks).
//!
//! A [`Position`] is the end of an entry. The entry is written when [`Log::written`] has reached
//! this position. It is durable when [`Log::durable`] has reached the position.

mod background;
mod backup;
mod bodies;
mod disk;
mod error;
mod files;
mod format;
mod gate;
mod index;
mod liveness;
mod log;
mod reclaim;
mod recovery;
mod salvage;
mod settings;
mod types;
mod write;

pub use crate::background::{mark_as_background, mark_as_patient};
pub use crate::backup::{
    BackupCheck, BackupDamage, BackupHold, BackupPoint, BackupSource, CopyError, IncomingCopy,
    MANIFEST_NAME, NotAPoint, SegmentReader,
};
pub use crate::bodies::{BodyReader, TARGET_BYTES, put_bytes};
#[cfg(feature = "fault")]
pub use crate::disk::fault::FaultDisk;
pub use crate::disk::posix::PosixDisk;
pub use crate::disk::{Disk, DiskFile, Space};
pub use crate::error::{BodyError, Failure, OpenError, ReclaimError};
pub use crate::files::numbered::SegmentHold;
pub use crate::format::entry::{read_meta, write_meta};
pub use crate::index::reader::SegmentIndex;
pub use crate::index::{BlockId, BlockSummary, Class, Classify, IndexError, OwnedRow};
pub use crate::log::{CommitSizes, Log, OnProgress, Usage};
pub use crate::reclaim::{Current, Owner, Slice};
pub use crate::recovery::replay::Begin;
pub use crate::recovery::restored::{Restored, RestoredBody, RestoredRows};
pub use crate::salvage::{Loss, Salvage, repair, salvage};
pub use crate::settings::{SHARED_BYTES_MIN, Settings, Sync, TIME_MS_MAX};
pub use crate::types::{
    BodyRef, Committed, Meta, Position, QueueRef, RecoveryProgress, RecoveryReport, Slot,
};
pub use crate::write::batch::{
    ID_LIMIT_BYTES, count_bytes, fact_entry_bytes, finishes_bytes, name_bytes, update_bytes,
};
pub use crate::write::committer::{Clock, Committer};
