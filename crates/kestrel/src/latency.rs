//! Latencies of memcache and text commands, and of thrift puts. Kestrel's admin commands show them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use broker::Millis;
use hdrhistogram::Histogram;

/// The largest value: an hour, in microseconds. A longer time counts as an hour.
const LONGEST: u64 = 3_600_000_000;
/// Values have an error of at most one percent.
const DIGITS: u8 = 2;

/// The number of commands that are measured of all commands that begin in the same millisecond. The
/// server counts the other commands, but does not measure them.
const MEASURED_PER_MOMENT: u64 = 16;

/// Latencies since the start. The measured time ends when the reply is in the outbox. After that,
/// the reply of a set may wait for the disk.
#[derive(Clone, Debug)]
pub struct Latencies {
    /// Microseconds to add an item.
    pub set_us: Histogram<u64>,
    /// Microseconds until a fetch had its item. If the fetch waited, this is the time of the wait.
    pub hit_us: Histogram<u64>,
    /// Microseconds of a fetch that found no item and did not wait.
    pub miss_us: Histogram<u64>,
    /// Milliseconds of a wait that ended without an item.
    pub timeout_ms: Histogram<u64>,
}

impl Default for Latencies {
    fn default() -> Self {
        let empty =
            || Histogram::new_with_max(LONGEST, DIGITS).expect("bounds and digits are in range");
        Self { set_us: empty(), hit_us: empty(), miss_us: empty(), timeout_ms: empty() }
    }
}

/// The kinds of measurement.
#[derive(Copy, Clone, Debug)]
pub(crate) enum Measure {
    Set,
    Hit,
    Miss,
    Timeout,
}

/// The measurement of a running command.
#[derive(Copy, Clone, Debug)]
pub(crate) enum Watch {
    /// Measurements are turned off.
    Off,
    /// The command is only counted. The statistics count it with the latency of the next command
    /// that is measured.
    Counted,
    /// The command is measured. It began at this time of the stopwatch, in microseconds.
    Since(u64),
}

/// Latencies of all sessions. Sessions change them only during a turn of the broker, and only one
/// thread has a turn. So the lock is almost always free.
#[derive(Debug, Default)]
pub(crate) struct Measured {
    latencies: Mutex<Latencies>,
    /// For each measure, the number of commands that were only counted since the last command was
    /// measured.
    counted: [AtomicU64; 4],
    /// The millisecond in which the last command began.
    moment: AtomicU64,
    in_moment: AtomicU64,
}

impl Latencies {
    fn of(&mut self, measure: Measure) -> &mut Histogram<u64> {
        match measure {
            Measure::Set => &mut self.set_us,
            Measure::Hit => &mut self.hit_us,
            Measure::Miss => &mut self.miss_us,
            Measure::Timeout => &mut self.timeout_ms,
        }
    }
}

impl Measured {
    /// True if a command that begins now is only counted. If clients send many commands at once,
    /// two reads of the clock would be a tenth of the cost of each command. So only a sample of the
    /// commands is measured.
    pub(crate) fn only_counts(&self, now: Millis) -> bool {
        if self.moment.swap(now.0, Ordering::Relaxed) != now.0 {
            self.in_moment.store(0, Ordering::Relaxed);
        }
        self.in_moment.fetch_add(1, Ordering::Relaxed) >= MEASURED_PER_MOMENT
    }

    /// Counts a command that is not measured.
    pub(crate) fn count(&self, measure: Measure) {
        self.counted[measure as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Records the time of a measured command.
    pub(crate) fn note(&self, measure: Measure, value: u64) {
        let counted = self.counted[measure as usize].swap(0, Ordering::Relaxed);
        self.lock().of(measure).saturating_record_n(value, 1 + counted);
    }

    pub(crate) fn get(&self) -> Latencies {
        let mut latencies = self.lock();
        for measure in [Measure::Set, Measure::Hit, Measure::Miss, Measure::Timeout] {
            let counted = self.counted[measure as usize].swap(0, Ordering::Relaxed);
            let measured = latencies.of(measure);
            measured.saturating_record_n(measured.value_at_quantile(0.5), counted);
        }
        latencies.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Latencies> {
        self.latencies.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_counts_and_a_sample_is_measured() {
        let measured = Measured::default();
        for index in 0..100 {
            if measured.only_counts(Millis(5)) {
                measured.count(Measure::Set);
            } else {
                measured.note(Measure::Set, 10 + index);
            }
        }
        let first = measured.get().set_us;
        assert_eq!((first.len(), first.min(), first.max()), (100, 10, 25));
        assert!(!measured.only_counts(Millis(6)));
        measured.count(Measure::Set);
        measured.note(Measure::Set, 7);
        let second = measured.get().set_us;
        assert_eq!((second.len(), second.count_at(7)), (102, 2));
        assert!(measured.get().hit_us.is_empty());
    }
}
