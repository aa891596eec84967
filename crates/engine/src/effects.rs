//! The outputs of the engine besides return values: records for the log and events for sessions.

use crate::claims::ClaimKey;
use crate::ids::{JobId, JobSlot, LeaseId, QueueId, SessionId};
use crate::jobs::{Body, JobBody};
use crate::policy::QueueSync;

/// A change that must last. A record has the place of a job instead of the job's facts. The caller
/// reads the facts at this place. So the caller must process the records of a request in order, and
/// before the next request. A record also has the job's number, because the job can end later in
/// the same request. Then another job can get the place.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Record {
    /// A new job. The log needs the job's facts from [`crate::Engine::facts`], and the job's body.
    Put(JobSlot, JobId),
    /// Several new jobs that share a body. The log must keep all of these jobs or none.
    PutMany(Box<[(JobSlot, JobId)]>),
    /// A job's facts changed: the job was given back, buried, kicked or rescheduled. This record is also
    /// for a delayed or buried job that a client took.
    Update(JobSlot, JobId),
    /// A holder lost a job, and the job moved behind all other jobs of its priority, is delayed, or
    /// is buried. Or a put found this job in its place, and made it more urgent or due earlier. No
    /// client requested this for this job, so the server cannot refuse it. If the log has no room
    /// for all facts of the job, the log can store only the counters of the job now, and the facts later.
    Moved(JobSlot, JobId),
    /// A client takes the job, and the policy of its queue makes leases durable. If the log has no room
    /// for all facts of the job, it stores the counters, also in a cluster: they are all that changed.
    Taken(JobSlot, JobId),
    /// A put found this job in its place, and gave it another body. The log has the job already. It must
    /// keep the job with the old body or with the new one. The log needs the job's facts from
    /// [`crate::Engine::facts`], and the new body.
    Replaced(JobSlot, JobId),
    /// A job moved to another queue.
    Rerouted {
        /// The job's place.
        slot: JobSlot,
        /// The job's number.
        id: JobId,
        /// The queue that the job left.
        from: QueueId,
        /// The `sync` setting of this queue.
        sync: Option<QueueSync>,
        /// True if a client requested the move, also to a queue of dead letters. If not, the job
        /// expired, made room or has failed too often, and the policy of its queue names another queue
        /// for it. Then, if the log has no room for all facts of the job, the log can store only the
        /// counters of the job now, and the facts later.
        is_requested: bool,
    },
    /// Only a job's counters changed, because the job was taken or timed out. No client waits until
    /// this record is durable.
    Count(JobSlot, JobId),
    /// The facts of a queue changed. [`crate::Engine::queue_facts`] returns the new facts.
    QueueFacts(QueueId),
    /// The queue of this name has no facts any more. The queue itself may have vanished.
    QueueDropped(QueueId, Box<[u8]>),
    /// A job ended. The next record can be about another job at the same place. If the job was put
    /// in the same request, the log does not have the job yet.
    Finish {
        /// The job's place.
        slot: JobSlot,
        /// The job's number.
        id: JobId,
        /// The job's queue.
        queue: QueueId,
        /// The `sync` setting of this queue.
        sync: Option<QueueSync>,
    },
    /// A queue vanished, and another queue can get its number. The log does not need this record.
    /// The caller needs it for its own tables of queues.
    QueueGone(QueueId),
    /// A put stored nothing, because this job has its key. The log does not need this record. But the
    /// reply depends on the job, which an earlier request put.
    Known(JobSlot, JobId),
    /// A put stored nothing, because a job that has ended still has its key. The log does not need
    /// this record. But the reply depends on the end of that job.
    KnownEnded,
    /// The claim on a key began or ended: see [`crate::Engine::claim`]. No request waits for it.
    Claim(ClaimKey),
    /// New policies are in force. [`crate::Engine::policies`] returns the new policies.
    Policies,
    /// New entries with schedules are in force. [`crate::Engine::cron_table`] returns them.
    Crons,
    /// The entry of this name has another state. [`crate::Engine::cron_state`] returns it. `None`: the
    /// entry is gone.
    CronState(Box<[u8]>),
    /// The note of this name changed. [`crate::Engine::note_of`] returns it. `None`: the note is gone.
    Note(Box<[u8]>),
    /// The status changed. [`crate::Engine::status`] returns the new status.
    Status,
}

/// A message to a session that waits.
#[derive(Clone, Debug)]
pub enum Event {
    /// The session got a job.
    Granted(Handout),
    /// The time limit of the session's wait is over.
    TimedOut,
    /// A job that the session holds is close to its deadline.
    DeadlineSoon,
    /// The session was asleep, and is woken because it can take a ready job.
    WorkToDo,
    /// News of a job whose outcome the session waits for.
    News {
        /// The job's number.
        id: JobId,
        /// The news.
        news: News,
        /// The news is from an earlier request. Other watchers of the job got the news at once.
        late: bool,
    },
    /// The session's long kick is done. The kick made this many jobs of this queue ready.
    Kicked(QueueId, u64),
    /// The job that the session waited to peek at.
    Peeked {
        /// The job's place.
        job: JobSlot,
        /// The job's body.
        body: JobBody,
    },
    /// The session waited for a job of this one queue, and the wait ended without a job. `None`:
    /// the queue was removed.
    NoItem(Option<QueueId>),
    /// The session's long flush, or its long removal of a queue, is done.
    Cleared,
    /// The session's put waited for room, and can be tried again: see
    /// [`crate::Engine::wait_for_room`].
    Room,
}

/// A job that was handed out to a session.
#[derive(Clone, Debug)]
pub struct Handout {
    /// The job's place in the engine's table.
    pub job: JobSlot,
    /// The job's number.
    pub id: JobId,
    /// The number of the lease.
    pub lease: LeaseId,
    /// The job's body.
    pub body: JobBody,
}

/// News of a job for its watchers, the sessions that wait for its outcome.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum News {
    /// A part of the result.
    Data(Body),
    /// A warning.
    Warning(Body),
    /// Progress, in a format of the worker.
    Progress(Body),
    /// The job is done, with this result.
    Complete(Body),
    /// The job failed.
    Fail,
    /// The job failed for this reason.
    Exception(Body),
}

impl News {
    /// The news that the job is done, with an empty result.
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
    /// The records for the log, in order.
    pub records: Vec<Record>,
    /// The events for sessions, in order.
    pub events: Vec<(SessionId, Event)>,
}

impl Effects {
    /// The queue of a job that this request ended, from the job's [`Record::Finish`].
    pub fn finished_queue(&self, job: JobSlot) -> Option<QueueId> {
        self.records.iter().rev().find_map(|record| match record {
            Record::Finish { slot, queue, .. } if *slot == job => Some(*queue),
            _ => None,
        })
    }
}
