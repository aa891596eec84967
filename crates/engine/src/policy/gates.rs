//! Limits of hand-outs: how many jobs a queue hands out in a time, and at one time.

use std::num::NonZeroU32;

use super::{Key, Policy};

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

impl Policy {
    /// How many jobs a queue with a rate can hand out at once. By default, this is the number of a
    /// second, and at least 1.
    pub fn burst(&self) -> u32 {
        let of_a_second = self.rate.map_or(0, |rate| rate.milli.get() / rate.per.millis());
        self.rate_burst.map_or(of_a_second.max(1), NonZeroU32::get)
    }

    /// Whether the queue limits its hand-outs.
    pub fn has_gates(&self) -> bool {
        self.rate.is_some() || self.concurrency.is_some()
    }

    /// Where the group key of a job is. A queue has one such place: if several keys are set, the first
    /// of `concurrency.key` and `rate.key` counts.
    pub fn group_key(&self) -> Option<&Key> {
        let slots = self.concurrency_key.as_ref().filter(|_| self.concurrency.is_some());
        slots.or_else(|| self.rate_key.as_ref().filter(|_| self.rate.is_some()))
    }

    /// The rate of all jobs of the queue together.
    pub(crate) fn queue_rate(&self) -> Option<Rate> {
        self.rate.filter(|_| self.rate_key.is_none())
    }

    /// The limit of all leased jobs of the queue together.
    pub(crate) fn queue_slots(&self) -> Option<NonZeroU32> {
        self.concurrency.filter(|_| self.concurrency_key.is_none())
    }

    /// The limits of each key. `None`: no limit counts for each key.
    pub(crate) fn lane_rules(&self) -> Option<LaneRules> {
        self.group_key()?;
        Some(LaneRules {
            rate: self.rate.filter(|_| self.rate_key.is_some()),
            burst: if self.rate_key.is_some() { self.burst() } else { 1 },
            slots: self.concurrency.filter(|_| self.concurrency_key.is_some()),
        })
    }
}

/// The limits of each key of a queue.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) struct LaneRules {
    /// How many jobs of a key the queue hands out in a time.
    pub(crate) rate: Option<Rate>,
    /// How many of them it can hand out at once.
    pub(crate) burst: u32,
    /// How many jobs of a key can be leased at one time.
    pub(crate) slots: Option<NonZeroU32>,
}
