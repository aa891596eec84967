//! Events of the broker for sessions, and how they reach the owning thread.

use engine::{Body, Handout, JobId, Millis, News, SessionId};

use crate::Answer;

/// Events that a session did not request in the same turn. A session waits for at most one thing at
/// a time. News of jobs and wake-ups come in addition.
///
/// The engine has its own events, which name places in its tables. The broker uses these places to
/// find the position of the [`Answer`] for the event. A dialect does not need them.
#[derive(Clone, Debug)]
pub enum Event {
    /// A job for a waiting take, or an item for a waiting read. If a read takes its item for good,
    /// the session first only holds the item. Confirm the lease, and reply with the position of
    /// that answer.
    Granted(Handout),
    /// The wait for a job or an item is over.
    TimedOut,
    /// A job that the waiting session holds is close to its deadline.
    DeadlineSoon,
    /// There may be a job for a sleeping worker.
    WorkToDo,
    /// News of a job that the session watches. The session learns the end of a durable job when
    /// that end is durable, too.
    News {
        /// The job.
        id: JobId,
        /// What happened.
        news: News,
    },
    /// A long kick is done, with the number of jobs.
    Kicked(u64),
    /// The item for a waiting peek.
    Peeked(Body),
    /// A long flush, or the removal of a queue, is done.
    Cleared,
    /// The reload that the session requested is done.
    Reloaded,
}

/// The mailbox for events of one owner's sessions (an I/O thread, a test).
///
/// Called while the broker is locked: store the event, wake the owner, return.
pub trait Mailbox: Send + Sync {
    /// An event for a session that was opened with this mailbox.
    fn deliver(&self, session: SessionId, event: Answer<Event>);

    /// The log has released more positions, so waiting replies can be sent.
    fn released(&self);

    /// The log has failed and releases nothing more: see [`crate::Broker::failure`].
    fn failed(&self) {
        self.released();
    }

    /// The engine needs [`crate::Turn::advance`] at this moment, which is earlier than the last one
    /// reported. Only the first mailbox gets this.
    fn alarm(&self, at: Millis);
}
