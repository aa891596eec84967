//! The body of a job for people: as text, as JSON with line breaks, or as bytes.

use maud::{Markup, html};

/// At most this many bytes of a body are shown.
const SHOWN_BYTES_MAX: usize = 64 * 1024;
/// The bytes in a line of a dump.
const LINE_BYTES: usize = 16;
/// At most this many lines of a dump are shown.
const LINES_MAX: usize = 256;

/// A body, in the form that fits it.
pub(crate) fn shown(bytes: &[u8]) -> Markup {
    let cut = &bytes[..bytes.len().min(SHOWN_BYTES_MAX)];
    let (form, text) = match (json(bytes), text(cut)) {
        (Some(json), _) => ("JSON", json),
        (None, Some(text)) => ("text", text.to_owned()),
        (None, None) => ("bytes", dump(cut)),
    };
    html! {
        p .form { "Shown as " (form) "." }
        pre .body tabindex="0" { (text) }
        @if cut.len() < bytes.len() {
            p .form { "Only the first " (SHOWN_BYTES_MAX / 1024) " KiB are shown." }
        }
    }
}

fn json(bytes: &[u8]) -> Option<String> {
    let is_small = bytes.len() <= SHOWN_BYTES_MAX;
    let is_container = matches!(bytes.first(), Some(b'{' | b'['));
    if !is_small || !is_container {
        return None;
    }
    let value: serde_json::Value = serde_json::from_slice(bytes).ok()?;
    serde_json::to_string_pretty(&value).ok()
}

fn text(bytes: &[u8]) -> Option<&str> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        // The cut may have divided the last character.
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(&bytes[..error.valid_up_to()]).ok()?
        }
        Err(_) => return None,
    };
    let is_plain = |letter: char| !letter.is_control() || matches!(letter, '\n' | '\r' | '\t');
    text.chars().all(is_plain).then_some(text)
}

/// Lines with an offset, sixteen bytes, and the same bytes as letters.
fn dump(bytes: &[u8]) -> String {
    let lines = bytes.chunks(LINE_BYTES).take(LINES_MAX).enumerate().map(|(number, line)| {
        let hex: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        let letter = |byte: &u8| if matches!(byte, b' '..=b'~') { *byte as char } else { '.' };
        let letters: String = line.iter().map(letter).collect();
        format!("{:06x}  {:<47}  {letters}\n", number * LINE_BYTES, hex.join(" "))
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_broken_into_lines() {
        let shown = shown(b"{\"to\":\"ann\"}").into_string();
        assert!(shown.contains("Shown as JSON") && shown.contains("  &quot;to&quot;: "), "{shown}");
    }

    #[test]
    fn text_is_escaped() {
        let shown = shown(b"<script>alert(1)</script>").into_string();
        assert!(shown.contains("&lt;script&gt;") && !shown.contains("<script>"), "{shown}");
    }

    #[test]
    fn other_bytes_are_dumped() {
        assert_eq!(dump(b"ab\x00\xff").trim_end(), format!("000000  {:<47}  ab..", "61 62 00 ff"));
        assert!(shown(&[0; 100]).into_string().contains("Shown as bytes"));
    }

    #[test]
    fn a_cut_may_divide_a_character() {
        let long = "ä".repeat(SHOWN_BYTES_MAX);
        let shown = shown(&long.as_bytes()[..=SHOWN_BYTES_MAX]).into_string();
        assert!(shown.contains("Shown as text") && shown.contains("first 64 KiB"));
    }
}
