//! The state machine: its tables, and what happens to jobs on request.
//!
//! Everything here is deterministic. Time comes in through [`Engine::set_time`]; nothing is read
//! from a clock, and hash maps are looked into but never walked.

mod advance;
mod check;
mod choice;
mod chores;
mod expiry;
mod flush;
mod items;
mod lease;
mod listing;
mod news;
mod policies;
mod queues;
mod removal;
mod replay;
mod reschedule;
mod results;
mod route;
mod serve;
mod sessions;
mod stats;
mod status;
mod submit;
mod take;
mod walk;
mod workers;

pub use choice::{Choice, GrabOrder};
pub use chores::Kick;
pub use flush::Clearing;
pub use items::{AliasStats, ItemStats};
pub use listing::{JobCursor, NameCursor, QueueCursor};
pub use replay::RestoreError;
pub use results::WorkProgress;
pub use route::Refused;
pub use stats::{QueueStats, Totals};
pub use submit::Submit;
pub use take::{Handout, Patience, Take};

use crate::chores::ChoreLine;
use crate::effects::{Effects, News, Record};
use crate::hash::NameHash;
use crate::ids::{JobId, JobSlot, Millis, QueueId, SessionId};
use crate::jobs::{Body, Draft, Job, JobKind, Jobs, NewJob, State};
use crate::limits::{Limits, UNIT_BODY_BYTES};
use crate::meter::Meter;
use crate::news::NewsQueue;
use crate::policy::InForce;
use crate::queues::{DEFAULT_QUEUE, Queues, Walk};
use crate::sessions::Sessions;
use crate::status::ServerStatus;
use crate::tally::Tally;
use crate::timers::Timers;
use crate::wall::{WallClock, When};

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

    // --- Jobs ---

    /// Puts a job into the queue that this session uses, and into all that this queue feeds. Its
    /// number.
    pub fn put(
        &mut self,
        session: SessionId,
        job: NewJob,
        body: Body,
        effects: &mut Effects,
    ) -> Result<JobId, Refused> {
        self.meter.begin_request();
        let queue = self.sessions[session].used();
        // The number that it will be dealt.
        let id = JobId(self.jobs.next_id());
        let draft = Draft {
            priority: job.priority,
            due: When::At(self.now.plus_seconds(job.delay_s)),
            delay_s: job.delay_s,
            ttr_s: job.ttr_s,
            expires: None,
            reducer: None,
            foreground: false,
            body,
        };
        if self.queues[queue].extension().is_some() {
            return self.put_routed(queue, draft, effects);
        }
        let slot = self.insert_job(queue, draft, JobKind::Logged);
        self.note(Record::Put, slot, effects);
        self.list_new_job(slot, effects);
        Ok(id)
    }

    /// Uses up a number without a job.
    pub fn skip_id(&mut self) {
        self.jobs.deal_id();
    }

    /// Ends a job that nobody holds, or that this session holds. The queue it was in.
    pub fn finish(
        &mut self,
        session: SessionId,
        id: JobId,
        effects: &mut Effects,
    ) -> Result<QueueId, NotFound> {
        let slot = self.slot(id)?;
        let held_by_other = self.jobs[slot].lease().is_some_and(|lease| lease.holder != session);
        if held_by_other {
            return Err(NotFound);
        }
        let queue = self.jobs[slot].queue();
        // Whoever watches a job that another dialect deletes hears that it is done.
        self.finish_job(slot, &News::done(), effects);
        Ok(queue)
    }

    /// Gives back a job that this session holds: ready, or delayed if `delay_s` is not 0. It keeps
    /// its place among jobs of its priority.
    pub fn give_back(
        &mut self,
        session: SessionId,
        id: JobId,
        priority: u32,
        delay_s: u32,
        effects: &mut Effects,
    ) -> Result<JobSlot, NotFound> {
        let slot = self.held(session, id)?;
        self.tally.releases += 1;
        self.end_lease(slot);
        let job = &mut self.jobs[slot];
        job.set_priority(priority);
        job.set_due(self.now.plus_seconds(delay_s));
        job.set_delay_s(delay_s);
        job.count(|counters| &mut counters.releases);
        if job.is_abandoned() {
            self.remove_job(slot, effects);
            return Ok(slot);
        }
        let next = if delay_s > 0 { State::Delayed } else { State::Ready };
        self.change_state(slot, next);
        self.note(Record::Update, slot, effects);
        match next {
            State::Ready => self.deliver_or_list(slot, effects),
            State::Delayed | State::Leased | State::Buried => self.add_to_list(slot),
        }
        Ok(slot)
    }

    /// Sets a job aside that this session holds.
    pub fn bury(
        &mut self,
        session: SessionId,
        id: JobId,
        priority: u32,
        effects: &mut Effects,
    ) -> Result<JobSlot, NotFound> {
        let slot = self.held(session, id)?;
        self.tally.buries += 1;
        // Whoever watches a job that another dialect sets aside hears that it failed.
        self.tell_end(slot, &News::Fail, effects);
        if self.jobs[slot].is_abandoned() {
            self.remove_job(slot, effects);
            return Ok(slot);
        }
        self.end_lease(slot);
        self.jobs.deal_buried_order(slot);
        let job = &mut self.jobs[slot];
        job.set_priority(priority);
        job.count(|counters| &mut counters.buries);
        self.change_state(slot, State::Buried);
        self.note(Record::Update, slot, effects);
        self.add_to_list(slot);
        Ok(slot)
    }

    /// Makes a delayed or buried job ready.
    pub fn kick_job(&mut self, id: JobId, effects: &mut Effects) -> Result<JobSlot, NotFound> {
        let slot = self.slot(id)?;
        match self.jobs[slot].state() {
            State::Delayed | State::Buried => {}
            State::Ready | State::Leased => return Err(NotFound),
        }
        self.remove_from_list(slot);
        self.kick_delisted(slot, effects);
        Ok(slot)
    }

    /// Makes a job ready that was just taken off the delayed or buried list.
    pub(crate) fn kick_delisted(&mut self, slot: JobSlot, effects: &mut Effects) {
        let job = &mut self.jobs[slot];
        job.set_due(self.now);
        job.count(|counters| &mut counters.kicks);
        self.change_state(slot, State::Ready);
        self.note(Record::Update, slot, effects);
        self.deliver_or_list(slot, effects);
    }

    // --- Jobs in their lists ---

    /// Enters a new job into the tables, but not into a list of its queue.
    pub(crate) fn add_job(&mut self, job: Job) -> JobSlot {
        self.meter.count(1 + job.body().len() / UNIT_BODY_BYTES);
        self.queues[job.queue()].count_in(job.share());
        self.jobs.insert(job)
    }

    pub(crate) fn remove_job(&mut self, slot: JobSlot, effects: &mut Effects) {
        self.meter.count(1);
        match self.jobs[slot].state() {
            State::Leased if self.jobs[slot].lease().is_none() => {}
            State::Leased => self.end_lease(slot),
            State::Ready | State::Delayed | State::Buried => self.remove_from_list(slot),
        }
        let job = self.jobs.remove(slot);
        self.tally.ends += 1;
        self.queues[job.queue()].count_out(job.share());
        if job.is_logged() {
            let sync = self.queue_sync(job.queue());
            effects.records.push(Record::Finish(slot, job.queue(), sync));
        }
        self.drop_if_unwanted(job.queue(), effects);
    }

    /// A fact about a job for the log, if the job is to be there.
    pub(crate) fn note(
        &self,
        record: fn(JobSlot, JobId) -> Record,
        slot: JobSlot,
        effects: &mut Effects,
    ) {
        let job = &self.jobs[slot];
        if job.is_logged() {
            effects.records.push(record(slot, job.id()));
        }
    }

    /// Sets the state and keeps the counts. Lists are the caller's business.
    pub(crate) fn change_state(&mut self, slot: JobSlot, next: State) {
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
