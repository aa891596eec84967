//! The simulated machine: a server process, its disk, and its connections.

pub(crate) mod cluster;
pub(crate) mod contents;
pub(crate) mod link;
mod mailbox;
mod nodes;
pub(crate) mod process;
pub(crate) mod storage;
mod stream;
