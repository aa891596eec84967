//! The server's clock: the wall clock when it started, carried on by the monotonic one. A step of
//! the wall clock moves no timer.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use broker::{Millis, STOP_MS_MAX};

/// Milliseconds since the Unix epoch that never go back. All copies agree.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Clock {
    start: Millis,
    started: Instant,
}

impl Clock {
    /// Starts at the wall clock's time.
    pub(crate) fn start() -> Clock {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let wall = Millis(u64::try_from(wall.as_millis()).unwrap_or(u64::MAX));
        Clock { start: wall, started: Instant::now() }
    }

    /// The same clock, moved.
    pub(crate) fn moved(self, step_ms: i64) -> Clock {
        Clock { start: Millis(self.start.0.saturating_add_signed(step_ms)), ..self }
    }

    /// This moment.
    pub(crate) fn now(&self) -> Millis {
        let passed = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        Millis(self.start.0.saturating_add(passed))
    }

    /// The instant at which `now` reaches `at`; `None` if that is too far away to matter.
    pub(crate) fn instant(&self, at: Millis) -> Option<Instant> {
        self.started.checked_add(Duration::from_millis(at.0.saturating_sub(self.start.0)))
    }
}

/// Says so if the wall clock cannot be right, or was not when the log was written.
pub(crate) fn doubt_wall_clock(stopped_ms: i64) {
    let apart = Duration::from_millis(stopped_ms.unsigned_abs());
    let days = apart.as_secs() / (24 * 3600);
    match doubt(stopped_ms) {
        None => {}
        Some(Doubt::Ahead) => tracing::warn!(
            days,
            "the wall clock is far ahead of the log's last entry; set it if it is wrong. Ages and delays go on \
             as if the server had not been stopped"
        ),
        Some(Doubt::Behind) => tracing::warn!(
            days,
            seconds = apart.as_secs(),
            "the wall clock is behind the log's last entry: it is wrong, or was when that was written. Ages and \
             delays go on as if the server had not been stopped"
        ),
    }
}

#[derive(Copy, Clone, Debug, Eq, PartialEq)]
enum Doubt {
    Ahead,
    Behind,
}

/// What is wrong with a wall clock by which nobody served for so long. A minute back is no more than an
/// administrator or NTP does.
fn doubt(stopped_ms: i64) -> Option<Doubt> {
    match stopped_ms {
        ..-60_000 => Some(Doubt::Behind),
        STOP_MS_MAX.. => Some(Doubt::Ahead),
        -60_000..STOP_MS_MAX => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_starts_at_the_wall_clock_and_can_be_moved() {
        let clock = Clock::start();
        assert!(clock.now().0 > 1_700_000_000_000);
        let later = Millis(clock.now().0 + 1_000_000);
        let clock = clock.moved(1_000_000);
        assert!(clock.now() >= later);
        assert!(clock.instant(later).unwrap() <= Instant::now());
        assert!(clock.instant(Millis(later.0 + 60_000)).unwrap() > Instant::now());
        assert!(clock.moved(-2_000_000).now() < later);
    }

    #[test]
    fn a_wall_clock_that_cannot_be_right_is_told_of() {
        let day_ms = 24 * 3_600_000;
        for (stopped_ms, found) in [
            (0, None),
            (-1000, None),
            (300 * day_ms, None),
            (-day_ms, Some(Doubt::Behind)),
            (80 * 365 * day_ms, Some(Doubt::Ahead)),
            (-80 * 365 * day_ms, Some(Doubt::Behind)),
        ] {
            assert_eq!(doubt(stopped_ms), found, "{stopped_ms}");
        }
    }
}
