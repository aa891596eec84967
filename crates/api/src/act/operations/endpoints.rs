//! The endpoints of operations.

use axum::Extension;
use axum::extract::{FromRequestParts, Path, Request, State as Shared};
use axum::response::Response;
use hyper::header::{HeaderValue, LOCATION};
use hyper::http::request::Parts;
use hyper::{StatusCode, Uri};

use super::no_operation;
use crate::access::audit::AuditDetail;
use crate::access::{PREFIX, Principal};
use crate::act::{receive_json_of, with_json};
use crate::openapi::{Failures, Refusals};
use crate::problem::Problem;
use crate::state::Api;
use crate::text::json::Json;
use crate::text::query::Query;
use crate::types;

/// The longest request that starts an operation, in bytes. It can name many jobs.
const REQUEST_BYTES_MAX: usize = 512 << 10;

/// The number of an operation in the path of a request.
pub(crate) struct OperationNumber(u64);

impl<S: Send + Sync> FromRequestParts<S> for OperationNumber {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let text = Path::<String>::from_request_parts(parts, state).await.ok();
        let number = text.and_then(|Path(text)| text.parse().ok());
        number.map(OperationNumber).ok_or_else(no_operation)
    }
}

/// Starts an operation: a change of many jobs of a queue.
#[utoipa::path(
    post,
    path = "/operations",
    tag = "operations",
    request_body = types::StartOperation,
    responses(
        (status = 202, description = "The operation runs.", body = types::Operation),
        Failures,
    )
)]
pub(crate) async fn post_operations(
    Shared(api): Shared<Api>,
    Extension(principal): Extension<Principal>,
    request: Request,
) -> Result<Response, Problem> {
    let (head, body) = request.into_parts();
    Query::read(&head.uri, &[])?;
    let asked: types::StartOperation =
        receive_json_of(body, &head.extensions, REQUEST_BYTES_MAX).await?;
    Ok(started(&api.start_operation(&principal, &asked).await?))
}

/// The response to a request that started an operation.
pub(in crate::act) fn started(operation: &types::Operation) -> Response {
    let mut response = with_json(StatusCode::ACCEPTED, operation);
    let location = format!("{PREFIX}/operations/{}", operation.id);
    if let Ok(location) = HeaderValue::try_from(location) {
        response.headers_mut().insert(LOCATION, location);
    }
    response.extensions_mut().insert(detail_of(operation));
    response
}

/// The longest name in the record of changes, in bytes. Two of them fit into a detail.
const DETAIL_NAME_BYTES_MAX: usize = 200;

/// The facts about an operation for the record of changes.
fn detail_of(operation: &types::Operation) -> AuditDetail {
    let types::Operation { id, kind, queue, to, state, total, .. } = operation;
    let kind = kind.name();
    let state = state.map_or("all", types::JobState::name);
    // A long name must not push the other one out of the line.
    let short = |name: &str| name[..name.floor_char_boundary(DETAIL_NAME_BYTES_MAX)].to_owned();
    let queue = short(queue);
    let to = to.as_ref().map_or(String::new(), |to| format!(" to {}", short(to)));
    AuditDetail(format!("operation {id}: {kind} {total} jobs ({state}) of {queue}{to}"))
}

/// All operations that the server remembers, newest first.
#[utoipa::path(
    get,
    path = "/operations",
    tag = "operations",
    responses(
        (status = 200, description = "The operations.", body = types::Operations),
        Refusals,
    )
)]
pub(crate) async fn get_operations(
    Shared(api): Shared<Api>,
    uri: Uri,
) -> Result<Json<types::Operations>, Problem> {
    Query::read(&uri, &[])?;
    Ok(Json(api.operations()))
}

/// One operation.
#[utoipa::path(
    get,
    path = "/operations/{operation}",
    tag = "operations",
    params(("operation" = u64, Path, description = "The number of the operation.")),
    responses(
        (status = 200, description = "The operation.", body = types::Operation),
        Refusals,
    )
)]
pub(crate) async fn get_operation(
    Shared(api): Shared<Api>,
    OperationNumber(number): OperationNumber,
    uri: Uri,
) -> Result<Json<types::Operation>, Problem> {
    Query::read(&uri, &[])?;
    api.operation(number).map(Json)
}

/// Cancels an operation. The jobs that it has changed stay changed.
#[utoipa::path(
    delete,
    path = "/operations/{operation}",
    tag = "operations",
    params(("operation" = u64, Path, description = "The number of the operation.")),
    responses(
        (status = 202, description = "The operation stops, or has ended.", body = types::Operation),
        Refusals,
    )
)]
pub(crate) async fn delete_operation(
    Shared(api): Shared<Api>,
    OperationNumber(number): OperationNumber,
    uri: Uri,
) -> Result<Response, Problem> {
    Query::read(&uri, &[])?;
    let operation = api.cancel_operation(number).await?;
    Ok(with_json(StatusCode::ACCEPTED, &operation))
}
