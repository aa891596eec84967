//! One row of a comparison: one or two measurements, and a goal for their figure.
//!
//! The *floor* is the required minimum. The *reach* is the goal of the project.

use super::work::{Cell, Metric, Peer, Shape, Work};

/// One row of the result.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) id: &'static str,
    pub(crate) what: String,
    pub(crate) metric: Metric,
    pub(crate) ours: Cell,
    pub(crate) theirs: Option<Cell>,
    pub(crate) goal: Goal,
}

/// A goal, with its floor and its reach.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Goal {
    /// Our value divided by theirs must be at least this.
    RatioAtLeast(f64, f64),
    /// Our value divided by theirs must be at most this.
    RatioAtMost(f64, f64),
    /// Their value divided by ours must be at least this.
    SpeedUpAtLeast(f64, f64),
    /// Our value must be at most this.
    AtMost(f64, f64),
    /// Our value must be at least this.
    AtLeast(f64, f64),
    /// There is no goal. The row is only for comparison.
    Shown,
}

/// The verdict on a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    Reach,
    Floor,
    Below,
    Shown,
    NotMeasured,
}

impl Goal {
    /// The figure that is compared with the goal: a ratio, or our own value.
    pub(crate) fn figure(self, ours: Option<f64>, theirs: Option<f64>) -> Option<f64> {
        match self {
            Goal::RatioAtLeast(..) | Goal::RatioAtMost(..) | Goal::Shown => divide(ours?, theirs?),
            Goal::SpeedUpAtLeast(..) => divide(theirs?, ours?),
            Goal::AtMost(..) | Goal::AtLeast(..) => ours,
        }
    }

    /// True if the figure is a ratio of our value and theirs.
    pub(crate) fn is_ratio(self) -> bool {
        match self {
            Goal::RatioAtLeast(..)
            | Goal::RatioAtMost(..)
            | Goal::SpeedUpAtLeast(..)
            | Goal::Shown => true,
            Goal::AtMost(..) | Goal::AtLeast(..) => false,
        }
    }

    /// The floor and the reach. `None` if there is no goal.
    pub(crate) fn bounds(self) -> Option<(f64, f64)> {
        match self {
            Goal::RatioAtLeast(floor, reach)
            | Goal::RatioAtMost(floor, reach)
            | Goal::SpeedUpAtLeast(floor, reach)
            | Goal::AtMost(floor, reach)
            | Goal::AtLeast(floor, reach) => Some((floor, reach)),
            Goal::Shown => None,
        }
    }

    /// Compares the figure with the goal.
    pub(crate) fn verdict(self, figure: Option<f64>) -> Verdict {
        let Some(figure) = figure else { return Verdict::NotMeasured };
        let Some((floor, reach)) = self.bounds() else { return Verdict::Shown };
        let meets = |bound: f64| match self {
            Goal::RatioAtMost(..) | Goal::AtMost(..) => figure <= bound,
            Goal::RatioAtLeast(..) | Goal::SpeedUpAtLeast(..) | Goal::AtLeast(..) | Goal::Shown => {
                figure >= bound
            }
        };
        match (meets(floor), meets(reach)) {
            (_, true) => Verdict::Reach,
            (true, false) => Verdict::Floor,
            (false, false) => Verdict::Below,
        }
    }

    /// The sign before the bounds, as in `≥ 1.05×` or `≤ 250 B`.
    pub(crate) fn sign(self) -> &'static str {
        match self {
            Goal::RatioAtMost(..) | Goal::AtMost(..) => "≤",
            Goal::RatioAtLeast(..) | Goal::SpeedUpAtLeast(..) | Goal::AtLeast(..) => "≥",
            Goal::Shown => "",
        }
    }
}

fn divide(value: f64, by: f64) -> Option<f64> {
    (by > 0.0).then(|| value / by)
}

/// A row about operations per second. The work is the same on both servers.
pub(crate) fn rate(id: &'static str, work: Work, ours: Peer, theirs: Peer, goal: Goal) -> Row {
    let theirs = Some(cell(theirs, work));
    row(id, &work.to_string(), Metric::OperationsPerSecond, cell(ours, work), theirs, goal)
}

pub(crate) fn row(
    id: &'static str,
    what: &str,
    metric: Metric,
    ours: Cell,
    theirs: Option<Cell>,
    goal: Goal,
) -> Row {
    Row { id, what: what.to_owned(), metric, ours, theirs, goal }
}

pub(crate) fn cell(peer: Peer, work: Work) -> Cell {
    Cell { work, peer }
}

pub(crate) fn shape(connections: u32, depth: u32) -> Shape {
    Shape { connections, depth }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_least_goals_are_met_from_below() {
        let goal = Goal::RatioAtLeast(1.05, 1.25);
        let verdict = |ours, theirs| goal.verdict(goal.figure(Some(ours), Some(theirs)));
        assert_eq!(verdict(104.0, 100.0), Verdict::Below);
        assert_eq!(verdict(105.0, 100.0), Verdict::Floor);
        assert_eq!(verdict(125.0, 100.0), Verdict::Reach);
    }

    #[test]
    fn at_most_goals_are_met_from_above() {
        let goal = Goal::AtMost(250.0, 200.0);
        assert_eq!(goal.verdict(goal.figure(Some(251.0), None)), Verdict::Below);
        assert_eq!(goal.verdict(goal.figure(Some(250.0), None)), Verdict::Floor);
        assert_eq!(goal.verdict(goal.figure(Some(199.0), None)), Verdict::Reach);
        let goal = Goal::RatioAtMost(1.0, 0.8);
        assert_eq!(goal.verdict(goal.figure(Some(90.0), Some(100.0))), Verdict::Floor);
    }

    #[test]
    fn a_speed_up_is_theirs_divided_by_ours() {
        let goal = Goal::SpeedUpAtLeast(3.0, 10.0);
        assert_eq!(goal.figure(Some(0.5), Some(2.0)), Some(4.0));
        assert_eq!(goal.verdict(Some(4.0)), Verdict::Floor);
    }

    #[test]
    fn a_row_without_measurement_has_no_verdict() {
        let goal = Goal::RatioAtLeast(1.0, 2.0);
        assert_eq!(goal.verdict(goal.figure(None, Some(1.0))), Verdict::NotMeasured);
        assert_eq!(goal.verdict(goal.figure(Some(1.0), None)), Verdict::NotMeasured);
        assert_eq!(goal.verdict(goal.figure(Some(1.0), Some(0.0))), Verdict::NotMeasured);
        assert_eq!(Goal::Shown.verdict(Some(1.0)), Verdict::Shown);
    }
}
