//! The two clocks. People see times of the wall clock, also in the files. Ages and lengths go by the
//! engine's time, because a step of the wall clock must not change them.

use broker::Millis;

/// A moment, by both clocks.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct Moment {
    /// The engine's time.
    pub now: Millis,
    /// The time of the wall clock.
    pub wall: Millis,
}

impl Moment {
    /// The time of the wall clock at a moment of the engine.
    pub(crate) fn wall_at(self, at: Millis) -> u64 {
        let wall = i128::from(at.0) + i128::from(self.wall.0) - i128::from(self.now.0);
        wall.clamp(0, i128::from(u64::MAX)) as u64
    }

    /// The engine's time when the wall clock had this time, as far as one can know: not later than now.
    /// It is negative for a time before the engine's first moment.
    pub(crate) fn engine_at(self, wall: u64) -> i64 {
        let at = i128::from(wall) + i128::from(self.now.0) - i128::from(self.wall.0);
        at.clamp(i64::MIN.into(), signed(self.now).into()) as i64
    }
}

/// A moment of the engine as a signed number.
pub(crate) fn signed(at: Millis) -> i64 {
    i64::try_from(at.0).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_one_clock_become_times_of_the_other() {
        let moment = Moment { now: Millis(100), wall: Millis(5_000) };
        assert_eq!((moment.wall_at(Millis(40)), moment.engine_at(4_940)), (4_940, 40));
        assert_eq!(moment.engine_at(1_000), -3_900);
        assert_eq!(moment.engine_at(u64::MAX), 100, "the future has not come");
        let early = Moment { now: Millis(100), wall: Millis(7) };
        assert_eq!(early.wall_at(Millis(40)), 0);
    }
}
