//! Operations: changes of many jobs, in many turns. An operation runs until it is done, a client
//! cancels it, or the server stops. It changes some jobs in a turn, and waits until these changes
//! are durable before the next turn. So it does not delay other clients.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Extension;
use axum::extract::{FromRequestParts, Path, Request, State as Shared};
use axum::response::Response;
use broker::{Event, Millis, Need, Position, State};
use http_api::{DoorError, DoorSession, SessionKind};
use hyper::header::{HeaderValue, LOCATION};
use hyper::http::request::Parts;
use hyper::{StatusCode, Uri};
use tokio::sync::Notify;

use super::{receive_json, refused, with_json};
use crate::access::{PREFIX, Principal};
use crate::audit::AuditDetail;
use crate::job::{Moments, no_job};
use crate::json::Json;
use crate::moment;
use crate::name::{parse_name, shown_name};
use crate::problem::{Problem, ProblemKind};
use crate::query::Query;
use crate::state::Api;
use crate::types::{self, JobState, OperationKind, OperationStatus};

/// Operations that can run at a time.
const RUNNING_MAX: usize = 8;
/// Operations that the server remembers.
const KEPT_MAX: usize = 100;
/// Jobs of one turn. A slice of work can be spent earlier.
const STEP_MAX: u64 = 64;

/// All operations.
#[derive(Clone, Debug, Default)]
pub(crate) struct Operations {
    all: Arc<Mutex<List>>,
}

#[derive(Debug, Default)]
struct List {
    kept: BTreeMap<u64, Arc<Operation>>,
    last: u64,
}

#[derive(Debug)]
struct Operation {
    number: u64,
    kind: OperationKind,
    queue: Vec<u8>,
    /// The state that the client gave.
    state: Option<JobState>,
    rate_per_s: Option<u32>,
    who: Arc<str>,
    /// The states of the jobs that it changes, one after the other, with the number of jobs that
    /// each had at the start. Jobs that come later must not count against those.
    found: Vec<(State, u64)>,
    total: u64,
    started: Millis,
    cancelled: Notify,
    progress: Mutex<Progress>,
}

#[derive(Debug, Default)]
struct Progress {
    done: u64,
    /// The moment and the outcome of the end.
    ended: Option<(Millis, OperationStatus, Option<Problem>)>,
}

/// What a turn of an operation did.
struct Step {
    count: u64,
    after: Position,
    next: Next,
}

/// What comes after a turn.
enum Next {
    /// There may be more jobs.
    More,
    /// The next job is only in the log. The broker loads it, and sends an event.
    Load,
    /// There are no more jobs of this state.
    End,
}

impl Operation {
    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_running(&self) -> bool {
        self.progress().ended.is_none()
    }

    fn shown(&self, moments: &Moments) -> types::Operation {
        let progress = self.progress();
        let ended = progress.ended.as_ref();
        let until = ended.map_or(moments.now, |(at, ..)| *at);
        let seconds = until.since(self.started).max(1) as f64 / 1_000.0;
        types::Operation {
            id: self.number,
            kind: self.kind,
            queue: shown_name(&self.queue),
            state: self.state,
            status: ended.map_or(OperationStatus::Running, |(_, status, _)| *status),
            done: progress.done,
            total: self.total,
            per_s: progress.done as f64 / seconds,
            started_at: moment::written(moments.wall(self.started)),
            ended_at: ended.map(|(at, ..)| moment::written(moments.wall(*at))),
            who: self.who.to_string(),
            problem: ended.and_then(|(.., problem)| problem.clone()),
        }
    }
}

impl Operations {
    fn all(&self) -> MutexGuard<'_, List> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, number: u64) -> Result<Arc<Operation>, Problem> {
        self.all().kept.get(&number).cloned().ok_or_else(no_operation)
    }
}

impl List {
    /// Adds an operation, if not too many run.
    fn add(&mut self, make: impl FnOnce(u64) -> Operation) -> Result<Arc<Operation>, Problem> {
        if self.kept.values().filter(|operation| operation.is_running()).count() >= RUNNING_MAX {
            let why = format!("{RUNNING_MAX} operations run; wait, or cancel one");
            return Err(Problem::new(ProblemKind::TooManyOperations, why));
        }
        while self.kept.len() >= KEPT_MAX
            && let Some(oldest) = self.kept.values().find(|it| !it.is_running()).map(|it| it.number)
        {
            self.kept.remove(&oldest);
        }
        self.last += 1;
        let operation = Arc::new(make(self.last));
        self.kept.insert(self.last, operation.clone());
        Ok(operation)
    }
}

fn no_operation() -> Problem {
    let why = "there is no such operation; the server remembers the last 100, until it stops";
    Problem::new(ProblemKind::NotFound, why)
}

/// The number of an operation in the path of a request.
pub(crate) struct OperationNumber(u64);

impl<S: Send + Sync> FromRequestParts<S> for OperationNumber {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let text = Path::<String>::from_request_parts(parts, state).await.ok();
        let number = text.and_then(|Path(text)| text.parse().ok());
        number.map(OperationNumber).ok_or_else(no_operation)
    }
}

/// Starts an operation: a change of many jobs of a queue.
#[utoipa::path(
    post,
    path = "/operations",
    tag = "operations",
    request_body = types::StartOperation,
    responses(
        (status = 202, description = "The operation runs.", body = types::Operation),
        (
            status = "4XX",
            description = "The request failed.",
            body = Problem,
            content_type = "application/problem+json",
        ),
        (
            status = "5XX",
            description = "The server cannot do this.",
            body = Problem,
            content_type = "application/problem+json",
        ),
    )
)]
pub(crate) async fn post_operations(
    Shared(api): Shared<Api>,
    Extension(principal): Extension<Principal>,
    request: Request,
) -> Result<Response, Problem> {
    let (head, body) = request.into_parts();
    Query::read(&head.uri, &[])?;
    let asked: types::StartOperation = receive_json(body, &head.extensions).await?;
    let operation = api.start_operation(&principal, &asked)?;
    let mut response = with_json(StatusCode::ACCEPTED, &operation);
    let location = format!("{PREFIX}/operations/{}", operation.id);
    if let Ok(location) = HeaderValue::try_from(location) {
        response.headers_mut().insert(LOCATION, location);
    }
    response.extensions_mut().insert(detail_of(&operation));
    Ok(response)
}

/// The facts about an operation for the record of changes.
fn detail_of(operation: &types::Operation) -> AuditDetail {
    let types::Operation { id, kind, queue, state, total, .. } = operation;
    let kind = match kind {
        OperationKind::Kick => "kick",
        OperationKind::Clear => "clear",
    };
    let state = match state {
        None => "all",
        Some(JobState::Ready) => "ready",
        Some(JobState::Delayed) => "delayed",
        Some(JobState::Buried) => "buried",
        Some(JobState::Leased) => "leased",
    };
    AuditDetail(format!("operation {id}: {kind} {total} jobs ({state}) of {queue}"))
}

/// All operations that the server remembers, newest first.
#[utoipa::path(
    get,
    path = "/operations",
    tag = "operations",
    responses(
        (status = 200, description = "The operations.", body = types::Operations),
        (
            status = "4XX",
            description = "The request failed.",
            body = Problem,
            content_type = "application/problem+json",
        ),
    )
)]
pub(crate) async fn get_operations(
    Shared(api): Shared<Api>,
    uri: Uri,
) -> Result<Json<types::Operations>, Problem> {
    Query::read(&uri, &[])?;
    Ok(Json(api.operations()))
}

/// One operation.
#[utoipa::path(
    get,
    path = "/operations/{operation}",
    tag = "operations",
    params(("operation" = u64, Path, description = "The number of the operation.")),
    responses(
        (status = 200, description = "The operation.", body = types::Operation),
        (
            status = "4XX",
            description = "The request failed.",
            body = Problem,
            content_type = "application/problem+json",
        ),
    )
)]
pub(crate) async fn get_operation(
    Shared(api): Shared<Api>,
    OperationNumber(number): OperationNumber,
    uri: Uri,
) -> Result<Json<types::Operation>, Problem> {
    Query::read(&uri, &[])?;
    let operation = api.act.operations.find(number)?;
    let moments = Moments::of(&api.turn());
    Ok(Json(operation.shown(&moments)))
}

/// Cancels an operation. The jobs that it has changed stay changed.
#[utoipa::path(
    delete,
    path = "/operations/{operation}",
    tag = "operations",
    params(("operation" = u64, Path, description = "The number of the operation.")),
    responses(
        (status = 202, description = "The operation stops, or has ended.", body = types::Operation),
        (
            status = "4XX",
            description = "The request failed.",
            body = Problem,
            content_type = "application/problem+json",
        ),
    )
)]
pub(crate) async fn delete_operation(
    Shared(api): Shared<Api>,
    OperationNumber(number): OperationNumber,
    uri: Uri,
) -> Result<Response, Problem> {
    Query::read(&uri, &[])?;
    let operation = api.cancel_operation(number)?;
    Ok(with_json(StatusCode::ACCEPTED, &operation))
}

impl Api {
    /// All operations that the server remembers, newest first.
    pub fn operations(&self) -> types::Operations {
        let moments = Moments::of(&self.turn());
        let all = self.act.operations.all();
        let items = all.kept.values().rev().map(|operation| operation.shown(&moments)).collect();
        types::Operations { items }
    }

    /// The operations that run.
    pub(crate) fn running_operations(&self) -> Vec<types::Operation> {
        let moments = Moments::of(&self.turn());
        let all = self.act.operations.all();
        let running = all.kept.values().filter(|operation| operation.is_running());
        running.map(|operation| operation.shown(&moments)).collect()
    }

    /// Cancels an operation.
    pub fn cancel_operation(&self, number: u64) -> Result<types::Operation, Problem> {
        let operation = self.act.operations.find(number)?;
        // If the operation is not waiting now, the notice stays until it waits.
        operation.cancelled.notify_one();
        let moments = Moments::of(&self.turn());
        Ok(operation.shown(&moments))
    }

    /// Starts an operation. Must be called in the runtime of the site.
    pub fn start_operation(
        &self,
        principal: &Principal,
        asked: &types::StartOperation,
    ) -> Result<types::Operation, Problem> {
        let queue = parse_name(&asked.queue)?;
        let state = state_of(asked)?;
        let (stats, moments) = {
            let turn = self.turn();
            let stats = turn.queue_stats(&queue).ok_or_else(|| Problem::no_queue(&queue))?;
            (stats, Moments::of(&turn))
        };
        let all = [
            (State::Ready, JobState::Ready, stats.ready),
            (State::Delayed, JobState::Delayed, stats.delayed),
            (State::Buried, JobState::Buried, stats.buried),
        ];
        let wanted = all.into_iter().filter(|(_, shown, _)| state.is_none_or(|it| it == *shown));
        let found: Vec<(State, u64)> = wanted.map(|(state, _, count)| (state, count)).collect();
        let sum = found.iter().map(|(_, count)| count).sum();
        let total = asked.count.map_or(sum, |count| count.min(sum));
        if asked.kind == OperationKind::Clear && asked.confirm.as_deref() != Some(&*asked.queue) {
            let name = &asked.queue;
            let why = format!(
                "this would end {total} jobs; to confirm it, send the name of the queue as \
                 `confirm`: `{name}`"
            );
            return Err(Problem::new(ProblemKind::ConfirmationNeeded, why).of_parameter("confirm"));
        }
        let operation = self.act.operations.all().add(|number| Operation {
            number,
            kind: asked.kind,
            queue,
            state,
            found,
            rate_per_s: asked.rate_per_s,
            who: principal.name.clone(),
            total,
            started: moments.now,
            cancelled: Notify::new(),
            progress: Mutex::default(),
        })?;
        let shown = operation.shown(&moments);
        self.tell_operation(|| shown.clone());
        let api = self.clone();
        tokio::spawn(async move { api.operate(&operation).await });
        Ok(shown)
    }

    /// Runs an operation to its end.
    async fn operate(&self, operation: &Operation) {
        let outcome = tokio::select! {
            changed = self.change_all(operation) => match changed {
                Ok(()) => (OperationStatus::Done, None),
                Err(problem) => (OperationStatus::Failed, Some(problem)),
            },
            // This drops the work and its session, wherever it waits.
            () = operation.cancelled.notified() => (OperationStatus::Cancelled, None),
        };
        let (status, problem) = outcome;
        operation.progress().ended = Some((self.setup.door.now(), status, problem));
        self.tell_operation(|| operation.shown(&Moments::of(&self.turn())));
    }

    async fn change_all(&self, operation: &Operation) -> Result<(), Problem> {
        let door = &self.setup.door;
        let session = door.session(SessionKind::Reader);
        // The queue stays in existence as long as the session uses it.
        self.turn().caller(session.id()).use_queue(&operation.queue);
        for &(state, mut found) in &operation.found {
            loop {
                let done = operation.progress().done;
                let left = operation.total.saturating_sub(done).min(found);
                if left == 0 {
                    break;
                }
                door.uncongested().await?;
                let most = operation.rate_per_s.map_or(STEP_MAX, |rate| u64::from(rate).max(1));
                let step = self.step(operation, &session, state, left.min(most).min(STEP_MAX))?;
                door.settled_at(step.after).await?;
                operation.progress().done += step.count;
                found -= step.count;
                match step.next {
                    Next::More => {}
                    Next::Load => {
                        if let Event::Unreadable = session.event().await?.value {
                            return Err(DoorError::Unreadable.into());
                        }
                    }
                    Next::End => break,
                }
                match operation.rate_per_s {
                    Some(rate) => {
                        let pause = step.count as f64 / f64::from(rate.max(1));
                        tokio::time::sleep(Duration::from_secs_f64(pause)).await;
                    }
                    None => tokio::task::yield_now().await,
                }
            }
        }
        Ok(())
    }

    /// Changes jobs in one turn, at most `most`.
    fn step(
        &self,
        operation: &Operation,
        session: &DoorSession,
        state: State,
        most: u64,
    ) -> Result<Step, Problem> {
        let mut turn = self.turn();
        turn.begin_slice();
        let mut step = Step { count: 0, after: Position::NONE, next: Next::More };
        while step.count < most && (step.count == 0 || !turn.slice_is_spent()) {
            let mut caller = turn.caller(session.id());
            if !caller.is_at_hand(Need::Used(state)) {
                step.next = Next::Load;
                break;
            }
            let first = caller.first_used_id(state);
            let Ok(id) = first.value else {
                step.next = Next::End;
                break;
            };
            let after = match operation.kind {
                OperationKind::Kick => {
                    let kicked = caller.kick_job(id);
                    kicked.value.map_err(|refusal| refused(refusal, || no_job(id)))?;
                    kicked.after
                }
                OperationKind::Clear => caller.cancel(id).after,
            };
            step.after = step.after.max(after);
            step.count += 1;
        }
        Ok(step)
    }
}

/// The state of the jobs that an operation changes.
fn state_of(asked: &types::StartOperation) -> Result<Option<JobState>, Problem> {
    let bad = |why: &str| Err(Problem::new(ProblemKind::BadRequest, why).of_parameter("state"));
    match (asked.kind, asked.state) {
        (OperationKind::Kick, None) => Ok(Some(JobState::Buried)),
        (OperationKind::Kick, Some(JobState::Ready | JobState::Leased)) => {
            bad("a kick needs `buried` or `delayed`")
        }
        (OperationKind::Clear, Some(JobState::Leased)) => {
            bad("leased jobs stay; end one with `DELETE /jobs/{id}?force=true`")
        }
        (_, state) => Ok(state),
    }
}
