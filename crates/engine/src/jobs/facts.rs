//! The types that describe a job to callers: its state and the legal changes of state, its facts,
//! its counters.

use super::dead::Death;
use crate::crons::Fired;
use crate::ids::{JobId, Millis, QueueId};
use crate::policy::KeyHash;

/// The bytes of a job. The type counts references, so any number of jobs and replies can share one
/// body.
pub type Body = triomphe::Arc<[u8]>;

/// The state of a job.
///
/// | from \ to | ready | delayed | leased | buried | gone |
/// |---|---|---|---|---|---|
/// | (new) | put | put with a delay | | | |
/// | ready | | reschedule | take | expires, makes room, set aside, bury by id | finish |
/// | delayed | due, kick, reschedule | | take by id | set aside, bury by id | finish |
/// | leased | give back, ttr over, session ends | delayed give back, retry | | bury, give up | finish by its holder |
/// | buried | kick, reschedule | reschedule | take by id | | finish |
#[derive(Copy, Clone, Debug, Eq, PartialEq, Ord, PartialOrd, Hash)]
#[repr(u8)]
pub enum State {
    /// The job waits for a taker.
    Ready = 1,
    /// The job waits for its due time.
    Delayed = 2,
    /// A holder has the job. If the job has a ttr, the lease has a deadline.
    Leased = 3,
    /// The job is set aside until a client kicks it, or takes or finishes it by its id.
    Buried = 4,
}

/// A list of a queue: its jobs of one state.
#[derive(Copy, Clone, Debug, Eq, PartialEq, Ord, PartialOrd, Hash)]
pub struct JobList {
    /// The queue.
    pub queue: QueueId,
    /// Ready, delayed or buried.
    pub state: State,
}

/// The counters of a job's events, as the job's statistics show them.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub struct Counters {
    /// How often the job was handed out.
    pub takes: u32,
    /// How often the ttr of the job ran out.
    pub timeouts: u32,
    /// How often a holder gave the job back on purpose.
    pub releases: u32,
    /// How often a holder or an operator buried the job.
    pub buries: u32,
    /// How often the job was kicked.
    pub kicks: u32,
    /// How often a holder lost the job. The reasons are: the lease ran out, the holder
    /// disconnected, or the holder can no longer do the job. A failure that the holder reports
    /// counts only if the job is then retried, or buried because it has failed too often.
    pub failures: u32,
}

/// How long a job exists if no request ends it.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
#[repr(u8)]
pub(crate) enum JobKind {
    /// The job exists as long as a session waits for its outcome.
    Watched,
    /// The job is only in memory. It can outlive the client that put it, but not the process.
    Memory,
    /// The log stores the job, so the job outlives the process. If the engine has no log, the job
    /// is only in memory.
    Logged,
}

/// The properties of a new job, apart from its body.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct NewJob {
    /// 0 is the most urgent.
    pub priority: u32,
    /// Seconds until the job becomes ready.
    pub delay_s: u32,
    /// The ttr of the job. 0 for no limit.
    pub ttr_s: u32,
}

impl Default for NewJob {
    /// A job of medium priority that is ready at once and has a ttr of one minute.
    fn default() -> Self {
        Self { priority: 1024, delay_s: 0, ttr_s: 60 }
    }
}

/// All facts of a job except its body. The log stores these facts, and a restart restores them.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct JobFacts {
    /// The job's number.
    pub id: JobId,
    /// 0 is the most urgent.
    pub priority: u32,
    /// The job's order number: its place among the jobs of the same priority. The job gets this
    /// number when it enters its queue.
    pub order: u64,
    /// Ready, delayed or buried. A leased job counts as ready here, because a lease does not
    /// outlive the process.
    pub state: State,
    /// When the job was put.
    pub created: Millis,
    /// For a delayed job: when it becomes ready. For a ready job that became ready after its put:
    /// when it became ready. Otherwise 0.
    pub due: Millis,
    /// For a buried job: its place among all buried jobs. Otherwise 0.
    pub buried_order: u64,
    /// The ttr of the job. 0 for no limit.
    pub ttr_s: u32,
    /// The last delay that a client gave, in seconds.
    pub delay_s: u32,
    /// The counters of the job's events.
    pub counters: Counters,
    /// How often the job has failed, as the policy `retries` of its queue counts. A kick of a buried
    /// job, and a move to another queue, set this to 0.
    pub attempts: u32,
    /// Why the job is a dead letter. `None`: it is not.
    pub death: Option<Box<Death>>,
    /// The job expires after this moment.
    pub expires: Option<Millis>,
    /// The time of the wall clock at which the job expires. If the job does not expire: when it is
    /// due. `None`: no client gave a time of the wall clock.
    pub wall: Option<Millis>,
    /// The key that makes the job unique in its queue: see [`crate::policy::Unique`]. `None`: it had
    /// none when it was put.
    pub key: Option<KeyHash>,
    /// The key whose limits count for the job: see [`crate::policy::Policy::group_key`]. `None`: it had
    /// none when it was put, so it has the empty key.
    pub group: Option<KeyHash>,
    /// The firing that put the job, if it is the last one of its entry: see [`crate::crons`].
    pub fired: Option<Fired>,
}

/// The present facts of a job, and its queue.
#[derive(Clone, Debug)]
pub struct JobStatus {
    /// The facts that the log would store, except that a leased job has the state *leased*.
    pub facts: JobFacts,
    /// The job's queue.
    pub queue: QueueId,
    /// For a delayed or leased job: milliseconds until it becomes ready automatically. Otherwise 0.
    pub time_left_ms: u64,
    /// The length of the job's body in bytes.
    pub body_len: usize,
}

/// Further facts of a job that was made by a submit. The log stores these facts.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub struct Tags<'a> {
    /// The job's key. Empty: the job has no key. `-`: the body is the key.
    pub unique: &'a [u8],
    /// The reducer: a word for the worker. Only some workers get it.
    pub reducer: &'a [u8],
}

/// The keys that a job gets when it is put.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct PutKeys {
    /// See [`JobFacts::key`].
    pub(crate) unique: Option<KeyHash>,
    /// See [`JobFacts::group`].
    pub(crate) group: Option<KeyHash>,
}

impl PutKeys {
    /// Whether the job has any key.
    #[inline]
    pub(crate) fn are_given(&self) -> bool {
        self.unique.is_some() || self.group.is_some()
    }
}
