//! The table of endpoints: one line each.

use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::IntoResponse as _;
use axum::routing::{MethodRouter, delete, get, post, put};
use http_api::only_looks;

use crate::access::audit::{self, Usual};
use crate::access::{PREFIX, Principal, guard};
use crate::act;
use crate::act::operations::endpoints as operations;
use crate::jobs;
use crate::jobs::job;
use crate::jobs::past_jobs;
use crate::jobs::result;
use crate::jobs::search;
use crate::openapi;
use crate::problem::{Problem, ProblemKind};
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
use crate::state::Api;
use crate::types::Role;
use crate::version::Condition;

/// All endpoints. The paths are also in the document of `openapi`; a test compares them.
fn table() -> Vec<Endpoint> {
    vec![
        at("/server", get(server::get_server)),
        at("/server/history", get(history::get_history)),
        at("/server/drain", post(act::server::post_drain).delete(act::server::delete_drain))
            .changed_by(Role::Admin),
        at("/server/status", put(act::server::put_status)).changed_by(Role::Admin),
        at("/server/reload", post(act::server::post_reload)).changed_by(Role::Admin),
        at("/server/backup", post(act::backup::post_backup)).changed_by(Role::Admin),
        at("/log", get(log_health::get_log)),
        at("/cluster", get(cluster::get_cluster)),
        at("/policies", get(policies::get_policies)),
        at("/policies/effective", get(policies::get_effective)),
        at("/crons", get(crons::get_crons)),
        at("/queues", get(queues::get_queues)),
        at(
            "/queues/{queue}",
            get(queue::get_queue)
                .put(act::queue::put_queue)
                .patch(act::queue::patch_queue)
                .delete(act::queue::delete_queue),
        )
        .with_version(),
        at("/queues/{queue}/pause", post(act::queue::post_pause).delete(act::queue::delete_pause))
            .with_version(),
        at("/queues/{queue}/consumers", get(connections::get_consumers)),
        at("/queues/{queue}/why", get(why::get_why)),
        at("/queues/{queue}/jobs", get(jobs::get_jobs).post(act::put::post_jobs)).of_programs(),
        at("/jobs/{id}", get(job::get_job).delete(act::job::delete_job)).with_version(),
        at("/jobs/{id}/kick", post(act::job::post_kick)).with_version(),
        at("/jobs/{id}/bury", post(act::job::post_bury)).with_version(),
        at("/jobs/{id}/set_aside", post(act::job::post_set_aside)).with_version(),
        at("/jobs/{id}/move", post(act::job::post_move)).with_version(),
        at("/jobs/{id}/reschedule", post(act::job::post_reschedule)).with_version(),
        at("/jobs/{id}/body", get(job::get_body)),
        at("/jobs/{id}/history", get(past_jobs::get_past_job)),
        at("/jobs/{id}/history/body", get(past_jobs::get_past_body)),
        at("/jobs/{id}/result", get(result::get_result)),
        at("/jobs/{id}/run_again", post(past_jobs::post_run_again)),
        at("/queues/{queue}/history", get(past_jobs::get_past_jobs)),
        at("/search", get(search::get_search)),
        at("/take", post(act::leases::post_take)).of_programs(),
        at("/leases/{lease}/finish", post(act::leases::post_finish)).of_programs(),
        at("/leases/{lease}/give_back", post(act::leases::post_give_back)).of_programs(),
        at("/leases/{lease}/bury", post(act::leases::post_bury)).of_programs(),
        at("/leases/{lease}/touch", post(act::leases::post_touch)).of_programs(),
        at("/operations", get(operations::get_operations).post(operations::post_operations)),
        at(
            "/operations/{operation}",
            get(operations::get_operation).delete(operations::delete_operation),
        ),
        at("/audit", get(audit::get_audit)).read_by(Role::Operator),
        at("/connections", get(connections::get_connections)),
        at(
            "/connections/{id}",
            get(connections::get_connection).delete(connections::delete_connection),
        )
        .changed_by(Role::Admin),
        at("/login_codes", post(act::server::post_login_code)).changed_by(Role::Viewer),
        at("/sessions", get(act::sessions::get_sessions)).read_by(Role::Admin),
        at("/sessions/{session}", delete(act::sessions::delete_session)).changed_by(Role::Admin),
        at("/me", get(server::get_me)).read_by(Role::None),
        at("/events", get(events::get_events)),
        at("/openapi.json", get(openapi::get_document)),
    ]
}

/// An endpoint, and who can use it.
struct Endpoint {
    path: &'static str,
    methods: MethodRouter<Api>,
    /// Who can send GET.
    read: Role,
    /// Who can send other methods.
    change: Role,
    /// Whether changes are usual work of programs: see [`Usual`].
    is_work: bool,
    /// Whether changes can depend on a version, with `If-Match`. Then each function that changes
    /// something takes a [`Condition`].
    has_version: bool,
}

/// An endpoint that viewers can read and operators can change.
fn at(path: &'static str, methods: MethodRouter<Api>) -> Endpoint {
    Endpoint {
        path,
        methods,
        read: Role::Viewer,
        change: Role::Operator,
        is_work: false,
        has_version: false,
    }
}

impl Endpoint {
    fn read_by(self, role: Role) -> Endpoint {
        Endpoint { read: role, ..self }
    }

    fn changed_by(self, role: Role) -> Endpoint {
        Endpoint { change: role, ..self }
    }

    /// Changes are usual work of programs.
    fn of_programs(self) -> Endpoint {
        Endpoint { is_work: true, ..self }
    }

    /// Changes can depend on a version.
    fn with_version(self) -> Endpoint {
        Endpoint { has_version: true, ..self }
    }

    /// Adds the endpoint, with a layer that checks the role of the client.
    fn add_to(self, router: Router<Api>) -> Router<Api> {
        let Endpoint { path, methods, read, change, is_work, has_version } = self;
        let check = move |request: Request, next: Next| async move {
            let role = if only_looks(request.method()) { read } else { change };
            if let Err(problem) = check_role(&request, role) {
                return problem.into_response();
            }
            let is_change = !only_looks(request.method());
            if is_change
                && !has_version
                && let Err(problem) = Condition::of(request.headers()).refuse()
            {
                return problem.into_response();
            }
            if is_work && let Some(usual) = request.extensions().get::<Usual>() {
                usual.set();
            }
            next.run(request).await
        };
        router.route(path, methods.route_layer(from_fn(check)))
    }
}

fn check_role(request: &Request, role: Role) -> Result<(), Problem> {
    match request.extensions().get::<Principal>() {
        Some(principal) => principal.require(role),
        None => Err(Problem::new(ProblemKind::Forbidden, "nobody has checked the client")),
    }
}

/// The router of the API. The caller must nest it under [`PREFIX`].
pub fn router(api: Api) -> Router {
    let endpoints = table().into_iter();
    endpoints
        .fold(Router::new(), |router, endpoint| endpoint.add_to(router))
        .method_not_allowed_fallback(async || {
            let why = "this endpoint does not have this method; see the header `Allow`";
            Problem::new(ProblemKind::MethodNotAllowed, why)
        })
        .fallback(async || {
            let why = format!("no such endpoint; see {PREFIX}/openapi.json");
            Problem::new(ProblemKind::NotFound, why)
        })
        .layer(from_fn_with_state(api.clone(), guard))
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
        let routes: BTreeSet<&str> = table().into_iter().map(|endpoint| endpoint.path).collect();
        assert_eq!(routes, documented);
    }
}
