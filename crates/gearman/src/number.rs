//! Numbers in arguments, parsed as in the original, which uses the C library. A number consists of
//! white space, an optional sign, and digits. All later bytes are ignored.

/// The largest result of `leading_integer`. Callers convert the result to smaller types. This
/// number fits into none of them, so callers notice an overflow.
const MAGNITUDE_MAX: i128 = 1 << 100;

/// The integer at the front of a text. 0 if there is no integer.
pub(crate) fn leading_integer(text: &[u8]) -> i128 {
    let text = text.trim_ascii_start();
    let (sign, digits) = match text.split_first() {
        Some((b'-', digits)) => (-1, digits),
        Some((b'+', digits)) => (1, digits),
        _ => (1, text),
    };
    let digits = digits.iter().take_while(|byte| byte.is_ascii_digit());
    let magnitude = digits.fold(0, |magnitude: i128, digit| {
        (magnitude * 10 + i128::from(digit - b'0')).min(MAGNITUDE_MAX)
    });
    sign * magnitude
}

/// The result of C's `atoi`, as 32 bits without a sign. For example, -5 becomes 4294967291.
pub(crate) fn wrapped(text: &[u8]) -> u32 {
    let clamped = leading_integer(text).clamp(i128::from(i64::MIN), i128::from(i64::MAX));
    clamped as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_begin_a_text_or_are_zero() {
        for (text, wanted) in [
            ("12", 12),
            (" \t7x8", 7),
            ("-5", -5),
            ("+5", 5),
            ("", 0),
            ("abc", 0),
            ("--5", 0),
            ("5 6", 5),
            ("18446744073709551616", 1 << 64),
        ] {
            assert_eq!(leading_integer(text.as_bytes()), wanted, "{text:?}");
        }
        assert_eq!(leading_integer(&[b'9'; 500]), MAGNITUDE_MAX);
        assert_eq!(
            leading_integer("\u{b}1".as_bytes()),
            0,
            "C would skip it, but no client sends it"
        );
    }

    #[test]
    fn progress_is_kept_in_32_bits() {
        for (text, wanted) in [
            ("-5", 4_294_967_291),
            ("4294967297", 1),
            ("99999999999999999999", u32::MAX),
            ("-99999999999999999999", 0),
        ] {
            assert_eq!(wrapped(text.as_bytes()), wanted, "{text}");
        }
    }
}
