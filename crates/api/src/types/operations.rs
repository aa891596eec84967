//! The JSON of operations: changes of many jobs.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{DeadFilter, JobState};
use crate::problem::Problem;

/// An operation to start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StartOperation {
    /// What to do.
    pub kind: OperationKind,
    /// The name of the queue.
    pub queue: String,
    /// The queue that jobs move to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// The state of the jobs. A kick needs `buried` (the default) or `delayed`. A clear or a move
    /// without a state changes the ready, delayed and buried jobs. A redrive and a removal have no
    /// state. Leased jobs always stay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<JobState>,
    /// At most this many jobs. By default as many as there are at the beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// Only the jobs with these numbers: at most 10,000. The operation skips jobs that have changed
    /// meanwhile: jobs that have ended, that a worker has, or that have another queue or state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ids: Option<Vec<u64>>,
    /// At most about this many jobs in a second; 0: as fast as the log allows. By default 100 for a
    /// redrive, and 0 for other kinds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_per_s: Option<u32>,
    /// Only these dead letters. Only a redrive can have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only: Option<DeadFilter>,
    /// Change nothing: `done` is then the number of jobs that it would change. Only a redrive can be
    /// a dry run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// A removal needs the name of the queue again, and so does a clear without `ids`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirm: Option<String>,
}

/// What an operation does.
#[derive(Copy, Clone, Debug, Eq, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OperationKind {
    /// It makes buried or delayed jobs ready.
    Kick,
    /// It brings the dead letters of a queue back to the queues that they came from. If the queue has
    /// none, it makes its buried jobs ready. It goes on when the server starts again.
    Redrive,
    /// It ends jobs.
    Clear,
    /// It moves jobs to another queue, as if clients put them there now. A delayed job keeps its due
    /// time, and a buried job becomes ready.
    Move,
    /// It ends all jobs of a queue, even those that workers have, and removes the queue. If clients
    /// use or watch the queue, it stays, without jobs.
    Remove,
}

impl OperationKind {
    /// The name of the kind.
    pub fn name(self) -> &'static str {
        match self {
            OperationKind::Kick => "kick",
            OperationKind::Redrive => "redrive",
            OperationKind::Clear => "clear",
            OperationKind::Move => "move",
            OperationKind::Remove => "remove",
        }
    }
}

impl StartOperation {
    /// An operation on all jobs of a queue.
    pub fn new(kind: OperationKind, queue: impl Into<String>) -> StartOperation {
        StartOperation {
            kind,
            queue: queue.into(),
            to: None,
            state: None,
            count: None,
            ids: None,
            rate_per_s: None,
            only: None,
            dry_run: false,
            confirm: None,
        }
    }
}

/// All operations that the server remembers, newest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Operations {
    /// The operations.
    pub items: Vec<Operation>,
}

/// A change of many jobs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Operation {
    /// The number of the operation.
    pub id: u64,
    /// What it does.
    pub kind: OperationKind,
    /// The name of the queue.
    pub queue: String,
    /// The queue that jobs move to.
    pub to: Option<String>,
    /// The state of the jobs. `null` for ready, delayed and buried jobs.
    pub state: Option<JobState>,
    /// Whether it changes nothing, and only counts.
    #[serde(default)]
    pub dry_run: bool,
    /// How far it is.
    pub status: OperationStatus,
    /// The jobs that were changed. These changes are durable.
    pub done: u64,
    /// The jobs that were skipped, because they have changed meanwhile, or do not fit the filter.
    pub skipped: u64,
    /// Those of the skipped jobs that cannot come back. In a dry run, those that could not.
    #[serde(default)]
    pub refused: u64,
    /// Why the first of them cannot come back.
    #[serde(default)]
    pub refusal: Option<String>,
    /// The jobs to change.
    pub total: u64,
    /// The jobs that were changed in one second, on average.
    pub per_s: f64,
    /// When it started.
    pub started_at: String,
    /// When it ended.
    pub ended_at: Option<String>,
    /// The name of the client that started it.
    pub who: String,
    /// Why it failed.
    pub problem: Option<Problem>,
}

/// How far an operation is.
#[derive(Copy, Clone, Debug, Eq, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OperationStatus {
    /// It runs.
    Running,
    /// It has changed all jobs.
    Done,
    /// A client has cancelled it. The other jobs are unchanged.
    Cancelled,
    /// It stopped at a problem. The other jobs are unchanged.
    Failed,
}

impl OperationStatus {
    /// The name of the status.
    pub fn name(self) -> &'static str {
        match self {
            OperationStatus::Running => "running",
            OperationStatus::Done => "done",
            OperationStatus::Cancelled => "cancelled",
            OperationStatus::Failed => "failed",
        }
    }
}
