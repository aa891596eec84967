//! The server's clock. It starts at the time of the wall clock. After that, it follows a system
//! clock that cannot be set, and that runs while the machine sleeps. Once a second, the server
//! checks whether the wall clock was set, and whether the machine slept.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use broker::{Broker, Millis, STOP_MS_MAX};
use rustix::time::{ClockId, clock_gettime};

use crate::threads::mailbox::Inbox;

/// Two clocks are never read at exactly the same time, so their difference varies a little. If the
/// difference changes by more than this, one of the clocks was set or stopped.
const JUMP_MS: u64 = 100;

/// A clock that never goes back. It shows milliseconds since the Unix epoch. All copies of a clock
/// show the same time.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Clock {
    /// The time at the start. Negative in a node whose cluster's time begins at 0: the clock shows 0
    /// until the time is positive.
    start_ms: i64,
    /// The start of this clock, as a time of the system clock that runs while the machine sleeps.
    started: Duration,
    /// The start of this clock, as a time of the system clock that ends the sleep of a thread. That
    /// system clock stops while the machine sleeps.
    timers_started: Instant,
    /// In tests: how long the machine has slept, in milliseconds.
    #[cfg(test)]
    slept_in_test_ms: &'static std::sync::atomic::AtomicU64,
}

impl Clock {
    /// Starts at the time of the wall clock.
    pub(crate) fn start() -> Clock {
        Clock {
            start_ms: signed(wall().0),
            started: since_boot(),
            timers_started: Instant::now(),
            #[cfg(test)]
            slept_in_test_ms: Box::leak(Box::default()),
        }
    }

    /// The same clock, moved by `step_ms`.
    pub(crate) fn moved(self, step_ms: i64) -> Clock {
        Clock { start_ms: self.start_ms.saturating_add(step_ms), ..self }
    }

    /// The current time.
    pub(crate) fn now(&self) -> Millis {
        let now_ms = self.start_ms.saturating_add(signed(millis(self.passed())));
        Millis(u64::try_from(now_ms).unwrap_or(0))
    }

    fn passed(&self) -> Duration {
        let passed = since_boot().saturating_sub(self.started);
        #[cfg(test)]
        let passed = passed + self.slept_in_test();
        passed
    }

    /// The time until the clock reaches `at`, if the machine does not sleep until then.
    pub(crate) fn time_until(&self, at: Millis) -> Duration {
        let passes_ms = signed(at.0).saturating_sub(self.start_ms);
        let passes = Duration::from_millis(u64::try_from(passes_ms).unwrap_or(0));
        passes.saturating_sub(self.passed())
    }

    /// How long the machine has slept since the start.
    fn slept(&self) -> Duration {
        self.passed().saturating_sub(self.timers_started.elapsed())
    }

    #[cfg(test)]
    fn slept_in_test(&self) -> Duration {
        Duration::from_millis(self.slept_in_test_ms.load(std::sync::atomic::Ordering::SeqCst))
    }

    /// Changes this clock as if the machine had slept for this time.
    #[cfg(test)]
    pub(crate) fn sleep_for(&self, time: Duration) {
        self.slept_in_test_ms.fetch_add(millis(time), std::sync::atomic::Ordering::SeqCst);
    }
}

/// The current time of the wall clock.
pub(crate) fn wall() -> Millis {
    Millis(millis(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()))
}

/// The time since the machine started, including the time during which the machine slept. Reading
/// this clock costs no system call.
fn since_boot() -> Duration {
    Duration::try_from(clock_gettime(ClockId::Boottime)).unwrap_or_default()
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn signed(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}

/// Notices that the wall clock was set, or that the machine has slept.
#[derive(Debug, Default)]
pub(crate) struct ClockWatch {
    /// The last offset that the broker got: how far the wall clock was ahead of the server's clock.
    /// `None` if the broker must get the offset again.
    known_ahead_ms: Option<i64>,
    slept_ms: u64,
}

impl ClockWatch {
    /// Checks the clocks. The caller must call this once a second. This function takes a turn of
    /// the broker only after a change.
    pub(crate) fn look(&mut self, clock: &Clock, broker: &Broker, inboxes: &[Arc<Inbox>]) {
        self.look_for_sleep(clock, inboxes);
        let (now, wall) = (clock.now(), wall());
        // If the kernel paused this thread while it read the two clocks, the two times do not
        // belong to the same moment. Then ignore them.
        if clock.now().since(now) <= JUMP_MS {
            self.update_wall(now, wall, broker);
        }
    }

    fn look_for_sleep(&mut self, clock: &Clock, inboxes: &[Arc<Inbox>]) {
        let slept_ms = millis(clock.slept());
        let newly_slept_ms = slept_ms.saturating_sub(self.slept_ms);
        if newly_slept_ms <= JUMP_MS {
            return;
        }
        tracing::info!(seconds = newly_slept_ms / 1000, "the machine has slept");
        self.slept_ms = slept_ms;
        for inbox in inboxes {
            inbox.renew_sleep();
        }
    }

    fn update_wall(&mut self, now: Millis, wall: Millis, broker: &Broker) {
        let ahead_ms = wall.ahead_of(now);
        if let Some(known_ms) = self.known_ahead_ms {
            if known_ms.abs_diff(ahead_ms) <= JUMP_MS {
                return;
            }
            let seconds = ahead_ms.saturating_sub(known_ms) / 1000;
            if seconds != 0 {
                tracing::info!(
                    seconds,
                    "the wall clock was set; jobs with a time of the wall clock move with it"
                );
            }
        }
        // If the log has no room, the broker refuses the offset. Then the next check passes the
        // offset again.
        let is_accepted = broker.turn(now).set_wall(now, wall);
        self.known_ahead_ms = is_accepted.then_some(ahead_ms);
    }
}

/// Writes a warning if the wall clock is wrong, or was wrong when the log was last written.
pub(crate) fn warn_of_wall_clock(stopped_ms: i64) {
    let apart = Duration::from_millis(stopped_ms.unsigned_abs());
    let days = apart.as_secs() / (24 * 3600);
    match doubt(stopped_ms) {
        None => {}
        Some(ClockDoubt::Ahead) => tracing::warn!(
            days,
            "the wall clock is far ahead of the log's last entry; set it if it is wrong. Ages and delays \
             continue as if the server had not been stopped"
        ),
        Some(ClockDoubt::Behind) => tracing::warn!(
            days,
            seconds = apart.as_secs(),
            "the wall clock is behind the log's last entry: it is wrong, or was wrong before. Ages and \
             delays continue as if the server had not been stopped"
        ),
    }
}

#[derive(Copy, Clone, Debug, Eq, PartialEq)]
enum ClockDoubt {
    Ahead,
    Behind,
}

/// What is wrong with the wall clock. `stopped_ms` is how long the server was stopped before this
/// start, according to the wall clock. A value down to minus one minute is normal, because an
/// administrator or NTP can set a clock back.
fn doubt(stopped_ms: i64) -> Option<ClockDoubt> {
    match stopped_ms {
        ..-60_000 => Some(ClockDoubt::Behind),
        STOP_MS_MAX.. => Some(ClockDoubt::Ahead),
        -60_000..STOP_MS_MAX => None,
    }
}

#[cfg(test)]
mod tests {
    use broker::{State, Submit, When};

    use super::*;

    #[test]
    fn it_starts_at_the_wall_clock_and_can_be_moved() {
        let clock = Clock::start();
        assert!(clock.now().0 > 1_700_000_000_000);
        let later = Millis(clock.now().0 + 1_000_000);
        let clock = clock.moved(1_000_000);
        assert!(clock.now() >= later);
        assert!(clock.time_until(later).is_zero());
        assert!(!clock.time_until(Millis(later.0 + 60_000)).is_zero());
        assert!(clock.moved(-2_000_000).now() < later);
    }

    #[test]
    fn it_goes_on_while_the_machine_sleeps_and_threads_sleep_for_what_is_left() {
        let clock = Clock::start();
        let hour = Duration::from_hours(1);
        let before = clock.now();
        let at = Millis(before.0 + 2 * 3_600_000);
        clock.sleep_for(hour);
        assert!(clock.now().since(before) >= 3_600_000);
        let left = clock.time_until(at);
        assert!(left <= hour && left + Duration::from_mins(1) > hour);
        clock.sleep_for(hour);
        assert!(clock.time_until(at).is_zero(), "it is overdue");
    }

    #[test]
    fn a_clock_that_was_moved_before_its_start_can_be_moved_back() {
        let clock = Clock::start();
        let hour_ms = 3_600_000;
        clock.sleep_for(Duration::from_hours(1));
        // The time is ten minutes now, so the start is before 0.
        let step_ms = 600_000 - signed(clock.now().0);
        let moved = clock.moved(step_ms);
        assert!((600_000..hour_ms as u64).contains(&moved.now().0), "{:?}", moved.now());
        let back = moved.moved(-step_ms);
        assert!(back.now().since(clock.now()) < 60_000 && clock.now().since(back.now()) < 60_000);
        assert_eq!(clock.moved(step_ms - hour_ms).now(), Millis(0));
    }

    #[test]
    fn a_wall_clock_that_was_set_moves_jobs_that_go_by_it() {
        let clock = Clock::start();
        let broker = Broker::memory(broker::EngineSetup::default(), clock.now());
        let mut watch = ClockWatch::default();
        let look_at = |watch: &mut ClockWatch, ahead_ms: i64| {
            let shown = Millis(clock.now().0.saturating_add_signed(ahead_ms));
            watch.update_wall(clock.now(), shown, &broker);
            while broker.turn(clock.now()).advance() {}
        };
        look_at(&mut watch, 0);
        let mut turn = broker.turn(clock.now());
        let session = turn.open_session(0);
        let id = [3_600_000, 7_200_000].map(|later_ms| {
            let submit = Submit {
                priority: Some(1),
                due: Some(When::Wall(Millis(clock.now().0 + later_ms))),
                unique: b"",
                reducer: b"",
                body: b"x"[..].into(),
                foreground: false,
            };
            turn.caller(session).submit(b"q", submit).value.expect("there is room")
        });
        drop(turn);
        let states =
            || id.map(|id| broker.turn(clock.now()).job_status(id).value.unwrap().facts.state);
        look_at(&mut watch, 50);
        assert_eq!(states(), [State::Delayed; 2]);
        look_at(&mut watch, 3_600_000);
        assert_eq!(states(), [State::Ready, State::Delayed]);
        look_at(&mut watch, 0);
        clock.sleep_for(Duration::from_mins(119));
        look_at(&mut watch, 0);
        assert_eq!(states(), [State::Ready, State::Delayed]);
        clock.sleep_for(Duration::from_mins(1));
        look_at(&mut watch, 0);
        assert_eq!(states(), [State::Ready; 2]);
    }

    #[test]
    fn an_implausible_wall_clock_is_reported() {
        let day_ms = 24 * 3_600_000;
        for (stopped_ms, found) in [
            (0, None),
            (-1000, None),
            (300 * day_ms, None),
            (-day_ms, Some(ClockDoubt::Behind)),
            (80 * 365 * day_ms, Some(ClockDoubt::Ahead)),
            (-80 * 365 * day_ms, Some(ClockDoubt::Behind)),
        ] {
            assert_eq!(doubt(stopped_ms), found, "{stopped_ms}");
        }
    }
}
