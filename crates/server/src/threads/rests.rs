//! How an I/O thread slows its clients down while the upkeep or reclaim is behind them: see
//! [`broker::Turn::rests`].
//!
//! After a turn that must be followed by a rest, the thread sleeps. But a quiet client beside busy
//! ones would wait for each rest after their turns, and it did not make the work. So in this case,
//! the thread does not sleep. It only stops reading from busy clients, and leaves held-back
//! commands.

use std::time::{Duration, Instant};

/// The longest rest, and the longest sleep. All clients of the thread wait for a sleep.
const REST_MAX: Duration = Duration::from_millis(4);

/// Beside quiet clients, the rests after turns without input of busy ones cost the thread no sleep,
/// up to this much. A few quiet clients make so little work that they need no rest. Many of them do.
const FREE_BESIDE_QUIET: Duration = Duration::from_millis(4);

/// A rest of busy clients begins when it is at least this long. The timer that ends it is no finer.
const BUSY_REST_MIN: Duration = Duration::from_millis(1);

/// What a turn has done.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) enum Work {
    /// Executed input of busy clients, beside quiet ones.
    BusyBesideQuiet,
    /// Everything else, beside quiet clients.
    OtherBesideQuiet,
    /// Served clients that are alike.
    Alike,
}

/// The rests of a thread that are not over. While a turn has no rest, they pass by themselves.
#[derive(Debug, Default)]
pub(crate) struct Rests {
    /// The end of the rests after [`Work::BusyBesideQuiet`].
    busy_until: Option<Instant>,
    /// Whether busy clients rest now. It changes only in `add` and `end_those_over`, so that all
    /// other functions agree without a look at the clock.
    busy_rest: bool,
    /// The end of all other rests.
    other_until: Option<Instant>,
}

impl Rests {
    /// Notes that a turn, which has just ended, must be followed by this rest.
    pub(crate) fn add(&mut self, work: Work, rest: Duration, now: Instant) {
        if rest.is_zero() {
            return;
        }
        let (until, left_max) = match work {
            Work::BusyBesideQuiet => (&mut self.busy_until, REST_MAX),
            Work::OtherBesideQuiet => (&mut self.other_until, FREE_BESIDE_QUIET + REST_MAX),
            Work::Alike => (&mut self.other_until, REST_MAX),
        };
        let left = (left(*until, now) + rest).min(left_max);
        *until = Some(now + left);
        self.busy_rest |= work == Work::BusyBesideQuiet && left >= BUSY_REST_MIN;
    }

    /// Forgets the rests that are over.
    pub(crate) fn end_those_over(&mut self) {
        if self.busy_until.is_some() || self.other_until.is_some() {
            self.end(Instant::now());
        }
    }

    fn end(&mut self, now: Instant) {
        self.busy_until = self.busy_until.filter(|until| *until > now);
        self.busy_rest &= self.busy_until.is_some();
        self.other_until = self.other_until.filter(|until| *until > now);
    }

    /// How long the thread must sleep now. `beside_quiet`: whether busy clients and quiet ones send
    /// requests.
    pub(crate) fn due(&self, beside_quiet: bool) -> Duration {
        if self.busy_until.is_none() && self.other_until.is_none() {
            return Duration::ZERO;
        }
        self.time_to_sleep(beside_quiet, Instant::now())
    }

    fn time_to_sleep(&self, beside_quiet: bool, now: Instant) -> Duration {
        let time = if beside_quiet {
            left(self.other_until, now).saturating_sub(FREE_BESIDE_QUIET)
        } else {
            // If the quiet clients have gone, the thread rests for the busy ones.
            left(self.other_until.max(self.busy_until), now)
        };
        time.min(REST_MAX)
    }

    /// Whether busy clients must wait until [`Rests::busy_rest_left`] is over.
    pub(crate) fn busy_rest(&self) -> bool {
        self.busy_rest
    }

    /// How long busy clients must still wait.
    pub(crate) fn busy_rest_left(&self) -> Duration {
        left(self.busy_until, Instant::now())
    }

    /// Lets busy clients rest until this time, however far away it is.
    #[cfg(test)]
    pub(crate) fn let_busy_rest(&mut self, until: Instant) {
        (self.busy_until, self.busy_rest) = (Some(until), true);
    }
}

fn left(until: Option<Instant>, now: Instant) -> Duration {
    until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_thread_whose_clients_are_alike_sleeps_for_each_rest() {
        let (mut rests, now) = (Rests::default(), Instant::now());
        assert_eq!(rests.time_to_sleep(false, now), Duration::ZERO);
        rests.add(Work::Alike, MS, now);
        rests.add(Work::Alike, MS, now);
        assert_eq!(rests.time_to_sleep(false, now), 2 * MS);
        assert_eq!(rests.time_to_sleep(false, now + 2 * MS), Duration::ZERO);
        // However many rests a round adds, none is left after its sleep.
        for _ in 0..9 {
            rests.add(Work::Alike, 3 * MS, now);
        }
        assert_eq!(rests.time_to_sleep(false, now), REST_MAX);
        assert_eq!(rests.time_to_sleep(false, now + REST_MAX), Duration::ZERO);
    }

    #[test]
    fn beside_quiet_clients_only_busy_ones_rest() {
        let (mut rests, now) = (Rests::default(), Instant::now());
        rests.add(Work::BusyBesideQuiet, MS / 2, now);
        assert!(!rests.busy_rest(), "it is too short for the timer");
        rests.add(Work::BusyBesideQuiet, MS / 2, now);
        assert!(rests.busy_rest());
        for _ in 0..9 {
            rests.add(Work::BusyBesideQuiet, 3 * MS, now);
        }
        rests.add(Work::OtherBesideQuiet, FREE_BESIDE_QUIET, now);
        assert_eq!(rests.time_to_sleep(true, now), Duration::ZERO);
        rests.add(Work::OtherBesideQuiet, MS, now);
        assert_eq!(rests.time_to_sleep(true, now), MS, "quiet clients make much work");
        for _ in 0..9 {
            rests.add(Work::OtherBesideQuiet, 3 * MS, now);
        }
        assert_eq!(rests.time_to_sleep(true, now), REST_MAX);
        rests.end(now + 3 * MS);
        assert!(rests.busy_rest());
        rests.end(now + REST_MAX);
        assert!(!rests.busy_rest());
        assert_eq!(rests.time_to_sleep(true, now + REST_MAX), Duration::ZERO);
    }

    #[test]
    fn a_thread_whose_quiet_clients_have_gone_sleeps_for_the_busy_ones() {
        let (mut rests, now) = (Rests::default(), Instant::now());
        rests.add(Work::BusyBesideQuiet, 3 * MS, now);
        assert_eq!(rests.time_to_sleep(true, now), Duration::ZERO);
        assert_eq!(rests.time_to_sleep(false, now), 3 * MS);
    }
}
