//! The pages: one file for each.

pub(crate) mod changes;
pub(crate) mod cluster;
pub(crate) mod connections;
pub(crate) mod help;
pub(crate) mod history;
pub(crate) mod job;
pub(crate) mod log;
pub(crate) mod login;
pub(crate) mod operations;
pub(crate) mod overview;
pub(crate) mod policies;
pub(crate) mod queue;
pub(crate) mod queues;
pub(crate) mod sessions;
