//! The OpenAPI document. It is made from the code of the endpoints.

use hyper::Uri;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::{Modify, OpenApi};

use crate::json::Json;
use crate::problem::Problem;
use crate::query::Query;
use crate::{
    act, audit, connections, events, history, job, jobs, log_health, policies, queue, queues,
    server, why,
};

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
        policies::get_policies,
        policies::get_effective,
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
        audit::get_audit,
        act::put::post_jobs,
        act::job::delete_job,
        act::job::post_kick,
        act::job::post_bury,
        act::job::post_reschedule,
        act::leases::post_take,
        act::leases::post_finish,
        act::leases::post_give_back,
        act::leases::post_bury,
        act::leases::post_touch,
        act::operations::get_operations,
        act::operations::post_operations,
        act::operations::get_operation,
        act::operations::delete_operation,
        act::queue::put_queue,
        act::queue::patch_queue,
        act::queue::post_pause,
        act::queue::delete_pause,
        act::server::post_drain,
        act::server::delete_drain,
        act::server::put_status,
        act::server::post_reload,
        get_document,
    ),
    components(schemas(crate::types::Tick)),
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

/// This document.
#[utoipa::path(
    get,
    path = "/openapi.json",
    tag = "server",
    responses(
        (status = 200, description = "The OpenAPI document.", content_type = "application/json"),
        (
            status = "4XX",
            description = "The request failed.",
            body = Problem,
            content_type = "application/problem+json",
        ),
    )
)]
pub(crate) async fn get_document(uri: Uri) -> Result<Json<utoipa::openapi::OpenApi>, Problem> {
    Query::read(&uri, &[])?;
    Ok(Json(document()))
}
