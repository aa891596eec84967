//! One job.

use std::time::Duration;

use axum::Extension;
use axum::extract::{FromRequestParts, Path, State as Shared};
use axum::response::Response;
use broker::{Death, DeathCause, FailureCause, JobFacts, JobId, JobStatus, Millis, State, Turn};
use http_api::{DoorError, DoorSession, SessionKind, answer, complete};
use hyper::body::Bytes;
use hyper::header::{CONTENT_DISPOSITION, HeaderValue};
use hyper::http::request::Parts;
use hyper::{StatusCode, Uri};

use crate::access::Principal;
use crate::access::bodies::{BodySettings, shown_error};
use crate::openapi::Failures;
use crate::problem::{Problem, ProblemKind};
use crate::server::connections::shown_id;
use crate::state::Api;
use crate::text::form::BodyForm;
use crate::text::moment;
use crate::text::name::shown_name;
use crate::text::query::Query;
use crate::types;
use crate::version;
use crate::version::{Version, with_version};

/// A longer body has no form for people, except for the dump of its beginning.
const FORMED_BYTES_MAX: usize = 1 << 20;
/// Time limit for a job that must be read from the log. A disk can hang.
const TIME_MAX: Duration = Duration::from_secs(5);

/// One job, without its body.
#[utoipa::path(
    get,
    path = "/jobs/{id}",
    tag = "jobs",
    params(("id" = u64, Path, description = "The number of the job.")),
    responses(
        (
            status = 200,
            description = "The job.",
            body = types::Job,
            headers(("ETag" = String, description = "The version of the job, for `If-Match`.")),
        ),
        Failures,
    )
)]
pub(crate) async fn get_job(
    Shared(api): Shared<Api>,
    Extension(principal): Extension<Principal>,
    JobNumber(id): JobNumber,
    uri: Uri,
) -> Result<Response, Problem> {
    Query::read(&uri, &[])?;
    match api.job_with_version(&principal, id).await {
        Ok((job, version)) => Ok(with_version(&job, &version)),
        Err(problem) => Err(api.or_ended(id, problem).await),
    }
}

/// The body of a job, byte by byte, or in a form for people. The settings `http.bodies` and
/// `http.mask` can hide it, or values in it.
#[utoipa::path(
    get,
    path = "/jobs/{id}/body",
    tag = "jobs",
    params(
        ("id" = u64, Path, description = "The number of the job."),
        ("as" = Option<String>, Query, description = "The form: `json` and `php` (values that PHP's \
            `serialize` wrote, as JSON) with line breaks, `text` with escapes, or `hex`, a dump of \
            the first 64 KiB. Without it: the bytes."),
    ),
    responses(
        (status = 200, description = "The body.", content_type = "application/octet-stream"),
        Failures,
    )
)]
pub(crate) async fn get_body(
    Shared(api): Shared<Api>,
    Extension(principal): Extension<Principal>,
    JobNumber(id): JobNumber,
    uri: Uri,
) -> Result<Response, Problem> {
    let form = Query::read(&uri, &["as"])?.form()?;
    match api.job_body(&principal, id).await {
        Ok(body) => with_body(body, form),
        Err(problem) => Err(api.or_ended(id, problem).await),
    }
}

/// A response with a body, byte by byte or in a form for people.
pub(crate) fn with_body(body: Bytes, form: Option<BodyForm>) -> Result<Response, Problem> {
    if let Some(form) = form {
        return in_form(form, &body);
    }
    // The response can be the last owner of the body: the job ends, or the body leaves the memory. So
    // this is no stream but a complete response, which counts as unread with all of its bytes.
    let mut response = complete(answer(StatusCode::OK, "application/octet-stream", body));
    // A browser saves the body, and never shows it as a page of this server.
    response.headers_mut().insert(CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
    Ok(response)
}

/// A response with a body in a form for people.
fn in_form(form: BodyForm, body: &[u8]) -> Result<Response, Problem> {
    if body.len() > FORMED_BYTES_MAX && form != BodyForm::Hex {
        let why = format!("a body of more than {FORMED_BYTES_MAX} bytes has no form for people");
        return Err(Problem::new(ProblemKind::TooLong, why));
    }
    let shown = form.shown(body).ok_or_else(|| {
        let name = form.name();
        let why = format!("the body is not `{name}`, or is too long for it; leave out `as`");
        Problem::new(ProblemKind::BadRequest, why).of_parameter("as")
    })?;
    Ok(complete(answer(StatusCode::OK, "text/plain; charset=utf-8", shown)))
}

impl Api {
    /// One job, without its body.
    pub async fn job(&self, principal: &Principal, id: JobId) -> Result<types::Job, Problem> {
        self.job_with_version(principal, id).await.map(|(job, _)| job)
    }

    async fn job_with_version(
        &self,
        principal: &Principal,
        id: JobId,
    ) -> Result<(types::Job, Version), Problem> {
        let _session = self.session_with(id).await?;
        let (status, queue, moments, is_durable, holder) = {
            let turn = self.turn();
            let status = turn.job_status(id).value.map_err(|_| no_job(id))?;
            let queue = turn.queue_name(status.queue).to_vec();
            let is_durable = turn.job_segment(id) != 0;
            (status, queue, Moments::of(&turn), is_durable, turn.holder(id))
        };
        // Long names take a while to write, so the broker's lock must not be held meanwhile.
        let view = JobView::of(&status, is_durable, self.bodies_for(principal));
        let shown = view.shown(&queue, &moments);
        let holder = holder
            .map(|(session, held_ms)| types::Holder { connection: shown_id(session), held_ms });
        Ok((types::Job { holder, ..shown }, version::of_job(&queue, &status)))
    }

    /// The body of a job, as this client sees it.
    pub async fn job_body(&self, principal: &Principal, id: JobId) -> Result<Bytes, Problem> {
        self.check_bodies(principal)?;
        let session = self.session_with(id).await?;
        let peeked = self.turn().caller(session.id()).peek(id).value;
        let body = peeked.map_err(|_| no_job(id))?.body;
        let body = in_time(session.loaded(&body)).await?;
        self.shown_body(Bytes::from_owner(body)).await
    }

    /// A session that has this job in memory, if the job exists.
    pub(crate) async fn session_with(&self, id: JobId) -> Result<DoorSession, Problem> {
        let session = self.setup.door.session(SessionKind::Reader);
        let needs_search = self.turn().needs_search(id);
        if !needs_search {
            return Ok(session);
        }
        let finders = self.finders.clone();
        in_time(async move {
            // This wait ends with its request, so the requests that wait here are limited.
            let permit = finders.acquire_owned().await.ok();
            // The search continues even if the client has gone. So it counts until its end.
            let found = tokio::spawn(async move {
                let _permit = permit;
                session.job_at_hand(id).await.map(|()| session)
            });
            // A panic there has been reported. It ends this request, too.
            found.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
        })
        .await
    }
}

/// Limits the wait for a disk that hangs.
pub(crate) async fn in_time<T>(
    read: impl Future<Output = Result<T, DoorError>>,
) -> Result<T, Problem> {
    if let Ok(read) = tokio::time::timeout(TIME_MAX, read).await {
        return Ok(read?);
    }
    let why = "the disk did not give the job in time; check the disk, or try again";
    Err(Problem::new(ProblemKind::Unreadable, why))
}

pub(crate) fn no_job(id: JobId) -> Problem {
    let why = format!("no job has the number {}; it may have ended", id.0);
    Problem::new(ProblemKind::NotFound, why)
}

/// The moment of a reply, by the broker's clock and by the wall clock.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Moments {
    pub(crate) now: Millis,
    wall_now: Millis,
}

impl Moments {
    pub(crate) fn of(turn: &Turn<'_>) -> Moments {
        Moments { now: turn.now(), wall_now: turn.wall_at(turn.now()) }
    }

    /// The wall clock's time at this moment.
    pub(crate) fn wall(&self, moment: Millis) -> Millis {
        let wall = i128::from(moment.0) + i128::from(self.wall_now.0) - i128::from(self.now.0);
        Millis(u64::try_from(wall).unwrap_or(0))
    }
}

/// The facts of a job, from a list or from a single look.
pub(crate) struct JobView<'a> {
    pub(crate) facts: &'a JobFacts,
    pub(crate) time_left_ms: u64,
    pub(crate) body_bytes: usize,
    pub(crate) unique: &'a [u8],
    pub(crate) is_durable: bool,
    /// The settings for bodies, if the client may see bodies.
    pub(crate) bodies: Option<&'a BodySettings>,
}

impl<'a> JobView<'a> {
    /// The view of a single look. It has no key: only lists show keys.
    pub(crate) fn of(
        status: &'a JobStatus,
        is_durable: bool,
        bodies: Option<&'a BodySettings>,
    ) -> JobView<'a> {
        JobView {
            facts: &status.facts,
            time_left_ms: status.time_left_ms,
            body_bytes: status.body_len,
            unique: &[],
            is_durable,
            bodies,
        }
    }

    pub(crate) fn shown(&self, queue: &[u8], moments: &Moments) -> types::Job {
        let facts = self.facts;
        let counters = facts.counters;
        let is_delayed = facts.state == State::Delayed;
        let due = Millis(moments.now.0 + self.time_left_ms);
        let written = |moment| moment::written(moments.wall(moment));
        types::Job {
            id: facts.id.0,
            queue: shown_name(queue),
            state: match facts.state {
                State::Ready => types::JobState::Ready,
                State::Delayed => types::JobState::Delayed,
                State::Leased => types::JobState::Leased,
                State::Buried => types::JobState::Buried,
            },
            priority: facts.priority,
            ttr_s: facts.ttr_s,
            delay_s: facts.delay_s,
            created_at: written(facts.created),
            age_ms: moments.now.since(facts.created),
            due_at: is_delayed.then(|| written(due)),
            time_left_ms: self.time_left_ms,
            expires_at: facts.expires.map(written),
            counters: types::JobCounters {
                takes: counters.takes,
                timeouts: counters.timeouts,
                releases: counters.releases,
                buries: counters.buries,
                kicks: counters.kicks,
                failures: counters.failures,
            },
            attempts: facts.attempts,
            dead: facts.death.as_deref().map(|death| dead_letter(death, moments, self.bodies)),
            body_bytes: self.body_bytes as u64,
            unique: (!self.unique.is_empty()).then(|| shown_name(self.unique)),
            is_durable: self.is_durable,
            memory: None,
            body: None,
            holder: None,
        }
    }
}

pub(crate) fn shown_cause(cause: DeathCause) -> types::DeathCause {
    match cause {
        DeathCause::Failed(FailureCause::TimedOut) => types::DeathCause::TimedOut,
        DeathCause::Failed(FailureCause::Aborted) => types::DeathCause::Aborted,
        DeathCause::Failed(FailureCause::HolderLeft) => types::DeathCause::WorkerLeft,
        DeathCause::Failed(FailureCause::Released) => types::DeathCause::Released,
        DeathCause::Failed(FailureCause::Reported) => types::DeathCause::Reported,
        DeathCause::Expired => types::DeathCause::Expired,
        DeathCause::Dropped => types::DeathCause::Dropped,
        DeathCause::Operator => types::DeathCause::Operator,
    }
}

fn dead_letter(
    death: &Death,
    moments: &Moments,
    bodies: Option<&BodySettings>,
) -> types::DeadLetter {
    let written = |moment| moment::written(moments.wall(moment));
    types::DeadLetter {
        died_at: written(death.died),
        ends_at: death.until.map(written),
        cause: shown_cause(death.cause),
        attempts: death.attempts,
        origin: (!death.origin.is_empty()).then(|| shown_name(&death.origin)),
        worker: (!death.worker.is_empty())
            .then(|| String::from_utf8_lossy(&death.worker).into_owned()),
        error: shown_error(&death.error, bodies),
    }
}

/// The number of a job in the path of a request.
pub(crate) struct JobNumber(pub(crate) JobId);

impl<S: Send + Sync> FromRequestParts<S> for JobNumber {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<JobNumber, Problem> {
        let text = Path::<String>::from_request_parts(parts, state).await.ok();
        let number = text.and_then(|Path(text)| text.parse().ok());
        number.map(|number| JobNumber(JobId(number))).ok_or_else(|| {
            let why = "the number of a job is a whole number";
            Problem::new(ProblemKind::BadRequest, why).of_parameter("id")
        })
    }
}
