//! Sizes in bytes: `65535`, `64MiB`.

use std::num::{IntErrorKind, ParseIntError};

/// The units, and their numbers of bytes. `parse` uses the first unit that the text ends with, so
/// `KiB` is before `B`.
const UNITS: [(&str, u64); 9] = [
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

/// The number of binary units. They are the first units of the table. This module formats sizes
/// only with binary units.
const BINARY_UNITS: usize = 4;

/// Reads a size: a number of bytes, or a number and a unit.
pub fn parse(text: &str) -> Result<u64, String> {
    let unit = UNITS.iter().find_map(|&(name, unit)| Some((text.strip_suffix(name)?, unit)));
    let (number, unit) = unit.map_or((text, 1), |(number, unit)| (number.trim_end(), unit));
    let too_large = || format!("`{text}` is too large; write less than 16777216TiB");
    let number: u64 = number.parse().map_err(|error: ParseIntError| match error.kind() {
        IntErrorKind::PosOverflow => too_large(),
        _ => format!("`{text}` is not a size; write bytes, or a number with KiB, MiB, GiB or TiB"),
    })?;
    number.checked_mul(unit).ok_or_else(too_large)
}

/// Writes a size as a whole number in the largest possible binary unit. [`parse`] can read the
/// result.
pub fn format(bytes: u64) -> String {
    let unit = UNITS[..BINARY_UNITS]
        .iter()
        .find(|(_, unit)| bytes >= *unit && bytes.is_multiple_of(*unit));
    unit.map_or_else(|| bytes.to_string(), |(name, unit)| format!("{}{name}", bytes / unit))
}

/// Writes a rounded size for people: `16.4 GiB`.
pub fn rounded(bytes: u64) -> String {
    let unit = UNITS[..BINARY_UNITS].iter().find(|(_, unit)| bytes >= *unit);
    unit.map_or_else(
        || format!("{bytes} {}", if bytes == 1 { "byte" } else { "bytes" }),
        |(name, unit)| format!("{:.1} {name}", bytes as f64 / *unit as f64),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_size_is_read_again() {
        for (text, bytes) in
            [("0", 0), ("65535", 65535), ("64MiB", 64 << 20), ("1TiB", 1 << 40), ("3KiB", 3072)]
        {
            assert_eq!(parse(text), Ok(bytes));
            assert_eq!(format(bytes), text);
        }
    }

    #[test]
    fn all_units_and_a_space_before_them_are_read() {
        for (text, bytes) in [
            ("7B", 7),
            ("2 kB", 2_000),
            ("3MB", 3_000_000),
            ("4GB", 4_000_000_000),
            ("5TB", 5_000_000_000_000),
            ("16777215TiB", u64::MAX - (1 << 40) + 1),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn an_error_says_what_to_write() {
        for text in ["", "x", "-1", "1.5MiB", "64M", "4Gi", "MiB", " 1", "1 ", "1mib"] {
            let expected = format!(
                "`{text}` is not a size; write bytes, or a number with KiB, MiB, GiB or TiB"
            );
            assert_eq!(parse(text), Err(expected));
        }
        for text in ["16777216TiB", "99999999999TiB", "18446744073709551616"] {
            let expected = format!("`{text}` is too large; write less than 16777216TiB");
            assert_eq!(parse(text), Err(expected));
        }
    }

    #[test]
    fn people_see_one_decimal() {
        assert_eq!((rounded(0), rounded(1)), ("0 bytes".to_owned(), "1 byte".to_owned()));
        assert_eq!(rounded(1023), "1023 bytes");
        assert_eq!(rounded(1536), "1.5 KiB");
        assert_eq!(rounded(17_609_365_914), "16.4 GiB");
    }
}
