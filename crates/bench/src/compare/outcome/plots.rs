//! The plots of a comparison: rates of all servers, the cost among many jobs, and bodies of other
//! sizes. A plot without data is left out.

use std::collections::{BTreeMap, BTreeSet};

use super::result::{Comparison, Outcome};
use crate::compare::plan::work::{Cell, Keeping, Metric, Peer, Shape, Work};
use crate::plot::{
    Axis, Chart, Dot, DotChart, DotRow, Line, Panel, Scale, show_micros, show_number, show_rate,
};
use crate::table::three_digits;

/// A plot of the page.
#[derive(Debug)]
pub(crate) struct Plot {
    /// The name of the file, without its folder.
    pub(crate) file: &'static str,
    /// A description for readers who cannot see it.
    pub(crate) description: &'static str,
    pub(crate) svg: String,
}

/// All plots of a comparison that have data.
pub(crate) fn all(comparison: &Comparison) -> Vec<Plot> {
    let plot =
        |file, description, svg: Option<String>| svg.map(|svg| Plot { file, description, svg });
    let rates = rates(comparison).map(|chart| chart.svg());
    let syncs = syncs(comparison).map(|chart| chart.svg());
    let cost = cost(comparison).map(|chart| chart.svg());
    let bodies = bodies(comparison).map(|chart| chart.svg());
    [
        plot("rates.svg", "Rates of all servers", rates),
        plot("syncs.svg", "Rates and processor time with disks of several speeds", syncs),
        plot("jobs.svg", "Processor time of an operation among more and more jobs", cost),
        plot("bodies.svg", "Rates with larger bodies", bodies),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The rates of all rows that compare different programs.
pub(crate) fn rates(comparison: &Comparison) -> Option<DotChart> {
    let ours = program(comparison.rows.first()?.row.ours.peer);
    let mut series = vec![ours];
    let mut groups = [("In memory", Vec::new()), ("On disk", Vec::new())]
        .map(|(name, rows)| (name.to_owned(), rows));
    let mut cells: BTreeMap<Cell, usize> = BTreeMap::new();
    // A row of a bare loop, or of three nodes, has no dot of Lineshaft.
    let is_ours = |outcome: &&Outcome| program(outcome.row.ours.peer) == ours;
    for outcome in comparison.rows.iter().filter(is_ours).filter(|outcome| compares_rates(outcome))
    {
        let (Some(ours), Some(value), Some(theirs)) =
            (outcome.ours, outcome.theirs, outcome.row.theirs)
        else {
            continue;
        };
        let name = program(theirs.peer);
        let known = series.iter().position(|known| *known == name);
        let dot = Dot {
            series: known.unwrap_or_else(|| {
                series.push(name);
                series.len() - 1
            }),
            value,
        };
        let is_on_disk = matches!(outcome.row.ours.peer, Peer::Lineshaft(_, Keeping::SyncAlways));
        let rows: &mut Vec<DotRow> = &mut groups[usize::from(is_on_disk)].1;
        match cells.get(&outcome.row.ours) {
            // In memory, a row has all servers. On disk, the other servers differ in what they
            // promise, so each has a row.
            Some(&index) if !is_on_disk => rows[index].dots.push(dot),
            _ => {
                let against =
                    if is_on_disk { format!(" · {}", outcome.peer) } else { String::new() };
                cells.insert(outcome.row.ours, rows.len());
                rows.push(DotRow {
                    name: format!("{}{against}", outcome.what),
                    dots: vec![Dot { series: 0, value: ours }, dot],
                    remark: String::new(),
                });
            }
        }
    }
    let mut groups: Vec<_> = groups.into_iter().filter(|(_, rows)| !rows.is_empty()).collect();
    for row in groups.iter_mut().flat_map(|(_, rows)| rows) {
        let best = row.dots[1..].iter().map(|dot| dot.value).fold(0.0, f64::max);
        row.remark = format!("{}×", three_digits(row.dots[0].value / best));
    }
    (!groups.is_empty()).then(|| DotChart {
        title: "Rates".to_owned(),
        subtitle: "At the right: Lineshaft's rate divided by the best of the others. \
                   50×32: 50 connections with 32 operations in flight each."
            .to_owned(),
        axis: "operations per second".to_owned(),
        show: show_rate,
        series: series.into_iter().map(str::to_owned).collect(),
        groups,
    })
}

/// The rates and the processor time while a sync takes longer and longer.
fn syncs(comparison: &Comparison) -> Option<Chart> {
    // Lineshaft is in several rows, with the same values.
    let mut measured = BTreeMap::new();
    for outcome in &comparison.rows {
        let ours = (Some(outcome.row.ours), outcome.ours, outcome.cpu_ours_us);
        for side in [ours, (outcome.row.theirs, outcome.theirs, outcome.cpu_theirs_us)] {
            let (Some(cell), Some(rate), Some(cpu)) = side else { continue };
            if let Work::PutWithSync(shape, micros) = cell.work {
                measured.insert((shape, cell.peer, micros), (rate, cpu));
            }
        }
    }
    let shapes: BTreeSet<Shape> = measured.keys().map(|key| key.0).collect();
    let axis =
        |name: &str, show, labels| Axis { name: name.to_owned(), scale: Scale::Log, show, labels };
    let panel = |shape: Shape, is_rate: bool| {
        let of_shape = measured.iter().filter(|(key, _)| key.0 == shape);
        let mut lines = lines(of_shape.map(|((_, peer, micros), (rate, cpu))| {
            (peer.to_string(), f64::from(*micros), if is_rate { *rate } else { *cpu })
        }));
        if is_rate {
            let limit = |micros: f64| f64::from(shape.connections) * 1e6 / micros;
            let micros = lines[0].points.iter().map(|point| point.0);
            let points = micros.map(|micros| (micros, limit(micros))).collect();
            lines.push(Line { name: "limit: connections / time of a sync".to_owned(), points });
        }
        Panel {
            title: shape.to_string(),
            x: axis("time of a sync", show_micros, vec![50.0, 300.0, 1000.0, 5000.0]),
            y: if is_rate {
                axis("puts per second", show_rate, Vec::new())
            } else {
                axis("processor time of a put", show_micros, Vec::new())
            },
            lines,
        }
    };
    let panels = [true, false].into_iter();
    let panels: Vec<Panel> = panels
        .flat_map(|is_rate| shapes.iter().map(move |&shape| (shape, is_rate)))
        .map(|(shape, is_rate)| panel(shape, is_rate))
        .collect();
    (!panels.is_empty()).then(|| Chart {
        title: "Puts on disks of several speeds".to_owned(),
        subtitle:
            "50×1: 50 connections that wait for each put. beanstalkd -b does not wait for the sync."
                .to_owned(),
        columns: shapes.len(),
        panels,
    })
}

/// True if the row compares the rates of two programs, and no other plot shows it.
fn compares_rates(outcome: &Outcome) -> bool {
    let other = outcome.row.theirs.map(|theirs| program(theirs.peer));
    let is_in_other_plot =
        matches!(outcome.row.ours.work, Work::PutOf(..) | Work::TakeOf(..) | Work::PutWithSync(..));
    outcome.metric == Metric::OperationsPerSecond
        && !is_in_other_plot
        && other.is_some_and(|other| other != program(outcome.row.ours.peer))
}

/// The processor time of an operation while more and more jobs wait.
fn cost(comparison: &Comparison) -> Option<Chart> {
    let values = values(comparison, Metric::CpuMicrosPerOperation);
    let points = values.iter().filter_map(|(cell, value)| match cell.work {
        Work::Cycle(_, jobs) => Some((cell.peer.to_string(), jobs as f64, *value)),
        _ => None,
    });
    let lines = lines(points);
    let jobs = Axis {
        name: "jobs in the queue".to_owned(),
        scale: Scale::Log,
        show: show_number,
        labels: Vec::new(),
    };
    let panel = Panel {
        title: "Server's processor time".to_owned(),
        x: jobs,
        y: Axis {
            name: "put + reserve + delete, each".to_owned(),
            scale: Scale::Log,
            show: show_micros,
            labels: Vec::new(),
        },
        lines,
    };
    (!panel.lines.is_empty()).then(|| Chart {
        title: "Cost among many jobs".to_owned(),
        subtitle:
            "50 connections with 32 operations in flight each. The number of jobs stays the same."
                .to_owned(),
        panels: vec![panel],
        columns: 1,
    })
}

/// The rates with bodies of several sizes.
fn bodies(comparison: &Comparison) -> Option<Chart> {
    const USUAL_BYTES: f64 = crate::compare::lab::BODY_BYTES as f64;
    let values = values(comparison, Metric::OperationsPerSecond);
    let has_others =
        values.iter().any(|(cell, _)| matches!(cell.work, Work::PutOf(..) | Work::TakeOf(..)));
    let single = Shape { connections: 50, depth: 1 };
    let panel = |title: &str, is_take: bool, is_on_disk: bool| {
        let points = values.iter().filter_map(|(cell, value)| {
            let bytes = match cell.work {
                Work::PutOf(_, bytes) if !is_take => f64::from(bytes),
                Work::TakeOf(_, bytes) if is_take => f64::from(bytes),
                Work::Put(shape) if !is_take && shape == single => USUAL_BYTES,
                Work::Take(shape) if is_take && shape == single => USUAL_BYTES,
                _ => return None,
            };
            let point = (program(cell.peer).to_owned(), bytes, *value);
            (has_bodies_on_disk(cell.peer)? == is_on_disk).then_some(point)
        });
        Panel {
            title: title.to_owned(),
            x: Axis {
                name: "size of a body".to_owned(),
                scale: Scale::Log,
                show: show_bytes,
                labels: vec![USUAL_BYTES, 1024.0, 65_536.0, 1_048_576.0],
            },
            y: Axis {
                name: "operations per second".to_owned(),
                scale: Scale::Log,
                show: show_rate,
                labels: Vec::new(),
            },
            lines: lines(points),
        }
    };
    let panels = vec![
        panel("put, in memory", false, false),
        panel("reserve + delete, in memory", true, false),
        panel("put, on disk, each synced", false, true),
    ];
    has_others.then(|| Chart {
        title: "Bodies of several sizes".to_owned(),
        subtitle: "50 connections with one operation in flight each.".to_owned(),
        panels,
        columns: 3,
    })
}

/// True if the server has its jobs on disk. `None` if it is not one of the servers that are compared
/// with larger bodies.
fn has_bodies_on_disk(peer: Peer) -> Option<bool> {
    use crate::compare::plan::work::{
        BEANSTALKD, BEANSTALKD_EACH_WRITE, LINESHAFT, LINESHAFT_DURABLE,
    };
    match peer {
        LINESHAFT | BEANSTALKD | Peer::Redis => Some(false),
        LINESHAFT_DURABLE | BEANSTALKD_EACH_WRITE => Some(true),
        _ => None,
    }
}

/// The medians of one metric, in the order of the rows.
fn values(comparison: &Comparison, metric: Metric) -> Vec<(Cell, f64)> {
    let mut values = Vec::new();
    for outcome in comparison.rows.iter().filter(|outcome| outcome.metric == metric) {
        let ours = outcome.ours.map(|ours| (outcome.row.ours, ours));
        let both = ours.into_iter().chain(outcome.row.theirs.zip(outcome.theirs));
        for (cell, value) in both {
            if values.iter().all(|(known, _)| *known != cell) {
                values.push((cell, value));
            }
        }
    }
    values
}

/// One line for each name, from points in any order.
fn lines(points: impl Iterator<Item = (String, f64, f64)>) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for (name, x, y) in points {
        match lines.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.push((x, y)),
            None => lines.push(Line { name, points: vec![(x, y)] }),
        }
    }
    for line in &mut lines {
        line.points.sort_by(|left, right| left.0.total_cmp(&right.0));
    }
    lines
}

/// The name of the program, without its settings.
fn program(peer: Peer) -> &'static str {
    match peer {
        Peer::Lineshaft(..) => "Lineshaft",
        Peer::Cluster => "three nodes over NATS",
        Peer::Beanstalkd(_) => "beanstalkd",
        Peer::Gearmand { .. } => "gearmand",
        Peer::Redis => "Redis",
        Peer::Nats { .. } => "NATS JetStream",
        Peer::RabbitMq => "RabbitMQ",
        Peer::BareLoop { .. } => "bare loop",
        Peer::Disk => "append + fdatasync",
    }
}

/// Shows a size on an axis.
fn show_bytes(bytes: f64) -> String {
    match bytes {
        b if b >= f64::from(1 << 20) => format!("{:.0} MiB", b / f64::from(1 << 20)),
        b if b >= 1024.0 => format!("{:.0} KiB", b / 1024.0),
        b => format!("{b:.0} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::document::tests::comparison_of;
    use super::*;

    fn files(ids: &[&str]) -> Vec<&'static str> {
        all(&comparison_of(ids)).iter().map(|plot| plot.file).collect()
    }

    #[test]
    fn only_plots_with_data_are_made() {
        assert_eq!(files(&["M5"]), [] as [&str; 0]);
        assert_eq!(files(&["T2"]), ["rates.svg"]);
        assert_eq!(files(&["T18"]), ["jobs.svg"]);
        assert_eq!(files(&["T19", "T16"]), ["bodies.svg"]);
        assert_eq!(files(&["T9b", "T9c"]), ["syncs.svg"]);
    }

    #[test]
    fn servers_in_memory_share_a_row_and_others_have_one_each() {
        let chart = rates(&comparison_of(&["T2", "T5", "T6", "T9"])).expect("it has rates");
        assert_eq!(chart.series, ["Lineshaft", "beanstalkd", "Redis"]);
        let rows = |group: usize| {
            let rows = chart.groups[group].1.iter();
            rows.map(|row| (row.name.as_str(), row.dots.len())).collect::<Vec<_>>()
        };
        assert_eq!(rows(0), [("put, 50×32", 3), ("reserve + delete, 50×32", 2)]);
        let on_disk = [("put, 50×1 · beanstalkd -b -f 0", 2), ("put, 50×1 · beanstalkd -b", 2)];
        assert_eq!(rows(1), on_disk);
    }

    #[test]
    fn a_bare_loop_is_not_shown_as_lineshaft() {
        let chart = rates(&comparison_of(&["T1", "T1m", "T6m"])).expect("it has rates");
        assert_eq!(chart.series, ["Lineshaft", "beanstalkd"]);
        assert_eq!(chart.groups.iter().map(|(_, rows)| rows.len()).sum::<usize>(), 1);
    }

    #[test]
    fn each_server_has_a_line_over_the_sync_times() {
        let chart = syncs(&comparison_of(&["T9b", "T9c"])).expect("it has slow syncs");
        let titles: Vec<&str> = chart.panels.iter().map(|panel| panel.title.as_str()).collect();
        assert_eq!(titles[..4], ["1×1", "10×1", "50×1", "500×1"]);
        assert_eq!((titles.len(), chart.columns), (8, 4));
        let rates = &chart.panels[2].lines;
        let points =
            |line: usize| rates[line].points.iter().map(|point| point.0).collect::<Vec<_>>();
        assert_eq!(points(0), [50.0, 150.0, 300.0, 1000.0, 5000.0]);
        // 50 connections that each wait for a sync of 5 ms.
        assert_eq!((rates.len(), rates[3].points[4]), (4, (5000.0, 10_000.0)));
    }

    #[test]
    fn each_server_has_a_line_over_the_sizes() {
        let chart = bodies(&comparison_of(&["T1", "T3", "T19"])).expect("it has bodies");
        let names = |panel: usize| {
            chart.panels[panel].lines.iter().map(|line| line.name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(names(0), ["Lineshaft", "beanstalkd", "Redis"]);
        assert_eq!(names(2), ["Lineshaft", "beanstalkd"]);
        let sizes: Vec<f64> = chart.panels[0].lines[0].points.iter().map(|point| point.0).collect();
        assert_eq!(sizes, [100.0, 1024.0, 65_536.0, 1_048_576.0]);
    }
}
