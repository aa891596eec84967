//! A job as others see it: its state and the legal changes of state, its facts, its counters.

use crate::ids::{JobId, Millis, QueueId};

/// The bytes of a job. Reference-counted, so that any number of jobs and replies share one body.
pub type Body = triomphe::Arc<[u8]>;

/// The state of a job.
///
/// | from \ to | ready | delayed | leased | buried | gone |
/// |---|---|---|---|---|---|
/// | (new) | put | put with a delay | | | |
/// | ready | | | take | | finish |
/// | delayed | due, kick | | take by id | | finish |
/// | leased | give back, ttr over, session ends | give back with a delay | | bury | finish by its holder |
/// | buried | kick | | take by id | | finish |
#[derive(Copy, Clone, Debug, Eq, PartialEq, Ord, PartialOrd, Hash)]
#[repr(u8)]
pub enum State {
    /// The job waits for a taker.
    Ready = 1,
    /// The job waits for its due time.
    Delayed = 2,
    /// The job is leased to a holder, until a deadline if it has a ttr.
    Leased = 3,
    /// The job is set aside until a client kicks, takes or finishes it by its id.
    Buried = 4,
}

impl State {
    /// Whether a job can go from this state to `next`. See the table above.
    pub fn may_become(self, next: Self) -> bool {
        match self {
            Self::Ready => next == Self::Leased,
            Self::Delayed | Self::Buried => matches!(next, Self::Ready | Self::Leased),
            Self::Leased => next != Self::Leased,
        }
    }
}

/// The events of a job so far, as its statistics show them.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub struct Counters {
    /// Times it was handed out.
    pub takes: u32,
    /// Times its ttr ran out.
    pub timeouts: u32,
    /// Times its holder gave it back on purpose.
    pub releases: u32,
    /// Times it was buried.
    pub buries: u32,
    /// Times it was kicked.
    pub kicks: u32,
    /// Times a holder lost it: the holder's time was over, the holder disconnected, or the holder
    /// could not do the job after all.
    pub failures: u32,
}

/// How long a job lives if no request ends it.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
#[repr(u8)]
pub(crate) enum JobKind {
    /// The job lives as long as it has a watcher.
    Watched,
    /// The job can outlive the client that put it, but not the process.
    Memory,
    /// The job lives for ever, if the engine has a log.
    Logged,
}

/// The properties of a new job, apart from its body.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct NewJob {
    /// 0 is the most urgent.
    pub priority: u32,
    /// Seconds until it becomes ready.
    pub delay_s: u32,
    /// Seconds that a taker has. 0 for no limit.
    pub ttr_s: u32,
}

impl Default for NewJob {
    /// A job of medium priority, ready at once, with a minute for its taker.
    fn default() -> Self {
        Self { priority: 1024, delay_s: 0, ttr_s: 60 }
    }
}

/// All facts of a job except its body: the log keeps them, and a restart brings them back.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct JobFacts {
    /// Its number.
    pub id: JobId,
    /// 0 is the most urgent.
    pub priority: u32,
    /// Its place among jobs of the same priority. It is dealt when the job enters its queue.
    pub order: u64,
    /// Ready, delayed or buried. A leased job counts as ready, because a lease does not outlive the
    /// process.
    pub state: State,
    /// When it was put.
    pub created: Millis,
    /// For a delayed job, when it becomes ready. For a ready job, when it became ready, if that was
    /// later than the put. Otherwise 0.
    pub due: Millis,
    /// The place of a buried job among the buried. Otherwise 0.
    pub buried_order: u64,
    /// Seconds that a taker has. 0 for no limit.
    pub ttr_s: u32,
    /// The last delay that a client gave, in seconds.
    pub delay_s: u32,
    /// Its events so far.
    pub counters: Counters,
    /// The job ends unread after this moment.
    pub expires: Option<Millis>,
    /// The time of the wall clock at which it expires, or is due if it does not expire. Set only if
    /// a client gave such a time.
    pub wall: Option<Millis>,
}

/// A job as others see it: its present facts, and its queue.
#[derive(Clone, Debug)]
pub struct JobStatus {
    /// The facts that the log would keep, but with the true state.
    pub facts: JobFacts,
    /// Its queue.
    pub queue: QueueId,
    /// For a delayed or leased job, milliseconds until it becomes ready automatically. Otherwise 0.
    pub time_left_ms: u64,
    /// The length of its body in bytes.
    pub body_len: usize,
}

/// Further facts that the log keeps of a job that was submitted for its outcome.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub struct Tags<'a> {
    /// Its key. Empty: no key. `-`: the body is the key.
    pub unique: &'a [u8],
    /// A name that only some workers see.
    pub reducer: &'a [u8],
}
