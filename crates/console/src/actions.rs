//! Actions: forms that change something, and their handlers. Every action works without a script:
//! after it, the browser goes to a page that shows the result. The guard has checked the secret of
//! the form, and records the action.

use api::types::{JobState, OperationKind, Role, StartOperation};
use api::{Api, JobId, Principal, Problem, ProblemKind, parse_name};
use axum::Extension;
use axum::extract::{Path, State};
use axum::response::Response;
use hyper::Uri;
use maud::{Markup, html};

use crate::guard::Form;
use crate::link;
use crate::page::{Result, see_other};

/// What was done: the value of the parameter `done`, and the text on the next page.
const DONE: [(&str, &str); 5] = [
    ("paused", "The queue is paused. A pause ends if the server restarts."),
    ("resumed", "The queue is not paused any more."),
    ("kicked", "The job is ready."),
    ("ended", "The job has ended."),
    ("cancelled", "The operation stops. The jobs that it has changed stay changed."),
];

/// The text about the action before this page, if there was one.
pub(crate) fn done(uri: &Uri) -> Markup {
    let query = uri.query().unwrap_or_default();
    let done = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "done");
    let text = done.and_then(|(_, done)| DONE.into_iter().find(|(name, _)| *name == done));
    html! { @if let Some((_, text)) = text { p .done role="status" { (text) } } }
}

/// A form with one button, and further fields.
pub(crate) fn form(principal: &Principal, address: &str, button: &str, fields: &Markup) -> Markup {
    html! {
        form .action method="post" action=(address) {
            input type="hidden" name="csrf" value=(principal.csrf());
            (fields)
            button { (button) }
        }
    }
}

/// The actions of a queue, for clients that are allowed to use them.
pub(crate) fn of_queue(principal: &Principal, queue: &api::types::Queue) -> Markup {
    let path = link::queue(&queue.name);
    let reason = html! {
        input name="reason" placeholder="Reason" aria-label="Reason" maxlength="500";
    };
    let seconds = html! {
        label { "for " input .short name="seconds" value="600" inputmode="numeric" required; " s" }
        (reason)
    };
    let confirm = html! {
        select name="state" aria-label="which jobs" {
            option value="ready" { "ready" }
            option value="delayed" { "delayed" }
            option value="buried" { "buried" }
            option value="" { "ready, delayed and buried" }
        }
        input name="confirm" required autocomplete="off" placeholder="Name of the queue"
            aria-label="The name of the queue, to confirm";
        (reason)
    };
    html! {
        @if principal.require(Role::Operator).is_ok() {
            details #actions {
                summary { "Actions" }
                @if queue.pause_left_ms > 0 {
                    (form(principal, &format!("{path}/resume"), "Resume", &reason))
                }
                (form(principal, &format!("{path}/pause"), "Pause", &seconds))
                @if queue.buried > 0 {
                    (form(principal, &format!("{path}/kick"), "Kick all buried jobs", &reason))
                }
                (form(principal, &format!("{path}/clear"), "End all jobs of this state", &confirm))
            }
        }
    }
}

/// The actions of a job.
pub(crate) fn of_job(principal: &Principal, job: &api::types::Job) -> Markup {
    let path = link::job(job.id);
    let force = html! {
        label { input type="checkbox" name="force" value="true" required; " although a worker has it" }
    };
    let none = html! {};
    html! {
        @if principal.require(Role::Operator).is_ok() {
            div .actions {
                @if matches!(job.state, JobState::Delayed | JobState::Buried) {
                    (form(principal, &format!("{path}/kick"), "Kick", &none))
                }
                (form(
                    principal,
                    &format!("{path}/delete"),
                    "Delete",
                    if job.state == JobState::Leased { &force } else { &none },
                ))
            }
        }
    }
}

fn operator(principal: &Principal) -> Result<()> {
    Ok(principal.require(Role::Operator)?)
}

fn number(text: &str) -> Result<u64> {
    let why = "the number of a job or an operation is a whole number";
    text.parse().map_err(|_| Problem::new(ProblemKind::BadRequest, why).into())
}

/// Goes back to a page, which says what was done.
fn back(page: &str, done: &str) -> Response {
    see_other(&link::with(page, &[("done", Some(done))]))
}

pub(crate) async fn pause(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    Path(name): Path<String>,
    form: Form,
) -> Result<Response> {
    operator(&principal)?;
    let seconds = form.get("seconds").and_then(|text| text.trim().parse::<u32>().ok());
    let seconds = seconds.filter(|seconds| *seconds > 0).ok_or_else(|| {
        Problem::new(ProblemKind::BadRequest, "write the number of seconds of the pause")
    })?;
    api.pause_queue(&parse_name(&name)?, seconds).await?;
    Ok(back(&link::queue(&name), "paused"))
}

pub(crate) async fn resume(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    Path(name): Path<String>,
) -> Result<Response> {
    operator(&principal)?;
    api.pause_queue(&parse_name(&name)?, 0).await?;
    Ok(back(&link::queue(&name), "resumed"))
}

pub(crate) async fn kick_queue(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    Path(name): Path<String>,
) -> Result<Response> {
    operator(&principal)?;
    let asked = StartOperation {
        kind: OperationKind::Kick,
        queue: name,
        state: Some(JobState::Buried),
        count: None,
        rate_per_s: None,
        confirm: None,
    };
    api.start_operation(&principal, &asked)?;
    Ok(see_other(&link::operations()))
}

pub(crate) async fn clear_queue(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    Path(name): Path<String>,
    form: Form,
) -> Result<Response> {
    operator(&principal)?;
    let state = match form.get("state") {
        None => None,
        Some("ready") => Some(JobState::Ready),
        Some("delayed") => Some(JobState::Delayed),
        Some("buried") => Some(JobState::Buried),
        Some(_) => {
            let why = "the state is not `ready`, `delayed` or `buried`";
            return Err(Problem::new(ProblemKind::BadRequest, why).into());
        }
    };
    let asked = StartOperation {
        kind: OperationKind::Clear,
        queue: name,
        state,
        count: None,
        rate_per_s: None,
        confirm: form.get("confirm").map(str::to_owned),
    };
    api.start_operation(&principal, &asked)?;
    Ok(see_other(&link::operations()))
}

pub(crate) async fn kick_job(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    Path(id): Path<String>,
) -> Result<Response> {
    operator(&principal)?;
    let id = number(&id)?;
    api.kick_job(JobId(id)).await?;
    Ok(back(&link::job(id), "kicked"))
}

pub(crate) async fn delete_job(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    Path(id): Path<String>,
    form: Form,
) -> Result<Response> {
    operator(&principal)?;
    let id = number(&id)?;
    let queue = api.job(JobId(id)).await?.queue;
    api.end_job(JobId(id), form.get("force") == Some("true")).await?;
    Ok(back(&link::queue(&queue), "ended"))
}

pub(crate) async fn cancel(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    Path(id): Path<String>,
) -> Result<Response> {
    operator(&principal)?;
    api.cancel_operation(number(&id)?)?;
    Ok(back(&link::operations(), "cancelled"))
}
