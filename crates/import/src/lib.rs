//! Reads jobs from the files of other servers, and from JSON lines.
//!
//! The files of one server, or one file of JSON lines, are a *source*. Each source becomes a
//! [`Backlog`]: the facts of its jobs, and a list of the parts that could not be read. The facts
//! are in memory. Long bodies stay in the files until [`Backlog::body`] reads them.
//!
//! The parsers accept any bytes, never panic, and reserve no memory for a length that they have not
//! checked. They do not use the broker: the command `lineshaft import` puts the jobs into the
//! broker.
//!
//! - [`beanstalkd`]: a folder with the original's binlog
//! - [`gearmand`]: the original's sqlite table, or a table of another database as CSV
//! - [`kestrel`]: a folder with the original's journals
//! - [`jsonl`]: the JSON lines that `lineshaft export` writes

mod backlog;
pub mod beanstalkd;
pub mod gearmand;
mod input;
pub mod jsonl;
pub mod kestrel;
mod sqlite;
mod table;

pub use backlog::{
    BODY_BYTES_MAX, Backlog, Body, Bytes, Counters, Job, LOSSES_MAX, Loss, Place,
    QUEUE_NAME_BYTES_MAX, Queue, State, TAG_BYTES_MAX, Tags, UniqueHash,
};
