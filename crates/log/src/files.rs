//! The log's files.
//!
//! - `folder`: the files of the folder at a start, and its lock.
//! - `segments`: files prepared ahead, taken by the committer, given back by reclaim.

pub(crate) mod folder;
pub(crate) mod segments;
