//! The result of a comparison as text: a table for the terminal, and a page in Markdown.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::method;
use super::plots::Plot;
use super::result::{Comparison, Outcome};
use crate::compare::plan::row::Verdict;
use crate::compare::plan::work::Metric;
use crate::latency::show_micros;
use crate::table::{Table, three_digits};

const NONE: &str = "–";

/// The table for the terminal.
pub(crate) fn text(comparison: &Comparison) -> String {
    let mut text = outcome_table(&comparison.rows).text();
    for note in notes(comparison) {
        let _ = write!(text, "\n{note}");
    }
    let _ = write!(text, "\n{}\n{}\n", machine(comparison), disk(comparison));
    text
}

/// The rows that are below their floor or were not measured, one line each. `None` if there are
/// none.
pub(crate) fn complaint(rows: &[Outcome]) -> Option<String> {
    let mut lines = Vec::new();
    for outcome in rows {
        let name = format!("{} ({})", outcome.id, outcome.what);
        match (outcome.verdict, outcome.figure, outcome.floor) {
            (Verdict::Below, Some(figure), Some(floor)) => {
                let show = |value| show_figure(outcome, value);
                let (figure, sign, floor) = (show(figure), outcome.row.goal.sign(), show(floor));
                lines.push(format!("{name}: {figure}; the floor is {sign} {floor}"));
            }
            (Verdict::NotMeasured, ..) => lines.push(format!("{name}: not measured")),
            _ => {}
        }
    }
    (!lines.is_empty()).then(|| format!("below the floor or not measured:\n{}", lines.join("\n")))
}

/// True if the figure of a row is a ratio of two measurements.
fn is_ratio(outcome: &Outcome) -> bool {
    outcome.row.theirs.is_some() && outcome.row.goal.is_ratio()
}

/// A figure or a floor of a row: a ratio, or a value with its unit.
fn show_figure(outcome: &Outcome, figure: f64) -> String {
    if is_ratio(outcome) {
        format!("{}×", three_digits(figure))
    } else {
        outcome.metric.show(figure)
    }
}

/// The Markdown page.
///
/// `folder` is the folder of the plots, relative to the page.
pub(crate) fn markdown(comparison: &Comparison, plots: &[Plot], folder: &str) -> String {
    let mut page = String::from("# Performance\n\n");
    page.push_str(
        "This page compares Lineshaft with the servers it replaces, and with Redis, NATS and RabbitMQ.\n\
         Everything was measured on one machine in one run. The command at the end of the page writes it. Absolute\n\
         figures apply to this machine only; ratios are more portable.\n\n",
    );
    for plot in plots {
        let _ = writeln!(page, "![{}]({folder}/{})\n", plot.description, plot.file);
    }
    page.push_str("## Result\n\n");
    page.push_str(&outcome_table(&comparison.rows).markdown());
    page.push_str(
        "\nA *floor* is the minimum that the project accepts. A *reach* is its goal. A ratio is\n\
         Lineshaft divided by its peer (D1: the peer by Lineshaft). CPU is the server's processor\n\
         time per operation. Lateness counts from the due time and includes a network round trip.\n\
         The first column is the name of the goal in the project's list: T for throughput, L for\n\
         latency, M for memory, D for disk. Goals that need another kind of measurement are\n\
         missing.\n",
    );
    let notes = notes(comparison);
    if !notes.is_empty() {
        page.push('\n');
        for note in notes {
            let _ = writeln!(page, "- {note}");
        }
    }
    let _ = write!(page, "\n## Machine\n\n{}\n{}\n", machine(comparison), disk(comparison));
    page.push_str(&method::text(comparison));
    page.push_str("\n## All measurements\n\nMedian, lowest and highest over the rounds.\n\n");
    page.push_str(&spread_table(comparison).markdown());
    page
}

fn outcome_table(outcomes: &[Outcome]) -> Table {
    let mut table = Table::new(
        5,
        &[
            "#", "Work", "Measured", "Against", "Verdict", "Ours", "Theirs", "Ratio", "Floor",
            "Reach", "CPU each",
        ],
    );
    for outcome in outcomes {
        let metric = outcome.metric;
        let show = |value: Option<f64>| value.map_or(NONE.to_owned(), |value| metric.show(value));
        let ratio = is_ratio(outcome);
        let bound = |bound: Option<f64>| match bound {
            None => NONE.to_owned(),
            Some(bound) if ratio => format!("{} {bound}×", outcome.row.goal.sign()),
            Some(bound) => format!("{} {}", outcome.row.goal.sign(), metric.show(bound)),
        };
        let plain_ratio =
            outcome.figure.filter(|_| ratio).or_else(|| Some(outcome.ours? / outcome.theirs?));
        table.row(vec![
            outcome.id.to_owned(),
            outcome.what.clone(),
            outcome.subject.clone(),
            outcome.peer.clone(),
            show_verdict(outcome.verdict).to_owned(),
            show(outcome.ours),
            show(outcome.theirs),
            plain_ratio.filter(|ratio| ratio.is_finite()).map_or(NONE.to_owned(), show_ratio),
            bound(outcome.floor),
            bound(outcome.reach),
            show_cpu(outcome),
        ]);
    }
    table
}

fn show_ratio(ratio: f64) -> String {
    if ratio < 0.01 { "< 0.01×".to_owned() } else { format!("{}×", three_digits(ratio)) }
}

fn show_verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Reach => "reach",
        Verdict::Floor => "floor",
        Verdict::Below => "BELOW",
        Verdict::Shown => NONE,
        Verdict::NotMeasured => "not measured",
    }
}

fn show_cpu(outcome: &Outcome) -> String {
    match (outcome.cpu_ours_us, outcome.cpu_theirs_us) {
        (Some(ours), Some(theirs)) => {
            format!("{} / {} µs", three_digits(ours), three_digits(theirs))
        }
        (Some(ours), None) => format!("{} µs", three_digits(ours)),
        (None, Some(theirs)) => format!("{NONE} / {} µs", three_digits(theirs)),
        (None, None) => NONE.to_owned(),
    }
}

/// Remarks that a reader needs to judge the figures.
fn notes(comparison: &Comparison) -> Vec<String> {
    let mut notes = Vec::new();
    if comparison.quick {
        notes.push(
            "This was a quick run: few rounds, short measurements, small backlogs.".to_owned(),
        );
    }
    notes.extend(comparison.left_out.clone());
    if comparison.server_cpu == comparison.generator_cpu {
        notes.push(
            "Servers and generator shared one processor, so the generator also measures itself."
                .to_owned(),
        );
    }
    if comparison.machine.disk_is_memory() {
        notes.push(
            "The servers' data was in memory (tmpfs), so durable rows mean nothing; use --scratch."
                .to_owned(),
        );
    }
    for spread in &comparison.spreads {
        if spread.metric == Metric::GeneratorShare && spread.median > 0.95 {
            notes.push(format!(
                "{}, {}: the generator was {} busy, so the server may be faster than shown.",
                spread.work,
                spread.peer,
                spread.metric.show(spread.median)
            ));
        }
    }
    notes.extend(disturbance(comparison));
    // Many rows often fail for the same reason, so the page shows each reason only once.
    let mut errors: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for outcome in &comparison.rows {
        if let Some(error) = &outcome.error {
            let ids = errors.entry(error).or_default();
            if ids.last() != Some(&outcome.id) {
                ids.push(outcome.id);
            }
        }
    }
    notes.extend(
        errors
            .into_iter()
            .map(|(error, ids)| format!("Not measured ({}): {error}", ids.join(", "))),
    );
    notes
}

/// A note about other programs, if they used so much of the servers' processor that the figures may
/// have changed.
fn disturbance(comparison: &Comparison) -> Option<String> {
    const DISTURBED: f64 = 0.1;
    let shares =
        || comparison.spreads.iter().filter(|spread| spread.metric == Metric::ForeignShare);
    let disturbed = shares().filter(|spread| spread.median > DISTURBED).count();
    let worst = shares().map(|spread| spread.highest).fold(0.0, f64::max);
    (disturbed > 0).then(|| {
        format!(
            "Other programs took more than {} of the servers' processor in {disturbed} of {} throughput \
             measurements (at worst {}): their rates are too low; CPU times and ratios are more reliable.",
            Metric::ForeignShare.show(DISTURBED),
            shares().count(),
            Metric::ForeignShare.show(worst),
        )
    })
}

fn machine(comparison: &Comparison) -> String {
    let machine = &comparison.machine;
    let kind = if machine.is_virtual { "virtual machine" } else { "machine" };
    format!(
        "{} {kind}, {} processors, {:.0} GiB of memory, Linux {}, data on {}. Measured on {}.\n\
         Versions: {}.",
        machine.processor,
        machine.processors,
        machine.memory_gib,
        machine.kernel,
        machine.file_system,
        machine.date,
        comparison.versions.join("; ")
    )
}

/// The sync time of the disk. Durable figures depend on it.
fn disk(comparison: &Comparison) -> String {
    match comparison.sync_time {
        Some(time) => format!(
            "An append of 100 bytes and its sync (`fdatasync`) take {} on this disk: the median of the\n\
             rounds, which are between {} and {}. The 99th percentile is {}.",
            show_micros(time.p50_us),
            show_micros(time.lowest_us),
            show_micros(time.highest_us),
            show_micros(time.p99_us)
        ),
        None => "The sync time of the disk could not be measured.".to_owned(),
    }
}

fn spread_table(comparison: &Comparison) -> Table {
    let mut table = Table::new(3, &["Work", "Server", "Figure", "Median", "Lowest", "Highest"]);
    for spread in &comparison.spreads {
        let show = |value| spread.metric.show(value);
        table.row(vec![
            spread.work.clone(),
            spread.peer.clone(),
            spread.metric.name(),
            show(spread.median),
            show(spread.lowest),
            show(spread.highest),
        ]);
    }
    table
}

#[cfg(test)]
pub(crate) mod tests {
    use std::path::Path;

    use super::super::result::{CellResult, Results, SyncTime, judge, spreads};
    use super::*;
    use crate::compare::plan::rows;
    use crate::compare::plan::sizes::Sizes;
    use crate::compare::plan::work::Sample;
    use crate::machine::Machine;

    fn sample(rate: f64, cpu: f64, generator: f64) -> CellResult {
        let sample = Sample::from([
            (Metric::OperationsPerSecond, rate),
            (Metric::CpuMicrosPerOperation, cpu),
            (Metric::GeneratorShare, generator),
        ]);
        CellResult { samples: vec![sample], error: None }
    }

    /// A comparison in which row T2 was measured and row M5 failed.
    fn comparison() -> Comparison {
        comparison_of(&["T2", "M5"])
    }

    /// A comparison with these rows. Rates and processor times have been measured, other figures have
    /// not.
    pub(crate) fn comparison_of(ids: &[&str]) -> Comparison {
        let mut rows = rows::all();
        rows.retain(|row| ids.contains(&row.id));
        let mut results = Results::new();
        for row in &rows {
            let is_measured =
                matches!(row.metric, Metric::OperationsPerSecond | Metric::CpuMicrosPerOperation);
            let error = (!is_measured).then(|| "it ended".to_owned());
            let ours = sample(2_720_000.0, 0.3, 0.97);
            results.insert(row.ours, CellResult { error, ..ours });
            if let Some(theirs) = row.theirs {
                results.insert(theirs, sample(136_000.0, 7.3, 0.3));
            }
        }
        Comparison {
            machine: Machine::here(Path::new("/")),
            sync_time: Some(SyncTime {
                p50_us: 270.0,
                lowest_us: 231.0,
                highest_us: 350.0,
                p99_us: 719.0,
            }),
            versions: vec!["beanstalkd 1.12".to_owned()],
            rounds: 5,
            quick: false,
            left_out: Vec::new(),
            server_cpu: 0,
            generator_cpu: 1,
            command: "lineshaft bench compare".to_owned(),
            rows: judge(&rows, &results),
            spreads: spreads(&results),
            sizes: Sizes::full(std::time::Duration::from_secs(1)),
        }
    }

    #[test]
    fn the_page_shows_figures_bounds_and_verdicts() {
        let page = markdown(&comparison(), &[], "page");
        let row = "| T2 | put, 50×32 | Lineshaft, memory | beanstalkd | reach | 2.72 M/s | 136 k/s | 20.0× \
                   | ≥ 10× | ≥ 20× | 0.30 / 7.30 µs |";
        assert!(page.contains(row), "{page}");
        assert!(page.contains(
            "| M5 | per idle connection | Lineshaft, memory | beanstalkd | not measured | – |"
        ));
        assert!(page.contains("- Not measured (M5): Lineshaft, memory: it ended"), "{page}");
        assert!(page.contains("the generator was 97 % busy"), "{page}");
        assert!(page.contains("    lineshaft bench compare\n"));
    }

    #[test]
    fn the_page_shows_its_plots() {
        let plot = Plot { file: "rates.svg", description: "Rates", svg: String::new() };
        let page = markdown(&comparison(), &[plot], "performance");
        assert!(page.contains("\n![Rates](performance/rates.svg)\n\n"), "{page}");
    }

    #[test]
    fn page_and_terminal_show_the_sync_time_of_the_disk() {
        let mut comparison = comparison();
        for text in [markdown(&comparison, &[], "page"), text(&comparison)] {
            let disk = "take 270 µs on this disk: the median of the\nrounds, which are between 231 µs \
                        and 350 µs. The 99th percentile is 719 µs.";
            assert!(text.contains(disk), "{text}");
        }
        comparison.sync_time = None;
        assert!(text(&comparison).contains("The sync time of the disk could not be measured."));
    }

    #[test]
    fn a_complaint_names_each_row_below_its_floor() {
        let mut rows = comparison().rows;
        let expected = "below the floor or not measured:\nM5 (per idle connection): not measured";
        assert_eq!(complaint(&rows).as_deref(), Some(expected));
        rows[1].verdict = Verdict::Reach;
        assert_eq!(complaint(&rows), None);
        rows[0].verdict = Verdict::Below;
        rows[0].figure = Some(9.5);
        let expected =
            "below the floor or not measured:\nT2 (put, 50×32): 9.50×; the floor is ≥ 10.0×";
        assert_eq!(complaint(&rows).as_deref(), Some(expected));
    }

    #[test]
    fn json_names_every_figure() {
        let json = serde_json::to_value(comparison()).expect("plain data");
        let row = &json["rows"][0];
        assert_eq!(row["id"], "T2");
        assert_eq!(row["metric"], "operations_per_second");
        assert_eq!(row["figure"], 20.0);
        assert_eq!(row["verdict"], "reach");
        assert_eq!(json["rows"][1]["verdict"], "not_measured");
        assert_eq!(json["spreads"][0]["rounds"], 1);
    }
}
