//! The log's files.
//!
//! - `folder`: the files of the folder at a start, and its lock.
//! - `pieces`: fills and removes large files without delaying commits.
//! - `segments`: prepares files ahead, gives them to the committer, and gets them back from
//!   reclaim.

pub(crate) mod folder;
mod pieces;
pub(crate) mod segments;
