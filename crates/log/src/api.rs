//! First sketch of the public surface; replaced by the real modules.
#![allow(missing_docs, clippy::missing_docs_in_private_items, clippy::todo)]

use std::sync::Arc;
use std::time::Duration;

/// Where an entry ends: segment << 32 | offset. `Position(0)`: nothing to wait for.
#[derive(Copy, Clone, Debug, Eq, PartialEq, Ord, PartialOrd, Hash, Default)]
pub struct Position(pub u64);

/// The slot in which a job lies now.
#[derive(Copy, Clone, Debug, Eq, PartialEq, Ord, PartialOrd, Hash)]
pub struct Target {
    pub segment: u32,
    pub slot: u32,
}

/// A queue as the log is told of it: the caller's stable small index, and the name (looked at only when the
/// segment has not seen the number yet). Call [`Log::forget_queue`] before a number goes to another name.
#[derive(Copy, Clone, Debug)]
pub struct QueueRef<'a> {
    pub number: u32,
    pub name: &'a [u8],
}

#[derive(Copy, Clone, Debug)]
pub struct Meta<'a> {
    pub id: u64,
    pub priority: u32,
    pub ttr: u32,
    /// Wall clock, milliseconds.
    pub created_ms: u64,
    /// Wall clock, milliseconds; 0: none.
    pub due_ms: u64,
    /// The broker's number for it.
    pub state: u8,
    /// Opaque; at most 65,535 bytes.
    pub options: &'a [u8],
}

#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum Sync {
    Always,
    Every(Duration),
    Never,
}

#[derive(Clone, Debug)]
pub struct Settings {
    /// Default 64 MiB.
    pub segment_bytes: u64,
    /// The log's files together stay below this; none: the disk is the limit.
    pub bytes_max: Option<u64>,
    pub sync: Sync,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { segment_bytes: 64 << 20, bytes_max: None, sync: Sync::Always }
    }
}

pub trait Disk: Send + std::marker::Sync + std::fmt::Debug {}

/// The real disk: `PosixDisk::new(folder)` creates the folder if need be.
#[derive(Debug)]
pub struct PosixDisk;
impl PosixDisk {
    pub fn new(_folder: impl Into<std::path::PathBuf>) -> std::io::Result<PosixDisk> {
        todo!()
    }
}
impl Disk for PosixDisk {}

#[derive(Debug)]
pub enum Restored<'a> {
    Job {
        target: Target,
        position: Position,
        queue: &'a [u8],
        /// The newest whole meta.
        meta: Meta<'a>,
        /// Payload of the newest COUNT, if newer than `meta`.
        counters: Option<&'a [u8]>,
        body: &'a [u8],
    },
    Fact {
        key: &'a [u8],
        value: &'a [u8],
        position: Position,
    },
}

#[derive(Clone, Debug, Default)]
pub struct RecoveryReport {
    /// The first id that was certainly never dealt.
    pub next_id: u64,
    /// Time of the newest group; 0 for a new log.
    pub last_time_ms: u64,
    pub segments: u64,
    pub bytes: u64,
    pub groups: u64,
    pub jobs: u64,
    pub facts: u64,
    /// Bytes cut off at the end because their write was torn; never acknowledged.
    pub cut_bytes: u64,
    /// Whole groups among them.
    pub cut_groups: u64,
}

#[derive(Debug, thiserror::Error)]
#[error("open")]
pub struct OpenError;

#[derive(Clone, Debug, thiserror::Error)]
#[error("failure")]
pub struct Failure;

#[derive(Debug, thiserror::Error)]
#[error("reclaim")]
pub struct ReclaimError;

#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub struct Committed {
    /// Something was written.
    pub wrote: bool,
    /// A sync was made.
    pub synced: bool,
}

/// What the broker knows of a job that reclaim wants to copy.
#[derive(Copy, Clone, Debug)]
pub struct Current<'a> {
    pub queue: QueueRef<'a>,
    pub meta: Meta<'a>,
}

/// The broker's side of a copy: asked under its lock.
pub trait Owner {
    /// The job's queue and meta of this moment. The log asks only for live slots, twice for each.
    /// None: nobody owns this slot; a defect that stops reclaim.
    fn current(&mut self, target: Target, id: u64) -> Option<Current<'_>>;
    /// The job now lies at `new`.
    fn moved(&mut self, old: Target, new: Target, id: u64, position: Position);
}

#[derive(Debug)]
pub struct Slice;

#[derive(Debug)]
pub struct Log;

impl Log {
    /// Locks the folder, recovers, calls `restore` once per live job (in log order) and then per fact, leaves
    /// the log ready to append.
    pub fn open(
        _disk: Arc<dyn Disk>,
        _settings: Settings,
        _now_ms: u64,
        _restore: &mut dyn FnMut(Restored<'_>),
    ) -> Result<(Log, RecoveryReport), OpenError> {
        todo!()
    }

    pub fn put(
        &self,
        _now_ms: u64,
        _queue: QueueRef<'_>,
        _meta: &Meta<'_>,
        _body: &[u8],
    ) -> (Target, Position) {
        todo!()
    }
    /// Fan-out: one entry, one body, all or nothing; the new slots are pushed to `targets` in order.
    pub fn put_many(
        &self,
        _now_ms: u64,
        _jobs: &[(QueueRef<'_>, Meta<'_>)],
        _body: &[u8],
        _targets: &mut Vec<Target>,
    ) -> Position {
        todo!()
    }
    /// The whole meta anew.
    pub fn update(
        &self,
        _now_ms: u64,
        _target: Target,
        _queue: QueueRef<'_>,
        _meta: &Meta<'_>,
    ) -> Position {
        todo!()
    }
    /// Whole counters anew; nobody waits for it. Rides with the next group, at most a second later.
    pub fn count(&self, _now_ms: u64, _target: Target, _counters: &[u8]) {
        todo!()
    }
    pub fn finish(&self, _now_ms: u64, _target: Target) -> Position {
        todo!()
    }
    /// One entry for up to 65,535 of them, all or nothing.
    pub fn finish_many(&self, _now_ms: u64, _targets: &[Target]) -> Position {
        todo!()
    }
    /// Newest wins, an empty value removes.
    pub fn fact(&self, _now_ms: u64, _key: &[u8], _value: &[u8]) -> Position {
        todo!()
    }
    /// The queue number will mean another name from now on.
    pub fn forget_queue(&self, _number: u32) {
        todo!()
    }
    /// Tells the committer that a batch of appends is complete. Cheap when it is awake.
    pub fn wake(&self) {
        todo!()
    }
    /// Asked by the broker before the engine sees the request.
    pub fn admits_put(&self, _body_len: usize) -> bool {
        todo!()
    }
    pub fn admits_update(&self) -> bool {
        todo!()
    }
    /// Ids below it may leave the process.
    pub fn id_limit(&self) -> u64 {
        todo!()
    }
    /// The next id the engine will deal; raises the limit in blocks of 2^20, half a block ahead.
    pub fn note_next_id(&self, _now_ms: u64, _next: u64) {
        todo!()
    }
    pub fn written(&self) -> Position {
        todo!()
    }
    pub fn durable(&self) -> Position {
        todo!()
    }
    /// Up to where replies may leave under `Settings::sync`.
    pub fn released(&self) -> Position {
        todo!()
    }
    /// A reply under a stricter policy than `Settings::sync` waits for this position: sync for it.
    pub fn want_durable(&self, _position: Position) {
        todo!()
    }
    /// Bytes appended and not yet taken by the committer; stop reading clients above `open_batch_bytes_max`.
    pub fn open_batch_bytes(&self) -> usize {
        todo!()
    }
    pub fn open_batch_bytes_max(&self) -> usize {
        todo!()
    }
    pub fn failure(&self) -> Option<Failure> {
        todo!()
    }
    pub fn commit_step(&self, _now_ms: u64) -> Result<Committed, Failure> {
        todo!()
    }
    pub fn prepare_step(&self) -> Result<(), Failure> {
        todo!()
    }
    pub fn reclaim_wanted(&self) -> bool {
        todo!()
    }
    /// Reads the next piece of the oldest segment, without the broker's lock.
    pub fn reclaim_read(&self) -> Result<Option<Slice>, ReclaimError> {
        todo!()
    }
    /// Under the broker's lock: appends copies of what lives in the slice; ends with TRIM when the segment is
    /// through. Returns the bytes appended.
    pub fn reclaim_copy(
        &self,
        _now_ms: u64,
        _slice: &Slice,
        _owner: &mut dyn Owner,
    ) -> Result<u64, ReclaimError> {
        todo!()
    }
    /// Clean stop: exact next id, final synced mark. The log takes nothing afterwards.
    pub fn close(&self, _now_ms: u64, _next_id: u64) -> Result<(), Failure> {
        todo!()
    }
}

/// The two threads: one writes and syncs, the other prepares and frees segments.
#[derive(Debug)]
pub struct Committer;

impl Committer {
    /// `now_ms` is the caller's clock (wall time carried on monotonically). `on_progress` is called by the
    /// commit thread after each change of `written`, `durable` or `failure`.
    pub fn spawn(
        _log: Arc<Log>,
        _now_ms: Arc<dyn Fn() -> u64 + Send + std::marker::Sync>,
        _on_progress: Arc<dyn Fn() + Send + std::marker::Sync>,
    ) -> std::io::Result<Committer> {
        todo!()
    }
    /// Writes what is left and joins both threads. Call `Log::close` afterwards for a clean stop.
    pub fn stop(self) {
        todo!()
    }
}
