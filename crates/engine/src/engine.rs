//! The state machine: its tables, and what happens to jobs on request.
//!
//! Everything here is deterministic. Time comes in through [`Engine::set_time`]; nothing is read
//! from a clock, and hash maps are looked into but never walked.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::chores::Chore;
use crate::collections::Slab;
use crate::effects::{Effects, News, Record};
use crate::extra::Special;
use crate::hash::NameHash;
use crate::ids::{JobId, JobSlot, LeaseId, Millis, QueueId, SessionId};
use crate::jobs::{Body, Draft, Job, Jobs, Kind, NewJob, State};
use crate::limits::{Limits, UNIT_BODY_BYTES};
use crate::meter::Meter;
use crate::names::NameTable;
use crate::news::UntoldNews;
use crate::queue::Queue;
use crate::route::Refused;
use crate::session::{NEVER, Session};
use crate::timers::Timers;
use crate::wall::{WallClock, When};

/// The name of the queue that always exists (spec beanstalkd 6).
pub const DEFAULT_QUEUE: &[u8] = b"default";

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
    pub(crate) now: Millis,
    pub(crate) meter: Meter,
    pub(crate) hash: NameHash,
    /// What queues and sessions take of memory: see `bytes.rs`.
    pub(crate) memory_bytes: u64,

    pub(crate) jobs: Jobs,
    pub(crate) next_lease: u64,

    pub(crate) queues: Slab<Queue>,
    pub(crate) names: NameTable,
    /// Queues from the oldest on.
    pub(crate) by_age: BTreeMap<u64, QueueId>,
    pub(crate) next_age_rank: u64,
    /// Queues with capital letters in their names, by the hash of the name without them and by age.
    pub(crate) cased: BTreeMap<(u64, u64), QueueId>,

    pub(crate) sessions: Slab<Session>,
    pub(crate) next_generation: u32,
    pub(crate) next_ticket: u64,

    /// At most one entry per queue and session.
    pub(crate) timers: Timers,
    pub(crate) wall: WallClock,
    pub(crate) chores: VecDeque<Chore>,
    /// Chores rest: see [`Engine::hold_chores`].
    pub(crate) chores_held: bool,
    /// Timers left no time for chores: one comes before them next time.
    pub(crate) chore_is_next: bool,

    pub(crate) untold: UntoldNews,
    /// Queues that have both ready jobs and workers.
    pub(crate) supplying: BTreeSet<QueueId>,
    /// What only queues with an [`crate::extra::Extra`] need.
    pub(crate) special: Special,
    pub(crate) attempts_max: u32,
    pub(crate) wake_max: u32,

    pub(crate) waiting_sessions: u64,
    pub(crate) puts: u64,
    pub(crate) takes: u64,
    pub(crate) releases: u64,
    pub(crate) buries: u64,
    pub(crate) ends: u64,
    pub(crate) timeouts: u64,
}

impl Engine {
    /// An empty engine at this moment. Ids and lease numbers start at `first_id`, which must be
    /// above all that an earlier engine over the same log gave out (1 for a new one).
    pub fn new(setup: EngineSetup, now: Millis, first_id: u64) -> Self {
        let hash = NameHash::new(setup.hash_seed);
        let mut engine = Self {
            now,
            meter: Meter::new(setup.limits.slice_units),
            memory_bytes: 0,
            jobs: Jobs::new(hash.clone(), first_id.max(1)),
            hash,
            next_lease: first_id.max(1),
            queues: Slab::default(),
            names: NameTable::default(),
            by_age: BTreeMap::new(),
            next_age_rank: 0,
            cased: BTreeMap::new(),
            sessions: Slab::default(),
            next_generation: 1,
            next_ticket: 1,
            timers: Timers::default(),
            wall: WallClock::default(),
            chores: VecDeque::new(),
            chores_held: false,
            chore_is_next: false,
            untold: UntoldNews::default(),
            supplying: BTreeSet::new(),
            special: Special::default(),
            attempts_max: 0,
            wake_max: 0,
            waiting_sessions: 0,
            puts: 0,
            takes: 0,
            releases: 0,
            buries: 0,
            ends: 0,
            timeouts: 0,
        };
        let default = engine.queue_or_create(DEFAULT_QUEUE);
        engine.set_kept(default, true);
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
        self.jobs.next_id().max(self.next_lease)
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
        let queue = self.session(session).used;
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
        if self.queue(queue).extra.is_some() {
            return self.put_routed(queue, draft, effects);
        }
        let slot = self.enter(queue, draft, Kind::Logged);
        self.note(Record::Put, slot, effects);
        self.place(slot, effects);
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
        self.queue_mut(queue).finishes += 1;
        // Whoever watches a job that another dialect deletes hears that it is done.
        self.end_job(slot, &News::Complete(Body::from(Vec::new())), effects);
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
        self.releases += 1;
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
            State::Ready => self.offer(slot, effects),
            State::Delayed | State::Leased | State::Buried => self.enlist(slot),
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
        self.buries += 1;
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
        self.enlist(slot);
        Ok(slot)
    }

    /// Makes a delayed or buried job ready.
    pub fn kick_job(&mut self, id: JobId, effects: &mut Effects) -> Result<JobSlot, NotFound> {
        let slot = self.slot(id)?;
        match self.jobs[slot].state() {
            State::Delayed | State::Buried => {}
            State::Ready | State::Leased => return Err(NotFound),
        }
        self.delist(slot);
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
        self.offer(slot, effects);
    }

    // --- Jobs in their lists ---

    /// Enters a new job into the tables, but not into a list of its queue.
    pub(crate) fn add_job(&mut self, job: Job) -> JobSlot {
        self.meter.count(1 + job.body().len() / UNIT_BODY_BYTES);
        self.queue_mut(job.queue()).counts.add(job.share());
        self.jobs.insert(job)
    }

    pub(crate) fn remove_job(&mut self, slot: JobSlot, effects: &mut Effects) {
        self.meter.count(1);
        match self.jobs[slot].state() {
            State::Leased if self.jobs[slot].lease().is_none() => {}
            State::Leased => self.end_lease(slot),
            State::Ready | State::Delayed | State::Buried => self.delist(slot),
        }
        let job = self.jobs.remove(slot);
        self.ends += 1;
        self.queue_mut(job.queue()).counts.remove(job.share());
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
        let queue = self.queues.get_mut(job.queue().0).expect("a job's queue exists");
        queue.counts.remove(before);
        queue.counts.add(job.share());
    }

    /// Puts a ready, delayed or buried job into the list of its queue for that state.
    pub(crate) fn enlist(&mut self, slot: JobSlot) {
        let job = &self.jobs[slot];
        let queue = self.queues.get_mut(job.queue().0).expect("a job's queue exists");
        match job.state() {
            State::Ready => {
                queue.ready.insert(job.ready_key(), slot.0);
                if queue.workers > 0 {
                    self.supplying.insert(job.queue());
                }
                if queue.extra.is_some() {
                    self.arm_queue(job.queue());
                }
            }
            State::Buried => queue.buried.insert(job.buried_order(), slot.0),
            State::Leased => unreachable!("a leased job is in no list"),
            State::Delayed => {
                queue.delayed.insert(job.delayed_key(), slot.0);
                self.arm_queue(job.queue());
            }
        }
    }

    /// Takes a ready, delayed or buried job out of its queue's list.
    pub(crate) fn delist(&mut self, slot: JobSlot) {
        let job = &self.jobs[slot];
        let queue = self.queues.get_mut(job.queue().0).expect("a job's queue exists");
        let found = match job.state() {
            State::Ready => queue.ready.remove(job.ready_key()),
            State::Delayed => queue.delayed.remove(job.delayed_key()),
            State::Buried => queue.buried.remove(job.buried_order()),
            State::Leased => unreachable!("a leased job is in no list"),
        };
        assert_eq!(found, Some(slot.0), "a job is in the list of its state");
        if queue.workers > 0 && queue.ready.is_empty() {
            self.supplying.remove(&job.queue());
        }
        if queue.extra.is_some() {
            // The next one may expire sooner.
            self.arm_queue(job.queue());
        }
    }

    /// Ends the hand-out of a leased job; its state is the caller's business.
    pub(crate) fn end_lease(&mut self, slot: JobSlot) {
        let job = &mut self.jobs[slot];
        let lease = job.lease().expect("a leased job has a lease");
        let (deadline, queue) = (job.due(), job.queue());
        job.set_lease(None);
        if let Some(session) = self.session_mut(lease.holder) {
            session.leases.remove((deadline, lease.id.0));
            if let Some(reader) = &mut session.reader {
                reader.open.remove(&lease.id);
            }
            if let Some(worker) = &mut session.worker {
                worker.let_go(queue, lease.id, slot);
            }
        }
    }

    pub(crate) fn deal_lease(&mut self) -> LeaseId {
        let lease = self.next_lease;
        self.next_lease += 1;
        LeaseId(lease)
    }

    /// The deadline of a job that is handed out, or whose ttr starts anew, now.
    pub(crate) fn deadline(&self, ttr_s: u32) -> Millis {
        if ttr_s == 0 { NEVER } else { self.now.plus_seconds(ttr_s) }
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

    pub(crate) fn queue(&self, id: QueueId) -> &Queue {
        self.queues.get(id.0).expect("a queue exists while something refers to it")
    }

    pub(crate) fn queue_mut(&mut self, id: QueueId) -> &mut Queue {
        self.queues.get_mut(id.0).expect("a queue exists while something refers to it")
    }
}
