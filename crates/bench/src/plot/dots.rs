//! Rows of dots on one log scale. Each row compares several servers.

use super::scale::{Scale, Span};
use super::svg::{Anchor, MARGIN, Svg, Text, WIDTH};

const ROW: f64 = 24.0;
/// The space above the first row of a group, for the group's name.
const GROUP: f64 = 30.0;
/// The space at the right, for a remark on each row.
const RIGHT: f64 = 64.0;

/// A chart of rows in groups.
#[derive(Debug)]
pub(crate) struct DotChart {
    pub(crate) title: String,
    pub(crate) subtitle: String,
    /// The name of the axis.
    pub(crate) axis: String,
    /// Shows a value as a label.
    pub(crate) show: fn(f64) -> String,
    /// The names of the series, in the order of their colours.
    pub(crate) series: Vec<String>,
    pub(crate) groups: Vec<(String, Vec<DotRow>)>,
}

/// A row.
#[derive(Debug)]
pub(crate) struct DotRow {
    pub(crate) name: String,
    pub(crate) dots: Vec<Dot>,
    /// The text at the right.
    pub(crate) remark: String,
}

/// A value of one series.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dot {
    pub(crate) series: usize,
    pub(crate) value: f64,
}

impl DotChart {
    /// The chart as an SVG file.
    pub(crate) fn svg(&self) -> String {
        const LABELS: usize = 8;
        let rows = || self.groups.iter().flat_map(|(_, rows)| rows);
        let values = rows().flat_map(|row| &row.dots).map(|dot| dot.value);
        let span = Span::round(Scale::Log, values, LABELS);
        let names = rows().map(|row| Text::Label.width(&row.name)).fold(0.0, f64::max);
        let left = MARGIN + names + 16.0;
        let width = WIDTH - MARGIN - RIGHT - left;
        let place = |value: f64| left + span.place(value) * width;
        let mut svg = Svg::new();
        svg.text((MARGIN, 30.0), Text::Title, Anchor::Start, &self.title);
        svg.text((MARGIN, 49.0), Text::Small, Anchor::Start, &self.subtitle);
        let top = svg.legend(&self.series, 74.0) - 12.0;
        let groups = self.groups.len() as f64;
        let bottom = top + groups * GROUP + rows().count() as f64 * ROW + 4.0;
        for value in span.labels(LABELS) {
            let x = place(value);
            svg.rule((x, top + 12.0), (x, bottom), false);
            let label = (self.show)(value);
            svg.text((x, bottom + 16.0), Text::Small, Anchor::Middle, &label);
        }
        svg.text((left + width / 2.0, bottom + 34.0), Text::Small, Anchor::Middle, &self.axis);
        let mut y = top;
        for (name, rows) in &self.groups {
            y += GROUP;
            svg.text((MARGIN, y - 4.0), Text::Heading, Anchor::Start, name);
            for row in rows {
                y += ROW;
                let middle = y - 8.0;
                svg.text((MARGIN, middle + 4.0), Text::Label, Anchor::Start, &row.name);
                self.draw_dots(&mut svg, row, place, middle);
                let right = WIDTH - MARGIN;
                svg.text((right, middle + 4.0), Text::Label, Anchor::End, &row.remark);
            }
        }
        svg.document(bottom + 48.0, &format!("{}. {}", self.title, self.subtitle))
    }

    fn draw_dots(&self, svg: &mut Svg, row: &DotRow, place: impl Fn(f64) -> f64, y: f64) {
        let shown = || row.dots.iter().filter(|dot| dot.value > 0.0);
        let ends = shown().map(|dot| place(dot.value));
        let (low, high) =
            ends.fold((f64::INFINITY, 0.0_f64), |(low, high), x| (low.min(x), high.max(x)));
        if low < high {
            svg.rule((low, y), (high, y), true);
        }
        // The first mark is larger and below the others, so that equal values are all visible.
        for (index, dot) in shown().enumerate() {
            let title = format!("{}: {}", self.series[dot.series], (self.show)(dot.value));
            let size = if index == 0 { 1.5 } else { 0.9 };
            svg.mark(dot.series, (place(dot.value), y), size, &title);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::show_rate;
    use super::*;

    #[test]
    fn each_value_has_a_mark_with_its_text() {
        let dots = vec![Dot { series: 0, value: 1e6 }, Dot { series: 1, value: 5e4 }];
        let row = DotRow { name: "put".to_owned(), dots, remark: "20×".to_owned() };
        let chart = DotChart {
            title: "Rates".to_owned(),
            subtitle: "more is better".to_owned(),
            axis: "operations per second".to_owned(),
            show: show_rate,
            series: vec!["Lineshaft".to_owned(), "beanstalkd".to_owned()],
            groups: vec![("In memory".to_owned(), vec![row])],
        };
        let svg = chart.svg();
        assert!(svg.contains("<title>Lineshaft: 1 M/s</title>"), "{svg}");
        assert!(svg.contains("<title>beanstalkd: 50 k/s</title>"));
        assert!(svg.contains(">20×</text>"));
    }
}
