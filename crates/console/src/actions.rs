//! Actions: forms that change something, and their handlers. Every action works without a script:
//! after it, the browser goes to a page that shows the result. The guard has checked the secret of
//! the form, and records the action.

use api::types::{JobState, OperationKind, Role, StartOperation};
use api::{Api, Condition, JobId, Principal, Problem, ProblemKind, parse_name};
use axum::Extension;
use axum::extract::{Path, State};
use axum::response::Response;
use hyper::Uri;
use maud::{Markup, html};

use crate::guard::Form;
use crate::page::{Result, see_other};
use crate::texts::{Actions, Texts};
use crate::{link, redrive};

/// A form changes a job or a queue in any version.
pub(crate) const ANY: Condition = Condition::ANY;

/// The text about the action before this page, if there was one. The parameter `done` names it.
pub(crate) fn done(t: &Texts, uri: &Uri) -> Markup {
    let query = uri.query().unwrap_or_default();
    let done = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "done");
    let text = done.and_then(|(_, done)| match &*done {
        "paused" => Some(t.actions.paused),
        "resumed" => Some(t.actions.resumed),
        "kicked" => Some(t.actions.kicked),
        "ended" => Some(t.actions.ended),
        "moved" => Some(t.actions.moved),
        "set-aside" => Some(t.actions.set_aside_done),
        "cancelled" => Some(t.actions.cancelled),
        "closed" => Some(t.connections.closed),
        "reloaded" => Some(t.policies.reloaded),
        "session" => Some(t.sessions.ended),
        _ => None,
    });
    html! { @if let Some(text) = text { p .done role="status" { (text) } } }
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
pub(crate) fn of_queue(
    api: &Api,
    texts: &Texts,
    principal: &Principal,
    queue: &api::types::Queue,
) -> Markup {
    let (t, words) = (&texts.actions, &texts.words);
    let path = link::queue(&queue.name);
    let reason = reason(texts);
    let seconds = html! {
        label {
            (t.seconds.0)
            input .short name="seconds" value="600" inputmode="numeric" required;
            (t.seconds.1)
        }
        (reason)
    };
    let states = html! {
        select name="state" aria-label=(t.which_jobs) {
            option value="ready" { (words.ready) }
            option value="delayed" { (words.delayed) }
            option value="buried" { (words.buried) }
            option value="" { (t.all_states) }
        }
    };
    let redrive = redrive::fields(texts, api.sees_bodies(principal));
    let to = html! { (states) (other_queue(t)) (reason) };
    let confirm = html! {
        (states)
        input name="confirm" required autocomplete="off" placeholder=(t.name)
            aria-label=(t.name_to_confirm);
        (reason)
    };
    html! {
        @if principal.require(Role::Operator).is_ok() {
            details #actions {
                summary { (t.title) }
                @if queue.pause_left_ms > 0 {
                    (form(principal, &format!("{path}/resume"), t.resume, &reason))
                }
                (form(principal, &format!("{path}/pause"), t.pause, &seconds))
                @if queue.buried > 0 {
                    (form(principal, &format!("{path}/kick"), t.kick_all, &reason))
                }
                @if queue.dead > 0 {
                    (form(principal, &format!("{path}/redrive"), t.redrive, &redrive))
                }
                (form(principal, &format!("{path}/move"), t.move_jobs, &to))
                (form(principal, &format!("{path}/clear"), t.clear, &confirm))
            }
        }
    }
}

/// The field with the reason for a change.
pub(crate) fn reason(t: &Texts) -> Markup {
    let t = &t.actions;
    html! { input name="reason" placeholder=(t.reason) aria-label=(t.reason) maxlength="500"; }
}

/// The field with the name of the queue that jobs move to.
fn other_queue(t: &Actions) -> Markup {
    html! {
        input name="to" required autocomplete="off" placeholder=(t.other_queue)
            aria-label=(t.other_queue);
    }
}

/// The actions of a job.
pub(crate) fn of_job(t: &Texts, principal: &Principal, job: &api::types::Job) -> Markup {
    let t = &t.actions;
    let path = link::job(job.id);
    let force = html! {
        label { input type="checkbox" name="force" value="true" required; " " (t.force) }
    };
    let none = html! {};
    html! {
        @if principal.require(Role::Operator).is_ok() {
            div .actions {
                @if matches!(job.state, JobState::Delayed | JobState::Buried) {
                    (form(principal, &format!("{path}/kick"), t.kick, &none))
                }
                @if job.dead.is_some() && job.state != JobState::Leased {
                    (form(principal, &format!("{path}/redrive"), t.redrive_one, &none))
                }
                @if job.dead.is_none() && job.state != JobState::Leased {
                    (form(principal, &format!("{path}/set-aside"), t.set_aside, &none))
                }
                (form(
                    principal,
                    &format!("{path}/delete"),
                    t.delete,
                    if job.state == JobState::Leased { &force } else { &none },
                ))
                @if job.state != JobState::Leased {
                    (form(principal, &format!("{path}/move"), t.move_to, &other_queue(t)))
                }
            }
        }
    }
}

pub(crate) fn operator(principal: &Principal) -> Result<()> {
    Ok(principal.require(Role::Operator)?)
}

pub(crate) fn number(text: &str) -> Result<u64> {
    let why = "the number of a job or an operation is a whole number";
    text.parse().map_err(|_| Problem::new(ProblemKind::BadRequest, why).into())
}

/// Goes back to a page, which says what was done.
pub(crate) fn back(page: &str, done: &str) -> Response {
    see_other(&link::with(page, &[("done", Some(done))]))
}

/// The state of the jobs that a form is about. `None`: all states.
pub(crate) fn state_of(form: &Form) -> Result<Option<JobState>> {
    let why = "the state is not `ready`, `delayed` or `buried`";
    let Some(text) = form.get("state") else { return Ok(None) };
    let state = JobState::parse(text).filter(|state| *state != JobState::Leased);
    Ok(Some(state.ok_or_else(|| Problem::new(ProblemKind::BadRequest, why))?))
}

/// Starts an operation, and shows the page on which it runs.
pub(crate) async fn start(
    api: &Api,
    principal: &Principal,
    asked: &StartOperation,
) -> Result<Response> {
    api.start_operation(principal, asked).await?;
    Ok(see_other(&link::operations()))
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
    api.pause_queue(&parse_name(&name)?, seconds, &ANY)?;
    Ok(back(&link::queue(&name), "paused"))
}

pub(crate) async fn resume(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    Path(name): Path<String>,
) -> Result<Response> {
    operator(&principal)?;
    api.pause_queue(&parse_name(&name)?, 0, &ANY)?;
    Ok(back(&link::queue(&name), "resumed"))
}

pub(crate) async fn kick_queue(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    Path(name): Path<String>,
) -> Result<Response> {
    operator(&principal)?;
    let asked = StartOperation::new(OperationKind::Kick, name);
    start(&api, &principal, &asked).await
}

pub(crate) async fn clear_queue(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    Path(name): Path<String>,
    form: Form,
) -> Result<Response> {
    operator(&principal)?;
    let asked = StartOperation {
        state: state_of(&form)?,
        confirm: form.get("confirm").map(str::to_owned),
        ..StartOperation::new(OperationKind::Clear, name)
    };
    start(&api, &principal, &asked).await
}

pub(crate) async fn kick_job(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    Path(id): Path<String>,
) -> Result<Response> {
    operator(&principal)?;
    let id = number(&id)?;
    api.kick_job(JobId(id), &ANY).await?;
    Ok(back(&link::job(id), "kicked"))
}

pub(crate) async fn set_aside_job(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    Path(id): Path<String>,
) -> Result<Response> {
    operator(&principal)?;
    let id = number(&id)?;
    api.set_aside_job(JobId(id), &ANY).await?;
    Ok(back(&link::job(id), "set-aside"))
}

pub(crate) async fn delete_job(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    Path(id): Path<String>,
    form: Form,
) -> Result<Response> {
    operator(&principal)?;
    let id = number(&id)?;
    let queue = api.job(&principal, JobId(id)).await?.queue;
    api.end_job(JobId(id), form.get("force") == Some("true"), &ANY).await?;
    Ok(back(&link::queue(&queue), "ended"))
}

pub(crate) async fn cancel(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    Path(id): Path<String>,
) -> Result<Response> {
    operator(&principal)?;
    api.cancel_operation(number(&id)?).await?;
    Ok(back(&link::operations(), "cancelled"))
}
