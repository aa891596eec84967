//! How often something can happen: so many times at once, and then once in each period.

use broker::Millis;

/// How often something can happen.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Rate {
    /// So many times at once.
    pub(crate) at_once: u64,
    /// After that, once in this time.
    pub(crate) period_ms: u64,
}

/// How often it happened lately.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    /// When all of [`Rate::at_once`] can happen again. Each time moves this by one period.
    rested_at_ms: u64,
}

impl Recent {
    /// Counts one more time, if the rate allows it now.
    pub(crate) fn admits(&mut self, rate: Rate, now: Millis) -> bool {
        let rested_at_ms = self.rested_at_ms.max(now.0) + rate.period_ms;
        let is_admitted = rested_at_ms <= now.0 + rate.at_once * rate.period_ms;
        if is_admitted {
            self.rested_at_ms = rested_at_ms;
        }
        is_admitted
    }

    /// Whether nothing of the past counts any more.
    pub(crate) fn has_rested(&self, now: Millis) -> bool {
        self.rested_at_ms <= now.0
    }
}
