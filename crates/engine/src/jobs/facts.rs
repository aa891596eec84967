//! What a job is, as others see it: its state and which changes of it are legal, its facts, its counters.

use crate::ids::{JobId, Millis, QueueId};

/// The bytes of a job. Counted, so that a body is held once however many jobs or replies use it.
pub type Body = triomphe::Arc<[u8]>;

/// Where a job stands.
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
    /// Waits for a taker.
    Ready = 1,
    /// Waits for its due time.
    Delayed = 2,
    /// Handed out to a holder, until a deadline if it has a ttr.
    Leased = 3,
    /// Set aside until somebody kicks, takes or finishes it by its id.
    Buried = 4,
}

impl State {
    /// Whether a job may go from this state to `next`; the table above.
    pub fn may_become(self, next: Self) -> bool {
        match self {
            Self::Ready => next == Self::Leased,
            Self::Delayed | Self::Buried => matches!(next, Self::Ready | Self::Leased),
            Self::Leased => next != Self::Leased,
        }
    }
}

/// What happened to a job so far, as its statistics tell it.
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
    /// Times a holder lost it: its time was over, it went away, or it could not do the job after
    /// all.
    pub failures: u32,
}

/// How long a job lives if nobody ends it.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
#[repr(u8)]
pub(crate) enum JobKind {
    /// As long as somebody watches it.
    Watched,
    /// Longer than whoever put it, but not longer than the process.
    Memory,
    /// For ever, if there is a log.
    Logged,
}

/// What a producer says of a new job, besides its body.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct NewJob {
    /// 0 is the most urgent.
    pub priority: u32,
    /// Seconds until it becomes ready.
    pub delay_s: u32,
    /// Seconds that a taker has; 0 for no limit.
    pub ttr_s: u32,
}

impl Default for NewJob {
    /// A job of middling priority, ready at once, with a minute for its taker.
    fn default() -> Self {
        Self { priority: 1024, delay_s: 0, ttr_s: 60 }
    }
}

/// Everything about a job but its body: what the log keeps and what a restart brings back.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct JobFacts {
    /// Its number.
    pub id: JobId,
    /// 0 is the most urgent.
    pub priority: u32,
    /// Its place among jobs of the same priority, dealt when it entered the queue.
    pub order: u64,
    /// Ready, delayed or buried; a leased job is told as ready, for a lease does not outlive the
    /// process.
    pub state: State,
    /// When it was put.
    pub created: Millis,
    /// When a delayed job becomes ready; when a ready one was made ready, if later than it was put;
    /// otherwise 0.
    pub due: Millis,
    /// The place of a buried job among the buried; otherwise 0.
    pub buried_order: u64,
    /// Seconds that a taker has; 0 for no limit.
    pub ttr_s: u32,
    /// The last delay that was asked for, in seconds.
    pub delay_s: u32,
    /// What happened to it so far.
    pub counters: Counters,
    /// It ends unread after this moment.
    pub expires: Option<Millis>,
    /// The time of the wall clock at which it expires if it does, and is due otherwise, if a client gave one.
    pub wall: Option<Millis>,
}

/// A job as others see it: its facts of this moment, and where it is.
#[derive(Clone, Debug)]
pub struct JobStatus {
    /// Facts as the log would keep them, but with the true state.
    pub facts: JobFacts,
    /// Its queue.
    pub queue: QueueId,
    /// For a delayed or leased job, milliseconds until it becomes ready by itself; else 0.
    pub time_left_ms: u64,
    /// Length of its body in bytes.
    pub body_len: usize,
}

/// What the log keeps of a job, besides its facts, if it was submitted for its outcome.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub struct Tags<'a> {
    /// Its key; empty for none, `-` for the body.
    pub unique: &'a [u8],
    /// A name that only some workers see.
    pub reducer: &'a [u8],
}
