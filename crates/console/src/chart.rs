//! Charts of the history: lines, and areas that are stacked. The server draws them as SVG, without a
//! script.
//!
//! A drawing is stretched to the width of its place, so it contains no text. The texts around it are
//! HTML.

use std::fmt::Write as _;

use maud::{Markup, html};

use crate::texts::Texts;

/// The points of a line. More values are joined, because nobody can see more.
const POINTS: usize = 120;
/// The points of a small line in a tile.
const SPARK_POINTS: usize = 40;
/// The units of a drawing. One unit of the width is one point.
const HEIGHT: f64 = 100.0;

/// The values of a series, oldest first. The last one is of the present moment.
pub(crate) type Values = [Option<f32>];

/// A line or an area.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Line<'a> {
    /// The name, which is also the class that has the colour.
    pub(crate) class: &'static str,
    pub(crate) name: &'static str,
    pub(crate) values: &'a Values,
}

/// What a chart shows.
pub(crate) struct Chart<'a> {
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    pub(crate) what: &'static str,
    pub(crate) lines: Vec<Line<'a>>,
    /// The areas are stacked. Otherwise each line begins at 0.
    pub(crate) is_stacked: bool,
    /// Values that are joined show the largest one, and not their average.
    pub(crate) keeps_peaks: bool,
    /// The number of values of the whole width.
    pub(crate) values: usize,
    /// Names of the width: its beginning, and its middle.
    pub(crate) times: (&'static str, &'static str),
    /// How a value is written.
    pub(crate) unit: fn(f64) -> String,
    pub(crate) texts: &'static Texts,
}

impl Chart<'_> {
    pub(crate) fn markup(&self) -> Markup {
        let join = if self.keeps_peaks { largest } else { average };
        let points = self.lines.iter().map(|line| points(line.values, self.values, POINTS, join));
        let points: Vec<Vec<Option<f64>>> = points.collect();
        let tops = if self.is_stacked { stacked(&points) } else { points.clone() };
        let largest = tops.iter().flatten().flatten().copied().fold(0.0, f64::max);
        let top = nice_top(largest);
        let has_values = points.iter().flatten().any(Option::is_some);
        html! {
            section .chart id=(self.id) data-live {
                h2 { (self.title) " " small { (self.what) } }
                @if has_values {
                    div .plot {
                        span .top { ((self.unit)(top)) }
                        span .middle { ((self.unit)(top / 2.0)) }
                        (self.drawing(&tops, top))
                    }
                    div .times { span { (self.times.0) } span { (self.times.1) } span { (self.texts.overview.now) } }
                    (self.legend(&points))
                } @else {
                    p .empty { (self.texts.overview.no_values) }
                }
            }
        }
    }

    fn drawing(&self, tops: &[Vec<Option<f64>>], top: f64) -> Markup {
        let label = format!("{}: {}", self.title, self.what);
        let none = vec![None; POINTS];
        html! {
            svg .drawing viewBox={ "0 0 " (POINTS) " 100" } preserveAspectRatio="none"
                role="img" aria-label=(label)
            {
                path .grid d={ "M0 50H" (POINTS) } {}
                @for (index, line) in self.lines.iter().enumerate() {
                    @let below = if self.is_stacked && index > 0 { &tops[index - 1] } else { &none };
                    @if self.is_stacked || self.lines.len() == 1 {
                        path class={ "area " (line.class) @if self.is_stacked { " full" } }
                            d=(area(&tops[index], below, top)) {}
                    }
                    path class={ "line " (line.class) } d=(path(&tops[index], top)) {}
                }
            }
        }
    }

    /// The names of the lines, with their last and largest values.
    fn legend(&self, points: &[Vec<Option<f64>>]) -> Markup {
        html! {
            ul .legend {
                @for (line, points) in self.lines.iter().zip(points) {
                    @let largest = points.iter().flatten().copied().fold(0.0, f64::max);
                    li {
                        span class={ "swatch " (line.class) } aria-hidden="true" {}
                        (line.name) " "
                        b {
                            @match points.iter().flatten().next_back() {
                                Some(last) => ((self.unit)(*last)),
                                None => "–",
                            }
                        }
                        " " small { ((self.texts.overview.at_most)(&(self.unit)(largest))) }
                    }
                }
            }
        }
    }
}

/// A small line without texts.
pub(crate) fn spark(values: &Values, width: usize, class: &str) -> Markup {
    let points = points(values, width, SPARK_POINTS, average);
    let largest = points.iter().flatten().copied().fold(0.0, f64::max);
    let top = if largest > 0.0 { largest * 1.1 } else { 1.0 };
    html! {
        svg .spark viewBox={ "0 0 " (SPARK_POINTS) " 100" } preserveAspectRatio="none"
            aria-hidden="true"
        {
            path class={ "area " (class) } d=(area(&points, &vec![None; SPARK_POINTS], top)) {}
            path class={ "line " (class) } d=(path(&points, top)) {}
        }
    }
}

fn largest(values: &[f64]) -> Option<f64> {
    values.iter().copied().reduce(f64::max)
}

fn average(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Joins values to points. `width` is the number of values of the whole width; earlier ones are not
/// known.
fn points(
    values: &Values,
    width: usize,
    points: usize,
    join: fn(&[f64]) -> Option<f64>,
) -> Vec<Option<f64>> {
    let values = &values[values.len().saturating_sub(width)..];
    let missing = width - values.len();
    (0..points)
        .map(|point| {
            let (from, to) = (point * width / points, (point + 1) * width / points);
            let of = from.max(missing) - missing..to.max(missing) - missing;
            let known: Vec<f64> = values[of].iter().flatten().copied().map(f64::from).collect();
            join(&known)
        })
        .collect()
}

/// The sums of each line and all lines before it.
fn stacked(points: &[Vec<Option<f64>>]) -> Vec<Vec<Option<f64>>> {
    let mut sums: Vec<Vec<Option<f64>>> = Vec::new();
    for line in points {
        let next = match sums.last() {
            None => line.clone(),
            Some(below) => below
                .iter()
                .zip(line)
                .map(|(below, value)| value.map(|value| value + below.unwrap_or(0.0)))
                .collect(),
        };
        sums.push(next);
    }
    sums
}

/// A number with one digit and zeros, at or above this number. Half of it is short, too.
fn nice_top(largest: f64) -> f64 {
    if largest <= 0.0 {
        return 1.0;
    }
    let unit = 10_f64.powf(largest.log10().floor());
    let steps = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0].into_iter();
    steps.map(|step| step * unit).find(|top| *top >= largest * 0.999).unwrap_or(largest)
}

/// Runs of known points: the place of the first one, and the points.
fn runs(points: &[Option<f64>]) -> Vec<(usize, Vec<f64>)> {
    let mut runs: Vec<(usize, Vec<f64>)> = Vec::new();
    let mut is_in_run = false;
    for (place, point) in points.iter().enumerate() {
        match (point, runs.last_mut()) {
            (Some(point), Some((_, run))) if is_in_run => run.push(*point),
            (Some(point), _) => runs.push((place, vec![*point])),
            (None, _) => {}
        }
        is_in_run = point.is_some();
    }
    runs
}

/// The height of a value in the drawing, which counts from the top.
fn height(value: f64, top: f64) -> f64 {
    ((HEIGHT - value / top * HEIGHT) * 10.0).round() / 10.0
}

/// The line through the points. A gap ends the line.
fn path(points: &[Option<f64>], top: f64) -> String {
    let mut text = String::new();
    for (place, run) in runs(points) {
        add_line(&mut text, 'M', place, &run, top);
    }
    text
}

/// The area between the points and those below them.
fn area(points: &[Option<f64>], below: &[Option<f64>], top: f64) -> String {
    let mut text = String::new();
    for (place, run) in runs(points) {
        add_line(&mut text, 'M', place, &run, top);
        let end = place + run.len();
        let below = &below[place..end];
        if below.iter().all(Option::is_none) {
            let _ = write!(text, "V100H{place}Z");
            continue;
        }
        for (back, value) in below.iter().enumerate().rev() {
            let at = if back + 1 == run.len() { end } else { place + back };
            let _ = write!(text, "L{at} {}", height(value.unwrap_or(0.0), top));
        }
        text.push('Z');
    }
    text
}

/// Adds a run. The last point reaches to the end of its time, so that also one point is visible.
fn add_line(text: &mut String, begin: char, place: usize, run: &[f64], top: f64) {
    let last = run.len() - 1;
    for (index, value) in run.iter().enumerate() {
        let letter = if index == 0 { begin } else { 'L' };
        let _ = write!(text, "{letter}{} {}", place + index, height(*value, top));
        if index == last {
            let _ = write!(text, "H{}", place + index + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_keep_peaks_and_gaps() {
        let values: Vec<Option<f32>> = [1, 9, 2, 3].map(|value| Some(value as f32)).to_vec();
        assert_eq!(points(&values, 4, 2, largest), [Some(9.0), Some(3.0)]);
        assert_eq!(points(&values, 4, 2, average), [Some(5.0), Some(2.5)]);
        // The history begins in the middle of the width.
        assert_eq!(points(&values, 8, 4, largest), [None, None, Some(9.0), Some(3.0)]);
        assert_eq!(
            points(&[None, Some(1.0), None, None], 4, 4, average)[1..],
            [Some(1.0), None, None]
        );
        assert_eq!(points(&[], 4, 2, average), [None, None]);
    }

    #[test]
    fn gaps_end_a_line_and_single_points_are_visible() {
        let line = [Some(0.0), Some(10.0), None, Some(5.0)];
        assert_eq!(path(&line, 10.0), "M0 100L1 0H2M3 50H4");
        assert_eq!(area(&line, &[None; 4], 10.0), "M0 100L1 0H2V100H0ZM3 50H4V100H3Z");
    }

    #[test]
    fn stacked_areas_lie_on_each_other() {
        let sums = stacked(&[vec![Some(1.0), None], vec![Some(2.0), Some(4.0)]]);
        assert_eq!(sums, [[Some(1.0), None], [Some(3.0), Some(4.0)]]);
        assert_eq!(area(&sums[1], &sums[0], 4.0), "M0 25L1 0H2L2 100L0 75Z");
    }

    #[test]
    fn tops_are_round() {
        let tops = [0.0, 1.0, 1.1, 4.0, 5.1, 6.5, 9.0, 12_345.0].map(nice_top);
        assert_eq!(tops.map(|top| top as u64), [1, 1, 2, 4, 6, 8, 10, 20_000]);
    }
}
