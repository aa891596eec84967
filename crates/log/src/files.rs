//! The log's files.
//!
//! - `folder`: reads the folder at a start, and locks it.
//! - `groups`: reads the groups of a segment.
//! - `numbered`: which segments have a file, which of them can be freed, and who holds them.
//! - `pieces`: fills, writes and removes large files without delaying commits.
//! - `segments`: prepares files, gives them to the committer, and reuses the files of old segments.

pub(crate) mod folder;
pub(crate) mod groups;
pub(crate) mod numbered;
pub(crate) mod pieces;
pub(crate) mod segments;
