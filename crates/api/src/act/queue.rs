//! Changes of one queue.

use axum::Extension;
use axum::extract::{Request, State};
use axum::response::Response;
use broker::PutRefusal;
use http_api::SessionKind;
use hyper::{StatusCode, Uri};

use super::operations::started;
use super::{done, receive_json, refused, with_json};
use crate::access::Principal;
use crate::openapi::Failures;
use crate::problem::{Problem, ProblemKind};
use crate::state::Api;
use crate::text::name::{QueueName, shown_name};
use crate::text::query::Query;
use crate::types;
use crate::version::Condition;

/// Creates a queue. It then stays, even while it is empty and unused.
#[utoipa::path(
    put,
    path = "/queues/{queue}",
    tag = "queues",
    params(("queue" = String, Path, description = "The name of the queue.")),
    responses(
        (status = 201, description = "The queue is new."),
        (status = 204, description = "The queue existed already, and stays from now on."),
        Failures,
    )
)]
pub(crate) async fn put_queue(
    State(api): State<Api>,
    QueueName(name): QueueName,
    when: Condition,
    uri: Uri,
) -> Result<Response, Problem> {
    Query::read(&uri, &[])?;
    // A request that creates a queue knows no version of it.
    when.refuse()?;
    let is_new = api.create_queue(&name).await?;
    let mut response = done();
    if is_new {
        *response.status_mut() = StatusCode::CREATED;
    }
    Ok(response)
}

/// Limits the unfinished jobs of a queue.
#[utoipa::path(
    patch,
    path = "/queues/{queue}",
    tag = "queues",
    params(
        ("queue" = String, Path, description = "The name of the queue."),
        (
            "If-Match" = Option<String>,
            Header,
            description = "Only if the queue still has this `ETag`.",
        ),
    ),
    request_body = types::QueueLimits,
    responses(
        (status = 204, description = "The limits apply."),
        Failures,
    )
)]
pub(crate) async fn patch_queue(
    State(api): State<Api>,
    QueueName(name): QueueName,
    when: Condition,
    request: Request,
) -> Result<Response, Problem> {
    let (head, body) = request.into_parts();
    Query::read(&head.uri, &[])?;
    let asked: types::QueueLimits = receive_json(body, &head.extensions).await?;
    let session = api.setup.door.session(SessionKind::Reader);
    let missing = || Problem::no_queue(&name);
    let limited = {
        let mut turn = api.turn();
        let queue = turn.queue_id(&name).ok_or_else(missing)?;
        when.check_queue(&turn, &name)?;
        turn.caller(session.id()).limit_queue_of(queue, asked.limits)
    };
    api.settled(limited).await?.map_err(|refusal| refused(refusal, missing))?;
    Ok(done())
}

/// Removes a queue and ends all of its jobs, even those that workers have. This is an operation: it
/// can take long, and a client can cancel it. If clients use or watch the queue, it stays, without
/// jobs.
#[utoipa::path(
    delete,
    path = "/queues/{queue}",
    tag = "queues",
    params(
        ("queue" = String, Path, description = "The name of the queue."),
        ("confirm" = String, Query, description = "The name of the queue again."),
        (
            "If-Match" = Option<String>,
            Header,
            description = "Only if the queue still has this `ETag`.",
        ),
    ),
    responses(
        (status = 202, description = "The operation runs.", body = types::Operation),
        Failures,
    )
)]
pub(crate) async fn delete_queue(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    QueueName(name): QueueName,
    when: Condition,
    uri: Uri,
) -> Result<Response, Problem> {
    let query = Query::read(&uri, &["confirm"])?;
    let asked = types::StartOperation {
        confirm: query.get("confirm").map(str::to_owned),
        ..types::StartOperation::new(types::OperationKind::Remove, shown_name(&name))
    };
    Ok(started(&api.start_operation_on(&principal, &asked, &when).await?))
}

/// Pauses a queue: workers get no jobs of it.
#[utoipa::path(
    post,
    path = "/queues/{queue}/pause",
    tag = "queues",
    params(
        ("queue" = String, Path, description = "The name of the queue."),
        (
            "If-Match" = Option<String>,
            Header,
            description = "Only if the queue still has this `ETag`.",
        ),
    ),
    request_body = types::Pause,
    responses(
        (status = 200, description = "The queue is paused.", body = types::Paused),
        Failures,
    )
)]
pub(crate) async fn post_pause(
    State(api): State<Api>,
    QueueName(name): QueueName,
    when: Condition,
    request: Request,
) -> Result<Response, Problem> {
    let (head, body) = request.into_parts();
    Query::read(&head.uri, &[])?;
    let types::Pause { seconds } = receive_json(body, &head.extensions).await?;
    if seconds == 0 {
        let why = "write at least one second; `DELETE` ends a pause";
        return Err(Problem::new(ProblemKind::BadRequest, why).of_parameter("seconds"));
    }
    api.pause_queue(&name, seconds, &when)?;
    Ok(with_json(StatusCode::OK, &types::Paused { seconds, survives_restart: false }))
}

/// Ends the pause of a queue.
#[utoipa::path(
    delete,
    path = "/queues/{queue}/pause",
    tag = "queues",
    params(
        ("queue" = String, Path, description = "The name of the queue."),
        (
            "If-Match" = Option<String>,
            Header,
            description = "Only if the queue still has this `ETag`.",
        ),
    ),
    responses(
        (status = 204, description = "The queue is not paused."),
        Failures,
    )
)]
pub(crate) async fn delete_pause(
    State(api): State<Api>,
    QueueName(name): QueueName,
    when: Condition,
    uri: Uri,
) -> Result<Response, Problem> {
    Query::read(&uri, &[])?;
    api.pause_queue(&name, 0, &when)?;
    Ok(done())
}

impl Api {
    /// Creates a queue. Returns whether it is new.
    pub async fn create_queue(&self, name: &[u8]) -> Result<bool, Problem> {
        let session = self.setup.door.session(SessionKind::Reader);
        let (is_new, created) = {
            let mut turn = self.turn();
            if !turn.admits_queue(name) {
                return Err(PutRefusal::NoNewQueue.into());
            }
            if turn.writes_blocked() {
                return Err(PutRefusal::WritesBlocked.into());
            }
            let is_new = turn.real_queue_id(name).is_none();
            (is_new, turn.caller(session.id()).create_queue(name))
        };
        let missing = || Problem::no_queue(name);
        self.settled(created).await?.map_err(|refusal| refused(refusal, missing))?;
        if self.turn().real_queue_id(name).is_none() {
            let why = format!("a queue cannot have the name `{}`", shown_name(name));
            return Err(Problem::new(ProblemKind::BadName, why).of_parameter("queue"));
        }
        Ok(is_new)
    }

    /// Pauses a queue for this many seconds. 0 ends the pause.
    pub fn pause_queue(&self, name: &[u8], seconds: u32, when: &Condition) -> Result<(), Problem> {
        let session = self.setup.door.session(SessionKind::Reader);
        let mut turn = self.turn();
        let queue = turn.queue_id(name).ok_or_else(|| Problem::no_queue(name))?;
        when.check_queue(&turn, name)?;
        turn.caller(session.id()).pause_of(queue, seconds);
        Ok(())
    }
}
