//! The wall clock beside the engine's time. The engine's time never goes back and is moved by no step of the
//! wall clock; between the two lies an offset, by which a time of the wall clock becomes a moment of the engine.
//! The rule for a start is in `docs/log-format.md`, under Time.

use engine::Millis;

/// Nobody believes a wall clock that says that the server was stopped for longer: a year.
pub const STOP_MS_MAX: i64 = 366 * 24 * 3_600_000;

/// The log is told when the offset has changed by this much. Two clocks always drift a little.
const CHANGE_MS: u64 = 1000;

/// What is known of the wall clock.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct Wall {
    /// How far the wall clock is ahead of the engine's time.
    offset_ms: i64,
    /// The offset in the log.
    logged_ms: i64,
}

/// How the engine's time goes on at a start.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Start {
    pub(crate) wall: Wall,
    /// The engine's first moment.
    pub(crate) now: Millis,
    /// How long nobody served, by the wall clock.
    pub(crate) stopped_ms: i64,
}

impl Start {
    /// `last`: the log's last time; 0 for a new log. `offset`: what the log kept as the offset. A wall clock of
    /// 0 is one that is not known: time goes on where the log ends.
    pub(crate) fn new(wall: Millis, last: Millis, offset: Option<&[u8]>) -> Self {
        let logged_ms =
            offset.and_then(|bytes| bytes.try_into().ok()).map_or(0, i64::from_le_bytes);
        let known = Wall { offset_ms: logged_ms, logged_ms };
        if wall == Millis(0) {
            return Self { wall: known, now: last, stopped_ms: 0 };
        }
        if last == Millis(0) {
            return Self { wall: Wall::default(), now: wall, stopped_ms: 0 };
        }
        let stopped_ms = apart_ms(wall, known.at(last));
        let passed_ms = if (0..=STOP_MS_MAX).contains(&stopped_ms) { stopped_ms } else { 0 };
        let now = Millis(last.0.saturating_add_signed(passed_ms));
        Self { wall: Wall { offset_ms: apart_ms(wall, now), logged_ms }, now, stopped_ms }
    }
}

impl Wall {
    /// What the wall clock shows at this moment of the engine.
    pub(crate) fn at(&self, moment: Millis) -> Millis {
        Millis(moment.0.saturating_add_signed(self.offset_ms))
    }

    /// The engine's moment at which the wall clock shows this.
    pub(crate) fn moment(&self, wall: Millis) -> Millis {
        Millis(wall.0.saturating_add_signed(self.offset_ms.saturating_neg()))
    }

    /// The offset that the log should be told of, if it should.
    pub(crate) fn news(&self) -> Option<i64> {
        (self.offset_ms.abs_diff(self.logged_ms) >= CHANGE_MS).then_some(self.offset_ms)
    }

    /// The log was told of the offset.
    pub(crate) fn is_logged(&mut self) {
        self.logged_ms = self.offset_ms;
    }
}

/// How far one moment is ahead of another.
pub(crate) fn apart_ms(moment: Millis, other: Millis) -> i64 {
    let signed = |moment: Millis| i64::try_from(moment.0).unwrap_or(i64::MAX);
    signed(moment).saturating_sub(signed(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    const YEAR_MS: u64 = 365 * 24 * 3_600_000;
    const LAST: Millis = Millis(50 * YEAR_MS);

    fn offset(ms: i64) -> [u8; 8] {
        ms.to_le_bytes()
    }

    #[test]
    fn time_goes_on_by_as_long_as_nobody_served() {
        let start = Start::new(Millis(LAST.0 + 5000), LAST, None);
        assert_eq!((start.now, start.wall.offset_ms), (Millis(LAST.0 + 5000), 0));
        assert_eq!(start.wall.news(), None);
        // The wall clock is 7 s behind the log's time, as it was before.
        let start = Start::new(Millis(LAST.0 - 2000), LAST, Some(&offset(-7000)));
        assert_eq!((start.now, start.wall.offset_ms), (Millis(LAST.0 + 5000), -7000));
        assert_eq!(start.wall.news(), None);
    }

    #[test]
    fn time_neither_goes_back_nor_jumps() {
        for wall in
            [Millis(1), Millis(LAST.0 - 1000), Millis(LAST.0 + 2 * YEAR_MS), Millis(u64::MAX)]
        {
            let mut start = Start::new(wall, LAST, None);
            assert_eq!(start.now, LAST);
            assert_eq!(start.wall.news(), Some(start.wall.offset_ms));
            start.wall.is_logged();
            assert_eq!(start.wall.news(), None);
            let shown = Millis(wall.0.min(i64::MAX as u64));
            assert_eq!((start.wall.at(LAST), start.wall.moment(shown)), (shown, LAST));
        }
    }

    #[test]
    fn a_new_log_begins_at_the_wall_clock() {
        let start = Start::new(LAST, Millis(0), None);
        assert_eq!((start.now, start.wall.offset_ms), (LAST, 0));
    }

    #[test]
    fn without_a_wall_clock_time_goes_on_where_the_log_ends() {
        let start = Start::new(Millis(0), LAST, Some(&offset(-7000)));
        assert_eq!((start.now, start.wall.offset_ms), (LAST, -7000));
    }
}
