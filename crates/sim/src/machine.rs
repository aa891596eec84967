//! The simulated machine: a process of the server, its disk, and its connections.

pub(crate) mod link;
mod mailbox;
pub(crate) mod process;
pub(crate) mod storage;
