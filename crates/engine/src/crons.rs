//! Entries that put a job again and again, as their schedules say. They come from the configuration.
//!
//! An *instant* is a time of the wall clock at which a schedule lets something happen. At each
//! instant, an entry *fires*: it puts a job. Or it *skips* the instant. It does one of both exactly
//! once for each instant, over restarts and takeovers, because the log has the last instant of each
//! entry: see `engine/crons.rs`.

mod codec;
mod running;

pub(crate) use running::Crons;

use std::collections::BTreeSet;

use crate::ids::{JobId, Millis};
use crate::jobs::Body;
use crate::limits::QUEUE_NAME_BYTES_MAX;
use crate::policy::Name;
use crate::schedule::{Cron, Zone};

/// Maximum number of entries.
pub const CRONS_MAX: usize = 256;
/// Maximum size of all entries in bytes, with their bodies. The log stores them as one fact, and a
/// fact must fit into one segment.
pub const CRONS_BYTES_MAX: usize = 64 << 10;
/// Longest name of an entry, in bytes.
pub const CRON_NAME_BYTES_MAX: usize = 200;
/// Longest jitter: an hour.
pub const JITTER_MS_MAX: u64 = 3_600_000;
/// An instant is missed if its job would be later than this. So a short restart misses nothing.
pub const LATE_MS_MAX: u64 = 60_000;
/// With [`CatchUp::All`], jobs of the instants of the last day are put. So at most 1441 jobs of an
/// entry come at once.
pub const CATCH_UP_MS_MAX: u64 = 24 * 3_600_000;
/// The engine does not count missed instants that are longer ago than this: a year.
pub(crate) const COUNTED_MS_MAX: u64 = 366 * 24 * 3_600_000;

/// An entry: what it puts, and when.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CronEntry {
    /// The name of the entry. Each entry has another one.
    pub name: Name,
    /// The queue or alias that gets the jobs.
    pub queue: Name,
    /// When it fires.
    pub cron: Cron,
    /// The time zone of `cron`.
    pub zone: Zone,
    /// The body of each job.
    pub body: Body,
    /// What happens while the job of an earlier firing is unfinished.
    pub overlap: Overlap,
    /// What happens to missed instants.
    pub catch_up: CatchUp,
    /// Each job comes up to this much later than its instant. Name and instant decide how much.
    pub jitter_ms: u64,
    /// The line in the file where the entry begins, counted from 1. 0: it does not come from a file.
    pub line: u32,
}

/// What an entry does while the job of its last firing is ready, delayed or leased. A buried job and
/// a dead letter do not count.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub enum Overlap {
    /// It skips the instant.
    #[default]
    Skip,
    /// It puts the job all the same.
    Queue,
    /// It puts the job, and ends the earlier job if no worker has it.
    Replace,
}

impl Overlap {
    /// All rules.
    pub const ALL: [Overlap; 3] = [Overlap::Skip, Overlap::Queue, Overlap::Replace];

    /// The word for the rule.
    pub fn as_str(self) -> &'static str {
        match self {
            Overlap::Skip => "skip",
            Overlap::Queue => "queue",
            Overlap::Replace => "replace",
        }
    }
}

/// What an entry does with instants that are missed, because no server ran.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub enum CatchUp {
    /// It skips them.
    None,
    /// It fires once for all of them: for the last one.
    #[default]
    One,
    /// It fires for each instant of the last [`CATCH_UP_MS_MAX`].
    All,
}

impl CatchUp {
    /// All rules.
    pub const ALL: [CatchUp; 3] = [CatchUp::None, CatchUp::One, CatchUp::All];

    /// The word for the rule.
    pub fn as_str(self) -> &'static str {
        match self {
            CatchUp::None => "none",
            CatchUp::One => "one",
            CatchUp::All => "all",
        }
    }
}

/// All entries, in the order of the file.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct CronTable(pub Vec<CronEntry>);

/// An error in an entry, with its line in the file.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum CronTableError {
    /// The name is empty or too long.
    #[error("name: the name of an entry has 1 to {CRON_NAME_BYTES_MAX} bytes")]
    Name {
        /// The line of the entry.
        line: u32,
    },
    /// Another entry has this name.
    #[error("name: there are two entries with the name `{name}`")]
    SameName {
        /// The line of the second entry.
        line: u32,
        /// The name.
        name: String,
    },
    /// A queue cannot have this name.
    #[error("queue: a queue name has 1 to {QUEUE_NAME_BYTES_MAX} bytes")]
    Queue {
        /// The line of the entry.
        line: u32,
    },
    /// There are too many entries.
    #[error("there can be at most {CRONS_MAX} entries")]
    TooMany {
        /// The line of the first entry that is too many.
        line: u32,
    },
    /// The entries are too large.
    #[error("all entries together are larger than 64KiB, with their bodies")]
    TooLarge,
}

impl CronTableError {
    /// The line of the error in the file, counted from 1. 0: the error has no line.
    pub fn line(&self) -> u32 {
        match self {
            Self::Name { line }
            | Self::SameName { line, .. }
            | Self::Queue { line }
            | Self::TooMany { line } => *line,
            Self::TooLarge => 0,
        }
    }
}

impl CronTable {
    /// Returns the first error.
    pub fn check(&self) -> Result<(), CronTableError> {
        if let Some(CronEntry { line, .. }) = self.0.get(CRONS_MAX) {
            return Err(CronTableError::TooMany { line: *line });
        }
        let mut names = BTreeSet::new();
        for CronEntry { name, queue, line, .. } in &self.0 {
            let line = *line;
            if !(1..=CRON_NAME_BYTES_MAX).contains(&name.len()) {
                return Err(CronTableError::Name { line });
            }
            if !names.insert(name) {
                let name = String::from_utf8_lossy(name).into_owned();
                return Err(CronTableError::SameName { line, name });
            }
            if !(1..=QUEUE_NAME_BYTES_MAX).contains(&queue.len()) {
                return Err(CronTableError::Queue { line });
            }
        }
        if self.encode().len() > CRONS_BYTES_MAX {
            return Err(CronTableError::TooLarge);
        }
        Ok(())
    }
}

/// What the log has of an entry. Times are of the wall clock.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub struct CronState {
    /// The entry has fired or skipped all instants up to this one.
    pub last: Millis,
    /// The instant of the last firing.
    pub fired: Option<Millis>,
    /// The job of the last firing.
    pub job: Option<JobId>,
}

/// The firing that made a job. The log stores it with the job, because a crash can separate the
/// entry of the job and the later entry of the [`CronState`].
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct Fired {
    /// A hash of the name of the entry.
    pub entry: u64,
    /// The instant.
    pub at: Millis,
}

/// What an entry has done since the process started.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub struct CronCounts {
    /// Firings whose jobs were put.
    pub fired: u64,
    /// Instants that were skipped because the job of an earlier firing was unfinished.
    pub overlaps: u64,
    /// Missed instants that were skipped.
    pub missed: u64,
    /// Firings whose jobs the queue refused.
    pub refused: u64,
}

/// An entry and what it does.
#[derive(Copy, Clone, Debug)]
pub struct CronView<'a> {
    /// The entry.
    pub entry: &'a CronEntry,
    /// What the log has of it.
    pub state: CronState,
    /// When the next job comes, by the wall clock, with the jitter. `None`: never.
    pub next: Option<Millis>,
    /// What it has done.
    pub counts: CronCounts,
}

#[cfg(test)]
mod tests;
