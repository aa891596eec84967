//! The log's files.
//!
//! - `folder`: the files of the folder at a start, and its lock.
//! - `pieces`: fills and removes large files without delaying commits.
//! - `segments`: files prepared ahead, taken by the committer, given back by reclaim.

pub(crate) mod folder;
mod pieces;
pub(crate) mod segments;
