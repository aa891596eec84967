//! Conformance cases: their data model and how they are read from `corpus/`.
//!
//! `corpus/beanstalk/README.md` explains every key. Another file plays cases.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// One behaviour: a name, and the steps that show it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Unique within its file. Tests select cases by parts of the name.
    pub name: String,
    /// Tags that a runner needs before it plays the case, such as `memory` or `alone`.
    #[serde(default)]
    pub tags: Vec<String>,
    /// The reason for the behaviour.
    #[serde(default)]
    pub note: String,
    /// The port of connections whose steps name none.
    #[serde(default)]
    pub port: Option<String>,
    /// The steps, in order.
    pub steps: Vec<Step>,
}

/// One step. Its parts act in the order of the fields.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Step {
    /// Milliseconds that pass before anything else.
    pub sleep_ms: u64,
    /// The connection of this step. It is opened when a step first names it.
    pub conn: Option<String>,
    /// The port of the connection, if it is not the case's port.
    pub port: Option<String>,
    /// Bytes to send, as Latin-1 text with placeholders.
    pub send: Option<String>,
    /// The exact next bytes.
    pub expect: Option<String>,
    /// A pattern for the next bytes.
    pub expect_regex: Option<String>,
    /// Patterns that must match somewhere in the bytes that matched `expect_regex`.
    pub contains: Vec<String>,
    /// Variables for the groups of `expect_regex`.
    pub capture: Captures,
    /// An expected `OK` block of `key: value` lines.
    pub expect_yaml: Option<YamlExpectation>,
    /// An expected `OK` block of `- item` lines.
    pub expect_list: Option<ListExpectation>,
    /// Least milliseconds from the start of the step to the expected reply.
    pub min_ms: Option<u64>,
    /// Most milliseconds from the start of the step to the expected reply.
    pub max_ms: Option<u64>,
    /// Milliseconds to wait for a reply; [`TIMEOUT_MS_DEFAULT`] unless given.
    pub timeout_ms: Option<u64>,
    /// Milliseconds during which nothing may arrive.
    pub expect_nothing_ms: Option<u64>,
    /// Closes the sending direction of the connection.
    pub half_close: bool,
    /// The server must close the connection without another byte.
    pub expect_close: bool,
    /// Closes the connection.
    pub close: bool,
}

/// The time limit for a reply, if the case names none.
pub const TIMEOUT_MS_DEFAULT: u64 = 3_000;

/// One variable or several.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum Captures {
    /// For a pattern of one group.
    One(String),
    /// For the groups in their order.
    Many(Vec<String>),
}

impl Default for Captures {
    fn default() -> Self {
        Captures::Many(Vec::new())
    }
}

impl Captures {
    /// The names, in the order of the groups.
    pub fn names(&self) -> &[String] {
        match self {
            Captures::One(name) => std::slice::from_ref(name),
            Captures::Many(names) => names,
        }
    }
}

/// The expected content of a block of statistics. Quotes around a value are ignored.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct YamlExpectation {
    /// All keys in their order.
    pub keys: Option<Keys>,
    /// Exact values, with placeholders.
    pub values: BTreeMap<String, String>,
    /// Patterns that whole values must match.
    pub regex: BTreeMap<String, String>,
    /// Variable → key whose value the variable gets.
    pub capture: BTreeMap<String, String>,
    /// Key → (variable, least growth since the variable was captured).
    pub min_delta: BTreeMap<String, (String, u64)>,
}

/// A list of keys, written out or by the name of a statistics command.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum Keys {
    /// A list in `stats_keys.json`.
    Named(String),
    /// The keys themselves.
    Listed(Vec<String>),
}

/// The expected content of a list block.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ListExpectation {
    /// All items, in any order.
    pub equals: Option<Vec<String>>,
    /// Items that the list must contain.
    pub contains: Vec<String>,
    /// Items that the list must not contain.
    pub lacks: Vec<String>,
}

/// The cases of one file, and the key lists that they name.
#[derive(Debug, Clone)]
pub struct Corpus {
    /// In the order of the file.
    pub cases: Vec<Case>,
    /// Lists of keys by the name of the statistics command.
    pub key_lists: BTreeMap<String, Vec<String>>,
}

impl Corpus {
    /// Reads `corpus/<dialect>/<file>` of this repository.
    pub fn read(dialect: &str, file: &str) -> Result<Corpus> {
        let cases = read_cases(dialect, file, |case: &Case| &case.name)?;
        let keys_path = corpus_folder(dialect).join("stats_keys.json");
        let key_lists = if keys_path.exists() {
            let text = std::fs::read_to_string(&keys_path)?;
            serde_json::from_str(&text)
                .with_context(|| format!("reading {}", keys_path.display()))?
        } else {
            BTreeMap::new()
        };
        Ok(Corpus { cases, key_lists })
    }
}

impl Case {
    /// Whether the case has this tag.
    pub fn has_tag(&self, tag: &str) -> bool {
        self.tags.iter().any(|own| own == tag)
    }
}

fn corpus_folder(dialect: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus").join(dialect)
}

/// Reads cases of any kind, one on each line, from `corpus/<dialect>/<file>`. Each name must be
/// unique.
pub(crate) fn read_cases<C: DeserializeOwned>(
    dialect: &str,
    file: &str,
    name: fn(&C) -> &str,
) -> Result<Vec<C>> {
    let path = corpus_folder(dialect).join(file);
    let text =
        std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let mut cases: Vec<C> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let place = || format!("{}:{}", path.display(), index + 1);
        let case: C = serde_json::from_str(line).with_context(place)?;
        if cases.iter().any(|other| name(other) == name(&case)) {
            bail!("{}: the name {} is taken", place(), name(&case));
        }
        cases.push(case);
    }
    Ok(cases)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_corpus_is_readable() {
        let cases = Corpus::read("beanstalk", "cases.jsonl").unwrap();
        let defects = Corpus::read("beanstalk", "defects.jsonl").unwrap();
        assert!(cases.cases.len() >= 169);
        assert!(!defects.cases.is_empty());
        assert_eq!(cases.key_lists["stats"].len(), 51);
    }

    #[test]
    fn an_unknown_key_is_an_error() {
        assert!(serde_json::from_str::<Step>(r#"{"expct": "x"}"#).is_err());
    }
}
