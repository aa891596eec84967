//! The history of jobs that have left their queue, for queues whose policy keeps one.
//!
//! The history is an aid for people, and no promise. It is not in the log: its owner takes the
//! *milestones* of jobs from the broker about once a second, and gives them to a [`Store`]. So a
//! crash loses the last second, and the path of a commit does not know the history.
//!
//! - `entry`: what is known of a job that has left. `codec`: its bytes. `clock`: its times.
//! - `files`: the files, which are only appended to and deleted.
//! - `pending`: attempts at jobs that have not left yet.
//! - `shelf`: the rows of one queue in memory. `index`: all shelves, and the entries of each job.
//! - `store`: all of it, and its bounds.

mod clock;
mod codec;
mod entry;
mod files;
mod index;
mod pending;
mod shelf;
mod store;

pub use clock::Moment;
pub use entry::{Attempt, Entry, KeptBytes};
pub use files::FILES_MAX;
pub use index::WhichEntry;
pub use shelf::{Times, WhichJobs};
pub use store::{Bounds, Busy, LastDeparture, Lookup, Page, Store, Summary};
