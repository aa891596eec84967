//! Changes of one job.

use axum::extract::{Request, State as Shared};
use axum::response::Response;
use broker::{
    JobFacts, JobId, MoveRefusal, NotFound, RedriveRefusal, RedriveRefused, SetAsideRefusal,
    SetAsideRefused, State, Turn,
};
use hyper::Uri;

use super::operations::STORES_NOTHING;
use super::{done, receive_json, refused};
use crate::jobs::job::{JobNumber, no_job};
use crate::openapi::Failures;
use crate::problem::{Problem, ProblemKind};
use crate::state::Api;
use crate::text::name::parse_name;
use crate::text::query::Query;
use crate::types;
use crate::version::Condition;

/// Ends a job, as if a worker had finished it.
#[utoipa::path(
    delete,
    path = "/jobs/{id}",
    tag = "jobs",
    params(
        ("id" = u64, Path, description = "The number of the job."),
        ("force" = Option<bool>, Query, description = "Also if a worker has the job."),
        (
            "If-Match" = Option<String>,
            Header,
            description = "Only if the job still has this `ETag`.",
        ),
    ),
    responses(
        (status = 204, description = "The job has ended."),
        Failures,
    )
)]
pub(crate) async fn delete_job(
    Shared(api): Shared<Api>,
    JobNumber(id): JobNumber,
    when: Condition,
    uri: Uri,
) -> Result<Response, Problem> {
    let query = Query::read(&uri, &["force"])?;
    let force = match query.get("force") {
        None | Some("false") => false,
        Some("true") => true,
        Some(_) => {
            let why = "write `true` or `false`";
            return Err(Problem::new(ProblemKind::BadRequest, why).of_parameter("force"));
        }
    };
    api.end_job(id, force, &when).await?;
    Ok(done())
}

/// Makes a delayed or buried job ready.
#[utoipa::path(
    post,
    path = "/jobs/{id}/kick",
    tag = "jobs",
    params(
        ("id" = u64, Path, description = "The number of the job."),
        (
            "If-Match" = Option<String>,
            Header,
            description = "Only if the job still has this `ETag`.",
        ),
    ),
    responses(
        (status = 204, description = "The job is ready."),
        Failures,
    )
)]
pub(crate) async fn post_kick(
    Shared(api): Shared<Api>,
    JobNumber(id): JobNumber,
    when: Condition,
    uri: Uri,
) -> Result<Response, Problem> {
    Query::read(&uri, &[])?;
    api.kick_job(id, &when).await?;
    Ok(done())
}

/// Buries a job that no worker has. This counts as no take.
#[utoipa::path(
    post,
    path = "/jobs/{id}/bury",
    tag = "jobs",
    params(
        ("id" = u64, Path, description = "The number of the job."),
        (
            "If-Match" = Option<String>,
            Header,
            description = "Only if the job still has this `ETag`.",
        ),
    ),
    request_body = types::Bury,
    responses(
        (status = 204, description = "The job is buried."),
        Failures,
    )
)]
pub(crate) async fn post_bury(
    Shared(api): Shared<Api>,
    JobNumber(id): JobNumber,
    when: Condition,
    request: Request,
) -> Result<Response, Problem> {
    let (head, body) = request.into_parts();
    Query::read(&head.uri, &[])?;
    let asked: types::Bury = receive_json(body, &head.extensions).await?;
    api.bury_job(id, asked, &when).await?;
    Ok(done())
}

/// Makes a job that no worker has a dead letter, with the cause `operator`. The policy of its queue says
/// where it goes; a queue without dead letters refuses. The limits of the queue of dead letters do not
/// apply.
#[utoipa::path(
    post,
    path = "/jobs/{id}/set_aside",
    tag = "jobs",
    params(
        ("id" = u64, Path, description = "The number of the job."),
        (
            "If-Match" = Option<String>,
            Header,
            description = "Only if the job still has this `ETag`.",
        ),
    ),
    responses(
        (status = 204, description = "The job is a dead letter."),
        Failures,
    )
)]
pub(crate) async fn post_set_aside(
    Shared(api): Shared<Api>,
    JobNumber(id): JobNumber,
    when: Condition,
    uri: Uri,
) -> Result<Response, Problem> {
    Query::read(&uri, &[])?;
    api.set_aside_job(id, &when).await?;
    Ok(done())
}

/// Moves a job that no worker has to another queue, as if a client put it there now. A delayed job
/// keeps its due time, and a buried job becomes ready. Only this queue gets the job: not its children,
/// and not the queues of its `route.copy_to`.
#[utoipa::path(
    post,
    path = "/jobs/{id}/move",
    tag = "jobs",
    params(
        ("id" = u64, Path, description = "The number of the job."),
        (
            "If-Match" = Option<String>,
            Header,
            description = "Only if the job still has this `ETag`.",
        ),
    ),
    request_body = types::MoveJob,
    responses(
        (status = 204, description = "The job is in the other queue."),
        Failures,
    )
)]
pub(crate) async fn post_move(
    Shared(api): Shared<Api>,
    JobNumber(id): JobNumber,
    when: Condition,
    request: Request,
) -> Result<Response, Problem> {
    let (head, body) = request.into_parts();
    Query::read(&head.uri, &[])?;
    let asked: types::MoveJob = receive_json(body, &head.extensions).await?;
    let to = parse_name(&asked.to).map_err(|problem| problem.of_parameter("to"))?;
    api.move_job(id, &to, &when).await?;
    Ok(done())
}

/// Gives a job that no worker has another priority or delay. This counts as no take, and as no failed
/// attempt.
#[utoipa::path(
    post,
    path = "/jobs/{id}/reschedule",
    tag = "jobs",
    params(
        ("id" = u64, Path, description = "The number of the job."),
        (
            "If-Match" = Option<String>,
            Header,
            description = "Only if the job still has this `ETag`.",
        ),
    ),
    request_body = types::GiveBack,
    responses(
        (status = 204, description = "The job is ready, or delayed."),
        Failures,
    )
)]
pub(crate) async fn post_reschedule(
    Shared(api): Shared<Api>,
    JobNumber(id): JobNumber,
    when: Condition,
    request: Request,
) -> Result<Response, Problem> {
    let (head, body) = request.into_parts();
    Query::read(&head.uri, &[])?;
    let asked: types::GiveBack = receive_json(body, &head.extensions).await?;
    api.reschedule_job(id, asked, &when).await?;
    Ok(done())
}

impl Api {
    /// Ends a job. With `force`, even if a worker has it.
    pub async fn end_job(&self, id: JobId, force: bool, when: &Condition) -> Result<(), Problem> {
        let session = self.session_with(id).await?;
        let ended = {
            let mut turn = self.turn();
            when.check_job(&turn, id)?;
            let facts = turn.job_status(id).value.map(|status| status.facts);
            let is_leased = facts.is_ok_and(|facts| facts.state == State::Leased);
            if is_leased && !force {
                return Err(leased(id, "; with `force=true`, it ends anyway"));
            }
            let mut caller = turn.caller(session.id());
            if is_leased { caller.cancel(id) } else { caller.finish(id) }
        };
        self.settled(ended).await?.map_err(|NotFound| no_job(id))
    }

    /// Makes a delayed or buried job ready.
    pub async fn kick_job(&self, id: JobId, when: &Condition) -> Result<(), Problem> {
        let session = self.session_with(id).await?;
        let kicked = {
            let mut turn = self.turn();
            when.check_job(&turn, id)?;
            let state = turn.job_status(id).value.map_err(|_| no_job(id))?.facts.state;
            match state {
                State::Ready => {
                    let why = format!("job {} is ready already", id.0);
                    return Err(Problem::new(ProblemKind::WrongState, why));
                }
                State::Leased => return Err(leased(id, "")),
                State::Delayed | State::Buried => turn.caller(session.id()).kick_job(id),
            }
        };
        self.settled(kicked).await?.map_err(|refusal| refused(refusal, || no_job(id)))
    }

    /// Buries a job that no worker has.
    pub async fn bury_job(
        &self,
        id: JobId,
        asked: types::Bury,
        when: &Condition,
    ) -> Result<(), Problem> {
        let session = self.session_with(id).await?;
        let buried = {
            let mut turn = self.turn();
            when.check_job(&turn, id)?;
            let facts = unheld(&turn, id)?;
            let priority = asked.priority.unwrap_or(facts.priority);
            turn.caller(session.id()).bury_job(id, priority)
        };
        self.settled(buried).await?.map_err(|refusal| refused(refusal, || no_job(id)))
    }

    /// Gives a job that no worker has another priority or delay.
    pub async fn reschedule_job(
        &self,
        id: JobId,
        asked: types::GiveBack,
        when: &Condition,
    ) -> Result<(), Problem> {
        let session = self.session_with(id).await?;
        let rescheduled = {
            let mut turn = self.turn();
            when.check_job(&turn, id)?;
            let facts = unheld(&turn, id)?;
            let priority = asked.priority.unwrap_or(facts.priority);
            turn.caller(session.id()).reschedule_job(id, priority, asked.delay_s)
        };
        self.settled(rescheduled).await?.map_err(|refusal| refused(refusal, || no_job(id)))
    }

    /// Makes a job that no worker has a dead letter.
    pub async fn set_aside_job(&self, id: JobId, when: &Condition) -> Result<(), Problem> {
        let session = self.session_with(id).await?;
        let done = {
            let mut turn = self.turn();
            when.check_job(&turn, id)?;
            turn.caller(session.id()).set_aside_job(id)
        };
        self.settled(done).await?.map_err(|refusal| set_aside_refused(refusal, id))
    }

    /// Moves a job that no worker has to another queue.
    pub async fn move_job(&self, id: JobId, to: &[u8], when: &Condition) -> Result<(), Problem> {
        let session = self.session_with(id).await?;
        let moved = {
            let mut turn = self.turn();
            when.check_job(&turn, id)?;
            turn.caller(session.id()).move_job(id, to)
        };
        self.settled(moved).await?.map_err(|refusal| move_refused(refusal, id))
    }
}

/// The facts of a job that no worker has.
fn unheld(turn: &Turn<'_>, id: JobId) -> Result<JobFacts, Problem> {
    let facts = turn.job_status(id).value.map_err(|_| no_job(id))?.facts;
    if facts.state == State::Leased { Err(leased(id, "")) } else { Ok(facts) }
}

/// The problem of a move that was refused.
pub(super) fn move_refused(refusal: MoveRefusal, id: JobId) -> Problem {
    match refusal {
        MoveRefusal::NotFound => no_job(id),
        MoveRefusal::Leased => leased(id, ""),
        MoveRefusal::SameQueue => {
            let why = format!("job {} is in this queue already", id.0);
            Problem::new(ProblemKind::WrongState, why)
        }
        MoveRefusal::StoresNothing => {
            Problem::new(ProblemKind::BadRequest, STORES_NOTHING).of_parameter("to")
        }
        MoveRefusal::Put(refusal) => refusal.into(),
    }
}

/// The problem of a job that cannot be set aside.
fn set_aside_refused(refusal: SetAsideRefusal, id: JobId) -> Problem {
    let why = match refusal {
        SetAsideRefusal::Refused(SetAsideRefused::NotFound) => return no_job(id),
        SetAsideRefusal::Refused(SetAsideRefused::Leased) => return leased(id, ""),
        SetAsideRefusal::Refused(SetAsideRefused::DeadAlready) => {
            format!("job {} is a dead letter already", id.0)
        }
        SetAsideRefusal::Refused(SetAsideRefused::Awaited) => {
            format!("a client waits for the result of job {}, so it is never a dead letter", id.0)
        }
        SetAsideRefusal::Refused(SetAsideRefused::NotKept) => format!(
            "job {} cannot be set aside: the policy `dead` of its queue keeps no dead letters",
            id.0
        ),
        SetAsideRefusal::Put(refusal) => return refusal.into(),
    };
    Problem::new(ProblemKind::WrongState, why)
}

/// The problem of a redrive that was refused.
pub(super) fn redrive_refused(refusal: RedriveRefusal, id: JobId) -> Problem {
    match refusal {
        RedriveRefusal::Refused(RedriveRefused::NotFound) => no_job(id),
        RedriveRefusal::Refused(RedriveRefused::Leased) => leased(id, ""),
        RedriveRefusal::Refused(RedriveRefused::NotDead) => {
            let why = format!("job {} is neither a dead letter nor buried", id.0);
            Problem::new(ProblemKind::WrongState, why)
        }
        RedriveRefusal::Refused(RedriveRefused::StoresNothing) => {
            let why = format!("job {} cannot come back: {STORES_NOTHING}", id.0);
            Problem::new(ProblemKind::WrongState, why)
        }
        RedriveRefusal::Refused(RedriveRefused::KeyTaken) => {
            let why = format!("job {} cannot come back: {}", id.0, RedriveRefused::KeyTaken);
            Problem::new(ProblemKind::Duplicate, why)
        }
        RedriveRefusal::Put(refusal) => refusal.into(),
    }
}

/// A worker has the job. `cure` says what the client can do.
fn leased(id: JobId, cure: &str) -> Problem {
    Problem::new(ProblemKind::JobLeased, format!("a worker has job {}{cure}", id.0))
}
