//! Workers that take jobs over HTTP. A lease lasts longer than its request, so a session of the
//! broker stays open for each lease. If the worker does not end the lease in time, the job goes back
//! to its queue.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Extension;
use axum::extract::{FromRequestParts, Path, Request, State as Shared};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use broker::{
    Answer, Event, Handout, JobId, JobStatus, Millis, Need, Patience, PutRefusal, State, Turn,
};
use http_api::{Door, DoorSession, SessionKind, between_turns};
use hyper::http::request::Parts;
use hyper::{StatusCode, Uri};
use tokio::sync::Semaphore;

use super::{done, receive_json, refused, with_json};
use crate::access::Principal;
use crate::access::tokens::random_text;
use crate::jobs::job::{JobView, Moments, in_time};
use crate::openapi::Failures;
use crate::problem::{Problem, ProblemKind};
use crate::state::Api;
use crate::text::name::parse_name;
use crate::text::query::Query;
use crate::types;

/// Limit of leases. Each one is a session.
const LEASES_MAX: usize = 10_000;
/// Limit of the queues of one take.
const QUEUES_MAX: usize = 64;
/// The longest wait for a job.
const WAIT_S_MAX: u32 = 60;
/// The longest lease that a client can ask for.
const TIMEOUT_S_MAX: u32 = 86_400;
/// The lease of a job without a ttr, if the client asks for none.
const TIMEOUT_S: u32 = 60;
/// So many leases end before other requests of the site come. Each one takes two turns.
const ENDS_AT_ONCE: usize = 32;

/// Limit of requests that wait for a job. Each takes a connection of the site, and others must get in.
const WAITING_MAX: usize = 64;

/// The leases of workers.
#[derive(Clone, Debug)]
pub(crate) struct Leases {
    /// By their secret names.
    open: Arc<Mutex<HashMap<String, Arc<Lease>>>>,
    /// Permits to wait for a job.
    waits: Arc<Semaphore>,
}

impl Default for Leases {
    fn default() -> Leases {
        Leases { open: Arc::default(), waits: Arc::new(Semaphore::new(WAITING_MAX)) }
    }
}

/// A job that a worker has.
#[derive(Debug)]
pub(crate) struct Lease {
    session: DoorSession,
    id: JobId,
    /// The time that the client asked for.
    timeout_s: Option<u32>,
    /// When the job goes back to its queue.
    until: Mutex<Millis>,
}

impl Lease {
    fn until(&self) -> MutexGuard<'_, Millis> {
        self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The end of a lease that begins or is renewed now.
    fn end(&self, status: &JobStatus, now: Millis) -> Millis {
        let ttr_s = Some(status.facts.ttr_s).filter(|ttr_s| *ttr_s > 0);
        let asked_s = self.timeout_s.or(if ttr_s.is_none() { Some(TIMEOUT_S) } else { None });
        let asked = asked_s.map(|seconds| Millis(now.0 + u64::from(seconds) * 1_000));
        let own = ttr_s.map(|_| Millis(now.0 + status.time_left_ms));
        [asked, own].into_iter().flatten().min().unwrap_or(now)
    }
}

impl Leases {
    fn open(&self) -> MutexGuard<'_, HashMap<String, Arc<Lease>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the leases whose time is over: the first ones now, and the others in a task. Must be called in
    /// the runtime of the site.
    pub(crate) fn end_due(&self, door: &Door) {
        if self.end_some(door) {
            let (leases, door) = (self.clone(), door.clone());
            tokio::spawn(async move {
                loop {
                    between_turns().await;
                    if !leases.end_some(&door) {
                        break;
                    }
                }
            });
        }
    }

    /// Ends some leases whose time is over. Returns whether there can be more.
    fn end_some(&self, door: &Door) -> bool {
        let now = door.now();
        let is_over = |lease: &Arc<Lease>| *lease.until() <= now;
        let mut open = self.open();
        let over: Vec<String> = open
            .iter()
            .filter(|(_, lease)| is_over(lease))
            .take(ENDS_AT_ONCE)
            .map(|(name, _)| name.clone())
            .collect();
        let over: Vec<Arc<Lease>> = over.iter().filter_map(|name| open.remove(name)).collect();
        drop(open);
        let has_more = over.len() == ENDS_AT_ONCE;
        // This happens without the lock of the table. The end of each value closes a session, whose worker
        // would count as one that left. If the ttr has ended the lease before, the worker has no job.
        for lease in over {
            let _ = door.turn().caller(lease.session.id()).time_out(lease.id);
        }
        has_more
    }
}

/// The lease in the path of a request.
pub(crate) struct LeaseName(String);

impl FromRequestParts<Api> for LeaseName {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<LeaseName, Problem> {
        let name = Path::<String>::from_request_parts(parts, api).await;
        name.map(|Path(name)| LeaseName(name)).map_err(|_| no_lease())
    }
}

fn no_lease() -> Problem {
    let why = "there is no such lease; its time may be over, and then its job went back";
    Problem::new(ProblemKind::NotFound, why)
}

/// Takes a job. The worker then finishes it, gives it back or buries it. The worker gets the whole
/// body, without masks.
#[utoipa::path(
    post,
    path = "/take",
    tag = "leases",
    request_body = types::Take,
    responses(
        (status = 200, description = "A job.", body = types::Taken),
        (status = 204, description = "There was no job in this time."),
        Failures,
    )
)]
pub(crate) async fn post_take(
    Shared(api): Shared<Api>,
    Extension(principal): Extension<Principal>,
    request: Request,
) -> Result<Response, Problem> {
    let (head, body) = request.into_parts();
    Query::read(&head.uri, &[])?;
    let asked = receive_json(body, &head.extensions).await?;
    api.check_bodies(&principal)?;
    let taken = api.take(&asked).await?;
    Ok(taken.map_or_else(done, |taken| with_json(StatusCode::OK, &taken)))
}

/// Finishes the job of a lease: it ends.
#[utoipa::path(
    post,
    path = "/leases/{lease}/finish",
    tag = "leases",
    params(("lease" = String, Path, description = "The secret name of the lease.")),
    responses(
        (status = 204, description = "The job has ended."),
        Failures,
    )
)]
pub(crate) async fn post_finish(
    Shared(api): Shared<Api>,
    LeaseName(name): LeaseName,
    uri: Uri,
) -> Result<Response, Problem> {
    Query::read(&uri, &[])?;
    api.end_lease(&name, |turn, lease, _| {
        let finished = turn.caller(lease.session.id()).finish(lease.id);
        finished.map(|finished| finished.map_err(|_| no_lease()))
    })
    .await
}

/// Gives the job of a lease back to its queue.
#[utoipa::path(
    post,
    path = "/leases/{lease}/give_back",
    tag = "leases",
    params(("lease" = String, Path, description = "The secret name of the lease.")),
    request_body = types::GiveBack,
    responses(
        (status = 204, description = "The job is ready, or delayed."),
        Failures,
    )
)]
pub(crate) async fn post_give_back(
    Shared(api): Shared<Api>,
    LeaseName(name): LeaseName,
    request: Request,
) -> Result<Response, Problem> {
    let (head, body) = request.into_parts();
    Query::read(&head.uri, &[])?;
    let types::GiveBack { priority, delay_s } = receive_json(body, &head.extensions).await?;
    api.end_lease(&name, |turn, lease, status| {
        let priority = priority.unwrap_or(status.facts.priority);
        let given = turn.caller(lease.session.id()).give_back(lease.id, priority, delay_s);
        given.map(|given| given.map_err(|refusal| refused(refusal, no_lease)))
    })
    .await
}

/// Buries the job of a lease.
#[utoipa::path(
    post,
    path = "/leases/{lease}/bury",
    tag = "leases",
    params(("lease" = String, Path, description = "The secret name of the lease.")),
    request_body = types::Bury,
    responses(
        (status = 204, description = "The job is buried."),
        Failures,
    )
)]
pub(crate) async fn post_bury(
    Shared(api): Shared<Api>,
    LeaseName(name): LeaseName,
    request: Request,
) -> Result<Response, Problem> {
    let (head, body) = request.into_parts();
    Query::read(&head.uri, &[])?;
    let types::Bury { priority } = receive_json(body, &head.extensions).await?;
    api.end_lease(&name, |turn, lease, status| {
        let priority = priority.unwrap_or(status.facts.priority);
        let buried = turn.caller(lease.session.id()).bury(lease.id, priority);
        buried.map(|buried| buried.map_err(|refusal| refused(refusal, no_lease)))
    })
    .await
}

/// Begins the time of a lease again.
#[utoipa::path(
    post,
    path = "/leases/{lease}/touch",
    tag = "leases",
    params(("lease" = String, Path, description = "The secret name of the lease.")),
    responses(
        (status = 200, description = "The lease continues.", body = types::Touched),
        Failures,
    )
)]
pub(crate) async fn post_touch(
    Shared(api): Shared<Api>,
    LeaseName(name): LeaseName,
    uri: Uri,
) -> Result<Response, Problem> {
    Query::read(&uri, &[])?;
    let touched = {
        let lease = api.lease(&name)?;
        let mut turn = api.turn();
        lease_status(&turn, &lease)?;
        let touched = turn.caller(lease.session.id()).touch(lease.id);
        let status = lease_status(&turn, &lease)?;
        let until = lease.end(&status, turn.now());
        *lease.until() = until;
        touched.map(|touched| touched.map(|()| until.since(turn.now())))
    };
    let time_left_ms = api.settled(touched).await?.map_err(|_| no_lease())?;
    Ok(with_json(StatusCode::OK, &types::Touched { time_left_ms }))
}

/// The state of a lease's job. An error if the worker no longer has the job.
fn lease_status(turn: &Turn<'_>, lease: &Lease) -> Result<JobStatus, Problem> {
    let status = turn.job_status(lease.id).value.map_err(|_| no_lease())?;
    // After the end of its time, nobody may hold the job, and then anybody could finish it. If
    // another worker has the job, the broker refuses the request.
    if status.facts.state == State::Leased { Ok(status) } else { Err(no_lease()) }
}

impl Api {
    fn lease(&self, name: &str) -> Result<Arc<Lease>, Problem> {
        self.act.leases.open().get(name).cloned().ok_or_else(no_lease)
    }

    /// Ends a lease with this request, and waits until the change is durable.
    async fn end_lease(
        &self,
        name: &str,
        end: impl FnOnce(&mut Turn<'_>, &Lease, &JobStatus) -> Answer<Result<(), Problem>>,
    ) -> Result<Response, Problem> {
        let lease = self.lease(name)?;
        let ended = {
            let mut turn = self.turn();
            let status = lease_status(&turn, &lease)?;
            end(&mut turn, &lease, &status)
        };
        self.settled(ended).await??;
        self.act.leases.open().remove(name);
        Ok(done())
    }

    async fn take(&self, asked: &types::Take) -> Result<Option<types::Taken>, Problem> {
        let bad = |name: &str, why: String| {
            Err(Problem::new(ProblemKind::BadRequest, why).of_parameter(name))
        };
        let types::Take { queues, wait_s, timeout_s } = asked;
        if !(1..=QUEUES_MAX).contains(&queues.len()) {
            return bad("queues", format!("name 1 to {QUEUES_MAX} queues"));
        }
        if *wait_s > WAIT_S_MAX {
            return bad("wait_s", format!("a request waits at most {WAIT_S_MAX} seconds"));
        }
        if timeout_s.is_some_and(|seconds| !(1..=TIMEOUT_S_MAX).contains(&seconds)) {
            return bad("timeout_s", format!("write 1 to {TIMEOUT_S_MAX} seconds"));
        }
        let names: Vec<Vec<u8>> =
            queues.iter().map(|name| parse_name(name)).collect::<Result<_, _>>()?;
        if self.act.leases.open().len() >= LEASES_MAX {
            let why = format!("{LEASES_MAX} leases are open; finish some, or wait");
            return Err(Problem::new(ProblemKind::TooManyLeases, why));
        }
        let _wait = match wait_s {
            0 => None,
            _ => Some(self.act.leases.waits.try_acquire().map_err(|_| {
                let why = format!(
                    "{WAITING_MAX} requests wait for jobs already; try again, or connect with a \
                     client library of beanstalkd, Gearman or Kestrel"
                );
                Problem::new(ProblemKind::Unavailable, why)
            })?),
        };
        let session = self.watching(&names)?;
        let Some(handout) = self.granted(&session, *wait_s).await? else { return Ok(None) };
        let body = in_time(session.loaded(&handout.body)).await?;
        let name = random_text();
        let name = name.map_err(|why| Problem::new(ProblemKind::Unavailable, why.to_string()))?;
        let lease =
            Lease { session, id: handout.id, timeout_s: *timeout_s, until: Mutex::default() };
        let (status, queue, moments, is_durable, time_left_ms) = {
            let turn = self.turn();
            let status = lease_status(&turn, &lease)?;
            let until = lease.end(&status, turn.now());
            *lease.until() = until;
            let queue = turn.queue_name(status.queue).to_vec();
            let is_durable = turn.job_segment(handout.id) != 0;
            (status, queue, Moments::of(&turn), is_durable, until.since(turn.now()))
        };
        let view = JobView::of(&status, is_durable, Some(&self.setup.bodies));
        let job = view.shown(&queue, &moments);
        self.act.leases.open().insert(name.clone(), Arc::new(lease));
        let text = std::str::from_utf8(&body).ok().map(str::to_owned);
        let body_base64 = if text.is_none() { Some(STANDARD.encode(&*body)) } else { None };
        Ok(Some(types::Taken { lease: name, time_left_ms, job, body: text, body_base64 }))
    }

    /// A session that watches these queues.
    fn watching(&self, names: &[Vec<u8>]) -> Result<DoorSession, Problem> {
        let session = self.setup.door.session(SessionKind::Taker);
        let mut turn = self.turn();
        for name in names {
            if !turn.admits_queue(name) {
                return Err(PutRefusal::NoNewQueue.into());
            }
            turn.caller(session.id()).watch(name);
        }
        if !names.iter().any(|name| name == b"default") {
            turn.caller(session.id()).ignore(b"default");
        }
        drop(turn);
        Ok(session)
    }

    /// A job of the watched queues, durable as it must be before a worker sees it.
    async fn granted(
        &self,
        session: &DoorSession,
        wait_s: u32,
    ) -> Result<Option<Handout>, Problem> {
        let patience = match wait_s {
            0 => Patience::None,
            seconds => Patience::Millis(u64::from(seconds) * 1_000),
        };
        // Only a disk that hangs reaches this time limit: a queue without jobs needs no load.
        let taken =
            in_time(session.when_at_hand(Need::Watched, |caller| caller.take(patience))).await?;
        let mut answer = match taken.value {
            broker::Take::Granted(handout) => {
                return self.settled(Answer { value: Some(handout), after: taken.after }).await;
            }
            broker::Take::Waiting => session.event().await?,
            _ => return self.settled(Answer { value: None, after: taken.after }).await,
        };
        loop {
            let after = answer.after;
            match answer.value {
                Event::Granted(handout) => {
                    return self.settled(Answer { value: Some(handout), after }).await;
                }
                Event::TimedOut | Event::DeadlineSoon => {
                    return self.settled(Answer { value: None, after }).await;
                }
                _ => answer = session.event().await?,
            }
        }
    }
}
