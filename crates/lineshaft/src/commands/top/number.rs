//! Numbers and times in the few columns of a terminal.

use crate::text;

/// From this number on, a count has a unit.
const SHORT_FROM: u64 = 10_000_000;

/// A count such as `1,234` or `12.3 M`.
pub(super) fn count(number: u64) -> String {
    let units = [(1_000_000_000_000, "T"), (1_000_000_000, "G"), (1_000_000, "M")];
    match units.iter().find(|(unit, _)| number >= SHORT_FROM && number >= *unit) {
        // The digit is cut, so that 999,999,999 is 999.9 M and not 1000.0 M.
        Some((unit, name)) => format!("{}.{} {name}", number / unit, number % unit * 10 / unit),
        None => text::count(number),
    }
}

/// A count for a table: none is a dash, so that the other numbers are easier to see.
pub(super) fn cell(number: u64) -> String {
    if number == 0 { "–".to_owned() } else { count(number) }
}

/// A time such as `3.2 s` or `1 h 4 m`.
pub(super) fn time(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..10_000 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        _ => text::seconds(ms / 1_000),
    }
}

/// A time in microseconds.
pub(super) fn micros(us: f64) -> String {
    match us {
        us if us < 1_000.0 => format!("{us:.0} µs"),
        us if us < 100_000.0 => format!("{:.1} ms", us / 1_000.0),
        us => time((us / 1_000.0) as u64),
    }
}

/// A rate: with one decimal if it is below ten. A dash if it is not known yet.
pub(super) fn rate(rate: Option<f64>) -> String {
    match rate {
        None => "–".to_owned(),
        Some(rate) if rate.abs() < 0.05 => "0".to_owned(),
        Some(rate) => {
            let sign = if rate < 0.0 { "-" } else { "" };
            let size = rate.abs();
            if size < 9.95 {
                format!("{sign}{size:.1}")
            } else {
                format!("{sign}{}", count(size.round() as u64))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let shown = [0, 9_999_999, 12_345_678, 999_999_999, 1_000_000_000].map(count);
        assert_eq!(shown, ["0", "9,999,999", "12.3 M", "999.9 M", "1.0 G"]);
        let shown = [0, 999, 3_250, 59_000, 3_660_000].map(time);
        assert_eq!(shown, ["0 ms", "999 ms", "3.2 s", "59 s", "1 h 1 m"]);
        let shown = [None, Some(0.0), Some(2.54), Some(-2.5), Some(9.96), Some(12_345.4)].map(rate);
        assert_eq!(shown, ["–", "0", "2.5", "-2.5", "10", "12,345"]);
        assert_eq!([250.0, 1_500.0, 2e6].map(micros), ["250 µs", "1.5 ms", "2.0 s"]);
    }
}
