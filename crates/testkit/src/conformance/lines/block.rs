//! Blocks of statistics and lists, in the form `OK <n>\r\n<n bytes>\r\n`. Finds their ends, and
//! checks their text.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use regex::Regex;

use super::step::{Keys, ListExpectation, YamlExpectation};
use crate::conformance::text::{Variables, latin1_text, shown};

/// Length of the whole block, including its first line and its line ends. The first line must be
/// complete in `bytes`.
pub(crate) fn length(bytes: &[u8]) -> Result<usize> {
    let line = bytes.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let text = std::str::from_utf8(line).ok();
    match text.and_then(|text| text.strip_prefix("OK ")?.parse::<usize>().ok()) {
        Some(body_bytes) => Ok(line.len() + 2 + body_bytes + 2),
        None => bail!("wanted a block OK <n>, got {}", shown(bytes)),
    }
}

/// The lines of a whole block after its line `---`.
pub(crate) fn text(block: &[u8]) -> Result<String> {
    let framed = || {
        let line_end = block.iter().position(|byte| *byte == b'\n')?;
        block[line_end + 1..].strip_suffix(b"\r\n")?.strip_prefix(b"---\n")
    };
    match framed() {
        Some(lines) if lines.is_empty() || lines.ends_with(b"\n") => Ok(latin1_text(lines)),
        _ => bail!("wrong framing of a block: {}", shown(block)),
    }
}

/// The pairs of keys and values in a block of statistics, in order. Removes the quotes around
/// values.
pub fn pairs(text: &str) -> Result<Vec<(String, String)>> {
    let pair = |line: &str| {
        let (key, value) =
            line.split_once(": ").with_context(|| format!("not `key: value`: {line}"))?;
        let bare = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        Ok((key.to_owned(), bare.unwrap_or(value).to_owned()))
    };
    text.lines().map(pair).collect()
}

pub(crate) fn check_yaml(
    text: &str,
    wanted: &YamlExpectation,
    variables: &mut Variables,
) -> Result<()> {
    let pairs = pairs(text)?;
    check_keys(&pairs, wanted)?;
    let values: BTreeMap<&str, &str> =
        pairs.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    let value = |key: &str| values.get(key).copied().with_context(|| format!("no key {key}"));
    for (key, text) in &wanted.values {
        let (wanted, got) = (variables.fill(text), value(key)?);
        ensure!(got == wanted, "{key}: wanted {wanted}, got {got}");
    }
    for (key, pattern) in &wanted.regex {
        let whole = Regex::new(&format!("^(?:{pattern})$"))?;
        let got = value(key)?;
        ensure!(whole.is_match(got), "{key}: wanted /{pattern}/, got {got}");
    }
    for (key, (variable, delta)) in &wanted.min_delta {
        let before: u64 = variables.get(variable).context("captured before")?.parse()?;
        let got: u64 = value(key)?.parse()?;
        ensure!(got >= before + delta, "{key}: wanted {before} + {delta} at least, got {got}");
    }
    for (variable, key) in &wanted.capture {
        variables.set(variable, value(key)?.to_owned());
    }
    Ok(())
}

fn check_keys(pairs: &[(String, String)], wanted: &YamlExpectation) -> Result<()> {
    let wanted = match &wanted.keys {
        None => return Ok(()),
        Some(Keys::Listed(keys)) => keys,
        Some(Keys::Named(name)) => bail!("the keys of {name} were not read"),
    };
    let got: Vec<&String> = pairs.iter().map(|(key, _)| key).collect();
    ensure!(got.iter().copied().eq(wanted), "keys: wanted {wanted:?}, got {got:?}");
    Ok(())
}

pub(crate) fn check_list(
    text: &str,
    wanted: &ListExpectation,
    variables: &Variables,
) -> Result<()> {
    let item = |line: &str| {
        let item = line.strip_prefix("- ").with_context(|| format!("not `- item`: {line}"))?;
        let bare = item.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        Ok(bare.unwrap_or(item).to_owned())
    };
    let mut items: Vec<String> = text.lines().map(item).collect::<Result<_>>()?;
    items.sort();
    if let Some(equals) = &wanted.equals {
        let mut wanted: Vec<String> = equals.iter().map(|item| variables.fill(item)).collect();
        wanted.sort();
        ensure!(items == wanted, "list: wanted {wanted:?}, got {items:?}");
    }
    for item in wanted.contains.iter().map(|item| variables.fill(item)) {
        ensure!(items.contains(&item), "the list lacks {item}: {items:?}");
    }
    for item in wanted.lacks.iter().map(|item| variables.fill(item)) {
        ensure!(!items.contains(&item), "the list has {item}: {items:?}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_measured_and_unframed() {
        let block = b"OK 14\r\n---\n- default\n\r\nmore";
        assert_eq!(length(block).unwrap(), 23);
        assert_eq!(text(&block[..23]).unwrap(), "- default\n");
        assert!(length(b"NOT_FOUND\r\n").is_err());
        assert!(text(b"OK 3\r\nabc\r\n").is_err());
    }

    #[test]
    fn quotes_around_values_do_not_count() {
        let pairs = pairs("name: \"1e3\"\nos: #1 SMP\n").unwrap();
        assert_eq!(pairs[0], ("name".to_owned(), "1e3".to_owned()));
        assert_eq!(pairs[1].1, "#1 SMP");
    }
}
