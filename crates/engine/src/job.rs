//! A job: what it is, what state it is in, and which changes of state are legal.

use std::num::NonZeroU64;

use crate::ids::{JobId, LeaseId, Millis, QueueId, SessionId};

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
pub(crate) enum Kind {
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

/// A job as the engine holds it. Kept small: there may be a hundred million.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) id: JobId,
    pub(crate) created: Millis,
    /// Delayed: when it becomes ready. Leased: the deadline. Ready: when a client or its due time made
    /// it ready, or 0. Buried: of no meaning.
    pub(crate) due: Millis,
    pub(crate) body: Body,
    pub(crate) aside: Option<Box<Aside>>,
    pub(crate) queue: QueueId,
    pub(crate) priority: u32,
    pub(crate) ttr_s: u32,
    pub(crate) state: State,
    /// Of a watched job it can become one that lives longer.
    pub(crate) kind: Kind,
    /// What the memory account has for it beside what every job takes, in units of the account.
    pub(crate) extra_units: u16,
}

/// What a job does not need that was put and never taken, as most of a long queue.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Aside {
    pub(crate) delay_s: u32,
    pub(crate) counters: Counters,
    /// The order number, where it is not the job's id.
    pub(crate) order: Option<NonZeroU64>,
    pub(crate) buried_order: u64,
    /// It ends unread after this moment, in milliseconds; the beginning of time and the first
    /// moment after it are all the same.
    pub(crate) expires: Option<NonZeroU64>,
    pub(crate) lease: Option<Lease>,
    pub(crate) outcome: Option<Box<Outcome>>,
}

/// What is kept for a job whose outcome matters to somebody, or whose worker told its progress.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Outcome {
    /// It was submitted for its outcome, not just put; then its key and reducer mean something.
    pub(crate) submitted: bool,
    pub(crate) unique: Box<[u8]>,
    pub(crate) reducer: Box<[u8]>,
    /// Sessions that wait for the outcome, as often as they attached.
    pub(crate) watchers: Vec<SessionId>,
    pub(crate) numerator: u32,
    pub(crate) denominator: u32,
}

/// A hand-out: who holds the job.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) struct Lease {
    pub(crate) id: LeaseId,
    pub(crate) holder: SessionId,
    /// The holder's own time limit, which nothing extends.
    pub(crate) until: Millis,
}

/// A moment of expiry as an [`Aside`] keeps it.
pub(crate) fn expiry(moment: Millis) -> NonZeroU64 {
    NonZeroU64::new(moment.0).unwrap_or(NonZeroU64::MIN)
}

impl Job {
    pub(crate) fn aside(&mut self) -> &mut Aside {
        self.aside.get_or_insert_default()
    }

    pub(crate) fn lease(&self) -> Option<Lease> {
        self.aside.as_ref().and_then(|aside| aside.lease)
    }

    pub(crate) fn lease_mut(&mut self) -> Option<&mut Lease> {
        self.aside.as_mut().and_then(|aside| aside.lease.as_mut())
    }

    pub(crate) fn buried_order(&self) -> u64 {
        self.aside.as_ref().map_or(0, |aside| aside.buried_order)
    }

    pub(crate) fn expires(&self) -> Option<Millis> {
        let expires = self.aside.as_ref().and_then(|aside| aside.expires);
        expires.map(|moment| Millis(moment.get()))
    }

    /// From when on a ready job ages: a job that was just kicked or came due is not old.
    pub(crate) fn ready_since(&self) -> Millis {
        self.created.max(self.due)
    }

    pub(crate) fn order(&self) -> u64 {
        let order = self.aside.as_ref().and_then(|aside| aside.order);
        order.map_or(self.id.0, NonZeroU64::get)
    }

    pub(crate) fn ready_key(&self) -> (u64, u64) {
        (u64::from(self.priority), self.order())
    }

    pub(crate) fn counters(&self) -> Counters {
        self.aside.as_ref().map_or_else(Counters::default, |aside| aside.counters)
    }

    pub(crate) fn outcome_mut(&mut self) -> &mut Outcome {
        self.aside().outcome.get_or_insert_default()
    }

    pub(crate) fn outcome(&self) -> Option<&Outcome> {
        self.aside.as_ref().and_then(|aside| aside.outcome.as_deref())
    }

    pub(crate) fn tags(&self) -> Option<Tags<'_>> {
        let outcome = self.outcome().filter(|outcome| outcome.submitted)?;
        Some(Tags { unique: &outcome.unique, reducer: &outcome.reducer })
    }

    pub(crate) fn is_submitted(&self) -> bool {
        self.outcome().is_some_and(|outcome| outcome.submitted)
    }

    /// It is still to be done, and is not in the log.
    pub(crate) fn is_unlogged(&self) -> bool {
        self.kind != Kind::Logged && self.state != State::Buried
    }

    pub(crate) fn unique(&self) -> &[u8] {
        self.outcome().map_or(&[], |outcome| &outcome.unique)
    }

    pub(crate) fn watchers(&self) -> &[SessionId] {
        self.outcome().map_or(&[], |outcome| &outcome.watchers)
    }

    /// Counts one more of something that happened to the job.
    pub(crate) fn count(&mut self, counter: impl FnOnce(&mut Counters) -> &mut u32) {
        let counter = counter(&mut self.aside().counters);
        *counter = counter.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_small() {
        assert_eq!(std::mem::size_of::<Job>(), 64);
        // One of the allocator's sizes: a byte more costs 16.
        assert_eq!(std::mem::size_of::<Aside>(), 96);
    }
}
