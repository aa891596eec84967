//! The text of cases: placeholders, patterns and Latin-1. Also shows bytes in failure messages.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use regex::bytes::{Regex, RegexBuilder};

/// The variables of a running case. In the text of the case, `{name}` stands for the value of the
/// variable `name`.
#[derive(Debug, Clone, Default)]
pub struct Variables(BTreeMap<String, String>);

impl Variables {
    /// Sets a variable, and replaces its older value.
    pub fn set(&mut self, name: &str, value: String) {
        self.0.insert(name.to_owned(), value);
    }

    /// The value of a variable.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The values of all variables whose names start with `prefix`.
    pub fn starting_with<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a str> {
        let named = self.0.iter().filter(move |(name, _)| name.starts_with(prefix));
        named.map(|(_, value)| value.as_str())
    }

    /// Replaces the placeholders in `text`. Other braces stay unchanged.
    pub fn fill(&self, text: &str) -> String {
        self.fill_with(text, str::to_owned)
    }

    /// Replaces the placeholders in a pattern. The values are escaped, so they match only
    /// themselves.
    pub fn fill_pattern(&self, pattern: &str) -> String {
        self.fill_with(pattern, regex::escape)
    }

    fn fill_with(&self, text: &str, show: fn(&str) -> String) -> String {
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(open) = rest.find('{') {
            filled.push_str(&rest[..open]);
            rest = &rest[open..];
            let placeholder = rest.find('}').map(|close| &rest[1..close]);
            let value = placeholder.and_then(|name| self.value_of(name, show));
            if let (Some(name), Some(value)) = (placeholder, value) {
                filled.push_str(&value);
                rest = &rest[name.len() + 2..];
            } else {
                filled.push('{');
                rest = &rest[1..];
            }
        }
        filled.push_str(rest);
        filled
    }

    /// The value of a placeholder: `rep:X:N` or `X*N` repeats a character, and `name+N`, `name-N`
    /// or `name` is a variable's value.
    fn value_of(&self, placeholder: &str, show: fn(&str) -> String) -> Option<String> {
        if let Some(repetition) = placeholder.strip_prefix("rep:") {
            let (character, count) = repetition.split_once(':')?;
            return Some(character.repeat(count.parse().ok()?));
        }
        if let Some((character, count)) = placeholder.split_once('*') {
            return Some(character.repeat(count.parse().ok()?));
        }
        if let Some((name, less)) = placeholder.split_once('-') {
            let number: u64 = self.get(name)?.parse().ok()?;
            return Some(number.checked_sub(less.parse().ok()?)?.to_string());
        }
        if let Some((name, more)) = placeholder.split_once('+') {
            let number: u64 = self.get(name)?.parse().ok()?;
            return Some((number + more.parse::<u64>().ok()?).to_string());
        }
        self.get(placeholder).map(show)
    }
}

/// Turns a text into bytes. Each character becomes one byte.
///
/// Panics at a character above U+00FF, because a case with such a character is invalid.
pub fn latin1_bytes(text: &str) -> Vec<u8> {
    let byte = |c: char| u8::try_from(u32::from(c)).expect("cases hold only Latin-1 characters");
    text.chars().map(byte).collect()
}

/// Turns bytes into a text. Each byte becomes one character.
pub fn latin1_text(bytes: &[u8]) -> String {
    bytes.iter().copied().map(char::from).collect()
}

/// A pattern over bytes, in which a dot matches any byte.
pub fn pattern_of(text: &str) -> Result<Regex> {
    RegexBuilder::new(text)
        .unicode(false)
        .dot_matches_new_line(true)
        .build()
        .with_context(|| format!("the pattern {text}"))
}

/// Shows bytes in quotes, with escapes. Cuts long bytes.
pub fn shown(bytes: &[u8]) -> String {
    const SHOWN_BYTES_MAX: usize = 300;
    if bytes.len() <= SHOWN_BYTES_MAX {
        return format!("\"{}\"", bytes.escape_ascii());
    }
    format!("\"{}\"… ({} bytes)", bytes[..SHOWN_BYTES_MAX].escape_ascii(), bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_filled_and_other_braces_stay() {
        let mut variables = Variables::default();
        variables.set("tube", "t.1".into());
        variables.set("id1", "41".into());
        assert_eq!(variables.fill("use {tube}2 {rep:x:3} {id1+1}"), "use t.12 xxx 42");
        assert_eq!(variables.fill("{id1-1} {x*3}"), "40 xxx");
        assert_eq!(variables.fill("use a{b\r\n{nobody}"), "use a{b\r\n{nobody}");
        assert_eq!(variables.fill_pattern("{tube}\\d{6}"), "t\\.1\\d{6}");
    }

    #[test]
    fn latin1_is_one_byte_per_character() {
        assert_eq!(latin1_bytes("aÿ\u{0}"), [b'a', 0xff, 0]);
        assert_eq!(latin1_text(&[0xff]), "ÿ");
    }
}
