//! The outputs of the engine besides return values: records for the log, events for sessions.

use crate::ids::{JobId, JobSlot, LeaseId, QueueId, SessionId};
use crate::jobs::Body;
use crate::policy::QueueSync;

/// A fact that must last. The caller must process the records of a request in order, and before the
/// next request: a record names a place in the engine, and the caller reads the job's facts there.
/// A record also has the job's number. The job can end later in the same request, and another job
/// can get its place.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Record {
    /// A new job: all of [`crate::Engine::facts`] and its body.
    Put(JobSlot, JobId),
    /// Several new jobs that share a body. The log must keep all of them or none.
    PutMany(Box<[(JobSlot, JobId)]>),
    /// A job's facts changed (given back, buried, kicked, or taken while it was set aside).
    Update(JobSlot, JobId),
    /// A job moved behind all others of its priority because its holder lost it. No client asked
    /// for this, so there is no request to refuse. If the log has no room for all facts, the
    /// counters are enough.
    Moved(JobSlot, JobId),
    /// A job moved from this queue to another one, because the policy of this queue asked for it.
    /// As for `Moved`, the counters are enough if the log has no room.
    Rerouted(JobSlot, JobId, QueueId, Option<QueueSync>),
    /// Only a job's counters changed (taken, timed out). No client waits until this is durable.
    Count(JobSlot, JobId),
    /// The facts of a queue, apart from its jobs, changed: [`crate::Engine::queue_facts`].
    QueueFacts(QueueId),
    /// The queue of this name has no facts any more. The queue itself may be gone.
    QueueDropped(QueueId, Box<[u8]>),
    /// A job of this queue ended. The last field is the sync of the queue. The next record can use
    /// the job's place again. If the job was put in the same request, the log does not know it yet.
    Finish(JobSlot, QueueId, Option<QueueSync>),
    /// A queue vanished, and another queue can get its number. This is not for the log, but for
    /// tables beside it.
    QueueGone(QueueId),
    /// New policies are in force: [`crate::Engine::policies`].
    Policies,
    /// The status changed: [`crate::Engine::status`].
    Status,
}

/// A message to a session that waited.
#[derive(Clone, Debug)]
pub enum Event {
    /// The session gets a job.
    Granted(Handout),
    /// The session has waited as long as it wanted.
    TimedOut,
    /// A job that the session holds is close to its deadline.
    DeadlineSoon,
    /// The session was asleep, and a job that it can take is ready.
    WorkToDo,
    /// News of a job that the session watches.
    News {
        /// The job.
        id: JobId,
        /// What happened.
        news: News,
        /// The news comes from an earlier request: other watchers got it first.
        late: bool,
    },
    /// The session's long kick is done: this many jobs of this queue were kicked.
    Kicked(QueueId, u64),
    /// A job that the session wanted to peek at.
    Peeked {
        /// The job's place.
        job: JobSlot,
        /// The job's bytes.
        body: Body,
    },
    /// The session's wait for a job of this one queue is over. `None`: the queue was removed.
    NoItem(Option<QueueId>),
    /// The session's long flush, or its removal of a queue, is done.
    Cleared,
}

/// A job that was handed out to a session.
#[derive(Clone, Debug)]
pub struct Handout {
    /// Its place in the engine.
    pub job: JobSlot,
    /// Its number.
    pub id: JobId,
    /// The number of the lease.
    pub lease: LeaseId,
    /// Its bytes.
    pub body: Body,
}

/// News of a job for its watchers.
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
    /// The end: the job failed.
    Fail,
    /// The end: the job failed for this reason.
    Exception(Body),
}

impl News {
    /// The end: the job is done, with an empty result.
    pub(crate) fn done() -> Self {
        Self::Complete(Body::from(Vec::new()))
    }

    /// Whether this news ends the job.
    pub fn is_end(&self) -> bool {
        match self {
            Self::Data(_) | Self::Warning(_) | Self::Progress(_) => false,
            Self::Complete(_) | Self::Fail | Self::Exception(_) => true,
        }
    }
}

/// Outputs of the engine. The caller collects them over one or more requests.
#[derive(Debug, Default)]
pub struct Effects {
    /// For the log, in order.
    pub records: Vec<Record>,
    /// For sessions, in order.
    pub events: Vec<(SessionId, Event)>,
}
