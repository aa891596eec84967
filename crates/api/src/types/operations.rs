//! The JSON of operations: changes of many jobs.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::JobState;
use crate::problem::Problem;

/// An operation to start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StartOperation {
    /// What to do.
    pub kind: OperationKind,
    /// The name of the queue.
    pub queue: String,
    /// The state of the jobs. A kick needs `buried` (the default) or `delayed`. A clear without a
    /// state ends the ready, delayed and buried jobs. Leased jobs always stay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<JobState>,
    /// At most this many jobs. By default as many as there are at the beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// At most about this many jobs in a second. By default as fast as the log allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_per_s: Option<u32>,
    /// A clear needs the name of the queue again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirm: Option<String>,
}

/// What an operation does.
#[derive(Copy, Clone, Debug, Eq, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OperationKind {
    /// It makes buried or delayed jobs ready.
    Kick,
    /// It ends jobs.
    Clear,
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
    /// The state of the jobs. `null` for ready, delayed and buried jobs.
    pub state: Option<JobState>,
    /// How far it is.
    pub status: OperationStatus,
    /// The jobs that were changed. These changes are durable.
    pub done: u64,
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
