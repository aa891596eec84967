//! The table of endpoints: one line each.

use axum::Router;
use axum::middleware::from_fn;
use axum::routing::{MethodRouter, get};

use crate::access::{PREFIX, guard};
use crate::problem::{Problem, ProblemKind};
use crate::state::Api;
use crate::{job, jobs, log_health, openapi, policies, queue, queues, server, why};

/// All endpoints. The paths are also in the document of `openapi`; a test compares them.
fn table() -> [(&'static str, MethodRouter<Api>); 12] {
    [
        ("/server", get(server::get_server)),
        ("/log", get(log_health::get_log)),
        ("/policies", get(policies::get_policies)),
        ("/policies/effective", get(policies::get_effective)),
        ("/queues", get(queues::get_queues)),
        ("/queues/{queue}", get(queue::get_queue)),
        ("/queues/{queue}/why", get(why::get_why)),
        ("/queues/{queue}/jobs", get(jobs::get_jobs)),
        ("/jobs/{id}", get(job::get_job)),
        ("/jobs/{id}/body", get(job::get_body)),
        ("/me", get(server::get_me)),
        ("/openapi.json", get(openapi::get_document)),
    ]
}

/// The router of the API. The caller must nest it under [`PREFIX`].
pub fn router(api: Api) -> Router {
    let routes = table().into_iter();
    let router = routes.fold(Router::new(), |router, (path, methods)| router.route(path, methods));
    router
        .method_not_allowed_fallback(async || {
            let why = "this endpoint does not have this method; see the header `Allow`";
            Problem::new(ProblemKind::MethodNotAllowed, why)
        })
        .fallback(async || {
            let why = format!("no such endpoint; see {PREFIX}/openapi.json");
            Problem::new(ProblemKind::NotFound, why)
        })
        .layer(from_fn(guard))
        .with_state(api)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_route_is_in_the_document() {
        let document = openapi::document();
        let documented: BTreeSet<&str> = document.paths.paths.keys().map(String::as_str).collect();
        let routes: BTreeSet<&str> = table().into_iter().map(|(path, _)| path).collect();
        assert_eq!(routes, documented);
    }
}
