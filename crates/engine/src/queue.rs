//! A queue: its jobs by state, who waits for them, and why it exists.

use smallvec::SmallVec;

use crate::collections::Ordered;
use crate::collections::prefetch;
use crate::engine::DEFAULT_QUEUE;
use crate::extra::Extra;
use crate::ids::Millis;
use crate::jobs::Counts;

/// The order of ready jobs: rank (the priority, wider so that policies can refine it), then the
/// order number.
pub(crate) type ReadyKey = (u64, u64);

/// What the log keeps of a queue apart from its jobs.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub struct QueueFacts {
    /// It exists without jobs or users.
    pub kept: bool,
    /// Most unfinished jobs at which a submit of each [`crate::Band`] is still accepted; 0 for no limit.
    pub limits: [u32; 3],
    /// A client of Kestrel's made it or used it.
    pub items: bool,
    /// It is a fan-out child: what is put into the queue whose name stands before the first `+` is
    /// put here, too.
    pub child: bool,
    /// When it was made, if `items`; else 0.
    pub created: Millis,
}

/// A queue on hold: its ready jobs are not handed out before `until`.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Pause {
    pub(crate) until: Millis,
    pub(crate) reason: PauseReason,
}

impl Pause {
    /// Whether it lasts only until those who wait are served further.
    pub(crate) fn is_serving(self) -> bool {
        matches!(self.reason, PauseReason::Serving)
    }
}

#[derive(Copy, Clone, Debug)]
pub(crate) enum PauseReason {
    /// Somebody asked for a pause of this length.
    Asked { seconds: u32 },
    /// More sessions wait than one slice may serve: it goes on serving them at the end. Others get
    /// only what these leave.
    Serving,
}

/// What a put touches comes first, by cache lines: with many thousand queues in use each one counts.
/// (`timer`, because by its impossible values a slab tells places in use from free ones.)
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Queue {
    /// When the engine looks at this queue next. Never later than needed, sometimes earlier.
    pub(crate) timer: Option<Millis>,
    pub(crate) name: SmallVec<[u8; 24]>,
    /// Sessions whose puts go here.
    pub(crate) users: u32,
    /// Sessions that take from here.
    pub(crate) watchers: u32,
    /// What only some queues have. All of it is behind this one test, which plain queues pay for.
    pub(crate) extra: Option<Box<Extra>>,

    pub(crate) puts: u64,
    pub(crate) counts: Counts,
    pub(crate) pause: Option<Pause>,

    pub(crate) ready: Ordered<ReadyKey>,

    /// Removals that go on: nothing is handed out meanwhile.
    pub(crate) removals: u32,
    /// Registrations of workers.
    pub(crate) workers: u32,
    /// Sessions that wait here, by their ticket: first come, first served.
    pub(crate) waiters: Ordered<u64>,
    /// Sessions that may be asleep and want to be woken, by ticket.
    pub(crate) sleepers: Ordered<u64>,

    /// By (due, id).
    pub(crate) delayed: Ordered<(Millis, u64)>,
    /// By the order of burying.
    pub(crate) buried: Ordered<u64>,
    /// Grows with every queue made; lists are in this order.
    pub(crate) age_rank: u64,
    /// Exists without jobs or users.
    pub(crate) kept: bool,
    /// Most unfinished jobs at which a submit of each band is still accepted; 0 for no limit.
    pub(crate) limits: [u32; 3],
    pub(crate) finishes: u64,
    pub(crate) pauses: u64,
}

/// Bytes of a cache line.
const LINE_BYTES: usize = 64;
// A put reads all up to whether somebody waits.
const _: () = assert!(std::mem::offset_of!(Queue, waiters) < 4 * LINE_BYTES);

impl Queue {
    pub(crate) fn new(name: &[u8], age_rank: u64) -> Self {
        Self {
            name: SmallVec::from_slice(name),
            users: 0,
            watchers: 0,
            extra: None,
            puts: 0,
            counts: Counts::default(),
            ready: Ordered::default(),
            waiters: Ordered::default(),
            workers: 0,
            sleepers: Ordered::default(),
            pause: None,
            removals: 0,
            delayed: Ordered::default(),
            buried: Ordered::default(),
            timer: None,
            age_rank,
            kept: false,
            limits: [0; 3],
            finishes: 0,
            pauses: 0,
        }
    }

    /// Asks for what a put will touch, besides the name.
    pub(crate) fn prefetch(&self) {
        prefetch(&self.counts);
        prefetch(&self.ready);
        prefetch(&self.removals);
    }

    /// Whether anything keeps the queue in existence (spec beanstalkd 6).
    pub(crate) fn is_wanted(&self) -> bool {
        self.users > 0
            || self.watchers > 0
            || self.counts.total() > 0
            || self.kept
            || self.workers > 0
            || self.removals > 0
    }

    /// Whether a take may be served from here: while those who wait are served in slices, or are
    /// about to be, only what they leave.
    pub(crate) fn can_serve(&self, now: Millis) -> bool {
        !self.ready.is_empty()
            && self.removals == 0
            && self.pause.is_none_or(|pause| {
                let is_held = match pause.reason {
                    PauseReason::Asked { .. } => pause.until > now,
                    PauseReason::Serving => false,
                };
                !is_held && self.ready.len() > self.waiters.len()
            })
    }

    /// Whether its ready jobs are held back from those who wait. A pause lasts until its timer ends
    /// it and serves them, lest anybody overtakes them in between.
    pub(crate) fn is_paused(&self) -> bool {
        self.removals > 0 || self.pause.is_some()
    }

    /// When it is to go, if its policy says so, and nobody uses it and nothing is in it.
    pub(crate) fn idle_ends(&self) -> Option<Millis> {
        let extra = self.extra.as_ref()?;
        let idle_ms = extra.policy.idle_ms?;
        let is_idle = self.kept
            && self.counts.total() == 0
            && self.users == 0
            && self.watchers == 0
            && self.workers == 0
            && self.waiters.is_empty()
            && self.removals == 0
            && &*self.name != DEFAULT_QUEUE;
        is_idle.then(|| Millis(extra.created.0.saturating_add(idle_ms).saturating_add(1)))
    }

    /// The next moment at which something happens here by itself, expiry and idleness apart.
    pub(crate) fn next_moment(&self) -> Option<Millis> {
        let due = self.delayed.first().map(|((due, _), _)| due);
        let unpause = self.pause.map(|pause| pause.until);
        [due, unpause].into_iter().flatten().min()
    }
}
