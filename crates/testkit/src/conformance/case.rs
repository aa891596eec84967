//! A conformance case of any protocol, and how cases are read from `corpus/`. The `README.md` of
//! each folder there explains the keys.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::wire::Wire;

/// One behaviour: a name, and the steps that show it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case<S> {
    /// Unique within its file. Tests select cases by parts of the name.
    pub name: String,
    /// Tags that a test needs before it plays the case, such as `memory` or `alone`.
    #[serde(default)]
    pub tags: Vec<String>,
    /// The reason for the behaviour.
    #[serde(default)]
    pub note: String,
    /// The port of connections whose steps name none.
    #[serde(default)]
    pub port: Option<String>,
    /// The steps, in order.
    pub steps: Vec<S>,
}

impl<S> Case<S> {
    /// Whether the case has this tag.
    pub fn has_tag(&self, tag: &str) -> bool {
        self.tags.iter().any(|own| own == tag)
    }
}

/// A case that can be played over a wire.
pub trait Playable: Sync {
    /// The name in reports. `LINESHAFT_CASE` selects by parts of it.
    fn name(&self) -> String;

    /// Whether no other case may run on the same server at the same time.
    fn plays_alone(&self) -> bool;

    /// Plays the case on new connections, and closes them. `tag` keeps the names of its queues
    /// apart from those of other cases on the same server. It has letters, digits and dashes, at
    /// most 50.
    fn play(&self, wire: &mut dyn Wire, tag: &str) -> Result<()>;
}

/// The folder of a protocol's cases.
pub(crate) fn corpus_folder(protocol: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus").join(protocol)
}

/// Reads cases, one on each line, from `corpus/<protocol>/<file>`. Each name must be unique.
pub(crate) fn read_cases<S: DeserializeOwned>(protocol: &str, file: &str) -> Result<Vec<Case<S>>> {
    let path = corpus_folder(protocol).join(file);
    let text =
        std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let mut cases: Vec<Case<S>> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let place = || format!("{}:{}", path.display(), index + 1);
        let case: Case<S> = serde_json::from_str(line).with_context(place)?;
        if cases.iter().any(|other| other.name == case.name) {
            bail!("{}: the name {} is taken", place(), case.name);
        }
        cases.push(case);
    }
    Ok(cases)
}
