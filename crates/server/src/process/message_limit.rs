//! Rate limit for messages. Without the limit, a client could cause any number of messages.

use std::time::{Duration, Instant};

/// Minimum time between two messages.
const PERIOD: Duration = Duration::from_mins(1);

/// Decides which events of one kind the server reports in a message.
#[derive(Debug, Default)]
pub(crate) struct MessageLimit {
    logged_at: Option<Instant>,
    count: u64,
}

impl MessageLimit {
    /// Counts an event. If a message can be written now, returns the number of events since the
    /// last message.
    pub(crate) fn count(&mut self) -> Option<u64> {
        self.count_more(1)
    }

    /// Like [`MessageLimit::count`], for this many events.
    pub(crate) fn count_more(&mut self, events: u64) -> Option<u64> {
        if events == 0 {
            return None;
        }
        self.count += events;
        if self.logged_at.is_some_and(|at| at.elapsed() < PERIOD) {
            return None;
        }
        self.logged_at = Some(Instant::now());
        Some(std::mem::take(&mut self.count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_message_a_minute_counts_all() {
        let mut limit = MessageLimit::default();
        assert_eq!(limit.count(), Some(1));
        assert_eq!((limit.count(), limit.count()), (None, None));
        limit.logged_at = Instant::now().checked_sub(PERIOD);
        assert_eq!(limit.count(), Some(3));
    }
}
