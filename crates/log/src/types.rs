//! Types of the log's public interface: positions, slots, metas and bodies.

use triomphe::Arc;

/// A place in the log: `segment << 32 | offset`. It is usually the end of an entry or group.
/// `Position(0)` means that there is nothing to wait for.
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

/// How much of the log a start has read. It reads most segments twice.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub struct RecoveryProgress {
    /// Bytes of the segments that were read. A segment that was read twice counts twice.
    pub read_bytes: u64,
    /// The value of `read_bytes` when everything is read.
    pub total_bytes: u64,
}

/// The place of a job in the log. Later entries about the job contain its slot. When reclaim copies
/// the job, the job gets another slot.
#[derive(Copy, Clone, Debug, Eq, PartialEq, Ord, PartialOrd, Hash)]
pub struct Slot {
    /// The segment with the entry that made the slot.
    pub segment: u32,
    /// The number of the slot in its segment: from 0, in log order.
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

/// A reference to a queue. The owner must call [`crate::Log::forget_queue`] before it uses a number
/// for another name.
#[derive(Copy, Clone, Debug)]
pub struct QueueRef<'a> {
    /// The owner's number of the queue. It should be small, because the log uses it as an index. It
    /// does not change while the queue exists.
    pub number: u32,
    /// The queue's name. The log writes it only if the current segment has no NAME entry for the
    /// queue yet.
    pub name: &'a [u8],
}

/// All facts of a job, except its queue and body.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct Meta<'a> {
    /// The job's number: from 1, never reused.
    pub id: u64,
    /// The priority. 0 is the most urgent.
    pub priority: u32,
    /// The time to run, in the owner's unit. The log does not interpret it.
    pub ttr: u32,
    /// The time of the put, in milliseconds of the log's time.
    pub created_ms: u64,
    /// The due time, in milliseconds of the log's time. 0: none.
    pub due_ms: u64,
    /// The owner's number for the job's state. The log does not interpret it.
    pub state: u8,
    /// At most 65,535 bytes that the log does not interpret.
    pub options: &'a [u8],
}

/// A reference to the body of a new entry. If a large body is shared, the log keeps the body itself
/// until it is written. It copies all other bodies.
#[derive(Copy, Clone, Debug)]
pub enum BodyRef<'a> {
    /// Bytes that only the caller has.
    Bytes(&'a [u8]),
    /// A body that the log can share.
    Shared(&'a Arc<[u8]>),
}

impl<'a> BodyRef<'a> {
    /// The bytes of the body.
    pub fn bytes(self) -> &'a [u8] {
        match self {
            BodyRef::Bytes(bytes) => bytes,
            BodyRef::Shared(body) => body,
        }
    }

    /// The body, to keep it. Copies the body if it is not shared.
    pub fn share(self) -> Arc<[u8]> {
        match self {
            BodyRef::Bytes(bytes) => bytes.into(),
            BodyRef::Shared(body) => body.clone(),
        }
    }
}

impl<'a> From<&'a Arc<[u8]>> for BodyRef<'a> {
    fn from(body: &'a Arc<[u8]>) -> BodyRef<'a> {
        BodyRef::Shared(body)
    }
}

impl<'a> From<&'a [u8]> for BodyRef<'a> {
    fn from(bytes: &'a [u8]) -> BodyRef<'a> {
        BodyRef::Bytes(bytes)
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for BodyRef<'a> {
    fn from(bytes: &'a [u8; N]) -> BodyRef<'a> {
        BodyRef::Bytes(bytes)
    }
}

impl<'a> From<&'a Vec<u8>> for BodyRef<'a> {
    fn from(bytes: &'a Vec<u8>) -> BodyRef<'a> {
        BodyRef::Bytes(bytes)
    }
}

/// The report of a recovery.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct RecoveryReport {
    /// The lowest id above all ids that may have been used.
    pub next_id: u64,
    /// The time of the newest group. 0 for a new log.
    pub last_time_ms: u64,
    /// The number of segments.
    pub segments: u64,
    /// How many of these segments were read by their index files.
    pub indexed: u64,
    /// The bytes of the groups, also of those that an index file stands for.
    pub bytes: u64,
    /// The number of these groups.
    pub groups: u64,
    /// The number of live jobs.
    pub jobs: u64,
    /// The number of live facts.
    pub facts: u64,
    /// The number of bytes that recovery cut off after the end of the log. These bytes were never
    /// acknowledged. They begin at the end of the chain of groups. They end with the last intact
    /// group after the chain, or with the torn group if its header is readable.
    pub cut_bytes: u64,
    /// The number of intact groups in the bytes that were cut off.
    pub cut_groups: u64,
    /// The number of blocks of 4096 bytes that could not be read, although a start does not need them.
    pub unreadable_blocks: u64,
}

/// The result of a [`crate::Log::commit_step`].
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub struct Committed {
    /// True if a group was written.
    pub wrote: bool,
    /// True if a sync was made.
    pub synced: bool,
    /// The number of entries that the step took from the open batch, without reclaim's copies and
    /// lazy counters.
    pub entries: u64,
    /// The number of such entries that are durable because of the step's sync. They can also be entries that
    /// the other committer took.
    pub released: u64,
}
