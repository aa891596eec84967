//! The body of a job for people: as JSON or values of PHP with line breaks, as text, or as bytes.

use api::in_lines;
use maud::{Markup, html};
use notation::plain;

use crate::texts::JobPage;

/// At most this many bytes of a body are shown.
const SHOWN_BYTES_MAX: usize = 64 * 1024;
/// The bytes in a line of a dump.
const LINE_BYTES: usize = 16;
/// At most this many lines of a dump are shown.
const LINES_MAX: usize = 256;

/// A body, in the form that fits it.
pub(crate) fn shown(t: &JobPage, bytes: &[u8]) -> Markup {
    let cut = &bytes[..bytes.len().min(SHOWN_BYTES_MAX)];
    let lines = (cut.len() == bytes.len()).then(|| in_lines(bytes)).flatten();
    let (form, text) = match (lines, text(cut)) {
        (Some(lines), _) => lines,
        (None, Some(text)) => (t.as_text, text.to_owned()),
        (None, None) => {
            let lines: Vec<String> = plain::dump(cut, LINE_BYTES).take(LINES_MAX).collect();
            (t.as_bytes, lines.join("\n"))
        }
    };
    html! {
        p .form { ((t.shown_as)(form)) }
        pre .body tabindex="0" { (text) }
        @if cut.len() < bytes.len() {
            p .form { ((t.only_first)(&(SHOWN_BYTES_MAX / 1024).to_string())) }
        }
    }
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
    plain::is_readable(text).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::texts;

    fn english(bytes: &[u8]) -> Markup {
        shown(&texts::ALL[0].job, bytes)
    }

    #[test]
    fn values_of_php_are_shown_as_json() {
        let shown = english(b"O:4:\"Mail\":1:{s:2:\"to\";s:3:\"ann\";}").into_string();
        assert!(shown.contains("Mail") && shown.contains("\n  &quot;to&quot;: "), "{shown}");
        assert!(shown.contains("PHP"), "{shown}");
    }

    #[test]
    fn json_is_broken_into_lines() {
        let shown = english(b"{\"to\":\"ann\"}").into_string();
        assert!(shown.contains("Shown as JSON") && shown.contains("  &quot;to&quot;: "), "{shown}");
    }

    #[test]
    fn deep_json_is_shown_as_text() {
        let deep = format!("{}{}{}", "[".repeat(120), vec!["0"; 30_000].join(","), "]".repeat(120));
        let shown = english(deep.as_bytes()).into_string();
        assert!(shown.contains("Shown as text") && shown.len() < 70_000);
    }

    #[test]
    fn text_is_escaped() {
        let shown = english(b"<script>alert(1)</script>").into_string();
        assert!(shown.contains("&lt;script&gt;") && !shown.contains("<script>"), "{shown}");
    }

    #[test]
    fn other_bytes_are_dumped() {
        let shown = english(b"ab\x00\xff").into_string();
        assert!(shown.contains("Shown as bytes") && shown.contains("61 62 00 ff"), "{shown}");
    }

    #[test]
    fn a_cut_may_divide_a_character() {
        let long = "ä".repeat(SHOWN_BYTES_MAX);
        let shown = english(&long.as_bytes()[..=SHOWN_BYTES_MAX]).into_string();
        assert!(shown.contains("Shown as text") && shown.contains("first 64 KiB"));
    }
}
