//! What a worker does while the server is unreachable: the times between attempts to connect, and
//! the messages. All slots share the state of an outage, so that the user gets one message about it,
//! and not one message from each slot.

use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Time between messages that the server is still unreachable.
const REMIND_AFTER: Duration = Duration::from_secs(30);

/// The wait before the second attempt to connect.
const RECONNECT_MIN: Duration = Duration::from_millis(250);

/// The longest wait between two attempts to connect.
const RECONNECT_MAX: Duration = Duration::from_secs(10);

/// The waits between attempts to connect. Each is twice as long as the one before.
#[derive(Debug)]
pub(super) struct Backoff {
    next: Duration,
}

impl Default for Backoff {
    fn default() -> Backoff {
        Backoff { next: RECONNECT_MIN }
    }
}

impl Backoff {
    /// How long to wait after a failed attempt.
    pub(super) fn next(&mut self) -> Duration {
        let wait = self.next;
        self.next = (wait * 2).min(RECONNECT_MAX);
        wait
    }

    /// Begins with the shortest wait again.
    pub(super) fn reset(&mut self) {
        *self = Backoff::default();
    }
}

/// The current outage of the server, if there is one.
#[derive(Debug, Default)]
pub(super) struct Outage {
    state: Mutex<Option<OutageState>>,
}

#[derive(Debug, Clone, Copy)]
struct OutageState {
    since: Instant,
    /// When the user last got a message.
    reported: Instant,
}

/// A message for the user about a failed attempt to connect.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Notice {
    /// This is the first failed attempt.
    Began,
    /// The server has been unreachable for this time.
    GoesOn(Duration),
}

impl Outage {
    /// Records a failed attempt to connect. Returns a message if the user should get one now.
    pub(super) fn failed(&self, now: Instant) -> Option<Notice> {
        let mut state = self.state();
        let Some(outage) = state.as_mut() else {
            *state = Some(OutageState { since: now, reported: now });
            return Some(Notice::Began);
        };
        let due = now.saturating_duration_since(outage.reported) >= REMIND_AFTER;
        due.then(|| {
            outage.reported = now;
            Notice::GoesOn(now.saturating_duration_since(outage.since))
        })
    }

    /// Records a successful attempt to connect. Returns true if the last attempt had failed.
    pub(super) fn ended(&self) -> bool {
        self.state().take().is_some()
    }

    /// How long the server has been unreachable.
    pub(super) fn lasts(&self, now: Instant) -> Duration {
        self.state().map_or(Duration::ZERO, |outage| now.saturating_duration_since(outage.since))
    }

    fn state(&self) -> MutexGuard<'_, Option<OutageState>> {
        self.state.lock().expect("no slot panics while it holds this")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_become_longer_up_to_a_limit() {
        let mut backoff = Backoff::default();
        let waits: Vec<u128> = (0..8).map(|_| backoff.next().as_millis()).collect();
        assert_eq!(waits, [250, 500, 1_000, 2_000, 4_000, 8_000, 10_000, 10_000]);
        backoff.reset();
        assert_eq!(backoff.next(), RECONNECT_MIN);
    }

    #[test]
    fn an_outage_is_reported_at_its_start_and_each_half_minute() {
        let outage = Outage::default();
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(outage.lasts(start), Duration::ZERO);
        assert_eq!(outage.failed(start), Some(Notice::Began));
        assert_eq!(outage.failed(after(29)), None);
        assert_eq!(outage.failed(after(30)), Some(Notice::GoesOn(Duration::from_secs(30))));
        assert_eq!(outage.failed(after(31)), None);
        assert_eq!(outage.failed(after(65)), Some(Notice::GoesOn(Duration::from_secs(65))));
        assert_eq!(outage.lasts(after(70)), Duration::from_secs(70));
        assert!(outage.ended());
        assert!(!outage.ended());
        assert_eq!(outage.failed(after(80)), Some(Notice::Began));
    }
}
