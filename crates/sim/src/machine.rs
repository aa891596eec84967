//! The simulated machine: a server process, its disk, and its connections.

pub(crate) mod link;
mod mailbox;
pub(crate) mod process;
pub(crate) mod storage;
