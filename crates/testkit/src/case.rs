//! Conformance cases: their data model and how they are read from `corpus/`.
//!
//! `corpus/beanstalk/README.md` explains every key. Playing a case is not part of this file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// One behaviour: a name and the steps that show it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Unique within its file; tests select cases by parts of it.
    pub name: String,
    /// What a runner needs to know before it plays the case, such as `memory` or `alone`.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Why the behaviour is as it is.
    #[serde(default)]
    pub note: String,
    /// The port of connections whose steps name none.
    #[serde(default)]
    pub port: Option<String>,
    /// Played in order.
    pub steps: Vec<Step>,
}

/// One step; its parts act in the order of the fields.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Step {
    /// Milliseconds that pass before anything else.
    pub sleep_ms: u64,
    /// The connection that the rest speaks of; opened when first named.
    pub conn: Option<String>,
    /// The port that it is opened to, if not the case's.
    pub port: Option<String>,
    /// Bytes to send, as Latin-1 text with placeholders.
    pub send: Option<String>,
    /// The next bytes, exactly.
    pub expect: Option<String>,
    /// A pattern for the next bytes.
    pub expect_regex: Option<String>,
    /// Patterns that must be somewhere in what `expect_regex` matched.
    pub contains: Vec<String>,
    /// Variables for the groups of `expect_regex`.
    pub capture: Captures,
    /// An `OK` block of `key: value` lines.
    pub expect_yaml: Option<YamlExpectation>,
    /// An `OK` block of `- item` lines.
    pub expect_list: Option<ListExpectation>,
    /// Least milliseconds from the start of the step to the expected reply.
    pub min_ms: Option<u64>,
    /// Most milliseconds from the start of the step to the expected reply.
    pub max_ms: Option<u64>,
    /// Milliseconds to wait for a reply; [`TIMEOUT_MS_DEFAULT`] unless given.
    pub timeout_ms: Option<u64>,
    /// Milliseconds during which nothing may arrive.
    pub expect_nothing_ms: Option<u64>,
    /// Ends our sending direction.
    pub half_close: bool,
    /// The server must end the connection, without a byte before.
    pub expect_close: bool,
    /// Hangs up.
    pub close: bool,
}

/// How long a step waits for its reply when the case does not say.
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

/// What a block of statistics must hold. Quotes around a value do not count.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct YamlExpectation {
    /// All keys in their order.
    pub keys: Option<Keys>,
    /// Exact values; placeholders are filled in.
    pub values: BTreeMap<String, String>,
    /// Patterns that whole values must match.
    pub regex: BTreeMap<String, String>,
    /// Variable → key whose value it takes.
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

/// What a list block must hold.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ListExpectation {
    /// All items, in any order.
    pub equals: Option<Vec<String>>,
    /// Items that must be there.
    pub contains: Vec<String>,
    /// Items that must not be there.
    pub lacks: Vec<String>,
}

/// The cases of one file, and what they refer to.
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
    /// Whether the case carries this tag.
    pub fn has_tag(&self, tag: &str) -> bool {
        self.tags.iter().any(|own| own == tag)
    }
}

fn corpus_folder(dialect: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus").join(dialect)
}

/// Reads cases of any kind, one a line, from `corpus/<dialect>/<file>`; no two have the same name.
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
