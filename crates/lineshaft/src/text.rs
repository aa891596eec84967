//! Numbers and times in text.

use std::time::Duration;

const UNITS: [(&str, u32); 4] = [("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)];

/// Parses a priority: a number, or one of Gearman's three names. The result is a priority of the
/// beanstalkd protocol.
pub(crate) fn parse_priority(text: &str) -> Result<u32, String> {
    match text {
        "high" => Ok(512),
        "normal" => Ok(1024),
        "low" => Ok(3_221_225_472),
        number => number.parse().map_err(|_| {
            format!("`{text}` is not a priority: write high, normal, low, or 0 to 4294967295")
        }),
    }
}

/// Shows whole seconds in at most two units: `45 s`, `2 m`, `1 h 30 m`, `3 d 4 h`.
pub(crate) fn seconds(total: u64) -> String {
    let first = UNITS.iter().position(|(_, unit)| total >= u64::from(*unit)).unwrap_or(3);
    let mut parts = Vec::new();
    let mut rest = total;
    for (name, unit) in UNITS.iter().skip(first).take(2) {
        let unit = u64::from(*unit);
        if rest >= unit || parts.is_empty() {
            parts.push(format!("{} {name}", rest / unit));
        }
        rest %= unit;
    }
    parts.join(" ")
}

/// Shows a measured time. Below a minute, shows tenths of a second. Otherwise like [`seconds`].
pub(crate) fn elapsed(time: Duration) -> String {
    if time < Duration::from_mins(1) {
        format!("{:.1} s", time.as_secs_f64())
    } else {
        seconds(time.as_secs())
    }
}

/// Shows a count with a comma between thousands: `1,234,567`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Says that a queue does not exist.
pub(crate) fn no_queue(queue: &str) -> String {
    format!(
        "the server has no queue `{queue}`: a queue exists while it has jobs or clients; see `lineshaft \
         stats`"
    )
}

/// Shows a count with its noun: `1 job`, `1,234 jobs`.
pub(crate) fn counted(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", count(number))
}

/// The text for how many jobs of one state were handled, and how many are left in this state, such
/// as `2 buried jobs kicked in mail, 1 left`.
pub(crate) fn done(number: u64, state: &str, what: &str, rest: u64) -> String {
    let jobs = counted(number, &format!("{state} job"));
    let left = if rest == 0 { String::new() } else { format!(", {} left", count(rest)) };
    format!("{jobs} {what}{left}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_have_numbers_and_three_have_names() {
        for (text, expected) in
            [("0", 0), ("4294967295", u32::MAX), ("high", 512), ("low", 3 << 30)]
        {
            assert_eq!(parse_priority(text), Ok(expected), "{text}");
        }
        for text in ["", "High", "-1", "4294967296", "urgent"] {
            assert!(parse_priority(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_are_shown_in_two_units() {
        for (total, shown) in [
            (0, "0 s"),
            (45, "45 s"),
            (120, "2 m"),
            (125, "2 m 5 s"),
            (5_400, "1 h 30 m"),
            (3_605, "1 h"),
            (273_600, "3 d 4 h"),
        ] {
            assert_eq!(seconds(total), shown);
        }
        assert_eq!(elapsed(Duration::from_millis(840)), "0.8 s");
        assert_eq!(elapsed(Duration::from_secs(61)), "1 m 1 s");
    }

    #[test]
    fn counts_have_their_thousands_apart() {
        for (number, shown) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")]
        {
            assert_eq!(count(number), shown);
        }
        assert_eq!(counted(1, "job"), "1 job");
        assert_eq!(counted(1_200, "job"), "1,200 jobs");
    }
}
