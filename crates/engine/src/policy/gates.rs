//! Limits of hand-outs: how many jobs a queue hands out in a time, and at one time.

use std::num::NonZeroU32;

use super::fair::Share;
use super::{Aging, Key, KeyHash, Policy};

/// How many jobs a queue hands out in a time, at most. All numbers are whole, so that a bucket fills
/// exactly, however long it takes.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct Rate {
    /// Thousandths of jobs in one [`Rate::per`].
    pub milli: NonZeroU32,
    /// The time that `milli` refers to.
    pub per: Per,
}

/// The unit of a [`Rate`].
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum Per {
    /// A second.
    Second,
    /// A minute.
    Minute,
    /// An hour.
    Hour,
}

impl Per {
    /// The length of the unit in milliseconds.
    pub fn millis(self) -> u32 {
        match self {
            Self::Second => 1_000,
            Self::Minute => 60_000,
            Self::Hour => 3_600_000,
        }
    }
}

/// Whether other jobs can pass a job that was handed out and is not done.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub enum Order {
    /// They can pass it while it is delayed.
    #[default]
    Loose,
    /// The job keeps its slot until it is done or buried, also while it is delayed. When it is ready
    /// again, it comes first.
    Strict,
}

impl Policy {
    /// How many jobs a queue with a rate can hand out at once. By default, this is the number of a
    /// second, and at least 1.
    pub fn burst(&self) -> u32 {
        let of_a_second = self.rate.map_or(0, |rate| rate.milli.get() / rate.per.millis());
        self.rate_burst.map_or(of_a_second.max(1), NonZeroU32::get)
    }

    /// Whether the queue limits or orders its hand-outs.
    pub fn has_gates(&self) -> bool {
        self.rate.is_some() || self.concurrency.is_some() || self.lane_rules().is_some()
    }

    /// Where the group key of a job is. A queue has one such place: if several keys are set, the first
    /// of `concurrency.key`, `rate.key` and `fair.key` counts.
    pub fn group_key(&self) -> Option<&Key> {
        let slots = self.concurrency_key.as_ref().filter(|_| self.concurrency.is_some());
        let rate = || self.rate_key.as_ref().filter(|_| self.rate.is_some());
        slots.or_else(rate).or(self.fair.key.as_ref())
    }

    /// The rate of all jobs of the queue together.
    pub(crate) fn queue_rate(&self) -> Option<Rate> {
        self.rate.filter(|_| self.rate_key.is_none())
    }

    /// The limit of all leased jobs of the queue together, if its order is loose.
    pub(crate) fn queue_slots(&self) -> Option<NonZeroU32> {
        self.concurrency.filter(|_| self.concurrency_key.is_none() && !self.is_strict())
    }

    /// Whether the order of the jobs of the queue, or of each key, is strict.
    pub fn is_strict(&self) -> bool {
        self.concurrency.is_some() && self.concurrency_order == Order::Strict
    }

    /// Whether a queue that had the policy `old` must sort its jobs again. Meanwhile it hands out none.
    pub fn sorts_after(&self, old: &Policy) -> bool {
        let lanes = |policy: &Policy| (policy.lane_rules(), policy.lane_weights());
        self.lane_rules().is_some() && lanes(self) != lanes(old)
    }

    /// Whether the leases of a queue that had the policy `old` do not count for the limit of leased
    /// jobs, because nobody knows which lanes they would count for.
    pub fn forgets_leases_of(&self, old: &Policy) -> bool {
        let is_keyed = |policy: &Policy| policy.lane_rules().is_some_and(|rules| rules.is_keyed());
        let has_slots = self.lane_rules().is_some_and(|rules| rules.slots.is_some());
        has_slots && is_keyed(self) && !is_keyed(old)
    }

    /// How the queue orders its jobs by their keys. `None`: it does not need lanes.
    pub(crate) fn lane_rules(&self) -> Option<LaneRules> {
        let is_strict = self.is_strict();
        // A strict order without a key is the order of the whole queue.
        let is_whole = is_strict && self.concurrency_key.is_none();
        let keys = self.group_key().filter(|_| !is_whole).map(Key::expression_hash);
        if keys.is_none() && !is_strict && self.aging.is_none() {
            return None;
        }
        Some(LaneRules {
            keys,
            is_strict,
            share: self.share().filter(|_| keys.is_some()),
            aging: self.aging,
            rate: self.rate.filter(|_| self.rate_key.is_some()),
            burst: if self.rate_key.is_some() { self.burst() } else { 1 },
            slots: self.concurrency.filter(|_| is_strict || self.concurrency_key.is_some()),
        })
    }
}

/// How a queue orders its jobs by their keys.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) struct LaneRules {
    /// Each key has a lane. This is the hash of the expression of these keys. `None`: all jobs are in
    /// one lane.
    pub(crate) keys: Option<KeyHash>,
    /// See [`Order::Strict`].
    pub(crate) is_strict: bool,
    /// How the lanes share the hand-outs. `None`: the lane with the best first job comes first.
    pub(crate) share: Option<Share>,
    /// See [`Policy::aging`].
    pub(crate) aging: Option<Aging>,
    /// How many jobs of a key the queue hands out in a time.
    pub(crate) rate: Option<Rate>,
    /// How many of them it can hand out at once.
    pub(crate) burst: u32,
    /// How many jobs of a key can be leased at one time.
    pub(crate) slots: Option<NonZeroU32>,
}

impl LaneRules {
    /// Whether each key has a lane.
    pub(crate) fn is_keyed(&self) -> bool {
        self.keys.is_some()
    }
}
