//! Sizes and times in text: `64MiB`, `50ms`.

use std::time::Duration;

const SIZE_UNITS: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
];

/// If a unit begins like another one, the longer comes first (`ms` before `m`).
const TIME_UNITS: [(&str, u64); 5] =
    [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// Reads a size in bytes: a number alone, or a number and a unit.
pub(crate) fn parse_bytes(text: &str) -> Result<u64, String> {
    let refused =
        || format!("`{text}` is not a size; write bytes, or a number with KiB, MiB, GiB or TiB");
    let (number, unit) = split(text, &SIZE_UNITS).unwrap_or((text, 1));
    let number: u64 = number.parse().map_err(|_| refused())?;
    number.checked_mul(unit).ok_or_else(refused)
}

/// Reads a length of time: a number and a unit, or several of them, such as `1h30m`. The
/// configuration and the command line share this grammar.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let refused = || format!("`{text}` is not a time; write a number with ms, s, m, h or d");
    let mut millis: u64 = 0;
    let mut rest = text;
    loop {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number: u64 = rest[..digits].parse().map_err(|_| refused())?;
        rest = rest[digits..].trim_start();
        let (name, unit) =
            TIME_UNITS.iter().find(|(name, _)| rest.starts_with(name)).ok_or_else(refused)?;
        let part = number.checked_mul(*unit).ok_or_else(refused)?;
        millis = millis.checked_add(part).ok_or_else(refused)?;
        rest = &rest[name.len()..];
        if rest.is_empty() {
            return Ok(Duration::from_millis(millis));
        }
    }
}

fn split<'a>(text: &'a str, units: &[(&str, u64)]) -> Option<(&'a str, u64)> {
    units.iter().find_map(|&(name, unit)| Some((text.strip_suffix(name)?.trim_end(), unit)))
}

/// Writes a size in the largest binary unit that divides it.
pub fn format_bytes(bytes: u64) -> String {
    let unit =
        SIZE_UNITS[..4].iter().find(|(_, unit)| bytes >= *unit && bytes.is_multiple_of(*unit));
    unit.map_or_else(|| bytes.to_string(), |(name, unit)| format!("{}{name}", bytes / unit))
}

/// Writes a rounded size for people: `16.4 GiB`.
pub fn rounded_bytes(bytes: u64) -> String {
    let unit = SIZE_UNITS[..4].iter().find(|(_, unit)| bytes >= *unit);
    unit.map_or_else(
        || format!("{bytes} bytes"),
        |(name, unit)| format!("{:.1} {name}", bytes as f64 / *unit as f64),
    )
}

/// Writes a length of time in the largest unit that divides it.
pub fn format_duration(duration: Duration) -> String {
    let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let (name, unit) = TIME_UNITS
        .iter()
        .rev()
        .find(|(_, unit)| millis >= *unit && millis.is_multiple_of(*unit))
        .unwrap_or(&TIME_UNITS[0]);
    format!("{}{name}", millis / unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_written() {
        for (text, bytes) in
            [("0", 0), ("65535", 65535), ("64MiB", 64 << 20), ("1TiB", 1 << 40), ("3KiB", 3072)]
        {
            assert_eq!(parse_bytes(text), Ok(bytes));
            assert_eq!(format_bytes(bytes), text);
        }
        assert_eq!(parse_bytes("2 kB"), Ok(2000));
        assert_eq!(parse_bytes("7B"), Ok(7));
        for text in ["", "x", "-1", "1.5MiB", "64M", "MiB", "99999999999TiB"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_are_read_and_written() {
        for (text, millis) in
            [("50ms", 50), ("2s", 2_000), ("5m", 300_000), ("1h", 3_600_000), ("0ms", 0)]
        {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)));
            assert_eq!(format_duration(Duration::from_millis(millis)), text);
        }
        for (text, millis) in [("1h30m", 5_400_000), ("50 ms", 50), ("1s500ms", 1_500)] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)));
        }
        for text in ["", "50", "ms", "-1s", "1.5s", "1y", "1h30", "99999999999999999d"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }
}
