//! The state machine: its tables, and what happens to jobs on request.
//!
//! Everything here is deterministic. Time comes in through [`Engine::set_time`]; nothing is read
//! from a clock, and hash maps are looked into but never walked.

mod advance;
mod check;
mod expiry;
mod finish;
mod give_back;
mod listing;
mod policies;
mod put;
mod queues;
mod replay;
mod results;
mod sessions;
mod slices;
mod stats;
mod status;
mod take;

pub use listing::{JobCursor, NameCursor, QueueCursor};
pub use put::{Refused, Submit};
pub use replay::RestoreError;
pub use results::WorkProgress;
pub use slices::{Clearing, Kick};
pub use stats::{QueueStats, Totals};
pub use take::{AliasStats, Choice, GrabOrder, Handout, ItemStats, Patience, Take};

use crate::chores::ChoreLine;
use crate::effects::{Effects, Record};
use crate::hash::NameHash;
use crate::ids::{JobId, JobSlot, Millis, SessionId};
use crate::jobs::{Jobs, State};
use crate::limits::Limits;
use crate::meter::Meter;
use crate::news::NewsQueue;
use crate::policy::InForce;
use crate::queues::{DEFAULT_QUEUE, Queues, Walk};
use crate::sessions::Sessions;
use crate::status::ServerStatus;
use crate::tally::Tally;
use crate::timers::Timers;
use crate::wall::WallClock;

/// There is no such job, or it is not in a state, or not in the hands, that the request needs.
#[derive(Copy, Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("no such job for this request")]
pub struct NotFound;

/// What an engine is made with, apart from the moment and the first number.
#[derive(Copy, Clone, Debug, Default)]
pub struct EngineSetup {
    /// Seeds the hashes of names and keys. A server draws it at random, so that no client can choose
    /// names of equal hash; replay and simulation may choose any, since nothing that a client sees
    /// depends on it.
    pub hash_seed: u64,
    /// Bounds that a simulation makes small.
    pub limits: Limits,
}

/// The queue engine.
#[derive(Debug)]
pub struct Engine {
    now: Millis,
    meter: Meter,
    jobs: Jobs,
    queues: Queues,
    sessions: Sessions,

    /// At most one entry per queue and session.
    timers: Timers,
    wall: WallClock,
    chores: ChoreLine,
    untold: NewsQueue,

    rules: InForce,
    standing: ServerStatus,
    /// What a change of the rules or of the status means for each queue is not done for all of them.
    walk: Option<Walk>,
    attempts_max: u32,
    wake_max: u32,

    tally: Tally,
}

impl Engine {
    /// An empty engine at this moment. Ids and lease numbers start at `first_id`, which must be
    /// above all that an earlier engine over the same log gave out (1 for a new one).
    pub fn new(setup: EngineSetup, now: Millis, first_id: u64) -> Self {
        let hash = NameHash::new(setup.hash_seed);
        let mut engine = Self {
            now,
            meter: Meter::new(setup.limits.slice_units),
            jobs: Jobs::new(hash.clone(), first_id.max(1)),
            queues: Queues::new(hash),
            sessions: Sessions::new(first_id.max(1)),
            timers: Timers::default(),
            wall: WallClock::default(),
            chores: ChoreLine::default(),
            untold: NewsQueue::default(),
            rules: InForce::default(),
            standing: ServerStatus::default(),
            walk: None,
            attempts_max: 0,
            wake_max: 0,
            tally: Tally::default(),
        };
        let default = engine.queue_or_create(DEFAULT_QUEUE);
        engine.queues.set_kept(default, true);
        engine
    }

    /// The moment that requests are executed at.
    pub fn now(&self) -> Millis {
        self.now
    }

    /// Moves time on. Time does not go back: an earlier moment is ignored.
    pub fn set_time(&mut self, now: Millis) {
        self.now = self.now.max(now);
    }

    /// Units of work done since the engine was made: each is a job, list entry, waiter, watcher or
    /// queue that was looked at or changed.
    pub fn work_done(&self) -> u64 {
        self.meter.done()
    }

    /// Units of the longest slice of work so far. It is bounded by two slices of
    /// [`Limits::slice_units`] and [`crate::limits::INDIVISIBLE_UNITS_MAX`], if one was begun before
    /// each piece of input, each event and each end of a session.
    pub fn longest_slice(&self) -> u64 {
        self.meter.longest_slice()
    }

    /// So many units of work are done outside that belong to this slice, like rows that are written.
    pub fn count_work(&mut self, units: usize) {
        self.meter.count(units);
    }

    /// Begins a slice of work; see [`Engine::slice_is_spent`].
    pub fn begin_slice(&mut self) {
        self.meter.begin_slice();
    }

    /// Whether the slice of work is spent: no further request should be begun before others were
    /// served, and what is long goes on in a later slice.
    pub fn slice_is_spent(&self) -> bool {
        self.meter.is_spent()
    }

    /// The next number that would be dealt to a job or a lease: everything from here on is unused.
    pub fn next_number(&self) -> u64 {
        self.jobs.next_id().max(self.sessions.next_lease().0)
    }

    // --- Jobs in their lists ---

    /// A fact about a job for the log, if the job is to be there.
    fn note(&self, record: fn(JobSlot, JobId) -> Record, slot: JobSlot, effects: &mut Effects) {
        let job = &self.jobs[slot];
        if job.is_logged() {
            effects.records.push(record(slot, job.id()));
        }
    }

    /// Sets the state and keeps the counts. Lists are the caller's business.
    fn change_state(&mut self, slot: JobSlot, next: State) {
        self.meter.count(1);
        let before = self.jobs[slot].share();
        self.jobs.set_state(slot, next);
        let job = &self.jobs[slot];
        let queue = &mut self.queues[job.queue()];
        queue.count_out(before);
        queue.count_in(job.share());
    }

    /// Puts a ready, delayed or buried job into the list of its queue for that state.
    fn add_to_list(&mut self, slot: JobSlot) {
        let job = &self.jobs[slot];
        if self.queues.add_to_list(slot, job) {
            self.arm_queue(job.queue());
        }
    }

    /// Takes a ready, delayed or buried job out of its queue's list.
    fn remove_from_list(&mut self, slot: JobSlot) {
        let job = &self.jobs[slot];
        if self.queues.remove_from_list(slot, job) {
            self.arm_queue(job.queue());
        }
    }

    // --- Tables ---

    /// The place of a job.
    pub fn slot(&self, id: JobId) -> Result<JobSlot, NotFound> {
        self.jobs.find(id).ok_or(NotFound)
    }

    /// The place of a job that this session holds.
    pub fn held(&self, session: SessionId, id: JobId) -> Result<JobSlot, NotFound> {
        let slot = self.slot(id)?;
        match self.jobs[slot].lease() {
            Some(lease) if lease.holder == session => Ok(slot),
            Some(_) | None => Err(NotFound),
        }
    }
}
