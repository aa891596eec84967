//! What the broker tells a session that waited, and the way it reaches the thread that owns it.

use engine::{Body, JobId, LeaseId, Millis, News, SessionId};

use crate::Position;

/// A job handed out.
#[derive(Clone, Debug)]
pub struct Grant {
    /// The job.
    pub id: JobId,
    /// The number of this hand-out.
    pub lease: LeaseId,
    /// The job's bytes.
    pub body: Body,
    /// The reply waits for this: the last entry of the job.
    pub after: Position,
}

/// What a session is told that it did not ask for in the same turn. It waits for at most one thing
/// at a time; news of jobs and wake-ups come besides.
#[derive(Clone, Debug)]
pub enum Event {
    /// A job for a waiting take.
    Granted(Grant),
    /// The wait is over, no job came. The reply waits for the position.
    TimedOut(Position),
    /// A job that the waiting session holds is close to its deadline.
    DeadlineSoon,
    /// A sleeping worker may find a job now.
    WorkToDo,
    /// News of a job that the session watches. Its telling waits for the position.
    News {
        /// The job.
        id: JobId,
        /// What happened.
        news: News,
        /// The end of a durable job is told when it is durable too.
        after: Position,
    },
    /// A long kick is done: so many jobs. The reply waits for the position.
    Kicked(u64, Position),
    /// The item that a waiting peek was for.
    Looked {
        /// Its bytes.
        body: Body,
        /// The reply waits for this.
        after: Position,
    },
    /// A long flush, or the removal of a queue, is done. The reply waits for the position.
    Cleared(Position),
    /// The configuration was read again, as the session had asked. The reply waits for the position.
    Reloaded(Position),
}

/// Where events for the sessions of one owner (an I/O thread, a test) are left.
///
/// Called while the broker is locked: leave the event, wake the owner, return.
pub trait Mailbox: Send + Sync {
    /// An event for a session that was opened with this mailbox.
    fn deliver(&self, session: SessionId, event: Event);

    /// The log has released further positions: held replies may leave.
    fn released(&self);

    /// The log has failed, so nothing is released any more: see [`crate::Broker::failure`].
    fn failed(&self) {
        self.released();
    }

    /// The engine wants [`crate::Turn::advance`] to be called at this moment, which is earlier
    /// than what it said before. Told to the first mailbox only.
    fn alarm(&self, at: Millis);
}
