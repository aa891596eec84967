//! Numbers, sizes and times for people. If they are rounded, the exact value is in the title.

use maud::{Markup, html};

/// A count such as `1,234` or `12.3 M`.
pub(crate) fn count(number: u64) -> Markup {
    titled(&grouped(number), &short(number))
}

fn titled(exact: &str, shown: &str) -> Markup {
    html! { @if exact == shown { (shown) } @else { span .n title=(exact) { (shown) } } }
}

/// A count, with a dash for none. In a table with many zeros, the other numbers are easier to see.
pub(crate) fn count_or_dash(number: u64) -> Markup {
    if number == 0 {
        html! { span .none { "–" } }
    } else {
        count(number)
    }
}

/// A size such as `1.5 MiB`.
pub(crate) fn bytes(number: u64) -> Markup {
    titled(&format!("{} B", grouped(number)), &size(number))
}

/// A time such as `3 min`. A dash for none.
pub(crate) fn duration(ms: u64) -> Markup {
    if ms == 0 {
        return html! { span .none { "–" } };
    }
    titled(&format!("{} ms", grouped(ms)), &span(ms))
}

/// A moment of the API, such as `2026-11-22 16:08:50 UTC`.
pub(crate) fn moment(at: &str) -> Markup {
    let parts = at.get(..10).zip(at.get(11..19));
    html! {
        time datetime=(at) title=(at) {
            @match parts {
                Some((day, time)) => { (day) " " (time) " UTC" }
                None => (at),
            }
        }
    }
}

/// A number per second. A dash if it is not known yet.
pub(crate) fn rate(per_s: Option<f64>) -> Markup {
    match per_s {
        None => html! { span .none { "–" } },
        Some(rate) if rate.abs() < 0.05 => html! { span .none { "0" } },
        Some(rate) => titled(&format!("{rate:.2}/s"), &signed(rate)),
    }
}

fn signed(rate: f64) -> String {
    let sign = if rate < 0.0 { "−" } else { "" };
    let size = rate.abs();
    if size < 10.0 { format!("{sign}{size:.1}") } else { format!("{sign}{}", short(size as u64)) }
}

pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number for a chart.
pub(crate) fn plain(number: f64) -> String {
    if number > 0.0 && number < 10.0 { trimmed(number, 2) } else { short(number.round() as u64) }
}

/// A number per second, for a chart.
pub(crate) fn per_second(number: f64) -> String {
    format!("{}/s", plain(number))
}

/// A time in milliseconds, for a chart.
pub(crate) fn time(ms: f64) -> String {
    match ms {
        ms if ms <= 0.0 => "0".to_owned(),
        ms if ms < 1.0 => format!("{} µs", (ms * 1e3).round()),
        ms if ms < 100.0 => format!("{} ms", trimmed(ms, 1)),
        ms => span(ms.round() as u64),
    }
}

/// A number with at most this many digits behind the point, without zeros at the end.
fn trimmed(number: f64, digits: usize) -> String {
    let text = format!("{number:.digits$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn short(number: u64) -> String {
    let units = [(1_000_000_000_000, "T"), (1_000_000_000, "G"), (1_000_000, "M")];
    match units.iter().find(|(unit, _)| number >= *unit) {
        Some((unit, name)) => tenths(number, *unit, name),
        None if number >= 100_000 => format!("{} k", number / 1000),
        None => grouped(number),
    }
}

fn size(number: u64) -> String {
    let units = [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.iter().find(|(unit, _)| number >= *unit) {
        Some((unit, name)) => tenths(number, *unit, name),
        None => format!("{number} B"),
    }
}

/// A number of units with one digit behind the point. The digit is cut, so that 999,999,999 is
/// 999.9 M and not 1000.0 M.
fn tenths(number: u64, unit: u64, name: &str) -> String {
    format!("{}.{} {name}", number / unit, (number % unit).saturating_mul(10) / unit)
}

/// A time in one or two units.
pub(crate) fn span(ms: u64) -> String {
    let seconds = ms / 1000;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match (ms, days, hours, minutes) {
        (0..1000, ..) => format!("{ms} ms"),
        (1000..10_000, ..) => format!("{:.1} s", ms as f64 / 1000.0),
        (_, 0, 0, 0) => format!("{seconds} s"),
        (_, 0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (_, 0, ..) => format!("{hours} h {} min", minutes % 60),
        _ => format!("{days} d {} h", hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_exact_in_the_title() {
        assert_eq!(short(0), "0");
        assert_eq!(short(99_999), "99,999");
        assert_eq!(short(123_456), "123 k");
        assert_eq!(short(12_345_678), "12.3 M");
        assert_eq!(short(999_999_999), "999.9 M");
        assert_eq!(size(1_048_575), "1023.9 KiB");
        assert_eq!(
            count(12_345_678).into_string(),
            "<span class=\"n\" title=\"12,345,678\">12.3 M</span>"
        );
    }

    #[test]
    fn numbers_of_charts_are_short() {
        let shown = [0.0, 0.05, 2.0, 9.99, 12_345.4, 2e6].map(plain);
        assert_eq!(shown, ["0", "0.05", "2", "9.99", "12,345", "2.0 M"]);
        let shown = [0.0, 0.5, 2.0, 12.25, 500.0, 60_000.0].map(time);
        assert_eq!(shown, ["0", "500 µs", "2 ms", "12.2 ms", "500 ms", "1 min 0 s"]);
    }

    #[test]
    fn times_have_at_most_two_units() {
        let shown = [999, 1500, 59_999, 61_000, 3_660_000, 90_000_000].map(span);
        assert_eq!(shown, ["999 ms", "1.5 s", "59 s", "1 min 1 s", "1 h 1 min", "1 d 1 h"]);
    }

    #[test]
    fn rates_keep_their_sign() {
        assert_eq!(signed(-2.5), "−2.5");
        assert_eq!(signed(123_456.0), "123 k");
    }
}
