//! Text and bytes of clients, in a form that can be shown. A control character, such as an escape,
//! could change a terminal, or hide a part of a line.

use std::borrow::Cow;
use std::fmt::Write as _;

/// The text on one line: each control character becomes a space.
pub fn one_line(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

/// The text with each control character as an escape such as `\x1b`.
pub fn escaped(text: &str) -> Cow<'_, str> {
    if !text.chars().any(char::is_control) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for letter in text.chars() {
        push(&mut shown, letter, false);
    }
    Cow::Owned(shown)
}

/// Bytes as text. Each control character except line feeds and tabs, and each byte that is not
/// text, becomes an escape such as `\x1b`.
pub fn escaped_bytes(bytes: &[u8]) -> String {
    let mut shown = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            push(&mut shown, letter, true);
        }
        for byte in chunk.invalid() {
            // Writing to a text does not fail.
            let _ = write!(shown, "\\x{byte:02x}");
        }
    }
    shown
}

fn push(shown: &mut String, letter: char, keeps_lines: bool) {
    if letter.is_control() && !(keeps_lines && matches!(letter, '\n' | '\t')) {
        let _ = write!(shown, "\\x{:02x}", u32::from(letter));
    } else {
        shown.push(letter);
    }
}

/// JSON without control characters. JSON already has escapes for those of ASCII, except for one. The
/// result has the same values.
pub fn escaped_json(json: &str) -> Cow<'_, str> {
    if !json.chars().any(char::is_control) {
        return Cow::Borrowed(json);
    }
    let mut shown = String::with_capacity(json.len() + 8);
    for letter in json.chars() {
        // Line breaks are between the values.
        if letter.is_control() && letter != '\n' {
            let _ = write!(shown, "\\u{:04x}", u32::from(letter));
        } else {
            shown.push(letter);
        }
    }
    Cow::Owned(shown)
}

/// Whether a person can read the text as it is: it has no control characters except for line ends
/// and tabs.
pub fn is_readable(text: &str) -> bool {
    !text.chars().any(|letter| letter.is_control() && !matches!(letter, '\n' | '\r' | '\t'))
}

/// A word that a shell reads as it is.
pub fn shell_word(word: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_@%+=:,./-".contains(&byte);
    // Some shells expand a word that begins with `=`.
    if !word.is_empty() && word.bytes().all(is_plain) && !word.starts_with('=') {
        return Cow::Borrowed(word);
    }
    Cow::Owned(format!("'{}'", word.replace('\'', "'\\''")))
}

/// Lines with the place of their first byte, this many bytes, and the same bytes as letters.
pub fn dump(bytes: &[u8], bytes_of_line: usize) -> impl Iterator<Item = String> {
    bytes.chunks(bytes_of_line).enumerate().map(move |(index, line)| {
        let digits: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        let letter = |byte: &u8| if matches!(byte, b' '..=b'~') { char::from(*byte) } else { '.' };
        let letters: String = line.iter().map(letter).collect();
        let (place, width) = (index * bytes_of_line, bytes_of_line * 3 - 1);
        format!("{place:06x}  {:<width$}  {letters}", digits.join(" "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_can_take_over_a_terminal() {
        for (bytes, shown) in [
            (&b"to=ann\n"[..], "to=ann\n"),
            (b"\x1b]0;title\x07\r\n\x1b[2J", "\\x1b]0;title\\x07\\x0d\n\\x1b[2J"),
            ("ä\u{9b}2J".as_bytes(), "ä\\x9b2J"),
            (b"\xff\x00\x7f\t", "\\xff\\x00\\x7f\t"),
        ] {
            assert_eq!(escaped_bytes(bytes), shown);
        }
        assert_eq!(escaped("a\u{9b}\n\u{7f}中"), "a\\x9b\\x0a\\x7f中");
        assert!(matches!(escaped("中 a"), Cow::Borrowed("中 a")));
        assert_eq!(one_line("a\u{9b}\nb\tc"), "a  b c");
    }

    #[test]
    fn json_keeps_its_values() {
        assert_eq!(escaped_json("{\"a\u{7f}\": \"\u{9b}\\n\"}"), "{\"a\\u007f\": \"\\u009b\\n\"}");
        assert_eq!(escaped_json("{\n  \"a\": 1\n}"), "{\n  \"a\": 1\n}");
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        for (word, shown) in [
            ("mail/a-b.c", "mail/a-b.c"),
            ("", "''"),
            ("a b", "'a b'"),
            ("it's", "'it'\\''s'"),
            ("$(rm)`x`\"", "'$(rm)`x`\"'"),
            ("~", "'~'"),
            ("=a", "'=a'"),
        ] {
            assert_eq!(shell_word(word), shown);
        }
    }

    #[test]
    fn text_is_told_from_bytes() {
        assert!(is_readable("a\tb\r\n中"));
        assert!(!is_readable("\u{1b}[2J") && !is_readable("\u{85}"));
        let lines: Vec<String> = dump(b"ab\x00\xff", 3).collect();
        assert_eq!(lines, ["000000  61 62 00  ab.", "000003  ff        ."]);
    }
}
