//! The body of a job in a form that people can read.

use notation::plain;

use crate::text::json_lines::json_in_lines;
use crate::text::php::php_in_lines;

/// The bytes in a line of a dump.
const LINE_BYTES: usize = 16;
/// A dump has at most this many bytes of the body.
const DUMPED_BYTES_MAX: usize = 64 * 1024;

/// A form for people.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum BodyForm {
    /// JSON with line breaks.
    Json,
    /// Values that PHP's `serialize` wrote, as JSON with line breaks.
    Php,
    /// Text, with escapes for bytes that are not text.
    Text,
    /// The first 64 KiB as a dump in hexadecimal.
    Hex,
}

impl BodyForm {
    /// All forms.
    pub const ALL: [BodyForm; 4] = [BodyForm::Json, BodyForm::Php, BodyForm::Text, BodyForm::Hex];

    /// The word for this form in a request.
    pub fn name(self) -> &'static str {
        match self {
            BodyForm::Json => "json",
            BodyForm::Php => "php",
            BodyForm::Text => "text",
            BodyForm::Hex => "hex",
        }
    }

    /// The body in this form. `None`: it does not have this form, or would be too long.
    pub fn shown(self, bytes: &[u8]) -> Option<String> {
        match self {
            BodyForm::Json => {
                json_in_lines(bytes).map(|lines| plain::escaped_json(&lines).into_owned())
            }
            BodyForm::Php => {
                php_in_lines(bytes).map(|lines| plain::escaped_json(&lines).into_owned())
            }
            BodyForm::Text => Some(plain::escaped_bytes(bytes)),
            BodyForm::Hex => {
                let cut = &bytes[..bytes.len().min(DUMPED_BYTES_MAX)];
                let lines: Vec<String> = plain::dump(cut, LINE_BYTES).collect();
                Some(lines.join("\n"))
            }
        }
    }
}

/// A body that is JSON, or values of PHP, with line breaks, and the name of the form. The result has
/// escapes for characters that could change a terminal, or the order of a line. `None`: the body is
/// neither, or the result would be too long.
pub fn in_lines(bytes: &[u8]) -> Option<(&'static str, String)> {
    [("JSON", BodyForm::Json), ("PHP", BodyForm::Php)]
        .into_iter()
        .find_map(|(name, form)| Some((name, form.shown(bytes)?)))
}
