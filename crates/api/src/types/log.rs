//! The JSON of the log.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The log. All numbers are 0 if the server has no log.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Log {
    /// The oldest file that is still needed.
    pub oldest_segment: u32,
    /// The file that is being written.
    pub current_segment: u32,
    /// Bytes in the log that are still needed.
    pub live_bytes: u64,
    /// Bytes of the files that hold the log.
    pub data_bytes: u64,
    /// Bytes of files that are kept for later.
    pub prepared_bytes: u64,
    /// Entries written, copies included.
    pub records_written: u64,
    /// Entries that were copied to free a file.
    pub records_copied: u64,
    /// Bytes written, copies and index files included.
    pub bytes_written: u64,
    /// Bytes written for the changes of clients.
    pub bytes_of_clients: u64,
    /// Memory of job bodies that the log has, too.
    pub resident_body_bytes: u64,
    /// Jobs whose body is only in the log.
    pub stored_bodies: u64,
    /// Jobs that are only in the log.
    pub cold_jobs: u64,
    /// Jobs that are only in the log, and that cannot be read now.
    pub unreadable_jobs: u64,
    /// Bodies that could not be read from the log.
    pub body_errors: u64,
    /// Whether new jobs are refused because the log has no room.
    pub is_full: bool,
    /// Why the log failed, if it failed.
    pub failure: Option<String>,
    /// The first error while the log freed disk space, if any.
    pub reclaim_error: Option<String>,
    /// The first error of an index file, if any.
    pub index_error: Option<String>,
    /// The first error while a body was read, if any.
    pub body_error: Option<String>,
    /// For how long the server was stopped before this start, by the wall clock. Negative if the
    /// wall clock was set back meanwhile.
    pub stopped_ms: i64,
    /// The work of this start. `null`: the server has no log.
    pub recovery: Option<Recovery>,
}

/// The work of a start: reading the log.
#[derive(Copy, Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Recovery {
    /// How long it took.
    pub took_ms: u64,
    /// The files of the log.
    pub segments: u64,
    /// How many of these files were read by their index.
    pub indexed_segments: u64,
    /// The bytes of the log, also of the files that were read by their index.
    pub bytes: u64,
    /// The jobs.
    pub jobs: u64,
    /// Bytes that were cut off at the end. The server had not acknowledged them.
    pub cut_bytes: u64,
}
