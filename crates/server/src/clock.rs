//! The server's clock: the wall clock when it started, carried on by the monotonic one. A step of
//! the wall clock moves no timer.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use broker::Millis;

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

    /// The same clock, put forward.
    pub(crate) fn ahead(self, ahead_ms: u64) -> Clock {
        Clock { start: Millis(self.start.0.saturating_add(ahead_ms)), ..self }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_starts_at_the_wall_clock_and_can_be_put_forward() {
        let clock = Clock::start();
        assert!(clock.now().0 > 1_700_000_000_000);
        let later = Millis(clock.now().0 + 1_000_000);
        let clock = clock.ahead(1_000_000);
        assert!(clock.now() >= later);
        assert!(clock.instant(later).unwrap() <= Instant::now());
        assert!(clock.instant(Millis(later.0 + 60_000)).unwrap() > Instant::now());
    }
}
