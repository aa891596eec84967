//! Turns samples into the result: medians, ratios, verdicts, and the whole result as data.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::compare::plan::row::{Goal, Row, Verdict};
use crate::compare::plan::work::{BARE_SYNC, Cell, Metric, Sample};
use crate::machine::Machine;

/// All samples of a cell, one per round. Also the reason, if a round failed.
#[derive(Debug, Default)]
pub(crate) struct CellResult {
    pub(crate) samples: Vec<Sample>,
    pub(crate) error: Option<String>,
}

impl CellResult {
    /// The values of one metric over all rounds, in ascending order.
    pub(crate) fn values(&self, metric: Metric) -> Vec<f64> {
        let mut values: Vec<f64> =
            self.samples.iter().filter_map(|sample| sample.get(&metric).copied()).collect();
        values.sort_by(f64::total_cmp);
        values
    }

    /// The median of one metric. `None` if a round failed.
    pub(crate) fn median(&self, metric: Metric) -> Option<f64> {
        if self.error.is_some() { None } else { median(&self.values(metric)) }
    }
}

/// The median of ascending values. If their number is even, it is the mean of the two middle
/// values.
pub(crate) fn median(ascending: &[f64]) -> Option<f64> {
    let middle = ascending.len() / 2;
    match ascending.len() {
        0 => None,
        length if length % 2 == 1 => Some(ascending[middle]),
        _ => Some(f64::midpoint(ascending[middle - 1], ascending[middle])),
    }
}

/// The results of all cells.
pub(crate) type Results = BTreeMap<Cell, CellResult>;

/// A judged row.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Outcome {
    pub(crate) id: &'static str,
    pub(crate) what: String,
    pub(crate) metric: Metric,
    /// The server that is judged.
    pub(crate) subject: String,
    pub(crate) ours: Option<f64>,
    /// The server that the subject is compared with. Empty if there is none.
    pub(crate) peer: String,
    pub(crate) theirs: Option<f64>,
    /// The figure that the goal is about: a ratio, or `ours` itself.
    pub(crate) figure: Option<f64>,
    pub(crate) floor: Option<f64>,
    pub(crate) reach: Option<f64>,
    pub(crate) verdict: Verdict,
    pub(crate) cpu_ours_us: Option<f64>,
    pub(crate) cpu_theirs_us: Option<f64>,
    /// The reason if something was not measured.
    pub(crate) error: Option<String>,
    #[serde(skip)]
    pub(crate) row: Row,
}

/// Judges all rows.
pub(crate) fn judge(rows: &[Row], results: &Results) -> Vec<Outcome> {
    rows.iter().map(|row| judge_row(row, results)).collect()
}

fn judge_row(row: &Row, results: &Results) -> Outcome {
    let median = |cell: Cell, metric| results.get(&cell).and_then(|result| result.median(metric));
    let error = |cell: Cell| {
        let error = results.get(&cell)?.error.as_ref()?;
        Some(format!("{}: {error}", cell.peer))
    };
    let ours = median(row.ours, row.metric);
    let theirs = row.theirs.and_then(|cell| median(cell, row.metric));
    let figure = match row.theirs {
        Some(theirs) if row.ours.work.is_measured_in_turn() => in_turn_figure(row, theirs, results),
        // Without a goal and without a peer, the value itself is shown.
        None if row.goal == Goal::Shown => ours,
        _ => row.goal.figure(ours, theirs),
    };
    let cpu = |cell| median(cell, Metric::CpuMicrosPerOperation);
    let same_peer = row.theirs.is_some_and(|theirs| theirs.peer == row.ours.peer);
    let peer = match row.theirs {
        // If a row compares a server with itself, its two measurements differ only in their work.
        // So show the work instead of the server.
        Some(theirs) if same_peer => theirs.work.to_string(),
        Some(theirs) => theirs.peer.to_string(),
        None => String::new(),
    };
    Outcome {
        id: row.id,
        what: row.what.clone(),
        metric: row.metric,
        subject: row.ours.peer.to_string(),
        ours,
        peer,
        theirs,
        figure,
        floor: row.goal.bounds().map(|(floor, _)| floor),
        reach: row.goal.bounds().map(|(_, reach)| reach),
        verdict: row.goal.verdict(figure),
        cpu_ours_us: cpu(row.ours),
        cpu_theirs_us: row.theirs.and_then(cpu),
        error: error(row.ours).or_else(|| row.theirs.and_then(error)),
        row: row.clone(),
    }
}

/// Compares the servers in each round, and returns the median of all rounds. The servers take turns
/// in each round, so other programs disturb all servers of a round equally. But they disturb each
/// round differently.
fn in_turn_figure(row: &Row, theirs: Cell, results: &Results) -> Option<f64> {
    let (ours, theirs) = (results.get(&row.ours)?, results.get(&theirs)?);
    if ours.error.is_some() || theirs.error.is_some() {
        return None;
    }
    let value = |sample: &Sample| sample.get(&row.metric).copied();
    let rounds = ours.samples.iter().zip(&theirs.samples);
    let figures = rounds.map(|(ours, theirs)| row.goal.figure(value(ours), value(theirs)));
    let mut figures: Vec<f64> = figures.collect::<Option<_>>()?;
    figures.sort_by(f64::total_cmp);
    median(&figures)
}

/// The spread of one metric of one cell over all rounds.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Spread {
    pub(crate) work: String,
    pub(crate) peer: String,
    pub(crate) metric: Metric,
    pub(crate) median: f64,
    pub(crate) lowest: f64,
    pub(crate) highest: f64,
    pub(crate) rounds: usize,
}

/// The spreads of all measurements.
pub(crate) fn spreads(results: &Results) -> Vec<Spread> {
    let mut spreads = Vec::new();
    for (cell, result) in results {
        let metrics =
            result.samples.first().map(|sample| sample.keys().copied().collect::<Vec<_>>());
        for metric in metrics.unwrap_or_default() {
            let values = result.values(metric);
            if let (Some(median), [lowest, ..], [.., highest]) =
                (median(&values), &values[..], &values[..])
            {
                spreads.push(Spread {
                    work: cell.work.to_string(),
                    peer: cell.peer.to_string(),
                    metric,
                    median,
                    lowest: *lowest,
                    highest: *highest,
                    rounds: values.len(),
                });
            }
        }
    }
    spreads
}

/// The time of an append and its sync on the disk, in microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
#[expect(clippy::struct_field_names, reason = "the unit is part of the names in JSON")]
pub(crate) struct SyncTime {
    /// The median of the rounds' medians, and the lowest and the highest of them.
    pub(crate) p50_us: f64,
    pub(crate) lowest_us: f64,
    pub(crate) highest_us: f64,
    /// The median of the rounds' 99th percentiles.
    pub(crate) p99_us: f64,
}

/// The sync time of the disk. `None` if it could not be measured.
pub(crate) fn sync_time(results: &Results) -> Option<SyncTime> {
    let disk = results.get(&BARE_SYNC)?;
    let p50s = disk.values(Metric::P50Micros);
    Some(SyncTime {
        p50_us: disk.median(Metric::P50Micros)?,
        lowest_us: *p50s.first()?,
        highest_us: *p50s.last()?,
        p99_us: disk.median(Metric::P99Micros)?,
    })
}

/// The whole result. `--json` prints it.
#[derive(Debug, Serialize)]
pub(crate) struct Comparison {
    pub(crate) machine: Machine,
    pub(crate) sync_time: Option<SyncTime>,
    /// The version that each program prints.
    pub(crate) versions: Vec<String>,
    pub(crate) rounds: u32,
    pub(crate) quick: bool,
    /// The rows that were left out, with the reasons.
    pub(crate) left_out: Vec<String>,
    pub(crate) server_cpu: usize,
    pub(crate) generator_cpu: usize,
    /// The command line that was run.
    pub(crate) command: String,
    pub(crate) rows: Vec<Outcome>,
    pub(crate) spreads: Vec<Spread>,
    #[serde(skip)]
    pub(crate) sizes: crate::compare::plan::sizes::Sizes,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::plan::rows;

    #[test]
    fn medians_ignore_one_bad_round() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[1.0, 3.0]), Some(2.0));
        assert_eq!(median(&[1.0, 100.0, 101.0]), Some(100.0));
    }

    fn sampled(values: &[f64]) -> CellResult {
        let samples = values
            .iter()
            .map(|&value| Sample::from([(Metric::OperationsPerSecond, value)]))
            .collect();
        CellResult { samples, error: None }
    }

    #[test]
    fn rows_are_judged_by_the_ratio_of_medians() {
        let row = rows::all().into_iter().find(|row| row.id == "T1").expect("T1 exists");
        let mut results = Results::new();
        results.insert(row.ours, sampled(&[120.0, 130.0, 10.0]));
        results.insert(row.theirs.expect("T1 has a peer"), sampled(&[100.0, 99.0, 101.0]));
        let outcome = judge_row(&row, &results);
        assert_eq!((outcome.ours, outcome.theirs), (Some(120.0), Some(100.0)));
        assert_eq!((outcome.figure, outcome.verdict), (Some(1.2), Verdict::Floor));
    }

    #[test]
    fn servers_in_turn_are_compared_round_by_round() {
        let row = rows::all().into_iter().find(|row| row.id == "T16").expect("T16 exists");
        let mut results = Results::new();
        results.insert(row.ours, sampled(&[100.0, 50.0, 220.0]));
        results.insert(row.theirs.expect("T16 has a peer"), sampled(&[50.0, 100.0, 200.0]));
        let outcome = judge_row(&row, &results);
        assert_eq!((outcome.ours, outcome.theirs), (Some(100.0), Some(100.0)));
        assert_eq!(outcome.figure, Some(1.1));
    }

    #[test]
    fn the_sync_time_is_the_median_of_the_rounds() {
        let round = |p50, p99| Sample::from([(Metric::P50Micros, p50), (Metric::P99Micros, p99)]);
        let samples = vec![round(150.0, 900.0), round(270.0, 700.0), round(140.0, 800.0)];
        let results = Results::from([(BARE_SYNC, CellResult { samples, error: None })]);
        let time = sync_time(&results).expect("it was measured");
        assert_eq!((time.p50_us, time.p99_us), (150.0, 800.0));
        assert_eq!((time.lowest_us, time.highest_us), (140.0, 270.0));
        assert!(sync_time(&Results::new()).is_none());
    }

    #[test]
    fn a_row_without_a_goal_is_measured_if_all_its_cells_are() {
        let all = rows::all();
        let judged = |row: &Row, theirs: Option<f64>| {
            let mut results = Results::new();
            let sample = |value| Sample::from([(row.metric, value)]);
            let result = |value| CellResult { samples: vec![sample(value)], error: None };
            results.insert(row.ours, result(6.0));
            results.extend(row.theirs.zip(theirs.map(result)));
            let outcome = judge_row(row, &results);
            (outcome.figure, outcome.verdict)
        };
        let alone = all.iter().find(|row| row.goal == Goal::Shown && row.theirs.is_none());
        assert_eq!(judged(alone.expect("L3 has one"), None), (Some(6.0), Verdict::Shown));
        let beside = all.iter().find(|row| row.id == "T20").expect("T20 exists");
        assert_eq!(judged(beside, Some(2.0)), (Some(3.0), Verdict::Shown));
        assert_eq!(judged(beside, None), (None, Verdict::NotMeasured));
    }

    #[test]
    fn an_error_in_one_round_leaves_the_row_unmeasured() {
        let row = rows::all().into_iter().find(|row| row.id == "T1").expect("T1 exists");
        let mut results = Results::new();
        let mut failed = sampled(&[120.0]);
        failed.error = Some("it ended".to_owned());
        results.insert(row.ours, failed);
        let outcome = judge_row(&row, &results);
        assert_eq!(outcome.verdict, Verdict::NotMeasured);
        assert_eq!(outcome.error.as_deref(), Some("Lineshaft, memory: it ended"));
    }
}
