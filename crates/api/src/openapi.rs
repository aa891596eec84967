//! The OpenAPI document. It is made from the code of the endpoints.

use std::collections::BTreeMap;

use hyper::{HeaderMap, Uri};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{Content, Ref, RefOr, Response, ResponseBuilder};
use utoipa::{IntoResponses, Modify, OpenApi};

use crate::access::audit;
use crate::act;
use crate::jobs;
use crate::jobs::job;
use crate::jobs::past_jobs;
use crate::jobs::result;
use crate::jobs::search;
use crate::problem::Problem;
use crate::queues;
use crate::queues::crons;
use crate::queues::policies;
use crate::queues::queue;
use crate::queues::why;
use crate::server;
use crate::server::cluster;
use crate::server::connections;
use crate::server::events;
use crate::server::history;
use crate::server::log_health;
use crate::text::query::Query;
use crate::version;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Lineshaft",
        description = "The HTTP API of a Lineshaft server.",
        version = "1",
        license(name = "MIT OR Apache-2.0"),
    ),
    servers((url = "/api/v1")),
    paths(
        server::get_server,
        server::get_me,
        events::get_events,
        history::get_history,
        log_health::get_log,
        cluster::get_cluster,
        policies::get_policies,
        policies::get_effective,
        crons::get_crons,
        queues::get_queues,
        queue::get_queue,
        why::get_why,
        connections::get_consumers,
        connections::get_connections,
        connections::get_connection,
        connections::delete_connection,
        jobs::get_jobs,
        job::get_job,
        job::get_body,
        past_jobs::get_past_jobs,
        past_jobs::get_past_job,
        past_jobs::get_past_body,
        past_jobs::post_run_again,
        result::get_result,
        search::get_search,
        audit::get_audit,
        act::put::post_jobs,
        act::job::delete_job,
        act::job::post_kick,
        act::job::post_bury,
        act::job::post_set_aside,
        act::job::post_move,
        act::job::post_reschedule,
        act::leases::post_take,
        act::leases::post_finish,
        act::leases::post_give_back,
        act::leases::post_bury,
        act::leases::post_touch,
        act::operations::endpoints::get_operations,
        act::operations::endpoints::post_operations,
        act::operations::endpoints::get_operation,
        act::operations::endpoints::delete_operation,
        act::queue::put_queue,
        act::queue::patch_queue,
        act::queue::delete_queue,
        act::queue::post_pause,
        act::queue::delete_pause,
        act::server::post_drain,
        act::server::delete_drain,
        act::server::put_status,
        act::server::post_reload,
        act::server::post_login_code,
        act::backup::post_backup,
        act::sessions::get_sessions,
        act::sessions::delete_session,
        get_document,
    ),
    components(schemas(Problem, crate::types::Tick)),
    modifiers(&Schemes),
    security((), ("token" = []))
)]
struct Document;

/// Adds how a client shows who it is.
struct Schemes;

impl Modify for Schemes {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let scheme = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        document.components.get_or_insert_default().add_security_scheme("token", scheme);
    }
}

/// The OpenAPI document of the API.
pub fn document() -> utoipa::openapi::OpenApi {
    Document::openapi()
}

/// The failures of every endpoint, for the document.
pub(crate) struct Refusals;

/// The failures of an endpoint that changes something or reads the log, for the document.
pub(crate) struct Failures;

impl IntoResponses for Refusals {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        [failure("4XX", "The request failed.")].into()
    }
}

impl IntoResponses for Failures {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        let mut responses = Refusals::responses();
        responses.extend([failure("5XX", "The server cannot do this.")]);
        responses
    }
}

fn failure(status: &str, description: &str) -> (String, RefOr<Response>) {
    let problem = Content::new(Some(Ref::from_schema_name("Problem")));
    let response = ResponseBuilder::new()
        .description(description)
        .content("application/problem+json", problem)
        .build();
    (status.to_owned(), response.into())
}

/// This document.
#[utoipa::path(
    get,
    path = "/openapi.json",
    tag = "server",
    responses(
        (status = 200, description = "The OpenAPI document.", content_type = "application/json"),
        (status = 304, description = "The client has the current version (`If-None-Match`)."),
        Refusals,
    )
)]
pub(crate) async fn get_document(
    headers: HeaderMap,
    uri: Uri,
) -> Result<axum::response::Response, Problem> {
    Query::read(&uri, &[])?;
    Ok(version::document(&headers, &document()))
}
