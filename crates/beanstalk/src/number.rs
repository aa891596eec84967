//! Numbers in command lines. Most numbers are parsed strictly. The arguments of two commands are
//! parsed as in the original, which uses C's functions.

use broker::Patience;

/// Removes spaces and then a number from the front of `text`. Returns `None` if there is no digit,
/// or if the value needs more than 64 bits. After `None`, the content of `text` has no meaning.
pub(crate) fn take_u64(text: &mut &[u8]) -> Option<u64> {
    let mut rest = *text;
    while let [b' ', tail @ ..] = rest {
        rest = tail;
    }
    let digits_start = rest;
    let mut value: u64 = 0;
    while let [digit @ b'0'..=b'9', tail @ ..] = rest {
        value = value.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
        rest = tail;
    }
    *text = rest;
    (rest.len() < digits_start.len()).then_some(value)
}

/// Like [`take_u64`], for values of 32 bits.
pub(crate) fn take_u32(text: &mut &[u8]) -> Option<u32> {
    take_u64(text).and_then(|value| u32::try_from(value).ok())
}

/// Reads a number of 64 bits. The whole text must be the number.
pub(crate) fn only_u64(mut text: &[u8]) -> Option<u64> {
    let value = take_u64(&mut text)?;
    text.is_empty().then_some(value)
}

/// The argument of `kick`: the maximum number of jobs to kick.
///
/// COMPAT(beanstalkd): the text is parsed as by C's `strtoul`, and the result is cut to 32 bits. So
/// a sign is accepted, and bytes after the digits are ignored; cases int-kick-forms, int-kick-lax.
pub(crate) fn kick_bound(text: &[u8]) -> Option<u32> {
    let Scanned { negative, digits } = scan_c_number(text);
    let magnitude = only_u64(digits)?;
    Some((if negative { magnitude.wrapping_neg() } else { magnitude }) as u32)
}

/// The argument of `reserve-with-timeout`.
///
/// COMPAT(beanstalkd): the text is parsed as by C's `strtol`, and the result is cut to 32 bits.
/// Text without a number means zero. A negative number means that the client waits for ever. Later
/// releases of the original parse strictly; cases reserve-timeout-trailing-garbage-accepted,
/// reserve-timeout-negative-waits-forever, reserve-timeout-non-numeric-is-zero.
pub(crate) fn timeout(text: &[u8]) -> Option<Patience> {
    let Scanned { negative, digits } = scan_c_number(text);
    let magnitude = if digits.is_empty() { 0 } else { i128::from(only_u64(digits)?) };
    let value = i64::try_from(if negative { -magnitude } else { magnitude }).ok()?;
    Some(match value as i32 {
        0 => Patience::None,
        seconds @ 1.. => Patience::Millis(u64::from(seconds.unsigned_abs()) * 1000),
        i32::MIN..=-1 => Patience::Endless,
    })
}

/// The parts of a number as C's `strtol` finds them.
struct Scanned<'a> {
    negative: bool,
    /// Empty if there is no number.
    digits: &'a [u8],
}

fn scan_c_number(text: &[u8]) -> Scanned<'_> {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\x0b' | b'\x0c' | b'\r');
    let start = text.iter().position(|byte| !is_space(byte)).unwrap_or(text.len());
    let (negative, rest) = match &text[start..] {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] | rest => (false, rest),
    };
    let digit_count = rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
    Scanned { negative, digits: &rest[..digit_count] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strict_numbers() {
        for (text, wanted) in [
            (&b"0"[..], Some(0)),
            (b"  007", Some(7)),
            (b"18446744073709551615", Some(u64::MAX)),
            (b"000000000000000000000000000001", Some(1)),
            (b"18446744073709551616", None),
            (b"99999999999999999999999", None),
            (b"", None),
            (b"   ", None),
            (b"1 ", None),
            (b"1x", None),
            (b"x", None),
            (b"-1", None),
            (b"+1", None),
            (b"\t1", None),
            (b"0x1", None),
            (b"1.0", None),
            (b"1 2", None),
        ] {
            assert_eq!(only_u64(text), wanted, "{}", text.escape_ascii());
        }
    }

    #[test]
    fn numbers_are_taken_one_by_one() {
        let mut text = &b" 1   4294967295 x"[..];
        assert_eq!(take_u32(&mut text), Some(1));
        assert_eq!(take_u32(&mut text), Some(u32::MAX));
        assert_eq!(text, b" x");
        assert_eq!(take_u32(&mut text), None);
        assert_eq!(take_u32(&mut &b"4294967296"[..]), None);
    }

    /// All these results were observed on beanstalkd 1.12.
    #[test]
    fn kick_bounds_are_lax() {
        for (text, wanted) in [
            (&b"5"[..], Some(5)),
            (b"  5", Some(5)),
            (b"\t5", Some(5)),
            (b"\x0b5", Some(5)),
            (b"+5", Some(5)),
            (b"5x", Some(5)),
            (b"5 5", Some(5)),
            (b"1.5", Some(1)),
            (b"0x5", Some(0)),
            (b"-1", Some(u32::MAX)),
            (b"-4294967295", Some(1)),
            (b"4294967296", Some(0)),
            (b"4294967297", Some(1)),
            (b"-18446744073709551615", Some(1)),
            (b"99999999999999999999", None),
            (b"-99999999999999999999", None),
            (b"abc", None),
            (b"", None),
            (b"  ", None),
            (b"\t", None),
            (b"-", None),
            (b"+", None),
        ] {
            assert_eq!(kick_bound(text), wanted, "{}", text.escape_ascii());
        }
    }

    /// All these results were observed on beanstalkd 1.12.
    #[test]
    fn timeouts_are_lax() {
        use Patience::{Endless, Millis, None as AtOnce};
        for (text, wanted) in [
            (&b"0"[..], Some(AtOnce)),
            (b"1", Some(Millis(1000))),
            (b"+1", Some(Millis(1000))),
            (b"\t1", Some(Millis(1000))),
            (b"0 5", Some(AtOnce)),
            (b"0x", Some(AtOnce)),
            (b"0.5", Some(AtOnce)),
            (b"abc", Some(AtOnce)),
            (b"", Some(AtOnce)),
            (b"-", Some(AtOnce)),
            (b"-1", Some(Endless)),
            (b"-5", Some(Endless)),
            (b"2147483647", Some(Millis(2_147_483_647_000))),
            (b"2147483648", Some(Endless)),
            (b"4294967296", Some(AtOnce)),
            (b"-4294967295", Some(Millis(1000))),
            (b"9223372036854775807", Some(Endless)),
            (b"9223372036854775808", None),
            (b"-9223372036854775808", Some(AtOnce)),
            (b"-9223372036854775809", None),
            (b"99999999999999999999", None),
        ] {
            assert_eq!(timeout(text), wanted, "{}", text.escape_ascii());
        }
    }
}
