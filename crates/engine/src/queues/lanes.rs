//! The lanes of a queue whose policy has limits for each key. A lane has the ready jobs of one key,
//! in order, and what the limits need to know of this key.
//!
//! A lane is *open* if one more of its jobs may be handed out. A hand-out can close its lane, but
//! only [`Lanes::open_next`] opens a lane. The engine calls it before each take, and by the queue's
//! timer, and then serves the sessions that wait. So nobody overtakes them.
//!
//! A hand-out takes the first job of the best open lane. It never looks at closed lanes, so its cost
//! does not grow with their number. A closed lane has a place among the due lanes as soon as a moment
//! or the end of a lease lets it open.
//!
//! A lane without jobs, leases and missing tokens is dropped. A new lane has the tokens that the
//! dropped one would have: as many as have come since all buckets were empty, up to the burst.
//!
//! If the limits of a policy change, the jobs of the queue are sorted again, in slices of work.
//! Meanwhile the queue hands out nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use super::gates::{Bucket, GateTerms, token_parts};
use super::queue::ReadyKey;
use crate::collections::Slab;
use crate::ids::{JobSlot, LeaseId, Millis};
use crate::policy::{KeyHash, LaneRules};

/// The bytes of a lane: its entry in the slab, in the tree of keys, and in the sets.
const LANE_BYTES: u64 = 240;
/// The bytes of a job in its lane: an entry of a tree.
const ENTRY_BYTES: u64 = 48;

/// The lanes of a queue: see the module.
#[derive(Debug)]
pub(crate) struct Lanes {
    rules: LaneRules,
    by_key: BTreeMap<KeyHash, u32>,
    table: Slab<Lane>,
    /// The ready jobs, by lane.
    jobs: BTreeMap<(u32, ReadyKey), JobSlot>,
    /// The open lanes that have a job, by the place of their first job.
    eligible: BTreeSet<(ReadyKey, u32)>,
    /// The lanes that need a look at a moment: to open, or to be dropped.
    due: BTreeSet<(Millis, u32)>,
    /// All buckets were empty at this moment.
    empty_at: Millis,
    /// The leases with smaller numbers are not counted.
    first_lease: LeaseId,
    phase: Phase,
    /// The policy has limits for each key again, while the lanes are being dropped. New lanes come
    /// afterwards. Until then the queue hands out nothing.
    are_wanted_again: bool,
}

/// How far the jobs of the queue are sorted.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
enum Phase {
    /// All ready jobs are in their lanes.
    Sorted,
    /// The ready jobs before this place are in their lanes.
    Sorting(ReadyKey),
    /// All ready jobs are in their lanes. Leases may have ended during the sorting, so each lane needs
    /// a look. Those with keys up to this one have had it.
    Reviewing(Option<KeyHash>),
    /// The lanes lose all their jobs. Those with keys before this one, or with the same key, have
    /// done so.
    Clearing(Option<KeyHash>),
    /// The policy has no limits for each key any more. All lanes are dropped.
    Dropping,
}

/// The ready jobs of one key.
#[derive(Debug)]
struct Lane {
    key: KeyHash,
    /// The number of its ready jobs.
    ready: u32,
    leased: u32,
    bucket: Bucket,
    is_open: bool,
    /// Its place in [`Lanes::eligible`].
    place: Option<ReadyKey>,
    /// Its place in [`Lanes::due`].
    due: Option<Millis>,
}

/// Why a lane is closed.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) enum Closed {
    /// All its slots are in use.
    Slots(u32),
    /// It has no token before this moment.
    NoToken(Millis),
    /// The engine opens it next.
    Opens,
}

/// What a step of the sorting needs or did.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) enum Sorting {
    /// The first ready job at this place or behind it comes next.
    From(ReadyKey),
    /// A step is done.
    Went,
    /// All lanes are gone, and the queue needs none.
    Gone,
    /// There is nothing to sort.
    Done,
}

impl Lane {
    fn new(key: KeyHash, empty_at: Millis) -> Self {
        Self {
            key,
            ready: 0,
            leased: 0,
            bucket: Bucket { parts: 0, at: empty_at },
            is_open: true,
            place: None,
            due: None,
        }
    }

    fn has_slot(&self, rules: &LaneRules) -> bool {
        rules.slots.is_none_or(|limit| self.leased < limit.get())
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
    pub(super) fn new(rules: LaneRules, now: Millis, first_lease: LeaseId) -> Self {
        Self {
            rules,
            by_key: BTreeMap::new(),
            table: Slab::default(),
            jobs: BTreeMap::new(),
            eligible: BTreeSet::new(),
            due: BTreeSet::new(),
            empty_at: now,
            first_lease,
            phase: Phase::Sorting((0, 0)),
            are_wanted_again: false,
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.by_key.len() as u64 * LANE_BYTES + self.jobs.len() as u64 * ENTRY_BYTES
    }

    /// Whether the policy of the queue has limits for each key.
    pub(crate) fn are_wanted(&self) -> bool {
        self.phase != Phase::Dropping || self.are_wanted_again
    }

    /// Whether the engine must sort the jobs of the queue, or drop lanes.
    pub(crate) fn need_sorting(&self) -> bool {
        self.phase != Phase::Sorted
    }

    /// Other rules apply. All buckets are empty from now on.
    pub(super) fn change_rules(&mut self, rules: Option<LaneRules>, terms: GateTerms) {
        let is_same = rules == Some(self.rules) && self.empty_at >= terms.empty_at;
        match rules {
            // The lanes that are being dropped make room for new ones afterwards.
            None => {
                self.phase = Phase::Dropping;
                self.are_wanted_again = false;
            }
            Some(_) if self.phase == Phase::Dropping => self.are_wanted_again = true,
            Some(_) if is_same => {}
            Some(rules) => {
                let is_new = rules != self.rules;
                self.rules = rules;
                self.empty_at = if is_new { terms.now } else { terms.empty_at };
                self.phase = Phase::Clearing(None);
            }
        }
    }

    // --- Sorting ---

    /// Does a step of the sorting, or says which ready job must enter its lane next.
    pub(crate) fn sort(&mut self, terms: GateTerms) -> Sorting {
        match self.phase {
            Phase::Sorted => Sorting::Done,
            Phase::Sorting(from) => Sorting::From(from),
            Phase::Reviewing(after) => {
                self.review_next(after, terms);
                Sorting::Went
            }
            Phase::Dropping => {
                let went = self.jobs.pop_first().is_some()
                    || self.eligible.pop_first().is_some()
                    || self.due.pop_first().is_some();
                if went {
                    return Sorting::Went;
                }
                let Some((_, at)) = self.by_key.pop_first() else { return Sorting::Gone };
                self.table.remove(at);
                Sorting::Went
            }
            Phase::Clearing(after) => {
                self.clear_next(after, terms);
                Sorting::Went
            }
        }
    }

    fn clear_next(&mut self, after: Option<KeyHash>, terms: GateTerms) {
        if let Some(((at, _), _)) = self.jobs.pop_first() {
            self.lane_mut(at).ready -= 1;
            return;
        }
        if let Some((_, at)) = self.eligible.pop_first() {
            self.lane_mut(at).place = None;
            return;
        }
        if let Some((_, at)) = self.due.pop_first() {
            self.lane_mut(at).due = None;
            return;
        }
        let Some((key, at)) = self.lane_after(after) else {
            self.phase = Phase::Sorting((0, 0));
            return;
        };
        // Only the count of its leases stays.
        let empty_at = self.empty_at;
        let lane = self.lane_mut(at);
        let leased = lane.leased;
        *lane = Lane { leased, ..Lane::new(key, empty_at) };
        if leased == 0 {
            self.by_key.remove(&key);
            self.table.remove(at);
        } else {
            self.close_if_needed(at, terms);
        }
        self.phase = Phase::Clearing(Some(key));
    }

    fn review_next(&mut self, after: Option<KeyHash>, terms: GateTerms) {
        self.phase = match self.lane_after(after) {
            None => Phase::Sorted,
            Some((key, at)) => {
                self.refresh(at, terms);
                Phase::Reviewing(Some(key))
            }
        };
    }

    /// The lane with the next key, or the first one.
    fn lane_after(&self, after: Option<KeyHash>) -> Option<(KeyHash, u32)> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let next = self.by_key.range((from, Bound::Unbounded)).next();
        next.map(|(key, at)| (*key, *at))
    }

    /// The sorting has reached this place: `None` is the end of the list. The job before it has
    /// entered its lane.
    pub(crate) fn sorted_up_to(&mut self, next: Option<ReadyKey>) {
        self.phase = next.map_or(Phase::Reviewing(None), Phase::Sorting);
    }

    /// Whether a ready job at this place is in its lane, or has to be.
    fn has_reached(&self, place: ReadyKey) -> bool {
        match self.phase {
            Phase::Sorted | Phase::Reviewing(_) => true,
            Phase::Sorting(from) => place < from,
            Phase::Clearing(_) | Phase::Dropping => false,
        }
    }

    fn is_at_rest(&self) -> bool {
        matches!(self.phase, Phase::Sorted | Phase::Sorting(_) | Phase::Reviewing(_))
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
        let at = self.table.insert(Lane::new(key, self.empty_at));
        self.by_key.insert(key, at);
        self.close_if_needed(at, terms);
        at
    }

    /// A job of this key enters the list of ready jobs at this place.
    pub(crate) fn enter(&mut self, key: KeyHash, place: ReadyKey, slot: JobSlot, terms: GateTerms) {
        if self.has_reached(place) {
            self.enter_sorted(key, place, slot, terms);
        }
    }

    /// Like [`Lanes::enter`], for a job that the sorting has reached.
    pub(crate) fn enter_sorted(
        &mut self,
        key: KeyHash,
        place: ReadyKey,
        slot: JobSlot,
        terms: GateTerms,
    ) {
        let at = self.ensure_lane(key, terms);
        if self.jobs.insert((at, place), slot).is_none() {
            self.lane_mut(at).ready += 1;
            self.refresh(at, terms);
        }
    }

    /// A job of this key leaves the list of ready jobs.
    pub(crate) fn leave(&mut self, key: KeyHash, place: ReadyKey, terms: GateTerms) {
        let Some(&at) = self.by_key.get(&key) else { return };
        if self.jobs.remove(&(at, place)).is_some() {
            self.lane_mut(at).ready -= 1;
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
        let first = self.first_in(at).map(|(place, _)| place);
        let lane = self.lane_mut(at);
        let is_idle = lane.ready == 0 && lane.leased == 0;
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
        let place = first.filter(|_| lane.is_open);
        let (old_place, old_due) =
            (std::mem::replace(&mut lane.place, place), std::mem::replace(&mut lane.due, due));
        let (key, is_dropped) = (lane.key, is_idle && full_at <= terms.now);
        if old_place != place {
            if let Some(place) = old_place {
                self.eligible.remove(&(place, at));
            }
            if let Some(place) = place {
                self.eligible.insert((place, at));
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

    fn first_in(&self, at: u32) -> Option<(ReadyKey, JobSlot)> {
        let first = self.jobs.range((at, (0, 0))..).next();
        first.filter(|((lane, _), _)| *lane == at).map(|((_, place), slot)| (*place, *slot))
    }

    /// The job that is handed out next.
    pub(crate) fn next(&self) -> Option<(ReadyKey, JobSlot)> {
        let (place, at) = *self.eligible.first()?;
        self.jobs.get(&(at, place)).map(|slot| (place, *slot))
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
        let new = Lane::new(key, self.empty_at);
        let Some(lane) = self.lane_of(key) else {
            let rate = self.rules.rate.filter(|_| !new.has_token(&self.rules, terms.now))?;
            return Some(Closed::NoToken(new.bucket.next_token(rate)));
        };
        if lane.is_open {
            return None;
        }
        Some(match self.rules.slots.filter(|_| !lane.has_slot(&self.rules)) {
            Some(limit) => Closed::Slots(limit.get()),
            None => match lane.due.filter(|due| *due > terms.now) {
                Some(due) => Closed::NoToken(due),
                None => Closed::Opens,
            },
        })
    }

    // --- Checks ---

    /// Panics if the lanes do not agree with these ready jobs, or with each other.
    pub(crate) fn check(
        &self,
        ready: impl Iterator<Item = (KeyHash, ReadyKey, JobSlot)>,
        terms: GateTerms,
    ) {
        if self.phase != Phase::Sorted {
            return;
        }
        let mut count = 0;
        for (key, place, slot) in ready {
            let at = self.by_key[&key];
            assert_eq!(self.jobs.get(&(at, place)), Some(&slot), "a ready job is in its lane");
            count += 1;
        }
        assert_eq!(self.jobs.len(), count, "only ready jobs are in lanes");
        let (mut eligible, mut due) = (0, 0);
        for (key, at) in &self.by_key {
            let lane = self.table.get(*at).expect("a key has its lane");
            assert_eq!(lane.key, *key);
            assert!(!lane.is_open || lane.has_slot(&self.rules), "an open lane has a slot");
            assert!(!lane.is_open || lane.has_token(&self.rules, terms.now), "and a token");
            let can_open = !lane.is_open && lane.has_slot(&self.rules);
            assert!(!can_open || lane.due.is_some(), "a lane that can open is due");
            let first = self.first_in(*at).map(|(place, _)| place).filter(|_| lane.is_open);
            assert_eq!(lane.place, first, "an open lane is at the place of its first job");
            assert!(lane.place.is_none_or(|place| self.eligible.contains(&(place, *at))));
            assert!(lane.due.is_none_or(|due| self.due.contains(&(due, *at))));
            eligible += usize::from(lane.place.is_some());
            due += usize::from(lane.due.is_some());
        }
        assert_eq!((eligible, due), (self.eligible.len(), self.due.len()), "the sets of lanes");
        assert_eq!(self.by_key.len(), self.table.len(), "each lane has a key");
    }
}
