//! The rows about Gearman. Their goals are relative to gearmand.

use std::path::Path;

use super::row::{Goal, Row, cell, rate, row, shape};
use super::work::{Keeping, Metric, Peer, Side, Work};

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
    let hundred =
        |what, metric| against(MANY_FUNCTIONS, what, metric, Work::IdleWorkers(100), Goal::Shown);
    let pipelined = shape(50, 32);
    vec![
        memory("T11", Work::Submit(shape(50, 1)), AtLeast(1.05, 1.25)),
        memory("T11", Work::Submit(pipelined), AtLeast(1.5, 3.0)),
        durable(Work::Submit(shape(1, 1)), AtLeast(3.0, 4.5)),
        durable(Work::Submit(pipelined), AtLeast(100.0, 500.0)),
        against(
            "T13",
            "foreground job to its result, one after the other, p50",
            Metric::P50Micros,
            Work::Foreground,
            Goal::RatioAtMost(0.9, 0.6),
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

/// If gearmand is missing, removes the rows that need it. Returns a note with their names.
pub(crate) fn without_missing(rows: &mut Vec<Row>, gearmand: &Path) -> Option<String> {
    if gearmand.exists() {
        return None;
    }
    let needs =
        |row: &Row| row.theirs.is_some_and(|theirs| matches!(theirs.peer, Peer::Gearmand { .. }));
    let mut ids: Vec<&str> = rows.iter().filter(|row| needs(row)).map(|row| row.id).collect();
    ids.dedup();
    rows.retain(|row| !needs(row));
    let program = gearmand.display();
    (!ids.is_empty()).then(|| format!("Left out ({}): there is no {program}", ids.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_gearmand_its_rows_are_left_out_and_named() {
        let all = super::super::rows::all();
        let mut kept = all.clone();
        assert_eq!(without_missing(&mut kept, Path::new("/")), None);
        assert_eq!(kept.len(), all.len());
        let note = without_missing(&mut kept, Path::new("/nowhere/gearmand"));
        let expected = "Left out (T11, T12, T13, T14, M6, M6b): there is no /nowhere/gearmand";
        assert_eq!(note.as_deref(), Some(expected));
        assert_eq!(kept.len(), all.len() - rows().len());
        assert_eq!(without_missing(&mut kept, Path::new("/nowhere/gearmand")), None);
    }
}
