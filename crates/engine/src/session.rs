//! A session: what one connection uses, watches, holds and waits for.

use std::collections::BTreeMap;

use crate::collections::Ordered;
use crate::ids::{JobId, JobSlot, LeaseId, Millis, QueueId};
use crate::workers::Worker;

/// A waiting take is told that a held job is close to its deadline this long before it
/// (spec beanstalkd 3, reserve).
pub(crate) const DEADLINE_MARGIN_MS: u64 = 1000;

/// Where the jobs of a session go when it loses them.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub enum Manner {
    /// To the place they came from, as in beanstalkd and Kestrel.
    #[default]
    KeepsPlace,
    /// Behind all others of their priority, as in Gearman.
    ToTheTail,
}

#[derive(Debug)]
pub(crate) struct Session {
    /// Distinguishes sessions that had this place one after the other.
    pub(crate) generation: u32,
    /// Where the caller wants this session's events; not interpreted here.
    pub(crate) mailbox: u32,
    /// Puts go here.
    pub(crate) used: QueueId,
    /// Takes come from these, in the order of watching.
    pub(crate) watched: Vec<QueueId>,
    /// Held jobs by (deadline, lease number).
    pub(crate) leases: Ordered<(Millis, u64)>,
    pub(crate) waiting: Option<Waiting>,
    pub(crate) manner: Manner,
    /// Unfinished jobs whose outcome it waits for, and how often it attached to each.
    pub(crate) watching: BTreeMap<JobId, u32>,
    pub(crate) worker: Option<Box<Worker>>,
    pub(crate) reader: Option<Box<Reader>>,
    /// When the engine looks at this session next. Never later than needed, sometimes earlier.
    pub(crate) timer: Option<Millis>,
}

/// What a session waits for. One thing at a time.
#[derive(Copy, Clone, Debug)]
pub(crate) enum Waiting {
    /// A job of one of the watched queues. The ticket is its place in their lines.
    Job { ticket: u64, until: Millis },
    /// A job of one queue. The ticket is its place in the line.
    Item { ticket: u64, until: Millis, queue: QueueId, wish: Wish },
    /// The end of its long kick.
    Kick,
    /// The end of its long flush, or of a long removal.
    Clearing,
}

/// What a session that waits for a job of one queue wants of it.
#[derive(Copy, Clone, Debug)]
pub(crate) enum Wish {
    /// To look at it.
    Look,
    /// To hold it until it is told of it, and then finish it.
    Finish,
    /// To hold it for at most so many milliseconds.
    Hold { limit_ms: Option<u64> },
}

/// What a session has that holds jobs by the number of their lease.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    /// All leases of the session.
    pub(crate) open: BTreeMap<LeaseId, JobSlot>,
}

impl Session {
    /// The first deadline among held jobs.
    pub(crate) fn first_deadline(&self) -> Option<Millis> {
        self.leases.first().map(|((deadline, _), _)| deadline)
    }

    /// The moment from which a take that finds nothing answers "deadline soon".
    pub(crate) fn margin_begins(&self) -> Option<Millis> {
        self.first_deadline().map(|deadline| Millis(deadline.0.saturating_sub(DEADLINE_MARGIN_MS)))
    }

    /// The next moment at which something happens here by itself.
    pub(crate) fn next_moment(&self) -> Option<Millis> {
        let wait_ends = match self.waiting {
            Some(Waiting::Job { until, .. }) => {
                Some(self.margin_begins().map_or(until, |margin| margin.min(until)))
            }
            Some(Waiting::Item { until, .. }) => Some(until),
            Some(Waiting::Kick | Waiting::Clearing) | None => None,
        };
        let moment = [self.first_deadline(), wait_ends].into_iter().flatten().min();
        moment.filter(|moment| *moment != NEVER)
    }
}

/// A deadline that does not come.
pub(crate) const NEVER: Millis = Millis(u64::MAX);
