//! The lanes of a queue whose policy orders its jobs by keys. A lane has the ready jobs of one key, in
//! order, and what the policy needs to know of this key. A queue whose policy has no key can have one
//! lane for all its jobs.
//!
//! A lane is *open* if one more of its jobs may be handed out. A hand-out can close its lane, but
//! only [`Lanes::open_next`] opens a lane. The engine calls it before each take, and by the queue's
//! timer, and then serves the sessions that wait. So nobody overtakes them.
//!
//! A hand-out takes the first job of the best open lane. It never looks at closed lanes, so its cost
//! does not grow with their number. A closed lane has a place among the due lanes as soon as a moment
//! or the end of a lease lets it open.
//!
//! If the order is *strict*, a job keeps its slot from its hand-out until it is done or buried, also
//! while it is delayed. A lane counts these delayed jobs. When they are ready again, they come first.
//! The engine knows from its counters that a job was handed out before, so a restart changes nothing.
//!
//! If the policy is *fair*, the lanes share the hand-outs. With *aging*, jobs become more urgent while
//! they wait. Both are orders of jobs and lanes: see `lanes/order.rs`.
//!
//! A lane without jobs, leases and missing tokens is dropped. A new lane has the tokens that the
//! dropped one would have: as many as have come since all buckets were empty, up to the burst.
//!
//! If the policy changes, the jobs of the queue are sorted again: see `lanes/sorting.rs`.

mod heads;
mod order;
mod sorting;

use std::collections::{BTreeMap, BTreeSet};

use super::gates::{Bucket, GateTerms, token_parts};
use crate::collections::Slab;
use crate::ids::{JobSlot, LeaseId, Millis};
use crate::policy::{Aging, KeyHash, LaneRules, LaneWeights};
pub(crate) use order::{DelayKey, Entrant};
use order::{FIRST, LanePlace, Rank, Turn};
use sorting::Phase;
pub(crate) use sorting::Sorting;

/// The bytes of a lane: its entry in the slab, in the tree of keys, and in the sets.
const LANE_BYTES: u64 = 336;
/// The bytes of a job in its lane: an entry of a tree. They were measured, with the allocator's sizes:
/// 88 if the jobs of each key come one after the other, and 70 if they come in any order.
const ENTRY_BYTES: u64 = 80;

/// The lanes of a queue: see the module.
#[derive(Debug)]
pub(crate) struct Lanes {
    rules: LaneRules,
    weights: LaneWeights,
    by_key: BTreeMap<KeyHash, u32>,
    table: Slab<Lane>,
    /// The ready jobs, by lane.
    jobs: BTreeMap<(u32, LanePlace), ReadyJob>,
    /// The open lanes that have a job, by their rank.
    eligible: BTreeSet<(Rank, u32)>,
    /// The lanes of a fair queue that have a job, by the moment since when their first job is ready.
    heads: BTreeSet<(Millis, u32)>,
    /// The lanes that need a look at a moment: to open, or to be dropped.
    due: BTreeSet<(Millis, u32)>,
    /// All buckets were empty at this moment.
    empty_at: Millis,
    /// The leases with smaller numbers are not counted: they began under other rules, and count for no
    /// key. Without keys, it is 0: see [`Lanes::count_leases`].
    first_lease: LeaseId,
    /// See [`Turn`].
    next_turn: u64,
    phase: Phase,
    /// The policy needs lanes again, while the lanes are being dropped. New lanes come afterwards.
    /// Until then the queue hands out nothing.
    are_wanted_again: bool,
}

/// A ready job in its lane.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
struct ReadyJob {
    slot: JobSlot,
    /// When the job became ready.
    since: Millis,
}

/// The first job of a lane.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
struct FirstJob {
    place: LanePlace,
    slot: JobSlot,
    since: Millis,
}

/// The ready jobs of one key.
#[derive(Debug)]
struct Lane {
    key: KeyHash,
    /// The number of its ready jobs.
    ready: u32,
    leased: u32,
    /// The number of its delayed jobs that keep their slots, because the order is strict.
    delayed: u32,
    /// See [`crate::policy::Fair::weights`].
    weight: u32,
    turn: Turn,
    bucket: Bucket,
    is_open: bool,
    /// Its place in [`Lanes::eligible`].
    rank: Option<Rank>,
    /// Its place in [`Lanes::heads`].
    head: Option<Millis>,
    /// Its place in [`Lanes::due`].
    due: Option<Millis>,
}

/// Why a lane is closed.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) enum Closed {
    /// All its slots are in use.
    Slots(u32),
    /// The order is strict. A delayed job has a slot, or another job comes first.
    Order,
    /// It has no token before this moment.
    NoToken(Millis),
    /// The engine opens it next.
    Opens,
}

impl Lane {
    fn new(key: KeyHash, weight: u32, empty_at: Millis) -> Self {
        Self {
            key,
            ready: 0,
            leased: 0,
            delayed: 0,
            weight,
            turn: Turn::NONE,
            bucket: Bucket { parts: 0, at: empty_at },
            is_open: true,
            rank: None,
            head: None,
            due: None,
        }
    }

    fn has_slot(&self, rules: &LaneRules) -> bool {
        rules.slots.is_none_or(|limit| self.leased.saturating_add(self.delayed) < limit.get())
    }

    fn has_token(&self, rules: &LaneRules, now: Millis) -> bool {
        let full_token = |rate| self.bucket.at(now, rate, rules.burst).parts >= token_parts(rate);
        rules.rate.is_none_or(full_token)
    }

    /// The moment from which on a new lane would have the same tokens.
    fn full_at(&self, rules: &LaneRules) -> Millis {
        let Some(rate) = rules.rate else { return Millis(0) };
        let full = token_parts(rate) * u64::from(rules.burst);
        let missing = full.saturating_sub(self.bucket.parts);
        Millis(self.bucket.at.0.saturating_add(missing.div_ceil(rate.milli.get().into())))
    }
}

impl Lanes {
    /// Lanes of a queue, which gets its first job or is sorted next.
    pub(super) fn new(
        (rules, weights): (LaneRules, LaneWeights),
        now: Millis,
        first_lease: LeaseId,
    ) -> Self {
        Self {
            rules,
            weights,
            by_key: BTreeMap::new(),
            table: Slab::default(),
            jobs: BTreeMap::new(),
            eligible: BTreeSet::new(),
            heads: BTreeSet::new(),
            due: BTreeSet::new(),
            empty_at: now,
            first_lease: if rules.is_keyed() { first_lease } else { LeaseId(0) },
            next_turn: 0,
            phase: Phase::Sorting((0, 0)),
            are_wanted_again: false,
        }
    }

    /// Counts the leases from before, after [`Lanes::new`]. Without keys, all of them are in the one lane.
    pub(super) fn count_leases(&mut self, terms: GateTerms) {
        if !self.rules.is_keyed() && terms.leased > 0 {
            let at = self.ensure_lane(KeyHash::default(), terms);
            self.lane_mut(at).leased = terms.leased;
            self.refresh(at, terms);
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.by_key.len() as u64 * LANE_BYTES + self.jobs.len() as u64 * ENTRY_BYTES
    }

    // --- Jobs ---

    fn lane_mut(&mut self, at: u32) -> &mut Lane {
        self.table.get_mut(at).expect("an entry refers to a lane")
    }

    fn lane_of(&self, key: KeyHash) -> Option<&Lane> {
        self.table.get(*self.by_key.get(&key)?)
    }

    /// The lane of a key. Makes it if it is missing.
    fn ensure_lane(&mut self, key: KeyHash, terms: GateTerms) -> u32 {
        if let Some(at) = self.by_key.get(&key) {
            return *at;
        }
        let at = self.table.insert(Lane::new(key, self.weights.of(key), self.empty_at));
        self.by_key.insert(key, at);
        self.close_if_needed(at, terms);
        at
    }

    /// A job enters the list of ready jobs.
    pub(crate) fn enter(&mut self, job: Entrant, slot: JobSlot, terms: GateTerms) {
        if self.has_reached(job.place) {
            self.enter_sorted(job, slot, terms);
        }
    }

    /// Like [`Lanes::enter`], for a job that the sorting has reached.
    fn enter_sorted(&mut self, job: Entrant, slot: JobSlot, terms: GateTerms) {
        let at = self.ensure_lane(job.key, terms);
        let place = job.place_in_lane(&self.rules);
        let ready = ReadyJob { slot, since: job.ready_since };
        if self.jobs.insert((at, place), ready).is_none() {
            let lane = self.lane_mut(at);
            lane.ready += 1;
            if lane.ready == 1 {
                self.begin_turn(at);
            }
            self.refresh(at, terms);
        }
    }

    /// A job leaves the list of ready jobs.
    pub(crate) fn leave(&mut self, job: Entrant, terms: GateTerms) {
        let Some(&at) = self.by_key.get(&job.key) else { return };
        let place = job.place_in_lane(&self.rules);
        if self.jobs.remove(&(at, place)).is_some() {
            self.lane_mut(at).ready -= 1;
            self.refresh(at, terms);
        }
    }

    /// A job enters the list of delayed jobs at this place. If the order is strict, and the job was
    /// handed out before, it keeps its slot.
    pub(crate) fn enter_delayed(&mut self, job: Entrant, place: DelayKey, terms: GateTerms) {
        if self.rules.is_strict && job.has_begun && self.has_counted(place) {
            self.count_delayed(job.key, terms);
        }
    }

    fn count_delayed(&mut self, key: KeyHash, terms: GateTerms) {
        let at = self.ensure_lane(key, terms);
        self.lane_mut(at).delayed += 1;
        self.refresh(at, terms);
    }

    /// A job leaves the list of delayed jobs.
    pub(crate) fn leave_delayed(&mut self, job: Entrant, place: DelayKey, terms: GateTerms) {
        if self.rules.is_strict
            && job.has_begun
            && self.has_counted(place)
            && let Some(&at) = self.by_key.get(&job.key)
        {
            let lane = self.lane_mut(at);
            lane.delayed = lane.delayed.saturating_sub(1);
            self.refresh(at, terms);
        }
    }

    /// A job of this key is handed out, and leased if `is_leased`. Takes a token.
    pub(crate) fn hand_out(&mut self, key: KeyHash, is_leased: bool, terms: GateTerms) {
        if self.phase == Phase::Dropping {
            return;
        }
        let at = self.ensure_lane(key, terms);
        let rules = self.rules;
        let lane = self.lane_mut(at);
        lane.leased += u32::from(is_leased);
        if let Some(rate) = rules.rate {
            lane.bucket = lane.bucket.at(terms.now, rate, rules.burst);
            lane.bucket.parts = lane.bucket.parts.saturating_sub(token_parts(rate));
        }
        self.use_turn(at);
        self.refresh(at, terms);
    }

    /// A lease of a job of this key ends.
    pub(crate) fn end_lease(&mut self, key: KeyHash, lease: LeaseId, terms: GateTerms) {
        if lease < self.first_lease || self.phase == Phase::Dropping {
            return;
        }
        let Some(&at) = self.by_key.get(&key) else { return };
        let lane = self.lane_mut(at);
        lane.leased = lane.leased.saturating_sub(1);
        self.refresh(at, terms);
    }

    // --- Lanes that open and close ---

    /// Closes a lane if none of its jobs may be handed out.
    fn close_if_needed(&mut self, at: u32, terms: GateTerms) {
        let rules = self.rules;
        let lane = self.lane_mut(at);
        lane.is_open &= lane.has_slot(&rules) && lane.has_token(&rules, terms.now);
    }

    /// Brings the sets up to date after a change of a lane. Drops the lane if nothing is left of it.
    fn refresh(&mut self, at: u32, terms: GateTerms) {
        if !self.is_at_rest() {
            return;
        }
        self.close_if_needed(at, terms);
        let rules = self.rules;
        let first = self.first_in(at);
        self.set_head(at, first.map(|first| first.since));
        let lane = self.lane_mut(at);
        let is_idle = lane.ready == 0 && lane.leased == 0 && lane.delayed == 0;
        let full_at = lane.full_at(&rules);
        let due = if lane.is_open {
            is_idle.then_some(full_at)
        } else if !lane.has_slot(&rules) {
            None
        } else {
            let rate = rules.rate.filter(|_| !lane.has_token(&rules, terms.now));
            Some(rate.map_or(terms.now, |rate| {
                lane.bucket.at(terms.now, rate, rules.burst).next_token(rate)
            }))
        };
        let due = due.filter(|_| !is_idle || full_at > terms.now);
        let rank = first.filter(|_| lane.is_open).map(|first| lane.rank(&rules, first.place));
        let (old_rank, old_due) =
            (std::mem::replace(&mut lane.rank, rank), std::mem::replace(&mut lane.due, due));
        let (key, is_dropped) = (lane.key, is_idle && full_at <= terms.now);
        if old_rank != rank {
            if let Some(rank) = old_rank {
                self.eligible.remove(&(rank, at));
            }
            if let Some(rank) = rank {
                self.eligible.insert((rank, at));
            }
        }
        if old_due != due {
            if let Some(due) = old_due {
                self.due.remove(&(due, at));
            }
            if let Some(due) = due {
                self.due.insert((due, at));
            }
        }
        if is_dropped {
            self.by_key.remove(&key);
            self.table.remove(at);
        }
    }

    /// Looks at the next due lane, and opens it if it can. Returns whether it has jobs to hand out
    /// now. `None`: no lane is due.
    pub(crate) fn open_next(&mut self, terms: GateTerms) -> Option<bool> {
        let (moment, at) = *self.due.first()?;
        if moment > terms.now || !self.are_certain(terms) {
            return None;
        }
        self.due.pop_first();
        let rules = self.rules;
        let lane = self.lane_mut(at);
        lane.due = None;
        let opens = !lane.is_open && lane.has_slot(&rules) && lane.has_token(&rules, terms.now);
        lane.is_open |= opens;
        let has_jobs = lane.ready > 0;
        self.refresh(at, terms);
        Some(opens && has_jobs)
    }

    /// Whether a lane is due.
    pub(crate) fn have_due(&self, terms: GateTerms) -> bool {
        self.are_certain(terms) && self.due.first().is_some_and(|(due, _)| *due <= terms.now)
    }

    /// The next moment at which the queue's timer has work here.
    pub(crate) fn next_moment(&self, terms: GateTerms) -> Option<Millis> {
        if self.phase != Phase::Sorted {
            return Some(terms.now);
        }
        // Without certain tokens, no lane opens before the lanes are sorted again.
        let due = self.due.first().filter(|_| self.are_certain(terms));
        due.map(|(due, _)| *due)
    }

    // --- Hand-outs ---

    fn first_in(&self, at: u32) -> Option<FirstJob> {
        let ((lane, place), job) = self.jobs.range((at, FIRST)..).next()?;
        let ReadyJob { slot, since } = *job;
        (*lane == at).then_some(FirstJob { place: *place, slot, since })
    }

    /// The job that is handed out next.
    pub(crate) fn next(&self) -> Option<JobSlot> {
        // While lanes are cleared, their entries have the places of the former rules. A job that ends
        // meanwhile is not found there, so its entry stays.
        if !self.is_at_rest() {
            return None;
        }
        let (_, at) = *self.eligible.first()?;
        self.first_in(at).map(|first| first.slot)
    }

    /// Whether each key has a lane. If not, all jobs are in one lane.
    pub(crate) fn are_keyed(&self) -> bool {
        self.rules.is_keyed()
    }

    /// How fast the jobs become more urgent.
    pub(crate) fn aging(&self) -> Option<Aging> {
        self.rules.aging
    }

    /// Whether the order of the jobs of a lane is strict.
    pub(crate) fn are_strict(&self) -> bool {
        self.rules.is_strict
    }

    /// A lower bound of the number of jobs that can be handed out now.
    pub(crate) fn openings(&self) -> u64 {
        self.eligible.len() as u64
    }

    /// Whether the tokens of the lanes are certain: see [`GateTerms::empty_at`].
    pub(crate) fn are_certain(&self, terms: GateTerms) -> bool {
        self.phase == Phase::Sorted && self.empty_at >= terms.empty_at
    }

    /// Why a job of this key may not be handed out. `None`: it may.
    pub(crate) fn closed(&self, key: KeyHash, terms: GateTerms) -> Option<Closed> {
        let new = Lane::new(key, 1, self.empty_at);
        let Some(lane) = self.lane_of(key) else {
            let rate = self.rules.rate.filter(|_| !new.has_token(&self.rules, terms.now))?;
            return Some(Closed::NoToken(new.bucket.next_token(rate)));
        };
        if lane.is_open {
            return None;
        }
        Some(match self.rules.slots.filter(|_| !lane.has_slot(&self.rules)) {
            Some(limit) if lane.leased < limit.get() => Closed::Order,
            Some(limit) => Closed::Slots(limit.get()),
            None => match lane.due.filter(|due| *due > terms.now) {
                Some(due) => Closed::NoToken(due),
                None => Closed::Opens,
            },
        })
    }

    /// Why a request that names this job may not get it. With a strict order, a delayed job that was
    /// handed out before has a slot already, and any other job must be the first of its lane.
    pub(crate) fn closed_to(
        &self,
        job: Entrant,
        is_delayed: bool,
        terms: GateTerms,
    ) -> Option<Closed> {
        if !self.rules.is_strict {
            return self.closed(job.key, terms);
        }
        let lane = self.lane_of(job.key);
        if is_delayed && job.has_begun {
            let limit = self.rules.slots?.get();
            let lane = lane?;
            let no_token = !lane.has_token(&self.rules, terms.now);
            let rate = self.rules.rate.filter(|_| no_token);
            let token = rate.map(|rate| {
                let bucket = lane.bucket.at(terms.now, rate, self.rules.burst);
                Closed::NoToken(bucket.next_token(rate))
            });
            return if lane.leased < limit { token } else { Some(Closed::Slots(limit)) };
        }
        self.closed(job.key, terms).or_else(|| {
            let first = self.first_in(*self.by_key.get(&job.key)?)?;
            (first.place < job.place_in_lane(&self.rules)).then_some(Closed::Order)
        })
    }

    // --- Checks ---

    /// Panics if the lanes do not agree with these ready and delayed jobs, or with each other.
    pub(crate) fn check(
        &self,
        ready: impl Iterator<Item = (Entrant, JobSlot)>,
        delayed: impl Iterator<Item = Entrant>,
        terms: GateTerms,
    ) {
        if self.phase != Phase::Sorted {
            return;
        }
        let mut count = 0;
        for (job, slot) in ready {
            let place = (self.by_key[&job.key], job.place_in_lane(&self.rules));
            let found = ReadyJob { slot, since: job.ready_since };
            assert_eq!(self.jobs.get(&place), Some(&found), "a ready job is in its lane");
            count += 1;
        }
        let mut waiting: BTreeMap<KeyHash, u32> = BTreeMap::new();
        for job in delayed.filter(|job| self.rules.is_strict && job.has_begun) {
            *waiting.entry(job.key).or_default() += 1;
        }
        let keeping = self.by_key.values().filter_map(|at| {
            let lane = self.table.get(*at).filter(|lane| lane.delayed > 0)?;
            Some((lane.key, lane.delayed))
        });
        assert!(keeping.eq(waiting), "a delayed job keeps its slot");
        assert_eq!(self.jobs.len(), count, "only ready jobs are in lanes");
        let leased = self.lane_of(KeyHash::default()).map_or(0, |lane| lane.leased);
        assert!(self.rules.is_keyed() || leased == terms.leased, "one lane counts all leases");
        let (mut eligible, mut due) = (0, 0);
        for (key, at) in &self.by_key {
            let lane = self.table.get(*at).expect("a key has its lane");
            assert_eq!(lane.key, *key);
            assert!(!lane.is_open || lane.has_slot(&self.rules), "an open lane has a slot");
            assert!(!lane.is_open || lane.has_token(&self.rules, terms.now), "and a token");
            let can_open = !lane.is_open && lane.has_slot(&self.rules);
            assert!(!can_open || lane.due.is_some(), "a lane that can open is due");
            let first = self.first_in(*at).filter(|_| lane.is_open);
            let rank = first.map(|first| lane.rank(&self.rules, first.place));
            assert_eq!(lane.rank, rank, "an open lane has the rank of its first job");
            assert!(lane.rank.is_none_or(|rank| self.eligible.contains(&(rank, *at))));
            assert!(lane.due.is_none_or(|due| self.due.contains(&(due, *at))));
            eligible += usize::from(lane.rank.is_some());
            due += usize::from(lane.due.is_some());
        }
        assert_eq!((eligible, due), (self.eligible.len(), self.due.len()), "the sets of lanes");
        assert_eq!(self.by_key.len(), self.table.len(), "each lane has a key");
        self.check_heads();
    }
}
