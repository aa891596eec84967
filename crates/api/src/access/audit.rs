//! The record of changes: who asked for what, and why. Each line goes to the server's messages. The
//! latest lines stay in memory.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::extract::{Request, State};
use axum::response::Response;
use broker::Millis;
use http_api::only_looks;
use hyper::Uri;
use hyper::http::Extensions;
use notation::plain;

use crate::access::Principal;
use crate::access::rate::{Rate, Recent};
use crate::jobs::job::Moments;
use crate::openapi::Refusals;
use crate::problem::{Problem, ProblemKind};
use crate::state::Api;
use crate::text::json::Json;
use crate::text::moment;
use crate::text::query::Query;
use crate::types::{self, Role, Via};

/// Lines about changes in memory.
const CHANGES_MAX: usize = 1_000;
/// Lines about refused requests in memory. They have their own limit, so that a client without
/// rights cannot push out the lines about changes.
const REFUSALS_MAX: usize = 200;
/// Lines in memory about clients with fewer rights than an operator. They only sign in and out, and make
/// one-time codes, each of them at a limited rate. So a viewer cannot push out the lines about changes
/// either.
const SIGN_INS_MAX: usize = 200;
/// The longest action, detail or reason, in bytes.
const PART_BYTES_MAX: usize = 500;
/// The status in a line about a change whose client left before the response. The change may have
/// happened.
const CLIENT_LEFT: u16 = 499;
/// How often refused requests of clients with one role get a line. Otherwise, a client without rights
/// could fill the disk with messages.
const REFUSALS: Rate = Rate { at_once: 20, period_ms: 60_000 };
/// The header with the reason for a change.
const REASON_HEADER: &str = "x-reason";
/// The list that cursors belong to.
const LIST: &[u8] = b"audit";

/// In the extensions of a request: whether the change is usual work of programs, such as a put. It
/// is recorded only if it is refused.
#[derive(Clone, Debug, Default)]
pub(crate) struct Usual(Arc<AtomicBool>);

impl Usual {
    pub(crate) fn set(&self) {
        self.0.store(true, Relaxed);
    }
}

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
    changes: VecDeque<(Millis, types::AuditLine)>,
    sign_ins: VecDeque<(Millis, types::AuditLine)>,
    refusals: VecDeque<(Millis, types::AuditLine)>,
    count: u64,
    /// One limit for each role, so that clients without rights cannot hide the refusals of others.
    limits: BTreeMap<Role, RefusalLimit>,
}

/// Limits the lines about refused requests.
#[derive(Debug, Default)]
struct RefusalLimit {
    lines: Recent,
    /// Refused requests without a line since the last line.
    unwritten: u64,
}

impl RefusalLimit {
    /// Counts a refused request. If it gets a line, returns the number of those before it without one.
    fn count(&mut self, now: Millis) -> Option<u64> {
        if !self.lines.admits(REFUSALS, now) {
            self.unwritten += 1;
            return None;
        }
        Some(std::mem::take(&mut self.unwritten))
    }
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
        let reason = request.headers().get(REASON_HEADER).map(|reason| shown(reason.as_bytes()));
        let query = request.uri().query().map_or(String::new(), |query| format!("?{query}"));
        let action = format!("{} {path}{query}", request.method());
        Some(Asked { action: shown(action.as_bytes()), reason })
    }

    /// The same change, with a reason from a form.
    #[must_use]
    pub fn because(self, reason: Option<&str>) -> Asked {
        let reason = reason.filter(|reason| !reason.is_empty());
        let reason = reason.map(|reason| shown(reason.as_bytes()));
        Asked { reason: reason.or(self.reason), ..self }
    }
}

/// The beginning of a text, without control characters, so that it is one line.
fn shown(bytes: &[u8]) -> String {
    let beginning = &bytes[..bytes.len().min(PART_BYTES_MAX)];
    plain::one_line(&String::from_utf8_lossy(beginning))
}

/// A request that runs. If the client disconnects, its request ends wherever it waits, but the
/// change may have happened. So a change is also recorded when this value is dropped.
#[derive(Debug)]
pub struct Pending {
    api: Api,
    principal: Option<Principal>,
    asked: Option<Asked>,
    usual: Usual,
}

impl Pending {
    /// Puts into the request what its endpoint needs.
    pub fn mark(&self, request: &mut Request) {
        request.extensions_mut().insert(self.usual.clone());
    }

    /// Records the change, if the request asked for one. `reason` is the reason from a form.
    pub fn end(mut self, response: &Response, problem: Option<&Problem>, reason: Option<&str>) {
        let is_usual = self.usual.0.load(Relaxed);
        let is_noted = !is_usual || problem.is_some();
        if let Some(asked) = self.asked.take().filter(|_| is_noted) {
            let status = problem.map_or(response.status().as_u16(), |problem| problem.status);
            let (principal, asked) = (self.principal.as_ref(), asked.because(reason));
            let extensions = response.extensions();
            self.api.note_change(principal, asked, status, problem, extensions, is_usual);
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some(asked) = self.asked.take()
            && !self.usual.0.load(Relaxed)
        {
            let principal = self.principal.as_ref();
            self.api.note_change(principal, asked, CLIENT_LEFT, None, &Extensions::new(), false);
        }
    }
}

impl Api {
    /// Begins a request. `principal` is the client, if it was recognized.
    pub fn begin(&self, principal: Option<Principal>, asked: Option<Asked>) -> Pending {
        Pending { api: self.clone(), principal, asked, usual: Usual::default() }
    }

    /// Records a change, or the refusal of one.
    fn note_change(
        &self,
        principal: Option<&Principal>,
        asked: Asked,
        status: u16,
        problem: Option<&Problem>,
        extensions: &Extensions,
        is_usual: bool,
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
            // It can have names of queues, and Gearman's can be long and have line breaks.
            detail: extensions.get::<AuditDetail>().map(|detail| shown(detail.0.as_bytes())),
            // The reason of a stranger explains nothing, and would only make the message long.
            reason: asked.reason.filter(|_| role != Role::None),
            status,
            problem: problem.map(|problem| problem.kind_name().to_owned()),
        };
        if let Some(line) = self.access.audit.add(now, line, is_usual) {
            self.tell_audit(|| {
                let at = moment::written(Moments::of(&self.turn()).wall(now));
                types::AuditLine { at, ..line }
            });
        }
    }

    /// The latest changes, newest first. `before` is the number of the line after the first one.
    fn audit(&self, before: Option<u64>, limit: usize) -> types::Audit {
        let moments = Moments::of(&self.turn());
        let lines = self.access.audit.lines();
        let before = before.unwrap_or(u64::MAX);
        let all = lines.changes.iter().chain(&lines.sign_ins).chain(&lines.refusals);
        let mut all: Vec<_> = all.filter(|(_, line)| line.number < before).collect();
        all.sort_unstable_by_key(|(_, line)| Reverse(line.number));
        let mut found = all.into_iter();
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
    /// Adds a line, and returns it with its number. `None` if too many requests were refused.
    /// `is_usual`: the request is usual work of programs.
    fn add(
        &self,
        now: Millis,
        mut line: types::AuditLine,
        is_usual: bool,
    ) -> Option<types::AuditLine> {
        let mut lines = self.lines();
        // A change can have happened although the server failed. So its line must not be left out.
        let may_have_happened = line.status >= 500 && line.role >= Role::Operator && !is_usual;
        // Look at the status: a refusal has no problem if, for example, an address is no text.
        let is_refusal = line.status >= 400 && line.status != CLIENT_LEFT && !may_have_happened;
        if is_refusal {
            let unwritten = lines.limits.entry(line.role).or_default().count(now)?;
            if unwritten > 0 {
                let more = format!("not recorded before this: {unwritten} refused requests");
                let details = line.detail.into_iter().chain([more]);
                line.detail = Some(details.collect::<Vec<_>>().join("; "));
            }
        }
        lines.count += 1;
        line.number = lines.count;
        tracing::info!(target: "audit", "{}", said(&line));
        let (kept, most) = if is_refusal {
            (&mut lines.refusals, REFUSALS_MAX)
        } else if line.role < Role::Operator {
            (&mut lines.sign_ins, SIGN_INS_MAX)
        } else {
            (&mut lines.changes, CHANGES_MAX)
        };
        if kept.len() == most {
            kept.pop_front();
        }
        kept.push_back((now, line.clone()));
        Some(line)
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
        Refusals,
    )
)]
pub(crate) async fn get_audit(
    State(api): State<Api>,
    uri: Uri,
) -> Result<Json<types::Audit>, Problem> {
    api.read_audit(&Query::read(&uri, &["limit", "cursor"])?).map(Json)
}

impl Api {
    /// A page of the latest changes. `query` is the text behind the `?` of a request.
    pub fn audit_page(&self, query: &str) -> Result<types::Audit, Problem> {
        self.read_audit(&Query::read_form(query, &["limit", "cursor"])?)
    }

    fn read_audit(&self, query: &Query) -> Result<types::Audit, Problem> {
        let before = query.get("cursor").map(|cursor| {
            let number = self.cursor_key.read(LIST, cursor)?.parse();
            number.map_err(|_| Problem::new(ProblemKind::BadCursor, "begin again without a cursor"))
        });
        Ok(self.audit(before.transpose()?, query.limit()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(role: Role, status: u16, action: &str) -> types::AuditLine {
        types::AuditLine {
            number: 0,
            at: String::new(),
            who: "ann".to_owned(),
            role,
            via: Via::Token,
            address: None,
            action: action.to_owned(),
            detail: None,
            reason: None,
            status,
            problem: None,
        }
    }

    #[test]
    fn only_operators_push_out_the_lines_about_changes() {
        let audit = Audit::default();
        let add = |line| audit.add(Millis(0), line, false);
        add(line(Role::Operator, 204, "DELETE /jobs/1")).expect("it is noted");
        for _ in 0..2 * CHANGES_MAX {
            add(line(Role::Viewer, 303, "POST /console/login"));
            // The address of a page was no text.
            add(line(Role::Operator, 400, "POST /console/queues/%FF/pause"));
        }
        let lines = audit.lines();
        assert_eq!(lines.changes.len(), 1);
        assert_eq!(lines.sign_ins.len(), SIGN_INS_MAX);
        assert_eq!(lines.refusals.len() as u64, REFUSALS.at_once);
    }

    #[test]
    fn only_lines_about_refused_requests_are_left_out() {
        let audit = Audit::default();
        let add = |line, is_usual| audit.add(Millis(0), line, is_usual).is_some();
        let refused = |role| line(role, 403, "POST /x");
        let count = |role| (0..100).filter(|_| add(refused(role), false)).count() as u64;
        assert_eq!(count(Role::None), REFUSALS.at_once);
        assert_eq!(count(Role::Admin), REFUSALS.at_once, "strangers hide no refusal of others");
        for status in [200, CLIENT_LEFT, 500] {
            assert!(add(line(Role::Admin, status, "DELETE /jobs/1"), false), "{status}");
        }
        assert!(!add(line(Role::Admin, 503, "POST /queues/mail/jobs"), true), "a put that failed");
        let next = audit.add(Millis(REFUSALS.period_ms), refused(Role::None), false);
        let detail = next.and_then(|line| line.detail);
        assert_eq!(detail.as_deref(), Some("not recorded before this: 80 refused requests"));
        let more = audit.add(Millis(REFUSALS.period_ms), refused(Role::None), false);
        assert!(more.is_none(), "one line a minute");
    }
}
