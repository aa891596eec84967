//! The sessions of people who signed in to the console: a list, and the end of one.

use axum::Extension;
use axum::extract::{Path, State};
use axum::response::Response;
use hyper::Uri;

use crate::access::Principal;
use crate::access::audit::AuditDetail;
use crate::act::done;
use crate::jobs::job::Moments;
use crate::openapi::Refusals;
use crate::problem::{Problem, ProblemKind};
use crate::state::Api;
use crate::text::json::Json;
use crate::text::moment;
use crate::text::query::Query;
use crate::types;

/// The sessions of people who signed in to the console.
#[utoipa::path(
    get,
    path = "/sessions",
    tag = "server",
    responses(
        (status = 200, description = "The sessions.", body = types::Sessions),
        Refusals,
    )
)]
pub(crate) async fn get_sessions(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    uri: Uri,
) -> Result<Json<types::Sessions>, Problem> {
    Query::read(&uri, &[])?;
    Ok(Json(api.sessions(&principal)))
}

/// Ends the session of a person: the person must sign in again. To keep somebody out, remove the
/// token; this also ends all of its sessions.
#[utoipa::path(
    delete,
    path = "/sessions/{session}",
    tag = "server",
    params(("session" = u64, Path, description = "The number of the session.")),
    responses(
        (status = 204, description = "The session has ended."),
        Refusals,
    )
)]
pub(crate) async fn delete_session(
    State(api): State<Api>,
    Path(session): Path<String>,
    uri: Uri,
) -> Result<Response, Problem> {
    Query::read(&uri, &[])?;
    api.end_session(&session, done())
}

impl Api {
    /// The sessions of people who signed in, as this client sees them.
    pub fn sessions(&self, principal: &Principal) -> types::Sessions {
        let moments = Moments::of(&self.turn());
        let written = |at| moment::written(moments.wall(at));
        let all = self.access.sessions.all(moments.now).into_iter();
        // The session of a removed token is not valid any more.
        let items = all.filter_map(|(session, ends)| {
            let (name, role) = self.access.holder(session.credential)?;
            Some(types::Session {
                id: session.number,
                name: name.to_string(),
                role,
                address: session.address.map_or("unix".to_owned(), |address| address.to_string()),
                began_at: written(session.began),
                ends_at: written(ends),
                own: principal.session == Some(session.number),
            })
        });
        types::Sessions { items: items.collect() }
    }

    /// Ends a session. Adds to the response whose session it was, for the record of changes.
    pub fn end_session(&self, number: &str, mut response: Response) -> Result<Response, Problem> {
        let now = self.setup.door.now();
        let ended = number.parse().ok().and_then(|it| self.access.sessions.end_number(it, now));
        let ended = ended.ok_or_else(|| {
            let why = format!("no session has the number {number}; see `GET /sessions`");
            Problem::new(ProblemKind::NotFound, why)
        })?;
        let name = self.access.holder(ended.credential).map(|(name, _)| name);
        let detail = format!("ended a session of {}", name.as_deref().unwrap_or("a removed token"));
        response.extensions_mut().insert(AuditDetail(detail));
        Ok(response)
    }
}
