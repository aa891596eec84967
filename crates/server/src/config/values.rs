//! Values of a configuration file: their places and their text. Also suggests a correct name for a
//! misspelt key.

use std::fmt;

use toml::de::DeValue;

/// A place in a file. Lines and characters are counted from 1.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct FilePosition {
    /// The line.
    pub line: usize,
    /// The character in the line. `None` if the mistake concerns one or more whole lines.
    pub column: Option<usize>,
}

impl FilePosition {
    /// The place of the byte at `offset`.
    pub(crate) fn of(text: &str, offset: usize) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        Self {
            line: 1 + before.matches('\n').count(),
            column: Some(1 + before[line_start..].chars().count()),
        }
    }
}

impl fmt::Display for FilePosition {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.column {
            Some(column) => write!(formatter, "{}:{column}", self.line),
            None => write!(formatter, "{}", self.line),
        }
    }
}

/// The value as text, with or without quotes in the file. The setting itself parses the digits of a
/// number.
pub(crate) fn scalar(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) if number.radix() == 10 => Some(number.as_str().replace('_', "")),
        DeValue::Boolean(truth) => Some(truth.to_string()),
        DeValue::Integer(_)
        | DeValue::Float(_)
        | DeValue::Datetime(_)
        | DeValue::Array(_)
        | DeValue::Table(_) => None,
    }
}

/// Like [`scalar`], for a value that can be a decimal fraction.
pub(crate) fn decimal(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::Float(number) => Some(number.as_str().replace('_', "")),
        other => scalar(other),
    }
}

/// The value, if it is in quotes in the file.
pub(crate) fn text(value: &DeValue<'_>) -> Option<String> {
    value.as_str().map(str::to_owned)
}

/// The known name that is closest to `name`, if it is close enough.
pub(crate) fn suggestion(name: &str, known: impl Iterator<Item = String>) -> Option<String> {
    known
        .map(|known| (strsim::damerau_levenshtein(name, &known), known))
        .filter(|(distance, known)| *distance <= 1 + known.len() / 4)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}
