//! The record of changes: who asked for what, and why. Each line goes to the server's messages. The
//! latest lines stay in memory.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use axum::extract::{Request, State};
use broker::Millis;
use http_api::only_looks;
use hyper::Uri;
use hyper::http::Extensions;

use crate::access::Principal;
use crate::job::Moments;
use crate::json::Json;
use crate::moment;
use crate::problem::{Problem, ProblemKind};
use crate::query::Query;
use crate::state::Api;
use crate::types::{self, Role, Via};

/// Lines in memory.
const LINES_MAX: usize = 1_000;
/// The longest reason, in bytes.
const REASON_BYTES_MAX: usize = 500;
/// Refused requests that are recorded in one second. Otherwise, a client without rights could fill
/// the messages.
const REFUSED_PER_S: u64 = 20;
/// The header with the reason for a change.
const REASON_HEADER: &str = "x-reason";
/// The list that cursors belong to.
const LIST: &[u8] = b"audit";

/// In the extensions of a response: the change is usual work of programs, such as a put. It is
/// recorded only if it is refused.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Unaudited;

/// In the extensions of a response: further facts about the change, for its line.
#[derive(Clone, Debug)]
pub(crate) struct AuditDetail(pub(crate) String);

/// The lines in memory.
#[derive(Debug, Default)]
pub(crate) struct Audit {
    state: Mutex<Lines>,
}

#[derive(Debug, Default)]
struct Lines {
    /// The newest line is the last one.
    latest: VecDeque<(Millis, types::AuditLine)>,
    count: u64,
    /// The current second, and the number of refused requests in it.
    refused: (u64, u64),
}

/// A requested change.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The method and the path.
    action: String,
    reason: Option<String>,
}

impl Asked {
    /// The change that a request asks for. `None` if it only reads. `path` is the whole path.
    pub fn of(request: &Request, path: &str) -> Option<Asked> {
        if only_looks(request.method()) {
            return None;
        }
        let reason = request.headers().get(REASON_HEADER).map(|reason| {
            let bytes = reason.as_bytes();
            shown(&bytes[..bytes.len().min(REASON_BYTES_MAX)])
        });
        let query = request.uri().query().map_or(String::new(), |query| format!("?{query}"));
        let action = format!("{} {path}{query}", request.method());
        Some(Asked { action: shown(action.as_bytes()), reason })
    }

    /// The same change, with a reason from a form.
    #[must_use]
    pub fn because(self, reason: Option<&str>) -> Asked {
        let cut = |reason: &str| shown(&reason.as_bytes()[..reason.len().min(REASON_BYTES_MAX)]);
        Asked {
            reason: reason.filter(|reason| !reason.is_empty()).map(cut).or(self.reason),
            ..self
        }
    }
}

/// Text without control characters, so that it is one line.
fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.chars().map(|it| if it.is_control() { ' ' } else { it }).collect()
}

impl Api {
    /// Records a change, or the refusal of one. `principal` is the client, if it was recognized.
    pub fn note_change(
        &self,
        principal: Option<&Principal>,
        asked: Asked,
        status: u16,
        problem: Option<&Problem>,
        extensions: &Extensions,
    ) {
        let now = self.setup.door.now();
        let (name, role, via) = principal
            .map_or(("unknown", Role::None, Via::Anonymous), |principal| {
                (&*principal.name, principal.role, principal.via)
            });
        let address = principal.and_then(|principal| principal.peer.address);
        let line = types::AuditLine {
            number: 0,
            at: String::new(),
            who: name.to_owned(),
            role,
            via,
            address: address.map(|address| address.to_string()),
            action: asked.action,
            detail: extensions.get::<AuditDetail>().map(|detail| detail.0.clone()),
            reason: asked.reason,
            status,
            problem: problem.map(|problem| problem.kind_name().to_owned()),
        };
        self.access.audit.add(now, line);
    }

    /// The latest changes, newest first. `before` is the number of the line after the first one.
    fn audit(&self, before: Option<u64>, limit: usize) -> types::Audit {
        let moments = Moments::of(&self.turn());
        let lines = self.access.audit.lines();
        let before = before.unwrap_or(u64::MAX);
        let mut found = lines.latest.iter().rev().skip_while(|(_, line)| line.number >= before);
        let items: Vec<types::AuditLine> = found
            .by_ref()
            .take(limit)
            .map(|(at, line)| types::AuditLine {
                at: moment::written(moments.wall(*at)),
                ..line.clone()
            })
            .collect();
        let last = found.next().and(items.last()).map(|line| line.number);
        let next = last.map(|last| self.cursor_key.written(LIST, &last.to_string()));
        types::Audit { items, next }
    }
}

impl Audit {
    fn add(&self, now: Millis, line: types::AuditLine) {
        let mut lines = self.lines();
        if line.problem.is_some() {
            let second = now.0 / 1_000;
            let count = if lines.refused.0 == second { lines.refused.1 + 1 } else { 1 };
            lines.refused = (second, count);
            if count > REFUSED_PER_S {
                return;
            }
        }
        lines.count += 1;
        let line = types::AuditLine { number: lines.count, ..line };
        tracing::info!(target: "audit", "{}", said(&line));
        if lines.latest.len() == LINES_MAX {
            lines.latest.pop_front();
        }
        lines.latest.push_back((now, line));
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A line for the server's messages.
fn said(line: &types::AuditLine) -> String {
    let types::AuditLine { who, role, via, action, status, .. } = line;
    let mut text = format!("audit: {who} ({}, {}", role.name(), via.name());
    if let Some(address) = &line.address {
        text = text + ", " + address;
    }
    text = format!("{text}): {action}: {status}");
    for (name, part) in
        [("", &line.problem), ("detail: ", &line.detail), ("reason: ", &line.reason)]
    {
        if let Some(part) = part {
            text = text + "; " + name + part;
        }
    }
    text
}

/// The latest changes that clients requested over HTTP, newest first.
#[utoipa::path(
    get,
    path = "/audit",
    tag = "server",
    params(
        ("limit" = Option<usize>, Query, description = "The size of a page: at most 500."),
        ("cursor" = Option<String>, Query, description = "`next` of the page before."),
    ),
    responses(
        (status = 200, description = "A page of changes.", body = types::Audit),
        (
            status = "4XX",
            description = "The request failed.",
            body = Problem,
            content_type = "application/problem+json",
        ),
    )
)]
pub(crate) async fn get_audit(
    State(api): State<Api>,
    uri: Uri,
) -> Result<Json<types::Audit>, Problem> {
    let query = Query::read(&uri, &["limit", "cursor"])?;
    let before =
        match query.get("cursor") {
            None => None,
            Some(cursor) => Some(api.cursor_key.read(LIST, cursor)?.parse().map_err(|_| {
                Problem::new(ProblemKind::BadCursor, "begin again without a cursor")
            })?),
        };
    Ok(Json(api.audit(before, query.limit()?)))
}
