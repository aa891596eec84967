//! Computes the engine's first moment when the server starts, from the wall clock and the log. The
//! engine's time never decreases, and does not change when somebody sets the wall clock. The engine
//! and the log store how far the wall clock is ahead of the engine's time. The section Time of
//! `docs/log-format.md` has the rule.

use engine::Millis;

/// The longest time that a server can have been stopped, in milliseconds: a year. If the wall clock
/// shows a longer time, the clock is wrong now or was wrong before.
pub const STOP_MS_MAX: i64 = 366 * 24 * 3_600_000;

/// The offset is how far the wall clock is ahead. Two clocks always drift a little, so the log gets
/// a new offset only if it has changed by at least this much.
const CHANGE_MS: u64 = 1000;

/// The engine's time when the server starts.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Start {
    /// How far the wall clock is ahead of `now`.
    pub(crate) ahead_ms: i64,
    /// How far the wall clock was ahead, according to the log.
    pub(crate) logged_ms: i64,
    /// The engine's first moment.
    pub(crate) now: Millis,
    /// How long the server was stopped, according to the wall clock.
    pub(crate) stopped_ms: i64,
}

impl Start {
    /// The start of a follower: the engine has the leader's time.
    pub(crate) fn of_follower(now: Millis, ahead_ms: i64) -> Self {
        Self { ahead_ms, logged_ms: ahead_ms, now, stopped_ms: 0 }
    }

    /// `last` is the last time in the log, or 0 for a new log. `offset` is the logged offset. If
    /// `wall` is 0, the wall clock is unknown, and time continues from `last`.
    pub(crate) fn new(wall: Millis, last: Millis, offset: Option<&[u8]>) -> Self {
        let logged_ms =
            offset.and_then(|bytes| bytes.try_into().ok()).map_or(0, i64::from_le_bytes);
        if wall == Millis(0) {
            return Self { ahead_ms: logged_ms, logged_ms, now: last, stopped_ms: 0 };
        }
        if last == Millis(0) {
            return Self { ahead_ms: 0, logged_ms: 0, now: wall, stopped_ms: 0 };
        }
        let stopped_ms = wall.ahead_of(last).saturating_sub(logged_ms);
        let passed_ms = if (0..=STOP_MS_MAX).contains(&stopped_ms) { stopped_ms } else { 0 };
        let now = Millis(last.0.saturating_add_signed(passed_ms));
        Self { ahead_ms: wall.ahead_of(now), logged_ms, now, stopped_ms }
    }
}

/// Whether the offset has changed so much that it must be logged.
pub(crate) fn is_news(ahead_ms: i64, logged_ms: i64) -> bool {
    ahead_ms.abs_diff(logged_ms) >= CHANGE_MS
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
    fn time_continues_while_the_server_is_stopped() {
        let start = Start::new(Millis(LAST.0 + 5000), LAST, None);
        assert_eq!((start.now, start.ahead_ms), (Millis(LAST.0 + 5000), 0));
        assert!(!is_news(start.ahead_ms, start.logged_ms));
        // The wall clock is 7 s behind the log's time, and the log says the same.
        let start = Start::new(Millis(LAST.0 - 2000), LAST, Some(&offset(-7000)));
        assert_eq!((start.now, start.ahead_ms), (Millis(LAST.0 + 5000), -7000));
        assert!(!is_news(start.ahead_ms, start.logged_ms));
    }

    #[test]
    fn time_neither_goes_back_nor_jumps() {
        for wall in
            [Millis(1), Millis(LAST.0 - 1000), Millis(LAST.0 + 2 * YEAR_MS), Millis(u64::MAX)]
        {
            let start = Start::new(wall, LAST, None);
            assert_eq!(start.now, LAST);
            assert!(is_news(start.ahead_ms, start.logged_ms));
            let shown = wall.0.min(i64::MAX as u64);
            assert_eq!(LAST.0.saturating_add_signed(start.ahead_ms), shown);
        }
    }

    #[test]
    fn a_new_log_begins_at_the_wall_clock() {
        let start = Start::new(LAST, Millis(0), None);
        assert_eq!((start.now, start.ahead_ms), (LAST, 0));
    }

    #[test]
    fn without_a_wall_clock_time_goes_on_where_the_log_ends() {
        let start = Start::new(Millis(0), LAST, Some(&offset(-7000)));
        assert_eq!((start.now, start.ahead_ms), (LAST, -7000));
    }
}
