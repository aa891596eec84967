//! Unique jobs: how long a job keeps its key to itself, and what becomes of a put with the same key.

use super::Key;

/// Which jobs of a queue are the same job, and what happens to a put of one that is there already.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Unique {
    /// Where the key of a job is. Jobs with the same key are the same job. `None`: all jobs are
    /// different, and the other fields have no meaning.
    pub by: Option<Key>,
    /// How long a job has its key.
    pub window: UniqueWindow,
    /// What happens to a put with the key of another job.
    pub on_duplicate: OnDuplicate,
    /// Whether a buried job has no key.
    pub ignore_buried: bool,
}

impl Unique {
    /// Whether the key of a job can be taken longer than the job exists.
    pub(crate) fn outlasts_jobs(&self) -> bool {
        self.by.is_some() && matches!(self.window, UniqueWindow::For(_))
    }
}

/// How long a job has its key.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub enum UniqueWindow {
    /// Until it ends, or becomes a dead letter.
    #[default]
    UntilDone,
    /// While it is ready or delayed. So it has the key again when a worker gives it back.
    UntilStart,
    /// For this many milliseconds from its put, also if it ends before.
    For(u64),
}

/// What happens to a put with the key of another job.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub enum OnDuplicate {
    /// The put stores nothing, and its answer is the other job.
    #[default]
    ReturnExisting,
    /// The put is refused.
    Refuse,
    /// Like `ReturnExisting`. If the other job is ready or delayed, it also gets the more urgent one
    /// of the two priorities, and the earlier one of the two due times.
    Bump,
    /// Like `ReturnExisting`. If no worker has the other job, it also gets the body of the put.
    ReplaceBody,
}
