//! Times: `50ms`, `5m`, `1h30m`.

use std::time::Duration;

/// The units, and their numbers of milliseconds. `parse` uses the first unit that matches the text,
/// so `ms` is before `m`.
const UNITS: [(&str, u64); 5] =
    [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// Reads a time: one or more pairs of a number and a unit, such as `1h30m`.
pub fn parse(text: &str) -> Result<Duration, String> {
    let refused = || format!("`{text}` is not a time; write a number with ms, s, m, h or d");
    let mut millis: u64 = 0;
    let mut rest = text;
    loop {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number: u64 = rest[..digits].parse().map_err(|_| refused())?;
        rest = rest[digits..].trim_start();
        let (name, unit) =
            UNITS.iter().find(|(name, _)| rest.starts_with(name)).ok_or_else(refused)?;
        let part = number.checked_mul(*unit).ok_or_else(refused)?;
        millis = millis.checked_add(part).ok_or_else(refused)?;
        rest = &rest[name.len()..];
        if rest.is_empty() {
            return Ok(Duration::from_millis(millis));
        }
    }
}

/// Reads a time in whole seconds, the unit of the beanstalkd protocol. A number without a unit
/// means seconds.
pub fn parse_seconds(text: &str) -> Result<u32, String> {
    if let Ok(seconds) = text.parse() {
        return Ok(seconds);
    }
    let usage = || format!("`{text}` is not a time: write 90, 5s, 2m, 1h30m or 3d (whole seconds)");
    let time = parse(text).map_err(|_| usage())?;
    if time.subsec_millis() != 0 {
        return Err(usage());
    }
    u32::try_from(time.as_secs())
        .map_err(|_| format!("`{text}` is too long: at most {} seconds", u32::MAX))
}

/// Writes a time as a whole number in the largest possible unit. [`parse`] can read the result.
pub fn format(duration: Duration) -> String {
    let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let (name, unit) = UNITS
        .iter()
        .rev()
        .find(|(_, unit)| millis >= *unit && millis.is_multiple_of(*unit))
        .unwrap_or(&UNITS[0]);
    format!("{}{name}", millis / unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_time_is_read_again() {
        for (text, millis) in
            [("50ms", 50), ("2s", 2_000), ("5m", 300_000), ("1h", 3_600_000), ("0ms", 0)]
        {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)));
            assert_eq!(format(Duration::from_millis(millis)), text);
        }
    }

    #[test]
    fn several_parts_are_added() {
        for (text, millis) in [("1h30m", 5_400_000), ("50 ms", 50), ("1s500ms", 1_500)] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)));
        }
    }

    #[test]
    fn an_error_says_what_to_write() {
        for text in ["", "50", "ms", "-1s", "1.5s", "1y", "1h30", "99999999999999999d"] {
            let expected = format!("`{text}` is not a time; write a number with ms, s, m, h or d");
            assert_eq!(parse(text), Err(expected));
        }
    }

    #[test]
    fn whole_seconds_need_no_unit() {
        for (text, expected) in [
            ("0", 0),
            ("90", 90),
            ("5s", 5),
            ("2m", 120),
            ("1h30m", 5_400),
            ("3d", 259_200),
            ("2000ms", 2),
            ("4294967295", u32::MAX),
        ] {
            assert_eq!(parse_seconds(text), Ok(expected), "{text}");
        }
        for text in ["", "s", "5x", "-1", "1.5h", "1500ms", "4294967296", "1h30"] {
            let expected =
                format!("`{text}` is not a time: write 90, 5s, 2m, 1h30m or 3d (whole seconds)");
            assert_eq!(parse_seconds(text), Err(expected));
        }
        let expected = "`100000d` is too long: at most 4294967295 seconds".to_owned();
        assert_eq!(parse_seconds("100000d"), Err(expected));
    }
}
