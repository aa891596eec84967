//! Types of the log's public interface: positions, slots, metas, and restored entries.

/// The end of an entry or group: `segment << 32 | offset`. `Position(0)` means that there is
/// nothing to wait for.
#[derive(Copy, Clone, Debug, Eq, PartialEq, Ord, PartialOrd, Hash, Default)]
pub struct Position(pub u64);

impl Position {
    pub(crate) fn new(segment: u32, offset: u64) -> Position {
        debug_assert!(u32::try_from(offset).is_ok(), "segments are smaller than 4 GiB");
        Position(u64::from(segment) << 32 | offset)
    }

    /// The segment's number.
    pub fn segment(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Bytes from the start of the segment's file.
    pub fn offset(self) -> u64 {
        self.0 & u64::from(u32::MAX)
    }
}

/// The place of a job in the log. Later entries about the job name it. A copy by reclaim gives the
/// job another slot.
#[derive(Copy, Clone, Debug, Eq, PartialEq, Ord, PartialOrd, Hash)]
pub struct Slot {
    /// The segment that holds the slot's entry.
    pub segment: u32,
    /// Counted from 0 in each segment, in log order.
    pub index: u32,
}

impl Slot {
    pub(crate) fn to_u64(self) -> u64 {
        u64::from(self.segment) << 32 | u64::from(self.index)
    }

    pub(crate) fn from_u64(raw: u64) -> Slot {
        Slot { segment: (raw >> 32) as u32, index: raw as u32 }
    }
}

/// A reference to a queue. Call [`crate::Log::forget_queue`] before a number goes to another name.
#[derive(Copy, Clone, Debug)]
pub struct QueueRef<'a> {
    /// The caller's small index of the queue. It does not change while the queue exists.
    pub number: u32,
    /// Used only if the current segment does not have the number yet.
    pub name: &'a [u8],
}

/// The facts of a job besides queue and body.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct Meta<'a> {
    /// From 1, never reused.
    pub id: u64,
    /// 0 is the most urgent.
    pub priority: u32,
    /// The time to run, in the caller's unit. The log does not interpret it.
    pub ttr: u32,
    /// The log's time.
    pub created_ms: u64,
    /// The due time, as a time of the log; 0: none.
    pub due_ms: u64,
    /// The caller's number for the job's state.
    pub state: u8,
    /// Opaque; at most 65,535 bytes.
    pub options: &'a [u8],
}

/// A live job or fact, passed to the `restore` function of [`crate::Log::open`].
#[derive(Debug)]
pub enum Restored<'a> {
    /// A job that is not finished.
    Job {
        /// Its slot, for later entries.
        slot: Slot,
        /// End of the entry that made the slot.
        position: Position,
        /// The queue's name.
        queue: &'a [u8],
        /// The newest whole meta.
        meta: Meta<'a>,
        /// Payload of the newest COUNT, if newer than `meta`.
        counters: Option<&'a [u8]>,
        /// The body, as put.
        body: &'a [u8],
    },
    /// The newest value of a key.
    Fact {
        /// The key.
        key: &'a [u8],
        /// Never empty: an empty value removes the fact.
        value: &'a [u8],
        /// End of its entry.
        position: Position,
    },
}

/// The report of a recovery.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct RecoveryReport {
    /// The first id that was certainly never used.
    pub next_id: u64,
    /// Time of the newest group; 0 for a new log.
    pub last_time_ms: u64,
    /// Segments read.
    pub segments: u64,
    /// Bytes of groups read.
    pub bytes: u64,
    /// Groups read.
    pub groups: u64,
    /// Live jobs.
    pub jobs: u64,
    /// Live facts.
    pub facts: u64,
    /// Bytes cut off at the end. They begin at the end of the chain of groups. They end with the
    /// last intact group after the chain (or with the torn group, if its header is readable). They
    /// were never acknowledged.
    pub cut_bytes: u64,
    /// Whole groups in the bytes that were cut off.
    pub cut_groups: u64,
}

/// The result of a [`crate::Log::commit_step`].
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub struct Committed {
    /// A group was written.
    pub wrote: bool,
    /// A sync was made.
    pub synced: bool,
}
