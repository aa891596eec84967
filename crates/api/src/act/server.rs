//! Changes of the server.

use axum::Extension;
use axum::extract::{Request, State};
use axum::response::Response;
use broker::Status;
use hyper::{StatusCode, Uri};

use super::{done, receive_json, with_json};
use crate::access::Principal;
use crate::openapi::Failures;
use crate::problem::{Problem, ProblemKind};
use crate::state::Api;
use crate::text::query::Query;
use crate::types;

/// Refuses new jobs from now on, so that workers can empty the queues.
#[utoipa::path(
    post,
    path = "/server/drain",
    tag = "server",
    responses(
        (status = 204, description = "New jobs are refused."),
        Failures,
    )
)]
pub(crate) async fn post_drain(State(api): State<Api>, uri: Uri) -> Result<Response, Problem> {
    Query::read(&uri, &[])?;
    api.setup.door.broker().drain();
    Ok(done())
}

/// Accepts new jobs again.
#[utoipa::path(
    delete,
    path = "/server/drain",
    tag = "server",
    responses(
        (status = 204, description = "New jobs are accepted."),
        Failures,
    )
)]
pub(crate) async fn delete_drain(State(api): State<Api>, uri: Uri) -> Result<Response, Problem> {
    Query::read(&uri, &[])?;
    api.setup.door.broker().end_drain();
    Ok(done())
}

/// Sets what clients are allowed to do.
#[utoipa::path(
    put,
    path = "/server/status",
    tag = "server",
    request_body = types::SetStatus,
    responses(
        (status = 204, description = "The status applies, also after a restart."),
        Failures,
    )
)]
pub(crate) async fn put_status(
    State(api): State<Api>,
    request: Request,
) -> Result<Response, Problem> {
    let (head, body) = request.into_parts();
    Query::read(&head.uri, &[])?;
    let types::SetStatus { status } = receive_json(body, &head.extensions).await?;
    let status = match status {
        types::Status::Up => Status::Up,
        types::Status::WriteAvoid => Status::WriteAvoid,
        types::Status::ReadOnly => Status::ReadOnly,
        types::Status::Quiescent => Status::Quiescent,
    };
    let set = api.turn().set_status(status, 0);
    api.settled(set).await?;
    Ok(done())
}

/// Makes a one-time code, with which a person signs in to the console with the rights of this client.
/// The client needs a token or a certificate, or is at the operator's socket.
#[utoipa::path(
    post,
    path = "/login_codes",
    tag = "server",
    responses(
        (status = 201, description = "The code.", body = types::LoginCode),
        Failures,
    )
)]
pub(crate) async fn post_login_code(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    uri: Uri,
) -> Result<Response, Problem> {
    Query::read(&uri, &[])?;
    Ok(with_json(StatusCode::CREATED, &api.make_code(&principal)?))
}

/// Reads the configuration again. If it has a mistake, or if a change needs a restart, nothing
/// changes.
#[utoipa::path(
    post,
    path = "/server/reload",
    tag = "server",
    responses(
        (status = 200, description = "The configuration applies.", body = types::Reloaded),
        Failures,
    )
)]
pub(crate) async fn post_reload(State(api): State<Api>, uri: Uri) -> Result<Response, Problem> {
    Query::read(&uri, &[])?;
    let changed = api.reload().await?;
    Ok(with_json(StatusCode::OK, &types::Reloaded { changed }))
}

impl Api {
    /// Reads the configuration again. Returns the settings that have changed. If the configuration
    /// has a mistake, or if a change needs a restart, nothing changes.
    pub async fn reload(&self) -> Result<Vec<String>, Problem> {
        let reloaded = (self.setup.reload)().await;
        reloaded.map_err(|mistakes| Problem::new(ProblemKind::BadConfiguration, mistakes))
    }
}
