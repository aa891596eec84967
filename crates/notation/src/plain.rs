//! Text and bytes of clients, in a form that can be shown. Some characters are hostile: an escape
//! could change a terminal, and others could hide a part of a line, or show it in another order.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Whether a character could change a terminal, break a line, or change the order in which other
/// characters are shown: a control character, a line separator, or a control of bidirectional text.
pub fn is_hostile(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{61c}')
        || matches!(letter, '\u{200e}' | '\u{200f}')
}

/// The text on one line: each hostile character becomes a space.
pub fn one_line(text: &str) -> String {
    text.chars().map(|letter| if is_hostile(letter) { ' ' } else { letter }).collect()
}

/// The text with each hostile character as an escape such as `\x1b` or `\u202e`.
pub fn escaped(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_hostile) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for letter in text.chars() {
        push(&mut shown, letter, false);
    }
    Cow::Owned(shown)
}

/// Bytes as text. Each hostile character except line feeds and tabs, and each byte that is not text,
/// becomes an escape such as `\x1b` or `\u202e`.
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
    let code = u32::from(letter);
    if !is_hostile(letter) || keeps_lines && matches!(letter, '\n' | '\t') {
        shown.push(letter);
    } else if code <= 0xff {
        // Writing to a text does not fail.
        let _ = write!(shown, "\\x{code:02x}");
    } else {
        let _ = write!(shown, "\\u{code:04x}");
    }
}

/// JSON without hostile characters. JSON already has escapes for those of ASCII, except for one. The
/// result has the same values.
pub fn escaped_json(json: &str) -> Cow<'_, str> {
    if !json.chars().any(is_hostile) {
        return Cow::Borrowed(json);
    }
    let mut shown = String::with_capacity(json.len() + 8);
    for letter in json.chars() {
        // Line breaks are between the values.
        if is_hostile(letter) && letter != '\n' {
            let _ = write!(shown, "\\u{:04x}", u32::from(letter));
        } else {
            shown.push(letter);
        }
    }
    Cow::Owned(shown)
}

/// Whether a person can read the text as it is: it has no hostile characters except for line ends
/// and tabs.
pub fn is_readable(text: &str) -> bool {
    !text.chars().any(|letter| is_hostile(letter) && !matches!(letter, '\n' | '\r' | '\t'))
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
    fn nothing_can_change_the_order_of_a_line() {
        let all = ('\u{2028}'..='\u{202e}').chain('\u{2066}'..='\u{2069}');
        for letter in all.chain(['\u{200e}', '\u{200f}', '\u{61c}']) {
            let (text, code) = (format!("a{letter}b"), u32::from(letter));
            assert_eq!(escaped(&text), format!("a\\u{code:04x}b"));
            assert_eq!(escaped_bytes(text.as_bytes()), format!("a\\u{code:04x}b"));
            assert_eq!(escaped_json(&format!("\"{text}\"")), format!("\"a\\u{code:04x}b\""));
            assert_eq!(one_line(&text), "a b");
            assert!(!is_readable(&text));
        }
        // Letters that are written from right to left stay.
        assert!(is_readable("\u{5d0}\u{627}") && escaped("\u{5d0}\u{200d}") == "\u{5d0}\u{200d}");
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
