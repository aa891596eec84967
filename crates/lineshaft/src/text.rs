//! Numbers and times in text, and lines on the terminal.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use notation::plain;
use serde::Serialize;

/// The time between two views of a progress.
const PROGRESS_PAUSE: Duration = Duration::from_millis(100);

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

/// A value as JSON on one line, without characters that could change a terminal.
pub(crate) fn json_line(value: &impl Serialize) -> serde_json::Result<String> {
    Ok(plain::escaped_json(&serde_json::to_string(value)?).into_owned())
}

/// Prints a value as JSON on one line.
pub(crate) fn print_value(value: &impl Serialize) -> io::Result<()> {
    writeln!(io::stdout(), "{}", json_line(value)?)
}

/// Prints a line. Names and texts of clients in it cannot change the terminal.
pub(crate) fn print_line(line: &str) -> io::Result<()> {
    writeln!(io::stdout(), "{}", plain::escaped(line))
}

/// Prints an error to standard error, without characters that could change the terminal.
pub(crate) fn complain(error: &str) {
    // `eprintln` would panic if the terminal is gone. The exit code still says what happened.
    let _ = writeln!(io::stderr(), "lineshaft: {}", plain::escaped_bytes(error.as_bytes()));
}

/// The progress of a long command, on a terminal. It is removed at the end.
#[derive(Debug)]
pub(crate) struct Progress {
    total: u64,
    began: Instant,
    shown: Option<Instant>,
    is_on: bool,
}

impl Progress {
    /// The progress of a command that changes this many jobs.
    pub(crate) fn new(total: u64) -> Progress {
        let is_on = io::stderr().is_terminal();
        Progress { total, began: Instant::now(), shown: None, is_on }
    }

    /// Shows a line that stays.
    pub(crate) fn note(&mut self, line: &str) -> io::Result<()> {
        if self.is_on { writeln!(io::stderr(), "{}", plain::escaped(line)) } else { Ok(()) }
    }

    /// Shows that this many jobs are done.
    pub(crate) fn show(&mut self, done: u64) -> io::Result<()> {
        let is_early = self.shown.is_some_and(|shown| shown.elapsed() < PROGRESS_PAUSE);
        if !self.is_on || is_early {
            return Ok(());
        }
        self.shown = Some(Instant::now());
        let per_s = done as f64 / self.began.elapsed().as_secs_f64().max(0.001);
        let (done, total) = (count(done), count(self.total));
        let mut terminal = io::stderr();
        write!(terminal, "\r{done} of {total} jobs, {per_s:.0} in a second \x1b[K")?;
        terminal.flush()
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown.is_some() {
            // The command has its result, so a terminal that has gone does not matter.
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
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
