//! The JSON of the entries that put jobs by schedules.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The entries that put jobs by schedules.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Crons {
    /// All entries, in the order of the configuration.
    pub items: Vec<Cron>,
}

/// An entry that puts jobs by a schedule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Cron {
    /// The name of the entry.
    pub name: String,
    /// The queue or alias that gets the jobs.
    pub queue: String,
    /// The cron expression.
    pub spec: String,
    /// The time zone of the expression.
    pub tz: String,
    /// What happens while an earlier job is unfinished: `skip`, `queue` or `replace`.
    pub overlap: String,
    /// What happens to missed instants: `none`, `one` or `all`.
    pub catch_up: String,
    /// Each job comes up to this many milliseconds later than its instant.
    pub jitter_ms: u64,
    /// The length of the body of each job, in bytes.
    pub body_bytes: u64,
    /// The line in the configuration file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// When the next job comes. `null`: never.
    pub next_at: Option<String>,
    /// The instant of the last job. `null`: there was none. This is also known after a restart.
    pub last_at: Option<String>,
    /// The last job. It may have ended.
    pub last_job: Option<u64>,
    /// Jobs that were put.
    pub fired: u64,
    /// Instants that were skipped because an earlier job was unfinished.
    pub overlaps: u64,
    /// Missed instants that were skipped.
    pub missed: u64,
    /// Jobs that the queue refused.
    pub refused: u64,
}
