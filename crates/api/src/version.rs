//! Versions of jobs and queues, as `ETag`, and changes of one version only, with `If-Match`.
//!
//! A version names what requests can change. It does not name what passes by itself: the age of a
//! job, or the number of jobs in a queue. So a client can change a job or a queue only if it is still
//! as the client saw it.

use axum::extract::FromRequestParts;
use axum::response::{IntoResponse as _, Response};
use broker::{JobId, JobStatus, Turn};
use http_api::{answer, complete, sha256};
use hyper::StatusCode;
use hyper::header::{ETAG, HeaderMap, HeaderName, HeaderValue, IF_MATCH, IF_NONE_MATCH};
use hyper::http::request::Parts;
use serde::Serialize;

use crate::problem::{Problem, ProblemKind, as_json};
use crate::text::json::Json;

/// The bytes of a version.
const BYTES: usize = 8;

/// A version of a job, of a queue or of a document.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Version(String);

impl Version {
    /// The version of a thing with these facts.
    fn of(facts: &[u8]) -> Version {
        let sum = sha256(facts);
        let digits: Vec<String> = sum[..BYTES].iter().map(|byte| format!("{byte:02x}")).collect();
        Version(format!("\"{}\"", digits.concat()))
    }

    fn header(&self) -> Option<HeaderValue> {
        HeaderValue::from_str(&self.0).ok()
    }
}

/// The version of a job in the queue of this name. Of the body, it has only the length: nothing else
/// of it is at hand.
pub(crate) fn of_job(queue: &[u8], status: &JobStatus) -> Version {
    let facts = &status.facts;
    let (id, priority, state) = (facts.id.0, facts.priority, facts.state);
    let (ttr_s, delay_s, due) = (facts.ttr_s, facts.delay_s, facts.due.0);
    let (counters, body_len) = (&facts.counters, status.body_len);
    let death = facts.death.as_ref().map(|death| (death.died, death.cause));
    let facts = format!(
        "{id} {state:?} {priority} {ttr_s} {delay_s} {due} {counters:?} {death:?} {body_len} "
    );
    Version::of(&[facts.as_bytes(), queue].concat())
}

/// The version of a queue: its limits, its pause, its policy, and whether it stays. `None`: it does
/// not exist.
pub(crate) fn of_queue(turn: &Turn<'_>, name: &[u8]) -> Option<Version> {
    let id = turn.queue_id(name)?;
    // Other names can stand for the queue, and they show the same version.
    let name = turn.queue_name(id);
    let (stats, facts) = (turn.queue_stats_of(id), turn.queue_facts_of(id));
    let policy = turn.policy(name);
    let (kept, limits, created) = (facts.kept, facts.limits, facts.created.0);
    let (pauses, pause_s) = (stats.pauses, stats.pause_s);
    let facts = format!("{kept} {limits:?} {created} {pauses} {pause_s} {policy:?} ");
    Some(Version::of(&[facts.as_bytes(), name].concat()))
}

/// A response with the version of what it shows.
pub(crate) fn with_version(value: &impl Serialize, version: &Version) -> Response {
    let mut response = Json(value).into_response();
    response.headers_mut().extend(version.header().map(|version| (ETAG, version)));
    response
}

/// A response with a document that changes rarely. A client that has it already gets no body (304).
pub(crate) fn document(headers: &HeaderMap, value: &impl Serialize) -> Response {
    let text = as_json(value);
    let version = Version::of(&text);
    let is_known =
        named(headers, &IF_NONE_MATCH).is_some_and(|known| known.matches_weakly(&version));
    let (status, text) =
        if is_known { (StatusCode::NOT_MODIFIED, Vec::new()) } else { (StatusCode::OK, text) };
    let mut response = complete(answer(status, "application/json", text));
    response.headers_mut().extend(version.header().map(|version| (ETAG, version)));
    response
}

/// The versions that a header names.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Named {
    Any,
    These(Vec<String>),
}

impl Named {
    fn matches(&self, version: &Version) -> bool {
        match self {
            Named::Any => true,
            Named::These(these) => these.contains(&version.0),
        }
    }

    /// Like [`Named::matches`], also for versions that a proxy made weak.
    fn matches_weakly(&self, version: &Version) -> bool {
        let is_same = |this: &String| this.strip_prefix("W/").unwrap_or(this) == version.0;
        match self {
            Named::Any => true,
            Named::These(these) => these.iter().any(is_same),
        }
    }
}

fn named(headers: &HeaderMap, name: &HeaderName) -> Option<Named> {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    let these: Vec<String> =
        values.flat_map(|value| value.split(',')).map(|one| one.trim().to_owned()).collect();
    match these.as_slice() {
        [] if !headers.contains_key(name) => None,
        [any] if any == "*" => Some(Named::Any),
        _ => Some(Named::These(these)),
    }
}

/// The versions of a thing that a change applies to. The default applies to all.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Condition(Option<Named>);

impl Condition {
    /// All versions.
    pub const ANY: Condition = Condition(None);

    /// The condition of a request with these headers.
    pub(crate) fn of(headers: &HeaderMap) -> Condition {
        Condition(named(headers, &IF_MATCH))
    }

    /// Fails if there is a condition, because the change cannot depend on a version.
    pub(crate) fn refuse(&self) -> Result<(), Problem> {
        if self.0.is_none() {
            return Ok(());
        }
        let why = "this change cannot depend on a version";
        Err(Problem::new(ProblemKind::BadRequest, why).of_parameter("If-Match"))
    }

    /// Checks the condition, and fails if it names other versions.
    fn check(&self, version: impl FnOnce() -> Option<Version>) -> Result<(), Problem> {
        let Some(named) = &self.0 else { return Ok(()) };
        if version().is_some_and(|version| named.matches(&version)) {
            return Ok(());
        }
        let why = "the job or the queue has changed since you read it; read it again";
        Err(Problem::new(ProblemKind::PreconditionFailed, why))
    }

    /// Checks that a job has this version, if the job exists.
    pub(crate) fn check_job(&self, turn: &Turn<'_>, id: JobId) -> Result<(), Problem> {
        match turn.job_status(id).value {
            Ok(status) => self.check(|| Some(of_job(turn.queue_name(status.queue), &status))),
            // The change says that there is no such job.
            Err(_) => Ok(()),
        }
    }

    /// Checks that a queue has this version, if the queue exists.
    pub(crate) fn check_queue(&self, turn: &Turn<'_>, name: &[u8]) -> Result<(), Problem> {
        if turn.queue_id(name).is_none() {
            return Ok(());
        }
        self.check(|| of_queue(turn, name))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Condition {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Condition, Problem> {
        Ok(Condition::of(&parts.headers))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(values: &[&'static str]) -> Condition {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(IF_MATCH, HeaderValue::from_static(value));
        }
        Condition(named(&headers, &IF_MATCH))
    }

    #[test]
    fn a_condition_names_the_versions_that_it_accepts() {
        let version = Version::of(b"a");
        assert_eq!(version.0.len(), 2 + 2 * BYTES);
        let accepts = |values: &[&'static str]| {
            condition(values).check(|| Some(Version("\"a\"".to_owned()))).is_ok()
        };
        for values in [&[][..], &["*"], &["\"a\""], &["\"b\" , \"a\""], &["\"b\"", "\"a\""]] {
            assert!(accepts(values), "{values:?}");
        }
        // A weak version never names the same bytes.
        for values in [&[""][..], &["\"b\""], &["a"], &["W/\"a\""], &["*, \"b\""]] {
            assert!(!accepts(values), "{values:?}");
        }
    }
}
