//! The JSON of dead letters.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Why a job is a dead letter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DeadLetter {
    /// When its last attempt failed, or it expired, or a queue had no room for it, or an operator set it aside.
    pub died_at: String,
    /// When the server ends the job. `null` if it stays.
    pub ends_at: Option<String>,
    /// Why it is a dead letter.
    pub cause: DeathCause,
    /// Times that it has failed.
    pub attempts: u32,
    /// The name of the queue that it came from. `null` if it is buried in its own queue.
    pub origin: Option<String>,
    /// The address of the last worker. `null` if it is unknown.
    pub worker: Option<String>,
    /// The beginning of the error that the worker reported, as text. Empty if it reported none. `null` if the
    /// client may not see bodies, or if values in them are masked and this error cannot be read.
    pub error: Option<String>,
}

/// How the last attempt at a dead letter failed, or why it is one without a failure.
#[derive(Copy, Clone, Debug, Eq, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeathCause {
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
    /// It expired, and the policy `dead.expired` set it aside.
    Expired,
    /// A queue had no room for it, and the policy `dead.dropped` set it aside.
    Dropped,
    /// An operator set it aside by hand.
    Operator,
}

/// Which dead letters a redrive brings back: those that fit all of these.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DeadFilter {
    /// They died for this reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<DeathCause>,
    /// They come from the queue with this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// A key of theirs is this text of at most 64 KiB: their unique key, or the key that the limits of their
    /// queue count for. The policy of the queue that they came from says what their keys are. Only a client
    /// that sees bodies can ask for this, and a `json:` key of a value that the server masks is not found. A
    /// `regex:` key is found, also if its match is such a value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Their error contains this text. Only a client that sees bodies can ask for this, and values that the server
    /// masks are not found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// They died at least this many seconds ago.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub older_than_s: Option<u64>,
    /// They died at most this many seconds ago.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub younger_than_s: Option<u64>,
}
