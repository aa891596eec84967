//! Events of the broker for sessions, and how they reach the owning thread.

use engine::{Body, JobId, LeaseId, Millis, News, SessionId};

use crate::Position;

/// A job handed out.
#[derive(Clone, Debug)]
pub struct Grant {
    /// The job.
    pub id: JobId,
    /// The id of this lease.
    pub lease: LeaseId,
    /// The job's bytes.
    pub body: Body,
    /// The position for the reply: the job's last entry.
    pub after: Position,
}

/// Events that a session did not request in the same turn. It waits for at most one thing at a
/// time; news of jobs and wake-ups come in addition.
#[derive(Clone, Debug)]
pub enum Event {
    /// A job for a waiting take.
    Granted(Grant),
    /// The wait timed out. The reply waits for the position.
    TimedOut(Position),
    /// A job that the waiting session holds is close to its deadline.
    DeadlineSoon,
    /// There may be a job for a sleeping worker.
    WorkToDo,
    /// News of a job that the session watches. Their delivery waits for the position.
    News {
        /// The job.
        id: JobId,
        /// What happened.
        news: News,
        /// The end of a durable job is delivered when it is durable, too.
        after: Position,
    },
    /// A long kick is done, with the number of jobs. The reply waits for the position.
    Kicked(u64, Position),
    /// The item for a waiting peek.
    Peeked {
        /// Its bytes.
        body: Body,
        /// The position for the reply.
        after: Position,
    },
    /// A long flush, or the removal of a queue, is done. The reply waits for the position.
    Cleared(Position),
    /// The reload that the session requested is done. The reply waits for the position.
    Reloaded(Position),
}

/// The mailbox for events of one owner's sessions (an I/O thread, a test).
///
/// Called while the broker is locked: store the event, wake the owner, return.
pub trait Mailbox: Send + Sync {
    /// An event for a session that was opened with this mailbox.
    fn deliver(&self, session: SessionId, event: Event);

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
