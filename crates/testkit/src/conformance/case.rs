//! A conformance case of any protocol. Reads cases from `corpus/`, where the `README.md` of each
//! folder explains the keys.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::wire::Wire;

/// One behaviour: a name, and the steps that show it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case<S> {
    /// The name, unique within the file. Tests select cases by parts of the name.
    pub name: String,
    /// Conditions for this case, such as `memory` or `alone`. Each test decides which tags it can
    /// play.
    #[serde(default)]
    pub tags: Vec<String>,
    /// The reason for the behaviour.
    #[serde(default)]
    pub note: String,
    /// The port for steps that name no port.
    #[serde(default)]
    pub port: Option<String>,
    /// The steps, in order.
    pub steps: Vec<S>,
}

impl<S> Case<S> {
    /// True if the case has this tag.
    pub fn has_tag(&self, tag: &str) -> bool {
        self.tags.iter().any(|own| own == tag)
    }
}

/// A case that can be played over a wire.
pub trait Playable: Sync {
    /// The name of the case in reports. `LINESHAFT_CASE` selects cases by a part of this name.
    fn name(&self) -> String;

    /// True if no other case may run on the same server at the same time.
    fn plays_alone(&self) -> bool;

    /// Plays the case on new connections, and then closes them. `tag` is for the names of its
    /// queues, so that other cases on the same server use other queues. The tag has at most 50
    /// letters, digits and dashes.
    fn play(&self, wire: &mut dyn Wire, tag: &str) -> Result<()>;
}

/// The folder with the cases of a protocol.
pub(crate) fn corpus_folder(protocol: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus").join(protocol)
}

/// Reads the cases of `corpus/<protocol>/<file>`, one per line. Each name must be unique.
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
