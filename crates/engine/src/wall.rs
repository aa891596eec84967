//! The wall clock: when a job is due, or when it expires, as clients may give it.
//!
//! The engine's time never goes back. The wall clock can be set at any moment. Whoever owns the clock says how far
//! the wall clock is ahead.

use crate::ids::{JobSlot, Millis};

/// The wall clock was set if it moved by this much against the engine's time. Less is left to drift.
pub(crate) const STEP_MS: u64 = 1000;

/// When a job is due, or when it expires.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum When {
    /// At this moment, wherever the wall clock is set.
    At(Millis),
    /// When the wall clock shows this.
    Wall(Millis),
}

/// What the engine knows of the wall clock.
#[derive(Debug, Default)]
pub(crate) struct WallClock {
    /// How far it is ahead of the engine's time.
    ahead_ms: i64,
    /// The same when jobs were aimed last.
    aimed_ms: i64,
    rescheduling: Option<Rescheduling>,
}

/// Jobs that go by the wall clock are aimed anew.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct Rescheduling {
    /// The last one that was.
    pub(crate) done: Option<JobSlot>,
    pub(crate) timer: Option<Millis>,
}

impl When {
    /// The time of the wall clock, if it is one.
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

    /// It is so far ahead from now on; whether it was set, so that jobs have to be aimed anew.
    pub(crate) fn set_ahead(&mut self, ahead_ms: i64) -> bool {
        self.ahead_ms = ahead_ms;
        let was_set = ahead_ms.abs_diff(self.aimed_ms) >= STEP_MS;
        if was_set {
            self.aimed_ms = ahead_ms;
        }
        was_set
    }

    /// How far the rescheduling is, while there is one.
    pub(crate) fn rescheduling(&mut self) -> &mut Option<Rescheduling> {
        &mut self.rescheduling
    }

    pub(crate) fn is_rescheduling(&self) -> bool {
        self.rescheduling.is_some()
    }

    pub(crate) fn timer(&self) -> Option<Millis> {
        self.rescheduling.and_then(|rescheduling| rescheduling.timer)
    }

    /// What it shows at this moment, as far as it can be told now.
    pub(crate) fn at(&self, moment: Millis) -> Millis {
        Millis(moment.0.saturating_add_signed(self.ahead_ms))
    }

    /// The moment of something, as far as it can be told now.
    pub(crate) fn moment_of(&self, when: When) -> Millis {
        match when {
            When::At(moment) => moment,
            When::Wall(wall) => {
                let moment = wall.0.saturating_add_signed(self.ahead_ms.saturating_neg());
                // The end of time is never.
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
