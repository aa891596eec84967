//! Whether the server is reachable: shared by all slots, so that it is reported once and not by
//! each slot.

use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// How often to repeat that the server is away.
const REMIND_AFTER: Duration = Duration::from_secs(30);

/// Since when the server is away, if it is.
#[derive(Debug, Default)]
pub(super) struct Outage {
    away: Mutex<Option<OutageState>>,
}

#[derive(Debug, Clone, Copy)]
struct OutageState {
    since: Instant,
    /// When the user was last told.
    said: Instant,
}

/// What to tell the user about a failed attempt.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Notice {
    /// The first attempt failed.
    Began,
    /// It still fails after this time.
    GoesOn(Duration),
}

impl Outage {
    /// Notes a failed attempt to connect.
    pub(super) fn failed(&self, now: Instant) -> Option<Notice> {
        let mut state = self.away();
        let Some(away) = state.as_mut() else {
            *state = Some(OutageState { since: now, said: now });
            return Some(Notice::Began);
        };
        let due = now.saturating_duration_since(away.said) >= REMIND_AFTER;
        due.then(|| {
            away.said = now;
            Notice::GoesOn(now.saturating_duration_since(away.since))
        })
    }

    /// Notes a successful attempt. Returns whether one had failed before.
    pub(super) fn ended(&self) -> bool {
        self.away().take().is_some()
    }

    /// How long the server has been away.
    pub(super) fn lasts(&self, now: Instant) -> Duration {
        self.away().map_or(Duration::ZERO, |away| now.saturating_duration_since(away.since))
    }

    fn away(&self) -> MutexGuard<'_, Option<OutageState>> {
        self.away.lock().expect("no slot panics while it holds this")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_is_said_at_its_beginning_and_each_half_minute() {
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
