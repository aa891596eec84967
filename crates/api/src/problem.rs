//! Errors as JSON, in the form of RFC 9457.

use axum::response::{IntoResponse, Response};
use broker::PutRefusal;
use http_api::{DoorError, answer, complete};
use hyper::StatusCode;
use hyper::header::{HeaderValue, WWW_AUTHENTICATE};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::types::Role;

/// The content type of a problem.
pub(crate) const PROBLEM: &str = "application/problem+json";

/// The kinds of problems. A kind never changes its meaning, so programs can rely on it.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum ProblemKind {
    /// A parameter has an invalid value.
    BadRequest,
    /// The endpoint does not have this parameter.
    UnknownParameter,
    /// The cursor does not belong to this list.
    BadCursor,
    /// The text is not the name of a queue.
    BadName,
    /// The client must send credentials.
    Unauthenticated,
    /// The client is not allowed to do this.
    Forbidden,
    /// The thing does not exist.
    NotFound,
    /// The endpoint does not have this method.
    MethodNotAllowed,
    /// The job has ended, and the history has it.
    JobEnded,
    /// A worker has the job.
    JobLeased,
    /// The job does not have the state that the request needs.
    WrongState,
    /// The request would end many jobs, and does not confirm it.
    ConfirmationNeeded,
    /// The first request with this key is not done.
    IdempotencyBusy,
    /// The configuration has a mistake, or the change needs a restart.
    BadConfiguration,
    /// The job or the queue has changed since the client read it.
    PreconditionFailed,
    /// The body of the request, or of the job, is too long.
    TooLong,
    /// Another request had the same key.
    IdempotencyMismatch,
    /// Another job has the same key, and the policy of the queue allows one.
    Duplicate,
    /// The queue has as many jobs as its policy allows.
    QueueFull,
    /// Somebody signs in, or makes codes for it, too often.
    TooManySignIns,
    /// The log has failed, and the server is about to end.
    LogFailed,
    /// The log cannot give the job, or not in time.
    Unreadable,
    /// The leader of the cluster got the request, and ended before it answered.
    UnknownOutcome,
    /// The server accepts no new jobs.
    Draining,
    /// The status of the server refuses writes.
    WritesBlocked,
    /// There are too many leases.
    TooManyLeases,
    /// Too many operations run.
    TooManyOperations,
    /// The server cannot do this now.
    Unavailable,
    /// The limit of memory is reached.
    MemoryFull,
    /// The limit of jobs is reached.
    JobsFull,
    /// The limit of queues is reached.
    NoNewQueue,
    /// The log has no room.
    LogFull,
}

impl ProblemKind {
    /// All kinds, by their status.
    pub const ALL: [ProblemKind; 32] = [
        ProblemKind::BadRequest,
        ProblemKind::UnknownParameter,
        ProblemKind::BadCursor,
        ProblemKind::BadName,
        ProblemKind::Unauthenticated,
        ProblemKind::Forbidden,
        ProblemKind::NotFound,
        ProblemKind::MethodNotAllowed,
        ProblemKind::JobLeased,
        ProblemKind::WrongState,
        ProblemKind::ConfirmationNeeded,
        ProblemKind::IdempotencyBusy,
        ProblemKind::BadConfiguration,
        ProblemKind::Duplicate,
        ProblemKind::JobEnded,
        ProblemKind::PreconditionFailed,
        ProblemKind::TooLong,
        ProblemKind::IdempotencyMismatch,
        ProblemKind::QueueFull,
        ProblemKind::TooManySignIns,
        ProblemKind::LogFailed,
        ProblemKind::Unreadable,
        ProblemKind::UnknownOutcome,
        ProblemKind::Draining,
        ProblemKind::WritesBlocked,
        ProblemKind::TooManyLeases,
        ProblemKind::TooManyOperations,
        ProblemKind::Unavailable,
        ProblemKind::MemoryFull,
        ProblemKind::JobsFull,
        ProblemKind::NoNewQueue,
        ProblemKind::LogFull,
    ];

    /// The name, the title and the status of the kind.
    fn row(self) -> (&'static str, &'static str, u16) {
        match self {
            ProblemKind::BadRequest => ("bad-request", "invalid parameter", 400),
            ProblemKind::UnknownParameter => ("unknown-parameter", "unknown parameter", 400),
            ProblemKind::BadCursor => ("bad-cursor", "invalid cursor", 400),
            ProblemKind::BadName => ("bad-name", "invalid queue name", 400),
            ProblemKind::Unauthenticated => ("unauthenticated", "credentials needed", 401),
            ProblemKind::Forbidden => ("forbidden", "not allowed", 403),
            ProblemKind::NotFound => ("not-found", "not found", 404),
            ProblemKind::MethodNotAllowed => ("method-not-allowed", "method not allowed", 405),
            ProblemKind::JobLeased => ("job-leased", "a worker has the job", 409),
            ProblemKind::WrongState => ("wrong-state", "wrong state", 409),
            ProblemKind::ConfirmationNeeded => ("confirmation-needed", "confirmation needed", 409),
            ProblemKind::IdempotencyBusy => {
                ("idempotency-busy", "the first request is not done", 409)
            }
            ProblemKind::BadConfiguration => {
                ("bad-configuration", "configuration not reloaded", 409)
            }
            ProblemKind::Duplicate => ("duplicate", "duplicate job", 409),
            ProblemKind::JobEnded => ("job-ended", "the job has ended", 410),
            ProblemKind::PreconditionFailed => {
                ("precondition-failed", "the job or the queue has changed", 412)
            }
            ProblemKind::TooLong => ("too-long", "too long", 413),
            ProblemKind::IdempotencyMismatch => {
                ("idempotency-mismatch", "the key belongs to another request", 422)
            }
            ProblemKind::QueueFull => ("queue-full", "the queue is full", 429),
            ProblemKind::TooManySignIns => ("too-many-sign-ins", "too many sign-ins", 429),
            ProblemKind::LogFailed => ("log-failed", "the log failed", 500),
            ProblemKind::Unreadable => ("unreadable", "cannot read the job", 502),
            ProblemKind::UnknownOutcome => ("unknown-outcome", "perhaps it was done", 502),
            ProblemKind::Draining => ("draining", "the server drains", 503),
            ProblemKind::WritesBlocked => ("writes-blocked", "writes are refused", 503),
            ProblemKind::TooManyLeases => ("too-many-leases", "too many leases", 503),
            ProblemKind::TooManyOperations => ("too-many-operations", "too many operations", 503),
            ProblemKind::Unavailable => ("unavailable", "not available now", 503),
            ProblemKind::MemoryFull => ("memory-full", "no memory", 507),
            ProblemKind::JobsFull => ("too-many-jobs", "too many jobs", 507),
            ProblemKind::NoNewQueue => ("no-new-queue", "too many queues", 507),
            ProblemKind::LogFull => ("log-full", "no room in the log", 507),
        }
    }

    /// The name of the kind, in the member `type`.
    pub fn name(self) -> &'static str {
        self.row().0
    }

    fn title(self) -> &'static str {
        self.row().1
    }

    /// The status of the response.
    pub fn status(self) -> StatusCode {
        // The table has only valid statuses.
        StatusCode::from_u16(self.row().2).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }
}

/// Why a request failed, and what to do.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// The kind of the problem, as a relative reference that ends with `#` and the kind's name.
    #[serde(rename = "type")]
    pub kind: String,
    /// The kind in words.
    pub title: String,
    /// The status of the response.
    pub status: u16,
    /// What happened, and what to do.
    pub detail: String,
    /// The path of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// The name of the invalid parameter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameter: Option<String>,
    /// The parameter that the client may have meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The role that the request needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs: Option<Role>,
}

impl Problem {
    /// A problem of this kind.
    pub fn new(kind: ProblemKind, detail: impl Into<String>) -> Problem {
        Problem {
            kind: format!("/console/help#{}", kind.name()),
            title: kind.title().to_owned(),
            status: kind.status().as_u16(),
            detail: detail.into(),
            instance: None,
            parameter: None,
            hint: None,
            needs: None,
        }
    }

    /// The same problem, with the name of the invalid parameter.
    #[must_use]
    pub fn of_parameter(self, name: &str) -> Problem {
        Problem { parameter: Some(name.to_owned()), ..self }
    }

    /// The response. `path` is the path of the request.
    pub fn at(mut self, path: &str) -> Response {
        self.instance = Some(path.to_owned());
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = complete(answer(status, PROBLEM, as_json(&self)));
        if status == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer realm=\"lineshaft\"");
            response.headers_mut().insert(WWW_AUTHENTICATE, scheme);
        }
        response
    }

    /// Whether the problem is of this kind.
    pub fn is(&self, kind: ProblemKind) -> bool {
        self.kind_name() == kind.name()
    }

    /// The name of the kind.
    pub(crate) fn kind_name(&self) -> &str {
        self.kind.rsplit_once('#').map_or(&self.kind, |(_, name)| name)
    }
}

impl From<DoorError> for Problem {
    fn from(error: DoorError) -> Problem {
        match error {
            DoorError::Unreadable => {
                let why = "the log cannot give the job; see /api/v1/log";
                Problem::new(ProblemKind::Unreadable, why)
            }
            DoorError::LogFailed(_) => {
                let why = "the log failed, and the server is about to end; the change may be lost";
                Problem::new(ProblemKind::LogFailed, why)
            }
        }
    }
}

impl From<PutRefusal> for Problem {
    fn from(refusal: PutRefusal) -> Problem {
        let (kind, cure) = match refusal {
            PutRefusal::QueueFull => (ProblemKind::QueueFull, "try again when it has fewer jobs"),
            PutRefusal::TooBig => (ProblemKind::TooLong, "see `limits.item_bytes` in its policy"),
            PutRefusal::Duplicate => (ProblemKind::Duplicate, "see `unique` in its policy"),
            PutRefusal::LogFull => (ProblemKind::LogFull, "finish jobs, or free disk space"),
            PutRefusal::MemoryFull => (ProblemKind::MemoryFull, "finish jobs to make room"),
            PutRefusal::JobsFull => (ProblemKind::JobsFull, "finish jobs, or see `limits.jobs`"),
            PutRefusal::NoNewQueue => {
                (ProblemKind::NoNewQueue, "see `limits.queues` and `limits.memory`")
            }
            PutRefusal::WritesBlocked => {
                (ProblemKind::WritesBlocked, "an admin can set the status to `up`")
            }
            PutRefusal::Draining => (ProblemKind::Draining, "an admin can end the drain"),
        };
        Problem::new(kind, format!("{refusal}; {cure}"))
    }
}

impl IntoResponse for Problem {
    /// Leaves the problem in the extensions of the response. `access::guard` knows the path of the
    /// request, and makes the body.
    fn into_response(self) -> Response {
        let mut response = Response::default();
        response.extensions_mut().insert(self);
        response
    }
}

/// A value as JSON text.
pub(crate) fn as_json(value: &impl Serialize) -> Vec<u8> {
    // The types of this crate have no maps, and their serialization does not fail.
    serde_json::to_vec(value).unwrap_or_default()
}
