//! The JSON of jobs that have left their queue.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::BodyText;

/// A page of the jobs that have left a queue, newest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PastJobs {
    /// The jobs of this page.
    pub items: Vec<PastJob>,
    /// The parameter `cursor` of the next page. `null`: this is the last page.
    pub next: Option<String>,
    /// Jobs that this page leaves out, because a file cannot be read.
    pub unreadable: u64,
    /// The number of all jobs that the history of the queue has.
    pub total: u64,
    /// The times of all these jobs. `null`: there are none.
    pub times: Option<PastTimes>,
    /// Things that happened to jobs of any queue and that the history lacks: there were too many at
    /// once, or the disk failed.
    pub lost: u64,
}

/// A job that has left its queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PastJob {
    /// The number of the job.
    pub id: u64,
    /// The queue that it left.
    pub queue: String,
    /// How it left.
    pub outcome: Outcome,
    /// The queue that it moved to. `null`: it ended.
    pub to: Option<String>,
    /// When it was put.
    pub created_at: String,
    /// When it left.
    pub left_at: String,
    /// The time from its put until it left.
    pub total_ms: u64,
    /// How long it was ready before the attempts that are known. `null`: no attempt is known.
    pub waited_ms: Option<u64>,
    /// How long workers had it, in the attempts that are known. `null`: no attempt is known.
    pub ran_ms: Option<u64>,
    /// 0 is the most urgent.
    pub priority: u32,
    /// The time that a worker has for the job. 0 for no limit.
    pub ttr_s: u32,
    /// How often it was taken, also in queues that it had left before.
    pub takes: u32,
    /// The last attempts, at most 20, the first one first.
    pub attempts: Vec<PastAttempt>,
    /// The length of the body.
    pub body_bytes: u64,
    /// The number of bytes of the body that the history has.
    pub kept_bytes: u64,
    /// Whether the history has the whole body, so that a copy of the job can be put.
    pub can_run_again: bool,
    /// The beginning of the kept part of the body, if the list has bodies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<BodyText>,
}

/// An attempt: a worker took the job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PastAttempt {
    /// When the worker took it.
    pub taken_at: String,
    /// How long the job was ready before.
    pub waited_ms: u64,
    /// How long the worker had it.
    pub ran_ms: u64,
    /// How the attempt ended.
    pub outcome: AttemptOutcome,
    /// The address of the worker. `null`: it is unknown.
    pub worker: Option<String>,
    /// What the worker said about a failure, as text. Empty: nothing. `null`: `http.bodies` or
    /// `http.mask` hides it.
    pub error: Option<String>,
}

/// How a job left its queue.
#[derive(Copy, Clone, Debug, Eq, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Its worker finished it.
    Done,
    /// Its worker reported a failure, or too many workers were lost.
    Failed,
    /// It failed too often, or an operator set it aside: it ended, or moved to the queue of dead letters.
    Dead,
    /// A client ended it, although no worker had finished it.
    Deleted,
    /// Nobody took it in time, and it ended or moved to another queue. Or its time as a dead letter was over.
    Expired,
    /// A queue had no room for it, and it ended or moved to another queue.
    Dropped,
    /// Its queue was flushed or removed.
    Flushed,
    /// All clients that waited for it left.
    Abandoned,
    /// A newer job of its schedule replaced it.
    Replaced,
    /// An operator moved it to another queue, or brought it back.
    Moved,
}

/// How an attempt ended.
#[derive(Copy, Clone, Debug, Eq, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AttemptOutcome {
    /// With the job: see the outcome of the job.
    Left,
    /// The worker buried the job.
    Buried,
    /// The time for the job ended.
    TimedOut,
    /// A Kestrel client gave the item back.
    Aborted,
    /// The worker disconnected, or could no longer do the job.
    WorkerLeft,
    /// The worker released the job.
    Released,
    /// The worker reported a failure.
    Reported,
}

/// How long jobs waited, were with workers, and existed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PastTimes {
    /// How long those that were taken were ready before. `null`: none was taken.
    pub waited: Option<Quantiles>,
    /// How long workers had those that were taken. `null`: none was taken.
    pub ran: Option<Quantiles>,
    /// The time from the put until they left.
    pub total: Quantiles,
}

/// The outcome of a Gearman job that has ended, while the policy `result.keep` keeps it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobResult {
    /// The number of the job.
    pub id: u64,
    /// How it ended.
    pub outcome: ResultOutcome,
    /// The last progress: the part that was done.
    pub numerator: u32,
    /// The last progress: the whole work.
    pub denominator: u32,
    /// When the server forgets this.
    pub ends_at: String,
    /// The result, or the text of the exception, if it is text.
    pub result: Option<String>,
    /// The same in base64, if it is not text.
    pub result_base64: Option<String>,
}

/// How a Gearman job ended.
#[derive(Copy, Clone, Debug, Eq, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ResultOutcome {
    /// With a result.
    Complete,
    /// It failed.
    Fail,
    /// It failed with an exception.
    Exception,
}

/// How values are spread. Exact to a factor of two, except the mean.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Quantiles {
    /// The mean of all values.
    pub mean_ms: f64,
    /// Half of the values are at most this.
    pub p50_ms: f64,
    /// 95 % of the values are at most this.
    pub p95_ms: f64,
    /// 99 % of the values are at most this.
    pub p99_ms: f64,
}
