//! The state machine: its tables, and the requests that change jobs.
//!
//! The state machine is deterministic. The caller sets the time with [`Engine::set_time`], and the
//! engine reads no clock. The engine looks up keys in hash maps, but never iterates over a hash
//! map.

mod advance;
mod apply;
mod attempts;
mod bodies;
mod by_hand;
mod check;
mod cold;
mod crons;
mod dead_letters;
mod expiry;
mod finish;
mod give_back;
mod listing;
mod moves;
mod need;
mod notes;
mod observe;
mod policies;
mod put;
mod queues;
mod replay;
mod results;
mod sessions;
mod set_aside;
mod slices;
mod stats;
mod status;
mod take;
mod views;

pub use dead_letters::RedriveRefused;
pub use listing::{JobCursor, NameCursor, QueueCursor};
pub use moves::MoveRefused;
pub use need::{Need, Obstacle};
pub use put::{Refused, Submit};
pub use replay::RestoreError;
pub use results::WorkProgress;
pub use set_aside::SetAsideRefused;
pub use slices::{Clearing, Kick};
pub use stats::{QueueStats, Totals};
pub use take::{AliasStats, Choice, GrabOrder, Held, ItemStats, Patience, Take};
pub use views::{HeldCursor, HeldJob, SessionView, SessionWait};

use crate::chores::ChoreLine;
use crate::claims::Claims;
use crate::crons::Crons;
use crate::effects::{Effects, Record};
use crate::hash::NameHash;
use crate::ids::{JobId, JobSlot, Millis, SessionId};
use crate::jobs::{JobList, Jobs, State};
use crate::kept_results::KeptResults;
use crate::limits::Limits;
use crate::meter::Meter;
use crate::milestones::Milestones;
use crate::news::NewsQueue;
use crate::notes::Notes;
use crate::policy::InForce;
use crate::queues::{DEFAULT_QUEUE, Queues, Walk};
use crate::room::RoomLines;
use crate::sessions::Sessions;
use crate::spans::Spans;
use crate::status::ServerStatus;
use crate::tally::Tally;
use crate::timers::Timers;
use crate::wall::WallClock;
use crate::warnings::Warnings;

/// The job does not exist, or its state or its holder does not allow the request.
#[derive(Copy, Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("no such job for this request")]
pub struct NotFound;

/// The parameters of a new engine, apart from the time and the first job id.
#[derive(Copy, Clone, Debug, Default)]
pub struct EngineSetup {
    /// The seed for the hashes of names and keys. A server draws the seed at random, so that
    /// clients cannot choose names with equal hashes. Replay and simulation can use any seed,
    /// because no reply depends on the seed.
    pub hash_seed: u64,
    /// The limits. A simulation sets small limits.
    pub limits: Limits,
}

/// The queue engine.
#[derive(Debug)]
pub struct Engine {
    now: Millis,
    /// See [`Engine::came_due`].
    came_due: Millis,
    meter: Meter,
    jobs: Jobs,
    queues: Queues,
    sessions: Sessions,
    /// The jobs of a load that has not ended: see [`Engine::load`].
    loaded: Vec<(JobList, (u64, u64), JobSlot)>,

    /// At most one entry per queue and per session.
    timers: Timers,
    wall: WallClock,
    chores: ChoreLine,
    news_queue: NewsQueue,
    claims: Claims,
    room: RoomLines,

    rules: InForce,
    crons: Crons,
    notes: Notes,
    server_status: ServerStatus,
    /// The walk that applies a change of the rules or of the status to each queue. `None`: no such
    /// walk is in progress.
    walk: Option<Walk>,
    attempts_max: u32,
    wake_max: u32,
    /// See [`Engine::note_full_memory`].
    memory_is_full: bool,

    tally: Tally,
    /// Whether somebody observes what happens to jobs: see `observe.rs`.
    is_observed: bool,
    spans: Spans,
    milestones: Milestones,
    kept_results: KeptResults,
    warnings: Warnings,
}

impl Engine {
    /// Makes an empty engine at this moment. Job ids and lease numbers start at `first_id`.
    /// `first_id` must be above all numbers that earlier engines used with the same log. For a new
    /// log, `first_id` is 1.
    pub fn new(setup: EngineSetup, now: Millis, first_id: u64) -> Self {
        let hash = NameHash::new(setup.hash_seed);
        let mut engine = Self {
            now,
            came_due: Millis(0),
            meter: Meter::new(setup.limits.slice_units),
            jobs: Jobs::new(hash.clone(), first_id.max(1)),
            queues: Queues::new(hash),
            sessions: Sessions::new(first_id.max(1)),
            loaded: Vec::new(),
            timers: Timers::default(),
            wall: WallClock::default(),
            chores: ChoreLine::default(),
            news_queue: NewsQueue::default(),
            claims: Claims::default(),
            room: RoomLines::default(),
            rules: InForce::default(),
            crons: Crons::default(),
            notes: Notes::default(),
            server_status: ServerStatus::default(),
            walk: None,
            attempts_max: 0,
            wake_max: 0,
            memory_is_full: false,
            tally: Tally::default(),
            is_observed: false,
            spans: Spans::default(),
            milestones: Milestones::default(),
            kept_results: KeptResults::default(),
            warnings: Warnings::default(),
        };
        let default = engine.own_queue_or_create(DEFAULT_QUEUE);
        engine.queues.set_kept(default, true);
        engine
    }

    /// The present moment for all requests, as [`Engine::set_time`] set it.
    pub fn now(&self) -> Millis {
        self.now
    }

    /// When the clock last made a delayed job ready. The log gets no record of this change. So
    /// somebody who reads the log at an earlier time still has the job as delayed.
    pub fn came_due(&self) -> Millis {
        self.came_due
    }

    /// Advances the time. Ignores a moment before the present moment, because time never goes back.
    pub fn set_time(&mut self, now: Millis) {
        self.now = self.now.max(now);
    }

    /// The units of work since the engine was made. Each job, list entry, waiter, watcher or queue
    /// that the engine reads or changes is a unit.
    pub fn work_done(&self) -> u64 {
        self.meter.done()
    }

    /// The units of the longest slice of work so far. The caller must begin a slice before each
    /// piece of input, each event and each end of a session. Then no slice is longer than twice
    /// [`Limits::slice_units`] plus [`crate::limits::INDIVISIBLE_UNITS_MAX`].
    pub fn longest_slice(&self) -> u64 {
        self.meter.longest_slice()
    }

    /// Adds the caller's own work to this slice, in units. For example, each row of a listing that
    /// the caller writes is a unit.
    pub fn count_work(&mut self, units: usize) {
        self.meter.count(units);
    }

    /// Makes slices and requests that begin from now on *short*, or as long as usual again. They
    /// have fewer units then: see [`crate::limits::SHORT_SLICE_DIVISOR`]. So other sessions wait less,
    /// but a long request needs more slices.
    pub fn use_short_slices(&mut self, are_short: bool) {
        self.meter.use_short_slices(are_short);
    }

    /// Begins a slice of work: see [`Engine::slice_is_spent`].
    pub fn begin_slice(&mut self) {
        self.meter.begin_slice();
    }

    /// Whether the slice of work is spent: all its units are used. If so, the caller should serve
    /// other connections before it begins the next request. Long requests continue in a later
    /// slice.
    pub fn slice_is_spent(&self) -> bool {
        self.meter.is_spent()
    }

    /// The next number for a job or a lease. All job ids and lease numbers so far are below this
    /// number.
    pub fn next_number(&self) -> u64 {
        self.jobs.next_id().max(self.sessions.next_lease().0)
    }

    // --- Jobs in their lists ---

    /// Pushes a record about a job, if the job is in the log.
    fn note(&self, record: fn(JobSlot, JobId) -> Record, slot: JobSlot, effects: &mut Effects) {
        let job = &self.jobs[slot];
        if job.is_logged() {
            effects.records.push(record(slot, job.id()));
        }
    }

    /// Sets the state and updates the counts. The caller updates the lists.
    fn change_state(&mut self, slot: JobSlot, next: State) {
        self.meter.count(1);
        let before = self.jobs[slot].counted();
        self.jobs.set_state(slot, next);
        let job = &self.jobs[slot];
        let id = job.queue();
        let queue = &mut self.queues[id];
        queue.count_out(before);
        queue.count_in(job.counted());
        self.note_room(id);
    }

    /// Sets the priority and the due time of a job that is in no list, and that no session holds, and
    /// updates the counts. `wall`: see `Jobs::set_urgency`.
    fn set_urgency(&mut self, slot: JobSlot, urgency: (u32, Millis), wall: Option<Millis>) {
        let before = self.jobs[slot].counted();
        self.jobs.set_urgency(slot, urgency, wall);
        let job = &self.jobs[slot];
        let queue = &mut self.queues[job.queue()];
        queue.count_out(before);
        queue.count_in(job.counted());
    }

    /// Adds a job to the list of its queue for the job's state: ready, delayed or buried.
    fn add_to_list(&mut self, slot: JobSlot) {
        let job = &self.jobs[slot];
        let has_moment = self.jobs.have_dead_letters() && job.death().is_some();
        if self.queues.add_to_list(slot, job) || has_moment {
            let queue = job.queue();
            if self.queues.have_gates() {
                self.enter_lane(slot);
            }
            if self.queues[queue].removals() > 0
                && let Some(extension) = self.queues[queue].extension_mut()
            {
                extension.note_listed(self.jobs[slot].order());
            }
            self.arm_queue(queue);
        }
    }

    /// Removes a job from the list of its queue for the job's state: ready, delayed or buried.
    fn remove_from_list(&mut self, slot: JobSlot) {
        let job = &self.jobs[slot];
        let queue = job.queue();
        if self.queues.remove_from_list(slot, job) {
            let (state, place) = (job.state(), job.ready_place());
            if self.queues.have_gates() {
                self.leave_lane(slot);
            }
            if state == State::Ready {
                self.note_left(queue, place);
            }
            self.arm_queue(queue);
        }
    }

    // --- Tables ---

    /// The place of the job with this number.
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
