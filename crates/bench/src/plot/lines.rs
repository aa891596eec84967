//! Line charts: several panels side by side, with the same series.

use super::scale::{Scale, Span};
use super::svg::{Anchor, MARGIN, Svg, Text, WIDTH};

/// The height of the area of a panel's lines.
const AREA_HEIGHT: f64 = 200.0;
/// The space above the area, for the names of the panel and of its axis.
const HEAD: f64 = 44.0;
/// The space below the area, for the labels and the name of the axis.
const FOOT: f64 = 44.0;
/// The space at the left, for labels.
const LEFT: f64 = 58.0;
const GAP: f64 = 24.0;
/// Lines with more points than this have no marks.
const MARKED_POINTS_MAX: usize = 24;

/// A chart with panels.
#[derive(Debug)]
pub(crate) struct Chart {
    pub(crate) title: String,
    pub(crate) subtitle: String,
    pub(crate) panels: Vec<Panel>,
    /// The number of panels beside each other.
    pub(crate) columns: usize,
}

/// A panel: two axes, and the lines between them.
#[derive(Debug)]
pub(crate) struct Panel {
    pub(crate) title: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) lines: Vec<Line>,
}

/// An axis.
#[derive(Debug)]
pub(crate) struct Axis {
    pub(crate) name: String,
    pub(crate) scale: Scale,
    /// Shows a value as a label.
    pub(crate) show: fn(f64) -> String,
    /// The values with a label. Empty: round values.
    pub(crate) labels: Vec<f64>,
}

/// The points of a series, from left to right. Lines of the same series have the same name in all
/// panels.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

impl Chart {
    /// The chart as an SVG file.
    pub(crate) fn svg(&self) -> String {
        let names = self.names();
        let mut svg = Svg::new();
        svg.text((MARGIN, 30.0), Text::Title, Anchor::Start, &self.title);
        svg.text((MARGIN, 49.0), Text::Small, Anchor::Start, &self.subtitle);
        let mut top = 60.0;
        if names.len() > 1 {
            top = svg.legend(&names, 74.0) - 8.0;
        }
        let columns = self.columns.clamp(1, self.panels.len().max(1));
        let gaps = GAP * (columns - 1) as f64;
        let width = (WIDTH - 2.0 * MARGIN - gaps) / columns as f64;
        let height = HEAD + AREA_HEIGHT + FOOT;
        for (index, panel) in self.panels.iter().enumerate() {
            let left = MARGIN + (index % columns) as f64 * (width + GAP);
            let above = top + (index / columns) as f64 * height;
            panel.draw(&mut svg, &names, (left, above), width);
        }
        let rows = self.panels.len().div_ceil(columns) as f64;
        svg.document(top + rows * height + 8.0, &format!("{}. {}", self.title, self.subtitle))
    }

    /// The names of all series, in the order of their first line.
    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for line in self.panels.iter().flat_map(|panel| &panel.lines) {
            if !names.contains(&line.name) {
                names.push(line.name.clone());
            }
        }
        names
    }
}

impl Panel {
    fn draw(&self, svg: &mut Svg, names: &[String], (left, top): (f64, f64), width: f64) {
        const Y_LABELS: usize = 5;
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let across = Span::tight(self.x.scale, points().map(|point| point.0));
        let up = Span::round(self.y.scale, points().map(|point| point.1), Y_LABELS);
        let area = Area { left: left + LEFT, top: top + HEAD, width: width - LEFT, across, up };
        svg.text((left, top + 14.0), Text::Heading, Anchor::Start, &self.title);
        svg.text((left, top + 30.0), Text::Small, Anchor::Start, &self.y.name);
        for value in up.labels(Y_LABELS) {
            let y = area.y(value);
            svg.rule((area.left, y), (area.left + area.width, y), false);
            let label = (self.y.show)(value);
            svg.text((area.left - 8.0, y + 4.0), Text::Small, Anchor::End, &label);
        }
        self.draw_bottom(svg, &area);
        // The first series is above the others.
        for line in self.lines.iter().rev() {
            let series = names.iter().position(|name| *name == line.name).unwrap_or_default();
            area.draw_line(svg, series, line, self);
        }
    }

    /// The axis at the bottom. Labels that would overlap are left out.
    fn draw_bottom(&self, svg: &mut Svg, area: &Area) {
        let bottom = area.top + AREA_HEIGHT;
        let right = area.left + area.width;
        svg.rule((area.left, bottom), (right, bottom), true);
        let values = match &self.x.labels[..] {
            [] => area.across.labels((area.width / 60.0) as usize),
            values => values.to_vec(),
        };
        let mut free_from = f64::NEG_INFINITY;
        for value in values {
            let x = area.x(value);
            if !(area.left - 0.5..=right + 0.5).contains(&x) {
                continue;
            }
            svg.rule((x, bottom), (x, bottom + 4.0), true);
            let label = (self.x.show)(value);
            let half = Text::Small.width(&label) / 2.0;
            // The last label must not leave the panel.
            let middle = x.min(right + 12.0 - half);
            if middle - half >= free_from {
                svg.text((middle, bottom + 17.0), Text::Small, Anchor::Middle, &label);
                free_from = middle + half + 6.0;
            }
        }
        svg.text(
            (area.left + area.width / 2.0, bottom + 34.0),
            Text::Small,
            Anchor::Middle,
            &self.x.name,
        );
    }
}

/// The place of a panel's lines.
struct Area {
    left: f64,
    top: f64,
    width: f64,
    across: Span,
    up: Span,
}

impl Area {
    fn x(&self, value: f64) -> f64 {
        // The first and the last marks are completely inside.
        const INSET: f64 = 6.0;
        self.left + INSET + self.across.place(value) * (self.width - 2.0 * INSET)
    }

    fn y(&self, value: f64) -> f64 {
        self.top + (1.0 - self.up.place(value)) * AREA_HEIGHT
    }

    fn draw_line(&self, svg: &mut Svg, series: usize, line: &Line, panel: &Panel) {
        let shown = |point: &&(f64, f64)| self.across.shows(point.0) && self.up.shows(point.1);
        let points: Vec<(f64, f64)> = line.points.iter().filter(shown).copied().collect();
        let places: Vec<(f64, f64)> = points.iter().map(|&(x, y)| (self.x(x), self.y(y))).collect();
        svg.line(series, &places);
        if points.len() > MARKED_POINTS_MAX {
            return;
        }
        for (&(x, y), place) in points.iter().zip(places) {
            let title = format!("{}: {} at {}", line.name, (panel.y.show)(y), (panel.x.show)(x));
            svg.mark(series, place, 1.0, &title);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{show_micros, show_rate};
    use super::*;

    fn chart(points: usize) -> Chart {
        let line = |name: &str, factor: f64| Line {
            name: name.to_owned(),
            points: (1..=points).map(|x| (x as f64, x as f64 * factor)).collect(),
        };
        let axis = |name: &str, show| Axis {
            name: name.to_owned(),
            scale: Scale::Log,
            show,
            labels: Vec::new(),
        };
        let panel = |title: &str| Panel {
            title: title.to_owned(),
            x: axis("time of a sync", show_micros),
            y: axis("puts per second", show_rate),
            lines: vec![line("ours", 10.0), line("theirs", 3.0)],
        };
        Chart {
            title: "Puts".to_owned(),
            subtitle: "50 connections".to_owned(),
            panels: vec![panel("one"), panel("two"), panel("three")],
            columns: 2,
        }
    }

    #[test]
    fn each_series_has_one_name_and_a_line_in_each_panel() {
        let svg = chart(3).svg();
        assert_eq!(svg.matches(">ours</text>").count(), 1, "{svg}");
        assert_eq!(svg.matches("class=\"s s0\"").count(), 3);
        assert_eq!(svg.matches("class=\"s s1\"").count(), 3);
        assert!(svg.contains("<title>ours: 30/s at 3 µs</title>"));
        assert_eq!(chart(3).svg(), svg);
    }

    #[test]
    fn lines_of_many_points_have_no_marks() {
        assert!(!chart(100).svg().contains("<title>"));
    }

    #[test]
    fn a_chart_without_data_is_still_a_document() {
        let mut chart = chart(0);
        assert!(chart.svg().ends_with("</svg>\n"));
        chart.panels.clear();
        assert!(chart.svg().ends_with("</svg>\n"));
    }
}
