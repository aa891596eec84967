//! The wall clock. A client can give a time of the wall clock at which a job is due or expires.
//!
//! The engine's time never goes back, but an operator can set the wall clock at any moment. The
//! engine's caller sets the difference between the two clocks with
//! [`crate::Engine::set_wall_ahead`].

use crate::ids::{JobSlot, Millis};

/// The smallest step of the wall clock, in milliseconds. A step is a change of the difference
/// between the wall clock and the engine's time. A smaller change is drift.
pub(crate) const STEP_MS: u64 = 1000;

/// The time at which a job is due or expires.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum When {
    /// This moment of the engine's time.
    At(Millis),
    /// The moment when the wall clock shows this time.
    Wall(Millis),
}

/// The difference between the two clocks, and the progress of the rescheduling of jobs.
#[derive(Debug, Default)]
pub(crate) struct WallClock {
    /// The wall clock minus the engine's time.
    ahead_ms: i64,
    /// The value of `ahead_ms` at the last step. The moments of jobs were computed with this value.
    aimed_ms: i64,
    rescheduling: Option<Rescheduling>,
}

/// The progress of the rescheduling of jobs with a time of the wall clock.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct Rescheduling {
    /// The place of the last job that was rescheduled.
    pub(crate) done: Option<JobSlot>,
    pub(crate) timer: Option<Millis>,
}

impl When {
    /// The time of the wall clock. `None`: this is a moment of the engine's time.
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

    /// Sets how far the wall clock is ahead of the engine's time. Returns whether this is a step.
    /// After a step, the caller must reschedule jobs.
    pub(crate) fn set_ahead(&mut self, ahead_ms: i64) -> bool {
        self.ahead_ms = ahead_ms;
        let was_set = ahead_ms.abs_diff(self.aimed_ms) >= STEP_MS;
        if was_set {
            self.aimed_ms = ahead_ms;
        }
        was_set
    }

    /// The progress of the rescheduling. `None`: no rescheduling is in progress.
    pub(crate) fn rescheduling(&mut self) -> &mut Option<Rescheduling> {
        &mut self.rescheduling
    }

    pub(crate) fn is_rescheduling(&self) -> bool {
        self.rescheduling.is_some()
    }

    pub(crate) fn timer(&self) -> Option<Millis> {
        self.rescheduling.and_then(|rescheduling| rescheduling.timer)
    }

    /// The time that the wall clock shows at this moment. Assumes that the present difference
    /// between the two clocks does not change.
    pub(crate) fn at(&self, moment: Millis) -> Millis {
        Millis(moment.0.saturating_add_signed(self.ahead_ms))
    }

    /// The moment of `when` in the engine's time. Assumes that the present difference between the
    /// two clocks does not change.
    pub(crate) fn moment_of(&self, when: When) -> Millis {
        match when {
            When::At(moment) => moment,
            When::Wall(wall) => {
                let moment = wall.0.saturating_add_signed(self.ahead_ms.saturating_neg());
                // `u64::MAX` means "never", so the result must be smaller.
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
