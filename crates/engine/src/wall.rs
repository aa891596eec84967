//! The wall clock: clients can give a time of the wall clock at which a job is due or expires.
//!
//! The engine's time never goes back. The wall clock can be set at any moment. The owner of the
//! clock tells the engine how far the wall clock is ahead.

use crate::ids::{JobSlot, Millis};

/// A move of the wall clock by this much against the engine's time is a step. Smaller moves count
/// as drift.
pub(crate) const STEP_MS: u64 = 1000;

/// When a job is due, or when it expires.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum When {
    /// At this moment, regardless of the wall clock.
    At(Millis),
    /// When the wall clock shows this time.
    Wall(Millis),
}

/// The wall clock, as the engine knows it.
#[derive(Debug, Default)]
pub(crate) struct WallClock {
    /// How far the wall clock is ahead of the engine's time.
    ahead_ms: i64,
    /// The value of `ahead_ms` at the last rescheduling of jobs.
    aimed_ms: i64,
    rescheduling: Option<Rescheduling>,
}

/// The rescheduling of jobs that go by the wall clock.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct Rescheduling {
    /// The last job that was rescheduled.
    pub(crate) done: Option<JobSlot>,
    pub(crate) timer: Option<Millis>,
}

impl When {
    /// The time of the wall clock, if this is one.
    pub(crate) fn wall(self) -> Option<Millis> {
        match self {
            Self::At(_) => None,
            Self::Wall(wall) => Some(wall),
        }
    }
}

impl WallClock {
    pub(crate) fn ahead_ms(&self) -> i64 {
        self.ahead_ms
    }

    /// Sets how far the wall clock is ahead. Returns whether this is a step, so that jobs must be
    /// rescheduled.
    pub(crate) fn set_ahead(&mut self, ahead_ms: i64) -> bool {
        self.ahead_ms = ahead_ms;
        let was_set = ahead_ms.abs_diff(self.aimed_ms) >= STEP_MS;
        if was_set {
            self.aimed_ms = ahead_ms;
        }
        was_set
    }

    /// The progress of the rescheduling, while there is one.
    pub(crate) fn rescheduling(&mut self) -> &mut Option<Rescheduling> {
        &mut self.rescheduling
    }

    pub(crate) fn is_rescheduling(&self) -> bool {
        self.rescheduling.is_some()
    }

    pub(crate) fn timer(&self) -> Option<Millis> {
        self.rescheduling.and_then(|rescheduling| rescheduling.timer)
    }

    /// The time that the wall clock shows at this moment, by the current difference between the two
    /// clocks.
    pub(crate) fn at(&self, moment: Millis) -> Millis {
        Millis(moment.0.saturating_add_signed(self.ahead_ms))
    }

    /// The moment of `when`, by the current difference between the two clocks.
    pub(crate) fn moment_of(&self, when: When) -> Millis {
        match when {
            When::At(moment) => moment,
            When::Wall(wall) => {
                let moment = wall.0.saturating_add_signed(self.ahead_ms.saturating_neg());
                // The largest moment means "never", so the result must be smaller.
                Millis(moment.min(i64::MAX as u64))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_the_wall_clock_and_moments_are_each_others_inverse() {
        let mut clock = WallClock::default();
        for ahead_ms in [0, 5, -5, 3_600_000] {
            clock.set_ahead(ahead_ms);
            let moment = Millis(10_000_000);
            assert_eq!(clock.moment_of(When::Wall(clock.at(moment))), moment);
            assert_eq!(clock.moment_of(When::At(moment)), moment);
        }
    }

    #[test]
    fn the_end_of_time_is_never_and_nothing_is_before_its_beginning() {
        let mut clock = WallClock::default();
        clock.set_ahead(-1);
        assert_eq!(clock.moment_of(When::Wall(Millis(u64::MAX))), Millis(i64::MAX as u64));
        clock.set_ahead(i64::MAX);
        assert_eq!(clock.moment_of(When::Wall(Millis(0))), Millis(0));
    }

    #[test]
    fn drift_is_not_a_clock_that_was_set() {
        let mut clock = WallClock::default();
        assert!(!clock.set_ahead(999));
        assert!(clock.set_ahead(1000), "against the time when jobs were aimed last");
        assert!(!clock.set_ahead(1500));
        assert_eq!(clock.ahead_ms(), 1500);
    }
}
