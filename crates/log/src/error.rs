//! The errors of the log. A message says what happened and where, which data may be lost, and how
//! the operator can react.

use std::io;
use std::sync::Arc;

/// Why a log could not be opened. The log's files were changed only in the case of `Failed`, or if a copy
/// of another log was adopted before.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process holds the folder's lock.
    #[error("{folder} is locked by another process; stop that process, or use another folder")]
    Locked {
        /// The folder.
        folder: String,
    },
    /// The operating system denied access.
    #[error(
        "no permission to {doing} in {folder}; give the server's user read and write access to it"
    )]
    Permission {
        /// The folder.
        folder: String,
        /// The failed operation.
        doing: String,
        /// The system's error.
        source: io::Error,
    },
    /// There is no room for the first segments of a new log.
    #[error(
        "no room in {folder} to {doing}; free some space ({needed} bytes are needed to start a new log), or \
         set a smaller segment size"
    )]
    Full {
        /// The folder.
        folder: String,
        /// The failed operation.
        doing: String,
        /// The number of bytes that a new log needs.
        needed: u64,
    },
    /// A call to the operating system failed.
    #[error("cannot {doing} in {folder}: {source}")]
    Io {
        /// The folder.
        folder: String,
        /// The failed operation.
        doing: String,
        /// The system's error.
        source: io::Error,
    },
    /// Another version of the program wrote the log.
    #[error(
        "{file} has log format {found}, this version reads format {known}; start the version that wrote it, \
         or move the folder aside to start empty"
    )]
    Format {
        /// The file.
        file: String,
        /// The format version of the file.
        found: u32,
        /// The format version that this program reads.
        known: u32,
    },
    /// The folder contains a segment of another log.
    #[error(
        "{file} belongs to another log than {other}; was one of them copied here? Move the wrong file \
         away, or restore the folder from a copy"
    )]
    ForeignLog {
        /// The file.
        file: String,
        /// Another file of the folder, with a different log id.
        other: String,
    },
    /// A segment that the log needs is missing.
    #[error(
        "{file} is missing, though the log needs segments {first} to {last}; its jobs and finishes would be \
         lost. Put the file back, restore the folder from a copy, or save the rest into a new folder with \
         `lineshaft log repair`"
    )]
    MissingSegment {
        /// The file.
        file: String,
        /// The lowest segment that the log needs.
        first: u32,
        /// The highest segment that the log needs.
        last: u32,
    },
    /// Bytes that were durable have changed.
    #[error(
        "{file} is damaged at offset {offset} ({what}), in the part of the log that was known to be durable; \
         everything after it is at stake, so the server does not start. Restore the folder from a copy, or \
         save the intact part into a new folder with `lineshaft log repair`"
    )]
    Damaged {
        /// The file.
        file: String,
        /// The offset of the first damaged structure.
        offset: u64,
        /// The damaged structure.
        what: String,
    },
    /// The folder is a backup, and a part of it is missing.
    #[error(
        "{folder} is an incomplete backup: {what}. Copy the whole backup again, or save what is there into a \
         new folder with `lineshaft log repair`"
    )]
    CutBackup {
        /// The folder.
        folder: String,
        /// The missing part.
        what: String,
    },
    /// Recovery read the log, but a later write or sync failed.
    #[error(transparent)]
    Failed(#[from] Failure),
}

impl OpenError {
    /// Makes the error for a failed call.
    pub(crate) fn from_io(folder: &str, doing: impl Into<String>, source: io::Error) -> OpenError {
        let (folder, doing) = (folder.to_owned(), doing.into());
        match source.kind() {
            io::ErrorKind::PermissionDenied => OpenError::Permission { folder, doing, source },
            _ => OpenError::Io { folder, doing, source },
        }
    }
}

/// A failed write or sync. Afterwards the state of the disk is unknown, so the log writes and
/// publishes nothing more. The process must end without further acknowledgements. The next start
/// recovers the log.
#[derive(Clone, Debug, thiserror::Error)]
#[error(
    "cannot {doing} {file}: {source}; the state of the last writes is unknown, so the log accepts no more. \
     Check the disk, then restart: the log recovers itself"
)]
pub struct Failure {
    /// The failed operation.
    pub doing: &'static str,
    /// The file.
    pub file: String,
    /// The system's error.
    pub source: Arc<io::Error>,
}

impl Failure {
    pub(crate) fn new(doing: &'static str, file: impl Into<String>, source: io::Error) -> Failure {
        Failure { doing, file: file.into(), source: Arc::new(source) }
    }

    /// Whether a file could not be opened for want of descriptors. Nothing was written then.
    pub(crate) fn is_out_of_descriptors(&self) -> bool {
        is_out_of_descriptors(&self.source)
    }

    /// Whether the disk is full.
    pub fn is_no_room(&self) -> bool {
        is_no_room(&self.source)
    }
}

/// Whether the disk is full. Others may free room, so a later attempt can succeed.
pub(crate) fn is_no_room(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Whether a file could not be opened because the process or the system has too many open files.
/// Others may close theirs, so a later attempt can succeed.
pub(crate) fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

fn such_as(id: Option<u64>) -> String {
    id.map_or(String::new(), |id| format!(", such as job {id}"))
}

/// Why reclaim stopped at a segment. The log continues without reclaim. It keeps this segment and
/// all later segments.
#[derive(Debug, thiserror::Error)]
pub enum ReclaimError {
    /// The segment cannot be read.
    #[error("cannot read {file} at offset {offset}: {source}")]
    Read {
        /// The file.
        file: String,
        /// The offset of the read.
        offset: u64,
        /// The system's error.
        source: io::Error,
    },
    /// The segment's bytes have changed.
    #[error("{file} is damaged at offset {offset} ({what})")]
    Damaged {
        /// The file.
        file: String,
        /// The offset of the damaged structure.
        offset: u64,
        /// The damaged structure.
        what: String,
    },
    /// The owner could not read the bodies of some jobs of this segment. It has written all other
    /// jobs of the segment again.
    #[error(
        "cannot read {jobs} jobs in {file}{}. The log's files grow until these jobs are deleted",
        such_as(*id)
    )]
    Left {
        /// The number of jobs whose bodies could not be read.
        jobs: u64,
        /// The first of these jobs, if it is known.
        id: Option<u64>,
        /// The segment's file.
        file: String,
    },
    /// The owner does not have the job of a live slot. This is a bug.
    #[error(
        "job {id} is live in {file} but has no owner; reclaim stops before it, so that no job is lost"
    )]
    NoOwner {
        /// The job.
        id: u64,
        /// The file.
        file: String,
    },
}

/// Why a body could not be read from the log. Other jobs are not affected.
#[derive(Clone, Debug, thiserror::Error)]
pub enum BodyError {
    /// The segment cannot be read.
    #[error("cannot read {file} at offset {offset}: {source}")]
    Read {
        /// The file.
        file: String,
        /// The offset of the read.
        offset: u64,
        /// The system's error.
        source: Arc<io::Error>,
    },
    /// The file has other bytes than the log wrote.
    #[error("{file} is damaged at offset {offset} ({what})")]
    Damaged {
        /// The file.
        file: String,
        /// The offset of the entry.
        offset: u64,
        /// The damaged structure.
        what: &'static str,
    },
}

impl BodyError {
    pub(crate) fn read(file: &str, offset: u64, source: io::Error) -> BodyError {
        BodyError::Read { file: file.to_owned(), offset, source: Arc::new(source) }
    }

    pub(crate) fn damaged(file: &str, offset: u64, what: &'static str) -> BodyError {
        BodyError::Damaged { file: file.to_owned(), offset, what }
    }

    /// Whether the segment could not be opened because the process or the system has too many open
    /// files. Then the body is not damaged, and a later attempt can succeed.
    pub fn is_out_of_descriptors(&self) -> bool {
        match self {
            BodyError::Read { source, .. } => is_out_of_descriptors(source),
            BodyError::Damaged { .. } => false,
        }
    }
}
