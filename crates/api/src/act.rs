//! Requests that change something. A response means that the change is as durable as the policy of
//! its queue says.
//!
//! - `put`: new jobs. `once`: requests that are sent again, with the same `Idempotency-Key`.
//! - `leases`: workers that take jobs over HTTP. `operations`: changes of many jobs.
//! - `backup`: the log as a stream. `job`, `queue`, `server`, `sessions`: changes of a job, a queue,
//!   the server, and the sessions of people.

pub(crate) mod backup;
pub(crate) mod job;
pub(crate) mod leases;
pub(crate) mod once;
pub(crate) mod operations;
pub(crate) mod put;
pub(crate) mod queue;
pub(crate) mod server;
pub(crate) mod sessions;

use axum::body::Body;
use axum::response::Response;
use broker::{Answer, PutRefusal, Refusal};
use http_api::{ReceiveError, Received, Sender, Unread, answer, complete, read_body, read_parts};
use hyper::StatusCode;
use hyper::body::Bytes;
use hyper::http::Extensions;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::problem::{Problem, ProblemKind, as_json};
use crate::state::Api;

/// The longest JSON of a request other than a put, in bytes.
const JSON_BYTES_MAX: usize = 64 << 10;

impl Api {
    /// Waits until a change is durable.
    pub(crate) async fn settled<T>(&self, answer: Answer<T>) -> Result<T, Problem> {
        Ok(self.setup.door.settled(answer).await?)
    }
}

/// Reads the body of a request. The guard has let only clients with a role pass. `has_room`: see
/// [`read_body`].
async fn receive(
    body: Body,
    extensions: &Extensions,
    bytes_max: usize,
    has_room: impl FnMut(usize) -> bool,
) -> Result<Received, Problem> {
    let unread = extensions.get::<Unread>().cloned().unwrap_or_else(Unread::without_broker);
    read_body(body, bytes_max, Sender::Client, &unread, has_room).await.map_err(not_received)
}

/// Reads the body of a request part by part, and keeps nothing.
async fn receive_parts(
    body: Body,
    bytes_max: usize,
    mut take: impl FnMut(Bytes),
) -> Result<(), Problem> {
    let take = |part| {
        take(part);
        Ok(())
    };
    read_parts(body, bytes_max, Sender::Client, take).await.map_err(not_received)
}

fn not_received(error: ReceiveError) -> Problem {
    let kind = match error {
        ReceiveError::NoRoom => return PutRefusal::MemoryFull.into(),
        ReceiveError::TooLong(_) => ProblemKind::TooLong,
        ReceiveError::Slow | ReceiveError::Broken => ProblemKind::BadRequest,
    };
    Problem::new(kind, error.to_string())
}

/// Reads the JSON of a request. An empty body counts as an empty object.
async fn receive_json<T: DeserializeOwned>(
    body: Body,
    extensions: &Extensions,
) -> Result<T, Problem> {
    receive_json_of(body, extensions, JSON_BYTES_MAX).await
}

/// Like [`receive_json`], with another limit.
async fn receive_json_of<T: DeserializeOwned>(
    body: Body,
    extensions: &Extensions,
    bytes_max: usize,
) -> Result<T, Problem> {
    // These requests must work when the memory is full: they can end jobs.
    let received = receive(body, extensions, bytes_max, |_| true).await?;
    let bytes = received.bytes();
    parse_json(if bytes.is_empty() { b"{}" } else { bytes })
}

fn parse_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    let bad = |why: &str| {
        Problem::new(ProblemKind::BadRequest, format!("the JSON of the request: {why}"))
    };
    // The library would also accept a list of the values.
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return Err(bad("write an object"));
    }
    serde_json::from_slice(bytes).map_err(|error| bad(&error.to_string()))
}

/// A response with a value as JSON.
pub(crate) fn with_json(status: StatusCode, value: &impl Serialize) -> Response {
    complete(answer(status, "application/json", as_json(value)))
}

/// A response without a body.
fn done() -> Response {
    let mut response = complete(answer(StatusCode::NO_CONTENT, "text/plain", ""));
    response.headers_mut().remove(hyper::header::CONTENT_TYPE);
    response
}

/// The problem of a refused change. `missing` makes the problem if the thing does not exist.
fn refused(refusal: Refusal, missing: impl FnOnce() -> Problem) -> Problem {
    match refusal {
        Refusal::NotFound => missing(),
        Refusal::LogFull => {
            let why = "the log has no room for the change; finish jobs, or free disk space";
            Problem::new(ProblemKind::LogFull, why)
        }
        Refusal::MemoryFull => PutRefusal::MemoryFull.into(),
    }
}
