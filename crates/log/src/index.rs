//! Index files of sealed segments: what a start needs of a segment, and the *blocks* of its jobs.
//!
//! An index file is derived data. The log works without it: a start reads the segment instead. A
//! segment is *sealed* when a later segment is in use, so its bytes do not change any more. Then
//! [`Log::index_step`](crate::Log::index_step) reads the segment once and writes the index file.
//! `docs/log-format.md` describes every byte.
//!
//! A block is up to 256 jobs of one queue and one list, in the order of their keys. The log's owner
//! says which list a job is in, and what its key is ([`Classify`]). So the owner can keep only the
//! summary of a block in memory, and read its rows when it needs them.
//!
//! Modules: `codec` (numbers and rows as bytes), `build` (reads a segment), `packed` (the rows of a
//! build), `file` (the sections of the file), `reader` (reads blocks), `step` (writes index files in the
//! background).

pub(crate) mod build;
pub(crate) mod codec;
pub(crate) mod file;
mod packed;
pub(crate) mod reader;
pub(crate) mod step;
#[cfg(all(test, feature = "fault"))]
#[allow(clippy::unwrap_used)]
mod tests;

use std::io;
use std::sync::Arc;

use crate::error::{is_no_room, is_out_of_descriptors};
use crate::types::{Meta, Position, Slot};

/// The maximum number of rows of a block.
pub(crate) const BLOCK_ROWS: usize = 256;
/// If a list of a queue has fewer jobs in a segment, these jobs are in no block. In simulations, all
/// these jobs are in blocks.
pub(crate) const LIST_ROWS_MIN: usize = if cfg!(feature = "fault") { 1 } else { 64 };
/// The number of bands that a block counts.
pub(crate) const BANDS: usize = 4;

pub(crate) fn index_name(segment: u32) -> String {
    format!("{segment:010}.idx")
}

/// The name of an index file that is being written.
pub(crate) fn new_index_name(segment: u32) -> String {
    format!("{segment:010}.idx-new")
}

/// The segment of an index file, and whether the file was still being written.
pub(crate) fn index_number(name: &str) -> Option<(u32, bool)> {
    let (digits, end) = name.split_at_checked(10)?;
    let is_new = match end {
        ".idx" => false,
        ".idx-new" => true,
        _ => return None,
    };
    let number =
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())??;
    Some((number, is_new))
}

/// The place of a job among the jobs of its queue.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct Class {
    /// The list.
    pub list: u8,
    /// The place in the list. A lower key is first.
    pub key: (u64, u64),
    /// The place in the list that the job joins later without an entry in the log. Otherwise the
    /// same as `key`.
    pub next_key: (u64, u64),
    /// A number below 4. Each block counts its jobs by this number.
    pub band: u8,
}

/// Which list of its queue a job belongs to, and its place there. `None`: the job is in no block.
///
/// Index files keep the result of this function. So the function must give the same result in every
/// version of the owner, as long as the version of index files is the same.
pub type Classify = fn(&Meta<'_>) -> Option<Class>;

/// A block of an index.
#[derive(Copy, Clone, Debug, Eq, PartialEq, Ord, PartialOrd, Hash)]
pub struct BlockId {
    /// The segment.
    pub segment: u32,
    /// The number of the block in the segment's index, from 0.
    pub number: u32,
}

/// What is known of a block without reading its rows.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct BlockSummary {
    /// The number of the queue in this segment, for
    /// [`SegmentIndex::queue_name`](crate::SegmentIndex::queue_name).
    pub queue: u32,
    /// The list.
    pub list: u8,
    /// The lowest key.
    pub first_key: (u64, u64),
    /// The highest key.
    pub last_key: (u64, u64),
    /// The lowest [`Class::next_key`].
    pub first_next_key: (u64, u64),
    /// The number of rows.
    pub rows: u32,
    /// The time of the put of the first row, in milliseconds of the log's time.
    pub first_created_ms: u64,
    /// The number of rows in each band.
    pub bands: [u32; BANDS],
    /// The bytes of all bodies.
    pub body_bytes: u64,
    /// The lowest slot index of the rows.
    pub slot_min: u32,
    /// The highest slot index of the rows.
    pub slot_max: u32,
    pub(crate) place: Place,
}

/// A piece of an index file: its offset after the sections, its length and its checksum.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Place {
    pub(crate) at: u64,
    pub(crate) len: u32,
    pub(crate) crc: u32,
}

/// One job of a block.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OwnedRow {
    /// The job's slot.
    pub slot: Slot,
    /// The offset in the slot's segment where the entry that made the slot begins.
    pub entry_at: u32,
    /// The end of this entry.
    pub position: Position,
    /// The bytes of the body.
    pub body_len: u32,
    /// The job's number.
    pub id: u64,
    /// The priority.
    pub priority: u32,
    /// The time to run.
    pub ttr: u32,
    /// The time of the put.
    pub created_ms: u64,
    /// The due time. 0: none.
    pub due_ms: u64,
    /// The owner's number for the job's state.
    pub state: u8,
    /// The owner's options.
    pub options: Box<[u8]>,
}

impl OwnedRow {
    /// The meta of the entry that made the slot.
    pub fn meta(&self) -> Meta<'_> {
        Meta {
            id: self.id,
            priority: self.priority,
            ttr: self.ttr,
            created_ms: self.created_ms,
            due_ms: self.due_ms,
            state: self.state,
            options: &self.options,
        }
    }
}

impl BlockSummary {
    /// The summary of rows that are sorted by their keys. `None` if there are no rows, or if a row
    /// is in another list.
    pub(crate) fn of<'a>(
        (queue, list): (u32, u8),
        rows: impl IntoIterator<Item = &'a OwnedRow>,
        classify: Classify,
        place: Place,
    ) -> Option<BlockSummary> {
        let mut summary: Option<BlockSummary> = None;
        for row in rows {
            let class = classify(&row.meta()).filter(|class| class.list == list)?;
            let index = row.slot.index;
            let summary = summary.get_or_insert(BlockSummary {
                queue,
                list,
                first_key: class.key,
                last_key: class.key,
                first_next_key: class.next_key,
                rows: 0,
                first_created_ms: row.created_ms,
                bands: [0; BANDS],
                body_bytes: 0,
                slot_min: index,
                slot_max: index,
                place,
            });
            summary.last_key = class.key;
            summary.first_next_key = summary.first_next_key.min(class.next_key);
            summary.rows += 1;
            summary.bands[usize::from(class.band).min(BANDS - 1)] += 1;
            summary.body_bytes += u64::from(row.body_len);
            summary.slot_min = summary.slot_min.min(index);
            summary.slot_max = summary.slot_max.max(index);
        }
        summary
    }
}

/// Why an index could not be written or read. The log and its jobs are not affected.
#[derive(Clone, Debug, thiserror::Error)]
pub enum IndexError {
    /// A file cannot be read.
    #[error("cannot read {file}: {source}")]
    Read {
        /// The file.
        file: String,
        /// The system's error.
        source: Arc<io::Error>,
    },
    /// The index file cannot be written.
    #[error("cannot write {file}: {source}")]
    Write {
        /// The file.
        file: String,
        /// The system's error.
        source: Arc<io::Error>,
    },
    /// The bytes are not those that were written.
    #[error("{file} is damaged ({what})")]
    Damaged {
        /// The file.
        file: String,
        /// The bad structure.
        what: &'static str,
    },
    /// The log's owner is stopping: see [`Log::stop_indexing`](crate::Log::stop_indexing).
    #[error("no index is built while the log is closed")]
    Stopped,
    /// The log does not need the segment any more.
    #[error("{file} is not needed any more")]
    Gone {
        /// The file.
        file: String,
    },
}

impl IndexError {
    /// Whether a file could not be opened because the process or the system has too many open files.
    /// A later attempt can succeed.
    pub fn is_out_of_descriptors(&self) -> bool {
        match self {
            IndexError::Read { source, .. } | IndexError::Write { source, .. } => {
                is_out_of_descriptors(source)
            }
            IndexError::Damaged { .. } | IndexError::Stopped | IndexError::Gone { .. } => false,
        }
    }

    /// Whether the disk was full. A later attempt can succeed.
    pub(crate) fn is_no_room(&self) -> bool {
        match self {
            IndexError::Write { source, .. } => is_no_room(source),
            IndexError::Read { .. }
            | IndexError::Damaged { .. }
            | IndexError::Stopped
            | IndexError::Gone { .. } => false,
        }
    }

    pub(crate) fn read(file: &str, source: io::Error) -> IndexError {
        IndexError::Read { file: file.to_owned(), source: Arc::new(source) }
    }

    pub(crate) fn write(file: &str, source: io::Error) -> IndexError {
        IndexError::Write { file: file.to_owned(), source: Arc::new(source) }
    }

    pub(crate) fn damaged(file: &str, what: &'static str) -> IndexError {
        IndexError::Damaged { file: file.to_owned(), what }
    }
}
