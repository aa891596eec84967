//! The rows about Gearman. Their goals are relative to gearmand.

use super::row::{Goal, Row, cell, rate, row, shape};
use super::work::{BARE_LOOP, KEEPING_LOOP_DURABLE, Keeping, Metric, Peer, Side, Work};

/// The rows about workers with many functions. They take minutes, so they run only if the command
/// line names them.
pub(crate) const MANY_FUNCTIONS: &str = "M6b";

/// The rows that compare Lineshaft's Gearman dialect with gearmand.
pub(crate) fn rows() -> Vec<Row> {
    use Goal::RatioAtLeast as AtLeast;
    let [in_memory, synced] = [Keeping::Memory, Keeping::SyncAlways]
        .map(|keeping| Peer::Lineshaft(Side::Gearman, keeping));
    let [builtin, sqlite] = [false, true].map(|sqlite| Peer::Gearmand { sqlite });
    let memory = |id, work, goal| rate(id, work, in_memory, builtin, goal);
    let durable = |work, goal| rate("T12", work, synced, sqlite, goal);
    let against = |id, what, metric, work, goal| {
        row(id, what, metric, cell(in_memory, work), Some(cell(builtin, work)), goal)
    };
    let foreground = "foreground job to its result, one after the other, p50";
    let bare_submit =
        |load| rate("T12k", Work::Submit(load), KEEPING_LOOP_DURABLE, sqlite, Goal::Shown);
    let hundred =
        |what, metric| against(MANY_FUNCTIONS, what, metric, Work::IdleWorkers(100), Goal::Shown);
    let pipelined = shape(50, 32);
    vec![
        memory("T11", Work::Submit(shape(50, 1)), AtLeast(1.05, 1.25)),
        memory("T11", Work::Submit(pipelined), AtLeast(1.5, 3.0)),
        durable(Work::Submit(shape(1, 1)), AtLeast(3.0, 4.5)),
        durable(Work::Submit(pipelined), AtLeast(100.0, 500.0)),
        bare_submit(shape(1, 1)),
        bare_submit(pipelined),
        against(
            "T13",
            foreground,
            Metric::P50Micros,
            Work::Foreground,
            Goal::RatioAtMost(0.9, 0.6),
        ),
        row(
            "T13m",
            foreground,
            Metric::P50Micros,
            cell(BARE_LOOP, Work::Foreground),
            Some(cell(builtin, Work::Foreground)),
            Goal::Shown,
        ),
        memory("T14", Work::Grab(pipelined), AtLeast(20.0, 100.0)),
        against(
            "M6",
            "per sleeping Gearman worker of 10 functions",
            Metric::BytesPerConnection,
            Work::IdleWorkers(10),
            Goal::RatioAtMost(1.0, 0.5),
        ),
        hundred("per sleeping Gearman worker of 100 functions", Metric::BytesPerConnection),
        hundred("all of them connected and registered", Metric::Seconds),
        hundred("time until one of them learns of a job that wakes all, p50", Metric::P50Micros),
        hundred("the same, p99", Metric::P99Micros),
    ]
}
