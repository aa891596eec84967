//! Reads the jobs that other servers kept in their files, and jobs in JSON lines.
//!
//! Each source becomes a [`Backlog`]: the facts of its jobs, in the order in which the source would
//! hand them out, and what could not be read. The facts are in memory. Long bodies stay in the
//! files until [`Backlog::body`] reads them.
//!
//! The parsers take any bytes, never panic, and reserve no memory for a length that they have not
//! checked. They do not know the broker: the command `lineshaft import` joins the two.
//!
//! - [`beanstalkd`]: a folder with the original's binlog
//! - [`gearmand`]: the original's sqlite table, or a table of another database as CSV
//! - [`kestrel`]: a folder with the original's journals
//! - [`jsonl`]: what `lineshaft export` writes

mod backlog;
pub mod beanstalkd;
pub mod gearmand;
mod input;
pub mod jsonl;
pub mod kestrel;
mod sqlite;
mod table;

pub use backlog::{
    BODY_BYTES_MAX, Backlog, Body, Bytes, Counters, Job, Loss, Place, QUEUE_NAME_BYTES_MAX, Queue,
    State, TAG_BYTES_MAX, Tags,
};
