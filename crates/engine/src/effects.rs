//! What comes out of the engine besides return values: records for the log, events for sessions.

use crate::ids::{JobId, JobSlot, LeaseId, QueueId, SessionId};
use crate::jobs::Body;
use crate::policy::QueueSync;

/// A fact that must last. Records of one request are to be taken in their order, and before the
/// next request: they name places in the engine, where the caller reads what it writes down. A job
/// may have ended since, in the same request, and its place may be another one's: hence its number.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Record {
    /// A new job: all of [`crate::Engine::facts`] and its body.
    Put(JobSlot, JobId),
    /// The same for several that share a body: all or none of them.
    PutMany(Box<[(JobSlot, JobId)]>),
    /// A job's facts changed (given back, buried, kicked, taken while it was set aside).
    Update(JobSlot, JobId),
    /// A job went behind all others of its priority because its holder lost it. Nobody asked for
    /// it, so nobody can be refused: without room for all its facts its counters will do.
    Moved(JobSlot, JobId),
    /// A job went from this queue, whose policy asked for this, to another one. The same holds for it.
    Rerouted(JobSlot, JobId, QueueId, Option<QueueSync>),
    /// Only a job's counters changed (taken, timed out). Nobody waits for this to be durable.
    Count(JobSlot, JobId),
    /// What is kept of a queue apart from its jobs changed: [`crate::Engine::queue_facts`].
    QueueFacts(QueueId),
    /// Nothing is kept any more of the queue with this name, which may have vanished.
    QueueDropped(QueueId, Box<[u8]>),
    /// A job of this queue ended, which has (or had) this sync. Its place may be used again by the
    /// next record. It may not be known yet, if it was put in the same request.
    Finish(JobSlot, QueueId, Option<QueueSync>),
    /// A queue vanished; its number may be used again. Not for the log, but for tables beside it.
    QueueGone(QueueId),
    /// Other policies are in force: [`crate::Engine::policies`].
    Policies,
    /// The status changed: [`crate::Engine::status`].
    Status,
}

/// An answer for a session that waited.
#[derive(Clone, Debug)]
pub enum Event {
    /// A job was handed to it.
    Granted {
        /// The job's place.
        job: JobSlot,
        /// The job's number.
        id: JobId,
        /// The number of the hand-out.
        lease: LeaseId,
        /// The job's bytes.
        body: Body,
    },
    /// Its patience is over.
    TimedOut,
    /// A job that it holds is close to its deadline.
    DeadlineSoon,
    /// A job that it may take waits; it was asleep.
    WorkToDo,
    /// News of a job that it watches.
    News {
        /// The job.
        id: JobId,
        /// What happened.
        news: News,
        /// It happened in a request before: others were told first.
        late: bool,
    },
    /// Its long kick is done: so many jobs of this queue.
    Kicked(QueueId, u64),
    /// A job that it wanted to look at.
    Peeked {
        /// The job's place.
        job: JobSlot,
        /// The job's bytes.
        body: Body,
    },
    /// Its wait for a job of this one queue is over; `None`: the queue was removed.
    NoItem(Option<QueueId>),
    /// Its long flush, or the removal of a queue that it asked for, is done.
    Cleared,
}

/// What the watchers of a job hear.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum News {
    /// A part of the result.
    Data(Body),
    /// A warning.
    Warning(Body),
    /// Progress, in the worker's own words.
    Progress(Body),
    /// The end: the result.
    Complete(Body),
    /// The end: it failed.
    Fail,
    /// The end: it failed, and this is why.
    Exception(Body),
}

impl News {
    /// The end: it is done, with an empty result.
    pub(crate) fn done() -> Self {
        Self::Complete(Body::from(Vec::new()))
    }

    /// Whether the job is over.
    pub fn is_end(&self) -> bool {
        match self {
            Self::Data(_) | Self::Warning(_) | Self::Progress(_) => false,
            Self::Complete(_) | Self::Fail | Self::Exception(_) => true,
        }
    }
}

/// Outputs of the engine, gathered by the caller over one or more requests.
#[derive(Debug, Default)]
pub struct Effects {
    /// For the log, in order.
    pub records: Vec<Record>,
    /// For sessions, in order.
    pub events: Vec<(SessionId, Event)>,
}
