//! Writes names as YAML. A name has quotes only if a YAML parser would not read the bare name as
//! text.
//!
//! Statistics are YAML. Release 1.12 of the original writes names without quotes, and release 1.13
//! always with quotes. Some clients parse real YAML, and would read a bare tube name `123` as a
//! number. Other clients split lines at `: `, and would show quotes to their users. So quotes only
//! where YAML needs them are best for both kinds of clients.

/// The first line of statistics and lists.
pub(crate) const HEAD: &[u8] = b"---\n";

/// Appends a name as an item of a list, always without quotes, like every release of the original.
/// Clients use the names of a list in commands, without removing quotes.
pub(crate) fn append_item(yaml: &mut Vec<u8>, name: &[u8]) {
    yaml.extend_from_slice(b"- ");
    yaml.extend_from_slice(name);
    yaml.push(b'\n');
}

/// Appends `text` as the last value of a line. Omits the quotes if all YAML parsers read the bare
/// value as text.
pub(crate) fn append_scalar(yaml: &mut Vec<u8>, text: &[u8]) {
    if is_plain_text(text) {
        yaml.extend_from_slice(text);
    } else {
        append_quoted(yaml, text);
    }
}

/// Appends `text` in quotes. If it is not UTF-8, each byte above 0x7f becomes an escape, which
/// means the character with the number of the byte.
pub(crate) fn append_quoted(yaml: &mut Vec<u8>, text: &[u8]) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let is_utf8 = std::str::from_utf8(text).is_ok();
    yaml.push(b'"');
    for &byte in text {
        match byte {
            b'"' | b'\\' => yaml.extend_from_slice(&[b'\\', byte]),
            b' '..=b'~' => yaml.push(byte),
            0x80.. if is_utf8 => yaml.push(byte),
            0..0x20 | 0x7f.. => {
                let (high, low) = (HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]);
                yaml.extend_from_slice(&[b'\\', b'x', high, low]);
            }
        }
    }
    yaml.push(b'"');
}

/// Whether all parsers of YAML 1.1 and 1.2 read the text without quotes as this string.
fn is_plain_text(text: &[u8]) -> bool {
    let (Some(first), Some(last)) = (text.first(), text.last()) else { return false };
    let has_indicator = b"-?:,[]{}#&*!|>'\"%@` ".contains(first) || b": ".contains(last);
    let is_printable = text.iter().all(|byte| matches!(byte, b' '..=b'~'));
    let ends_early = text.windows(2).any(|pair| pair == b": " || pair == b" #");
    !has_indicator
        && is_printable
        && !ends_early
        && !is_word(text)
        && !is_number(text)
        && !is_date(text)
}

/// Whether the text is a word that a YAML parser reads as another value than a string. Ignores the
/// case of letters, because not all parsers accept the same cases.
fn is_word(text: &[u8]) -> bool {
    const WORDS: [&[u8]; 15] = [
        b"~", b"null", b"true", b"false", b"yes", b"no", b"on", b"off", b"y", b"n", b"=", b"<<",
        b".inf", b".nan", b"...",
    ];
    let unsigned = text.strip_prefix(b"+").unwrap_or(text);
    WORDS.iter().any(|word| unsigned.eq_ignore_ascii_case(word))
}

/// Whether a YAML parser may read the text as a number. A number can have `_` and `,` between
/// digits, a fraction or an exponent. It can be in base 60, such as `1:30`, or have a prefix for
/// another base. This function also returns true for some texts that no parser reads as a number,
/// such as `1.2.3`. Such a text gets unnecessary quotes, which do less harm than a wrong value.
fn is_number(text: &[u8]) -> bool {
    let unsigned = text.strip_prefix(b"+").unwrap_or(text);
    match unsigned {
        [b'0', b'x' | b'X', digits @ ..] => consists_of(digits, |byte| byte.is_ascii_hexdigit()),
        [b'0', b'o' | b'O' | b'b' | b'B', digits @ ..] => {
            consists_of(digits, |byte| byte.is_ascii_digit())
        }
        decimal => {
            let mut parts = decimal.splitn(2, |byte| matches!(byte, b'e' | b'E'));
            let mantissa = parts.next().unwrap_or_default();
            let is_mantissa =
                consists_of(mantissa, |byte| byte.is_ascii_digit() || b".:,".contains(&byte));
            let has_digit = mantissa.iter().any(u8::is_ascii_digit);
            is_mantissa && has_digit && parts.next().is_none_or(is_exponent)
        }
    }
}

fn is_exponent(text: &[u8]) -> bool {
    let digits = match text {
        [b'+' | b'-', digits @ ..] | digits => digits,
    };
    consists_of(digits, |byte| byte.is_ascii_digit())
}

/// Whether the text is not empty, and each byte is `_` or satisfies `is_of_the_kind`.
fn consists_of(text: &[u8], is_of_the_kind: impl Fn(u8) -> bool) -> bool {
    !text.is_empty() && text.iter().all(|&byte| byte == b'_' || is_of_the_kind(byte))
}

/// Whether the text begins with a date such as `2026-01-31`. A time may follow.
fn is_date(text: &[u8]) -> bool {
    let mut parts = text.splitn(3, |&byte| byte == b'-');
    let mut next_digits = |wanted: std::ops::RangeInclusive<usize>| {
        let part = parts.next().unwrap_or_default();
        let digits = part.iter().take_while(|byte| byte.is_ascii_digit()).count();
        wanted.contains(&digits).then(|| &part[digits..])
    };
    next_digits(4..=4).is_some_and(<[u8]>::is_empty)
        && next_digits(1..=2).is_some_and(<[u8]>::is_empty)
        && next_digits(1..=2).is_some_and(|rest| matches!(rest, [] | [b'T' | b't' | b' ', ..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &[u8], wanted: &str) {
        let mut yaml = Vec::new();
        append_scalar(&mut yaml, text);
        assert_eq!(String::from_utf8_lossy(&yaml), wanted);
    }

    #[test]
    fn ordinary_names_stay_bare() {
        for name in [
            "default",
            "emails",
            "mail.send",
            "a-b_c",
            "q1795154138058_1",
            "1st",
            "10-feed",
            "feed",
            "e3",
            "1e",
            "1e3x",
            "x1e3",
            "0xg",
            "0x",
            "0b",
            "deadbeef",
            "cafe",
            "1.2-a",
            "nothing",
            "yesterday",
            "only",
            "nullable",
            "offline",
            "a/b;c",
            "$x",
            "(x)",
            "x;y",
            "..",
            ".",
            "+",
            "+a",
            "_",
            "_x",
            "/",
            ";",
            "a.inf",
            ".info",
            "2026-01",
            "2026-1-x",
            "2026-01-011",
            "20260-01-01",
            "26-01-01",
            "a 2026-01-01",
            "x86_64",
            "vm",
            "a:b",
            "a#b",
            "inf",
            "nan",
            "\\",
            "Linux 6.1",
            "0x1.5",
            "1-1",
            "12-12-12",
        ] {
            check(name.as_bytes(), name);
        }
    }

    #[test]
    fn text_that_yaml_reads_differently_is_quoted() {
        for name in [
            "",
            "123",
            "0",
            "007",
            "+1",
            "1_000",
            "1,000",
            "1e3",
            "1E-3",
            "1e+3",
            "1.5",
            ".5",
            "1.",
            "1.5e3",
            "+.5",
            "0x1f",
            "0XFF",
            "0o17",
            "0b101",
            "1:30",
            "10:30:59",
            "1.2.3",
            "+0x1f",
            "true",
            "True",
            "TRUE",
            "false",
            "null",
            "Null",
            "~",
            "yes",
            "No",
            "on",
            "OFF",
            "y",
            "N",
            ".inf",
            ".Inf",
            "+.inf",
            ".NaN",
            "=",
            "<<",
            "...",
            "2026-01-31",
            "2026-1-1",
            "2026-01-31T10",
            "2026-01-31 10:00:00",
            "-x",
            "-",
            "?x",
            ":x",
            "[a]",
            "{a}",
            "&a",
            "*a",
            "!a",
            "|",
            ">",
            "%a",
            "@a",
            "`a",
            "'a'",
            "#1 SMP @0",
            " a",
            "a ",
            "a: b",
            "a:",
            "a #b",
            ",a",
        ] {
            check(name.as_bytes(), &format!("\"{name}\""));
        }
    }

    #[test]
    fn quoted_text_is_escaped() {
        check(b"\"a\\b\"", r#""\"a\\b\"""#);
        check(b"a\nb\t\x7f\0", r#""a\x0ab\x09\x7f\x00""#);
        check("\u{e4}\u{20ac}".as_bytes(), "\"\u{e4}\u{20ac}\"");
        check(b"\xe4\xff", r#""\xe4\xff""#);
    }
}
