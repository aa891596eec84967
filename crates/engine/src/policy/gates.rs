//! Limits of hand-outs: how many jobs a queue hands out in a time, and at one time.

use std::num::NonZeroU32;

use super::Policy;

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
}
