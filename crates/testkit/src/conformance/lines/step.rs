//! The steps of a case whose requests and replies are lines. `corpus/beanstalk/README.md` explains
//! every key.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::conformance::case;

/// A case of a protocol of lines.
pub type Case = case::Case<Step>;

/// One step. Its parts act in the order of these fields.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Step {
    /// Milliseconds to wait before this step's actions.
    pub sleep_ms: u64,
    /// The connection of this step. The first step that names a connection opens it.
    pub conn: Option<String>,
    /// The port of the connection. `None` means the case's port.
    pub port: Option<String>,
    /// Bytes to send, as Latin-1 text with placeholders.
    pub send: Option<String>,
    /// The bytes that must arrive next.
    pub expect: Option<String>,
    /// A pattern for the bytes that must arrive next.
    pub expect_regex: Option<String>,
    /// Further patterns. Each must match somewhere in the bytes that `expect_regex` matched.
    pub contains: Vec<String>,
    /// The variables that get the groups of `expect_regex` as values.
    pub capture: Captures,
    /// An expected `OK` block of `key: value` lines.
    pub expect_yaml: Option<YamlExpectation>,
    /// An expected `OK` block of `- item` lines.
    pub expect_list: Option<ListExpectation>,
    /// Minimum of milliseconds from the start of the step to the expected reply.
    pub min_ms: Option<u64>,
    /// Maximum of milliseconds from the start of the step to the expected reply.
    pub max_ms: Option<u64>,
    /// Milliseconds to wait for a reply. The default is [`TIMEOUT_MS_DEFAULT`].
    pub timeout_ms: Option<u64>,
    /// For this number of milliseconds, nothing may arrive.
    pub expect_nothing_ms: Option<u64>,
    /// Closes the sending direction of the connection.
    pub half_close: bool,
    /// The server must close the connection, and send no further byte.
    pub expect_close: bool,
    /// Closes the connection.
    pub close: bool,
}

/// The time limit for a reply if the case has none.
pub(super) const TIMEOUT_MS_DEFAULT: u64 = 3_000;

/// One variable, or several variables.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum Captures {
    /// The variable for a pattern with one group.
    One(String),
    /// The variables for several groups, in the order of the groups.
    Many(Vec<String>),
}

impl Default for Captures {
    fn default() -> Self {
        Captures::Many(Vec::new())
    }
}

impl Captures {
    /// The names of the variables, in the order of the groups.
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
    /// All keys, in their order.
    pub keys: Option<Keys>,
    /// Exact values, with placeholders.
    pub values: BTreeMap<String, String>,
    /// Patterns, by key. Each must match the whole value.
    pub regex: BTreeMap<String, String>,
    /// Variables that get values. The map's key is the variable, and its value is the statistics
    /// key.
    pub capture: BTreeMap<String, String>,
    /// Values that must have grown, by key: the variable with the old value, and the minimum of
    /// growth.
    pub min_delta: BTreeMap<String, (String, u64)>,
}

/// A list of keys: either the keys, or the name of a statistics command.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum Keys {
    /// The name of a list in `stats_keys.json`. [`read_cases`] replaces it with the keys.
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

/// Reads `corpus/<protocol>/<file>` of this repository.
pub fn read_cases(protocol: &str, file: &str) -> Result<Vec<Case>> {
    let mut cases: Vec<Case> = case::read_cases(protocol, file)?;
    let steps = cases.iter_mut().flat_map(|case| &mut case.steps);
    let wanted = steps.filter_map(|step| step.expect_yaml.as_mut()?.keys.as_mut());
    for keys in wanted {
        if let Keys::Named(name) = keys {
            *keys = Keys::Listed(read_keys(protocol, name)?);
        }
    }
    Ok(cases)
}

/// The keys of a statistics command, in their order.
fn read_keys(protocol: &str, command: &str) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(case::corpus_folder(protocol).join("stats_keys.json"))?;
    let mut lists: BTreeMap<String, Vec<String>> = serde_json::from_str(&text)?;
    lists.remove(command).with_context(|| format!("no list of the keys of {command}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_corpus_is_readable() {
        assert!(read_cases("beanstalk", "cases.jsonl").unwrap().len() >= 169);
        assert!(!read_cases("beanstalk", "defects.jsonl").unwrap().is_empty());
        assert_eq!(read_keys("beanstalk", "stats").unwrap().len(), 51);
    }

    #[test]
    fn an_unknown_key_is_an_error() {
        assert!(serde_json::from_str::<Step>(r#"{"expct": "x"}"#).is_err());
    }
}
