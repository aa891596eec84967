//! JSON with line breaks, for people who read the body of a job.

use serde::de::IgnoredAny;

/// The result has at most this many bytes.
const LINES_BYTES_MAX: usize = 256 * 1024;

/// An object or an array of JSON, with line breaks. All names, numbers and texts stay as they are,
/// because a number can have more digits than a program keeps, and a name can occur twice. `None`:
/// the bytes are something else, or the result would be too long.
pub(crate) fn json_in_lines(bytes: &[u8]) -> Option<String> {
    let bytes = bytes.trim_ascii_start();
    if !matches!(bytes.first(), Some(b'{' | b'[')) {
        return None;
    }
    // This refuses text that is not JSON, and JSON that is nested very deeply.
    serde_json::from_slice::<IgnoredAny>(bytes).ok()?;
    in_lines(std::str::from_utf8(bytes).ok()?)
}

/// `None`: the result would be too long.
fn in_lines(json: &str) -> Option<String> {
    let mut lines = String::with_capacity(json.len() * 2);
    let (mut depth, mut is_in_text, mut is_escaped) = (0, false, false);
    let mut letters = json.chars().peekable();
    while let Some(letter) = letters.next() {
        if is_in_text {
            lines.push(letter);
            is_in_text = letter != '"' || is_escaped;
            is_escaped = letter == '\\' && !is_escaped;
            continue;
        }
        if letter.is_ascii_whitespace() {
            continue;
        }
        let is_end = matches!(letter, '}' | ']');
        if is_end {
            depth -= 1;
            if !lines.ends_with(['{', '[']) {
                break_line(&mut lines, depth);
            }
        }
        lines.push(letter);
        match letter {
            '"' => is_in_text = true,
            ':' => lines.push(' '),
            ',' => break_line(&mut lines, depth),
            '{' | '[' => {
                depth += 1;
                while letters.next_if(char::is_ascii_whitespace).is_some() {}
                if !matches!(letters.peek(), Some('}' | ']')) {
                    break_line(&mut lines, depth);
                }
            }
            _ => {}
        }
        if lines.len() > LINES_BYTES_MAX {
            return None;
        }
    }
    Some(lines)
}

fn break_line(lines: &mut String, depth: usize) {
    lines.push('\n');
    lines.extend(std::iter::repeat_n("  ", depth));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_keeps_its_order_digits_and_doubled_names() {
        let json =
            r#"{"id":12345678901234567890123,"b": [ ],"a":1.10,"a":{"t":"x,\"{"}, "c":[1,2]}"#;
        let lines = "{\n  \"id\": 12345678901234567890123,\n  \"b\": [],\n  \"a\": 1.10,\n  \"a\": {\n    \
            \"t\": \"x,\\\"{\"\n  },\n  \"c\": [\n    1,\n    2\n  ]\n}";
        assert_eq!(json_in_lines(json.as_bytes()).as_deref(), Some(lines));
        assert_eq!(json_in_lines(b"12"), None);
        assert_eq!(json_in_lines(b"{]"), None);
    }
}
