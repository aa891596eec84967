//! Aging: jobs become more urgent while they wait, so that a flood of urgent jobs cannot hold back
//! others for ever.

use std::num::NonZeroU32;

use crate::ids::Millis;

/// The largest number of steps in one period.
pub const AGING_STEPS_MAX: u32 = 1000;
/// The longest period: a week.
pub const AGING_MS_MAX: u32 = 7 * 24 * 3_600_000;

/// How fast jobs become more urgent.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct Aging {
    /// The priority number falls by this much, at most [`AGING_STEPS_MAX`].
    pub steps: NonZeroU32,
    /// In this many milliseconds, at most [`AGING_MS_MAX`].
    pub per_ms: NonZeroU32,
}

impl Aging {
    /// The place of a job in the order of a queue with aging. All jobs become more urgent equally
    /// fast, so this number never changes, and the order needs no clock. It is below 2⁶³, because a
    /// priority has 32 bits, a week less than 30, and the moment is in this millennium.
    pub(crate) fn urgency(self, priority: u32, ready_since: Millis) -> u64 {
        let base = u64::from(priority) * u64::from(self.per_ms.get());
        let waited = ready_since.0.saturating_mul(self.steps.get().into());
        base.saturating_add(waited).min(u64::MAX >> 1)
    }

    /// The priority of a job with this urgency, among other jobs of the queue. Within one period, it
    /// is the same for jobs of one priority.
    pub(crate) fn level(self, urgency: u64) -> u64 {
        urgency / u64::from(self.per_ms.get())
    }

    /// The priority number of a job that has waited for this time. It does not fall below 0, because
    /// it is compared with those of other queues.
    pub(crate) fn priority_after(self, priority: u32, waited_ms: u64) -> u32 {
        let steps =
            waited_ms.saturating_mul(self.steps.get().into()) / u64::from(self.per_ms.get());
        priority.saturating_sub(u32::try_from(steps).unwrap_or(u32::MAX))
    }
}
