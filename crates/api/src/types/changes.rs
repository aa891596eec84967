//! The JSON of requests that change something, and of their responses.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Job, Status};

/// A new job. It has one of `body` and `body_base64`, or no body.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PutJob {
    /// The body, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// The body, if it is not text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_base64: Option<String>,
    /// 0 is the most urgent. By default as the queue's policy says, or 1024.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u32>,
    /// Seconds until the job becomes ready. By default as the queue's policy says, or 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_s: Option<u32>,
    /// Seconds that a worker has for the job. 0 for no limit. By default as the queue's policy says,
    /// or 60.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttr_s: Option<u32>,
}

/// A job that was put.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Put {
    /// The number of the job.
    pub id: u64,
    /// The name of its queue.
    pub queue: String,
}

/// A job that was put as a line of several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PutLine {
    /// The number of the job.
    pub id: u64,
}

/// The queue that a job moves to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MoveJob {
    /// The name of the queue.
    pub to: String,
}

/// Which job a worker wants.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Take {
    /// The names of the queues: 1 to 64.
    pub queues: Vec<String>,
    /// Seconds to wait for a job: at most 60. By default 0.
    #[serde(default)]
    pub wait_s: u32,
    /// Seconds that the worker has for the job: at most 86,400. The ttr of the job applies, too. By
    /// default, a job without a ttr gets 60.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<u32>,
}

/// A job that a worker has now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Taken {
    /// The secret name of the lease, for the requests that end it.
    pub lease: String,
    /// The time until the job goes back to its queue.
    pub time_left_ms: u64,
    /// The job.
    pub job: Job,
    /// The body, if it is text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// The body, if it is not text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_base64: Option<String>,
}

/// How a job goes back to its queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GiveBack {
    /// The new priority. By default the old one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u32>,
    /// Seconds until the job becomes ready. By default 0.
    #[serde(default)]
    pub delay_s: u32,
}

/// How a job is buried.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Bury {
    /// The new priority. By default the old one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u32>,
}

/// A lease that goes on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Touched {
    /// The time until the job goes back to its queue.
    pub time_left_ms: u64,
}

/// How long a queue is paused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Pause {
    /// Seconds from now.
    pub seconds: u32,
}

/// A queue that is paused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Paused {
    /// Seconds from now.
    pub seconds: u32,
    /// Whether the pause goes on after a restart of the server. The log does not keep pauses.
    pub survives_restart: bool,
}

/// The limits of a queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct QueueLimits {
    /// The most unfinished jobs of high, normal and low priority. 0 for no limit.
    pub limits: [u32; 3],
}

/// What clients are allowed to do from now on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetStatus {
    /// The new status.
    pub status: Status,
}

/// A reload of the configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Reloaded {
    /// The keys whose values have changed.
    pub changed: Vec<String>,
}
