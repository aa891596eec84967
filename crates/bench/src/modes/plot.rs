//! Plots of one run: the rate over the time, and the distribution of latencies.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::Context;

use crate::latency::{self, LatencySummary};
use crate::load::{LoadReport, TIMELINE_STEP};
use crate::plot::{Axis, Chart, Line, Panel, Scale, show_micros, show_number, show_rate};
use crate::table::{show_count, three_digits};

/// The number of points of a rate over the time is at most this.
const RATE_POINTS_MAX: usize = 100;

/// The plot of a load.
pub(super) fn load_chart(title: String, report: &LoadReport) -> Chart {
    let mut subtitle = format!(
        "{}/s for {} s; {}",
        show_count(report.rate),
        three_digits(report.seconds),
        latencies(&report.latency)
    );
    if let Some(micros) = report.server_cpu_us {
        let _ = write!(subtitle, "; {} µs of the server's processor each", three_digits(micros));
    }
    let rate = Panel {
        title: "Rate".to_owned(),
        x: axis("seconds", Scale::Linear, show_number),
        y: axis("operations per second", Scale::Linear, show_rate),
        lines: vec![Line { name: "load".to_owned(), points: rate_points(&report.timeline) }],
    };
    let panels = vec![rate, latency_panel(&report.curve)];
    Chart { title, subtitle, panels, columns: 2 }
}

/// The plot of round trips.
pub(super) fn trip_chart(title: String, latency: &LatencySummary, curve: &[(f64, f64)]) -> Chart {
    let panels = vec![latency_panel(curve)];
    Chart { title, subtitle: latencies(latency), panels, columns: 1 }
}

/// Writes a plot to a file.
pub(crate) fn write(chart: &Chart, path: &Path) -> anyhow::Result<()> {
    fs::write(path, chart.svg()).with_context(|| format!("cannot write {}", path.display()))
}

fn latencies(latency: &LatencySummary) -> String {
    let [p50, p99, max] =
        [latency.p50_us, latency.p99_us, latency.max_us].map(latency::show_micros);
    format!("p50 {p50}, p99 {p99}, longest {max}")
}

/// The rate at each moment of the run. Each point is the mean of several steps of the timeline. Steps
/// at the end that do not fill a point are left out.
fn rate_points(timeline: &[u32]) -> Vec<(f64, f64)> {
    let steps = timeline.len().div_ceil(RATE_POINTS_MAX).max(1);
    let seconds = TIMELINE_STEP.as_secs_f64() * steps as f64;
    let sums = timeline.chunks_exact(steps).map(|part| part.iter().map(|&n| u64::from(n)).sum());
    let point = |(index, sum): (usize, u64)| ((index as f64 + 0.5) * seconds, sum as f64 / seconds);
    sums.enumerate().map(point).collect()
}

/// The latency of each part of the operations. The scale gives each further nine the same space, so
/// that rare operations are visible.
fn latency_panel(curve: &[(f64, f64)]) -> Panel {
    let place = |quantile: f64| 1.0 / (1.0 - quantile);
    let labels = [0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999_999].map(place);
    let points = curve.iter().map(|&(quantile, micros)| (place(quantile), micros)).collect();
    Panel {
        title: "Latency".to_owned(),
        x: Axis { labels: labels.to_vec(), ..axis("percentile", Scale::Log, show_percentile) },
        y: axis("at most, for this percentage of the operations", Scale::Log, show_micros),
        lines: vec![Line { name: "load".to_owned(), points }],
    }
}

/// Shows the percentage of a value on the scale of percentiles, such as `99.9 %` for 1000.
fn show_percentile(place: f64) -> String {
    let rounded = (1e9 * (1.0 - 1.0 / place)).round() / 1e7;
    format!("{rounded} %")
}

fn axis(name: &str, scale: Scale, show: fn(f64) -> String) -> Axis {
    Axis { name: name.to_owned(), scale, show, labels: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_whole_steps() {
        assert_eq!(rate_points(&[]), []);
        assert_eq!(rate_points(&[5, 7]), [(0.005, 500.0), (0.015, 700.0)]);
        let long = vec![10; 250];
        let points = rate_points(&long);
        assert_eq!(points.len(), 83);
        assert!(points.iter().all(|&(_, rate)| (rate - 1000.0).abs() < 1e-6), "{points:?}");
    }

    #[test]
    fn percentiles_are_shown_with_their_nines() {
        let shown = [1.0, 2.0, 10.0, 1000.0, 1e6].map(show_percentile);
        assert_eq!(shown, ["0 %", "50 %", "90 %", "99.9 %", "99.9999 %"]);
    }
}
