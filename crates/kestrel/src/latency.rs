//! How long commands of memcache and text took, for the statistics of Kestrel's admin service.

use std::sync::{Mutex, MutexGuard, PoisonError};

use hdrhistogram::Histogram;

/// Longer ones count as this long: an hour, in microseconds.
const LONGEST: u64 = 3_600_000_000;
/// Values are kept with an error of a hundredth.
const DIGITS: u8 = 2;

/// What was measured since the start. Times of a command end when its reply is ready, but may not have left: a set
/// may still wait for the disk.
#[derive(Clone, Debug)]
pub struct Latencies {
    /// Microseconds of adding an item.
    pub set_us: Histogram<u64>,
    /// Microseconds until a fetch had its item, waiting included.
    pub hit_us: Histogram<u64>,
    /// Microseconds of a fetch that found none and did not wait.
    pub miss_us: Histogram<u64>,
    /// Milliseconds that a fetch waited in vain.
    pub timeout_ms: Histogram<u64>,
}

impl Default for Latencies {
    fn default() -> Self {
        let empty =
            || Histogram::new_with_max(LONGEST, DIGITS).expect("bounds and digits are in range");
        Self { set_us: empty(), hit_us: empty(), miss_us: empty(), timeout_ms: empty() }
    }
}

/// One of them.
pub(crate) type Which = fn(&mut Latencies) -> &mut Histogram<u64>;

/// Those of all sessions. Changed by who holds a turn of the broker, so that hardly anybody waits.
#[derive(Debug, Default)]
pub(crate) struct Measured(Mutex<Latencies>);

impl Measured {
    pub(crate) fn note(&self, which: Which, value: u64) {
        which(&mut self.lock()).saturating_record(value);
    }

    pub(crate) fn get(&self) -> Latencies {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Latencies> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
