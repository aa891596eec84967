//! The latencies of a run in an HDR histogram of nanoseconds, and the figures for a report.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

/// Longer latencies count as this long.
const LONGEST_NS: u64 = 600_000_000_000;

/// Collects latencies. A call of `record` takes only a few nanoseconds.
#[derive(Debug)]
pub(crate) struct Latency {
    histogram: Histogram<u64>,
}

impl Latency {
    /// An empty histogram with three significant digits.
    pub(crate) fn new() -> Self {
        let histogram =
            Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("the bounds are valid constants");
        Self { histogram }
    }

    /// Counts `count` operations that took `nanoseconds` each.
    pub(crate) fn record(&mut self, nanoseconds: u64, count: u64) {
        self.histogram.saturating_record_n(nanoseconds.max(1), count);
    }

    /// The latency at a quantile from 0 to 1: this part of the operations took at most this long.
    pub(crate) fn at(&self, quantile: f64) -> Duration {
        Duration::from_nanos(self.histogram.value_at_quantile(quantile))
    }

    /// Points of the whole distribution: a quantile, and the latency in microseconds. The quantiles
    /// are closer to each other near 1.
    pub(crate) fn curve(&self) -> Vec<(f64, f64)> {
        const POINTS_PER_NINE: i32 = 8;
        let count = self.histogram.len() as f64;
        let steps = (count.max(1.0).log10() * f64::from(POINTS_PER_NINE)).ceil() as i32;
        let quantile = |step| 1.0 - 10_f64.powf(-f64::from(step) / f64::from(POINTS_PER_NINE));
        let point = |quantile| (quantile, self.histogram.value_at_quantile(quantile) as f64 / 1e3);
        if count == 0.0 { Vec::new() } else { (0..=steps).map(quantile).map(point).collect() }
    }

    /// The figures for a report.
    pub(crate) fn summary(&self) -> LatencySummary {
        let micros = |quantile| self.histogram.value_at_quantile(quantile) as f64 / 1e3;
        LatencySummary {
            p50_us: micros(0.5),
            p90_us: micros(0.9),
            p99_us: micros(0.99),
            p999_us: micros(0.999),
            max_us: self.histogram.max() as f64 / 1e3,
        }
    }
}

/// Latencies in microseconds. All are 0 if nothing was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[expect(clippy::struct_field_names, reason = "the unit is part of the names in JSON")]
pub(crate) struct LatencySummary {
    pub(crate) p50_us: f64,
    pub(crate) p90_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) p999_us: f64,
    pub(crate) max_us: f64,
}

/// Shows a time in microseconds in the most readable unit.
pub(crate) fn show_micros(micros: f64) -> String {
    match micros {
        m if m < 10.0 => format!("{m:.1} µs"),
        m if m < 1e3 => format!("{m:.0} µs"),
        m if m < 1e4 => format!("{:.2} ms", m / 1e3),
        m if m < 1e6 => format!("{:.1} ms", m / 1e3),
        m => format!("{:.2} s", m / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_come_from_all_operations() {
        let mut latency = Latency::new();
        latency.record(1_000, 99);
        latency.record(1_000_000, 1);
        let summary = latency.summary();
        assert!((summary.p50_us - 1.0).abs() < 0.01, "{summary:?}");
        assert!((summary.p99_us - 1.0).abs() < 0.01, "{summary:?}");
        assert!((summary.max_us - 1000.0).abs() < 1.0, "{summary:?}");
    }

    #[test]
    fn a_curve_ends_at_the_longest_latency() {
        let mut latency = Latency::new();
        assert_eq!(latency.curve(), []);
        latency.record(1_000, 990);
        latency.record(1_000_000, 10);
        let curve = latency.curve();
        let (first, last) = (curve[0], curve[curve.len() - 1]);
        assert!(first.0 == 0.0 && (first.1 - 1.0).abs() < 0.01, "{curve:?}");
        assert!(last.0 >= 0.999 && (last.1 - 1000.0).abs() < 1.0, "{curve:?}");
        assert!(curve.is_sorted_by(|left, right| left.0 < right.0 && left.1 <= right.1));
    }

    #[test]
    fn times_are_shown_in_the_unit_that_reads_best() {
        assert_eq!(show_micros(1.234), "1.2 µs");
        assert_eq!(show_micros(380.4), "380 µs");
        assert_eq!(show_micros(1_500.0), "1.50 ms");
        assert_eq!(show_micros(60_000.0), "60.0 ms");
        assert_eq!(show_micros(2_800_000.0), "2.80 s");
    }
}
