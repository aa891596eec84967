//! Sorting: after a change of the policy, the jobs of the queue enter their lanes again, in slices of
//! work. Meanwhile the queue hands out nothing.

use std::ops::Bound;

use super::order::{DelayKey, Entrant};
use super::{Lane, Lanes};
use crate::ids::{JobSlot, Millis};
use crate::policy::{KeyHash, LaneRules, LaneWeights};
use crate::queues::{GateTerms, ReadyKey};

/// How far the jobs of the queue are sorted.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(super) enum Phase {
    /// All ready jobs are in their lanes.
    Sorted,
    /// The ready jobs before this place are in their lanes.
    Sorting(ReadyKey),
    /// All ready jobs are in their lanes. The order is strict, and the lanes count the delayed jobs
    /// before this place.
    Counting(DelayKey),
    /// All jobs are in their lanes. Leases may have ended during the sorting, so each lane needs a
    /// look. Those with keys up to this one have had it.
    Reviewing(Option<KeyHash>),
    /// The lanes lose all their jobs. Those with keys before this one, or with the same key, have
    /// done so.
    Clearing(Option<KeyHash>),
    /// The policy needs no lanes any more. All lanes are dropped.
    Dropping,
}

/// What a step of the sorting needs or did.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) enum Sorting {
    /// The first ready job at this place or behind it comes next.
    From(ReadyKey),
    /// The first delayed job at this place or behind it comes next.
    FromDelayed(DelayKey),
    /// A step is done.
    Went,
    /// All lanes are gone, and the queue needs none.
    Gone,
    /// There is nothing to sort.
    Done,
}

impl Lanes {
    /// Whether the policy of the queue needs lanes.
    pub(crate) fn are_wanted(&self) -> bool {
        self.phase != Phase::Dropping || self.are_wanted_again
    }

    /// Whether the engine must sort the jobs of the queue, or drop lanes.
    pub(crate) fn need_sorting(&self) -> bool {
        self.phase != Phase::Sorted
    }

    /// Other rules apply. All buckets are empty from now on.
    pub(in crate::queues) fn change_rules(
        &mut self,
        rules: Option<LaneRules>,
        weights: LaneWeights,
        terms: GateTerms,
    ) {
        let is_new = rules != Some(self.rules) || weights != self.weights;
        match rules {
            // The lanes that are being dropped make room for new ones afterwards.
            None => {
                self.phase = Phase::Dropping;
                self.are_wanted_again = false;
            }
            Some(_) if self.phase == Phase::Dropping => self.are_wanted_again = true,
            // Equal weights are one list in memory for all queues of the new rules.
            Some(_) if !is_new && self.empty_at >= terms.empty_at => self.weights = weights,
            // A lease counts for the lane that it began in, so it cannot count for another one.
            Some(rules) if rules.is_keyed() != self.rules.is_keyed() => {
                self.phase = Phase::Dropping;
                self.are_wanted_again = true;
            }
            Some(rules) => {
                (self.rules, self.weights) = (rules, weights);
                self.empty_at = if is_new { terms.now } else { terms.empty_at };
                self.phase = Phase::Clearing(None);
            }
        }
    }

    /// Does a step of the sorting, or says which job must enter its lane next.
    pub(crate) fn sort(&mut self, terms: GateTerms) -> Sorting {
        match self.phase {
            Phase::Sorted => Sorting::Done,
            Phase::Sorting(from) => Sorting::From(from),
            Phase::Counting(from) => Sorting::FromDelayed(from),
            Phase::Reviewing(after) => {
                self.review_next(after, terms);
                Sorting::Went
            }
            Phase::Dropping => {
                let went = self.jobs.pop_first().is_some()
                    || self.eligible.pop_first().is_some()
                    || self.heads.pop_first().is_some()
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
            self.lane_mut(at).rank = None;
            return;
        }
        if self.forget_head() {
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
        let new = Lane::new(key, self.weights.of(key), self.empty_at);
        let lane = self.lane_mut(at);
        let leased = lane.leased;
        *lane = Lane { leased, ..new };
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

    /// The sorting has reached this ready job. The job behind it comes next.
    pub(crate) fn sort_ready(&mut self, job: Entrant, slot: JobSlot, terms: GateTerms) {
        self.enter_sorted(job, slot, terms);
        self.phase = Phase::Sorting((job.place.0, job.place.1 + 1));
    }

    /// The sorting has reached the end of the list of ready jobs.
    pub(crate) fn end_ready(&mut self) {
        self.phase = if self.rules.is_strict {
            Phase::Counting((Millis(0), 0))
        } else {
            Phase::Reviewing(None)
        };
    }

    /// The sorting has reached this delayed job. The job behind it comes next.
    pub(crate) fn sort_delayed(&mut self, job: Entrant, place: DelayKey, terms: GateTerms) {
        if job.has_begun {
            self.count_delayed(job.key, terms);
        }
        self.phase = Phase::Counting((place.0, place.1 + 1));
    }

    /// The sorting has reached the end of the list of delayed jobs.
    pub(crate) fn end_delayed(&mut self) {
        self.phase = Phase::Reviewing(None);
    }

    /// Whether a ready job at this place is in its lane, or has to be.
    pub(super) fn has_reached(&self, place: ReadyKey) -> bool {
        match self.phase {
            Phase::Sorted | Phase::Reviewing(_) | Phase::Counting(_) => true,
            Phase::Sorting(from) => place < from,
            Phase::Clearing(_) | Phase::Dropping => false,
        }
    }

    /// Whether the lanes count a delayed job at this place, or have to.
    pub(super) fn has_counted(&self, place: DelayKey) -> bool {
        match self.phase {
            Phase::Sorted | Phase::Reviewing(_) => true,
            Phase::Counting(from) => place < from,
            Phase::Sorting(_) | Phase::Clearing(_) | Phase::Dropping => false,
        }
    }

    pub(super) fn is_at_rest(&self) -> bool {
        match self.phase {
            Phase::Sorted | Phase::Sorting(_) | Phase::Counting(_) | Phase::Reviewing(_) => true,
            Phase::Clearing(_) | Phase::Dropping => false,
        }
    }
}
