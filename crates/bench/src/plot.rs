//! Draws plots as SVG files: line charts with panels, and rows of dots.
//!
//! A file contains no fonts, scripts or references, so a browser shows it anywhere. Its colours
//! follow the reader's light or dark theme. Invariant: the same data gives the same file.

mod dots;
mod lines;
mod scale;
mod svg;

pub(crate) use dots::{Dot, DotChart, DotRow};
pub(crate) use lines::{Axis, Chart, Line, Panel};
pub(crate) use scale::Scale;

use crate::table::show_count;

/// Shows a rate on an axis: `100 k/s`.
pub(crate) fn show_rate(value: f64) -> String {
    if value == 0.0 { "0".to_owned() } else { format!("{}/s", short(&show_count(value))) }
}

/// Shows a count on an axis: `30 M`.
pub(crate) fn show_number(value: f64) -> String {
    short(&show_count(value))
}

/// Shows a time in microseconds on an axis: `50 µs`, `1.5 ms`.
pub(crate) fn show_micros(micros: f64) -> String {
    let (value, unit) = match micros {
        m if m < 999.5 => (m, "µs"),
        m if m < 999.5e3 => (m / 1e3, "ms"),
        m => (m / 1e6, "s"),
    };
    format!("{} {unit}", short(&crate::table::three_digits(value)))
}

/// Removes zeros at the end of a fraction: `1.50 k` becomes `1.5 k`.
fn short(text: &str) -> String {
    let (number, suffix) = text.split_at(text.find(' ').unwrap_or(text.len()));
    if !number.contains('.') {
        return text.to_owned();
    }
    format!("{}{suffix}", number.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_an_axis_are_short() {
        assert_eq!([0.0, 100.0, 1_500.0, 2e6].map(show_number), ["0", "100", "1.5 k", "2 M"]);
        assert_eq!([0.0, 100_000.0].map(show_rate), ["0", "100 k/s"]);
        assert_eq!([50.0, 1_000.0, 1_500.0].map(show_micros), ["50 µs", "1 ms", "1.5 ms"]);
        assert_eq!([0.5, 2e6].map(show_micros), ["0.5 µs", "2 s"]);
    }
}
