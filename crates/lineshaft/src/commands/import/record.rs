//! The record of an import: a fact of the log that says which source was imported, and how many of
//! its jobs.

use anyhow::{Context as _, Result};
use broker::offline::Numbers;
use serde::{Deserialize, Serialize};

use super::source::Source;
use super::wall;
use crate::text::{counted, seconds};

/// The record of one import. Later versions of this program must read it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Record {
    /// The kind of the source.
    kind: String,
    /// The path of the source. Empty for standard input.
    place: String,
    /// How many jobs the source has.
    jobs: u64,
    /// How many of these jobs were imported, or left out on purpose. The import continues with the
    /// next job.
    pub(super) next: u64,
    begun_ms: u64,
    /// When all jobs were imported.
    done_ms: Option<u64>,
    kept_first: u64,
    kept_last: u64,
    by_id: bool,
    buried_from: u64,
    /// Whether the source was imported before this import. Older versions lack it, and their imports
    /// went on as if it was.
    #[serde(default = "yes")]
    again: bool,
}

fn yes() -> bool {
    true
}

/// What the log says about earlier imports of a source.
pub(super) enum Earlier {
    /// No import of the source is in the log.
    None,
    /// The same content was imported.
    Done(Record),
    /// An import of the same content was interrupted.
    Begun(Record),
    /// A source at the same place, but with another content, was imported at least in part.
    Changed(Record),
}

/// Looks for an earlier import of this source.
pub(super) fn look_up(records: &[(Vec<u8>, Vec<u8>)], source: &Source) -> Result<Earlier> {
    let mut changed = None;
    for (name, value) in records {
        let record: Record = serde_json::from_slice(value)
            .context("the folder has the record of an import that a newer version wrote")?;
        if name == source.name.as_bytes() {
            let is_done = record.done_ms.is_some();
            return Ok(if is_done { Earlier::Done(record) } else { Earlier::Begun(record) });
        }
        let is_there = record.kind == source.kind && record.place == source.place;
        if is_there && !source.place.is_empty() {
            changed = Some(record);
        }
    }
    Ok(changed.map_or(Earlier::None, Earlier::Changed))
}

impl Record {
    /// The record of an import that begins.
    pub(super) fn new(source: &Source, numbers: Numbers, begun_ms: u64) -> Record {
        Record {
            kind: source.kind.to_owned(),
            place: source.place.clone(),
            jobs: source.backlog.jobs.len() as u64,
            next: 0,
            begun_ms,
            done_ms: None,
            kept_first: *numbers.kept.start(),
            kept_last: *numbers.kept.end(),
            by_id: numbers.by_id,
            buried_from: numbers.buried_from,
            again: numbers.again,
        }
    }

    /// The record when the first `next` jobs of the source are done.
    pub(super) fn after(&self, next: u64, done_ms: Option<u64>) -> Record {
        Record { next, done_ms, ..self.clone() }
    }

    pub(super) fn numbers(&self) -> Numbers {
        Numbers {
            kept: self.kept_first..=self.kept_last,
            by_id: self.by_id,
            buried_from: self.buried_from,
            again: self.again,
        }
    }

    pub(super) fn encode(&self) -> Result<Vec<u8>> {
        Ok(serde_json::to_vec(self)?)
    }

    fn ago(&self) -> String {
        let since = self.done_ms.unwrap_or(self.begun_ms);
        format!("{} ago", seconds(wall().0.saturating_sub(since) / 1000))
    }

    pub(super) fn done_before(&self, source: &Source) -> String {
        format!(
            "{} was imported {}, with {}: there is nothing to do. To import it once more, add --again.",
            source.shown(),
            self.ago(),
            counted(self.jobs, "job")
        )
    }

    pub(super) fn continues(&self) -> String {
        let (done, all) = (counted(self.next, "job"), self.jobs);
        format!("an import of this source was interrupted after {done} of {all}; it continues now")
    }

    pub(super) fn changed_since(&self, source: &Source) -> String {
        format!(
            "{} was imported {}, with {} of {}, and has changed since: its jobs can be the same \
             ones. To import what is in it now, add --again",
            source.shown(),
            self.ago(),
            counted(self.next, "job"),
            self.jobs
        )
    }
}
