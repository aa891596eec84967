//! The forms that bring dead letters back: those of a queue, or one.

use api::types::{DeadFilter, DeathCause, OperationKind, StartOperation};
use api::{Api, JobId, Principal, Problem, ProblemKind};
use axum::Extension;
use axum::extract::{Path, State};
use axum::response::Response;
use maud::{Markup, html};

use crate::actions::{number, operator, reason, start};
use crate::guard::Form;
use crate::page::Result;
use crate::texts::Texts;

/// The causes with their names in the form.
const CAUSES: [(&str, DeathCause); 8] = [
    ("timed_out", DeathCause::TimedOut),
    ("aborted", DeathCause::Aborted),
    ("worker_left", DeathCause::WorkerLeft),
    ("released", DeathCause::Released),
    ("reported", DeathCause::Reported),
    ("expired", DeathCause::Expired),
    ("dropped", DeathCause::Dropped),
    ("operator", DeathCause::Operator),
];

/// The fields that say which dead letters of a queue come back, and how fast.
/// `sees_bodies`: the client can see bodies, so it can choose by keys and errors, which can be parts of them.
pub(crate) fn fields(texts: &Texts, sees_bodies: bool) -> Markup {
    let t = &texts.actions;
    html! {
        select name="cause" aria-label=(t.which_cause) {
            option value="" { (t.any_cause) }
            @for (name, cause) in CAUSES { option value=(name) { (texts.job.death(cause)) } }
        }
        @if sees_bodies {
            input name="key" autocomplete="off" placeholder=(t.key) aria-label=(t.key);
            input name="error" autocomplete="off" placeholder=(t.text_in_error)
                aria-label=(t.text_in_error);
        }
        label {
            (t.older.0)
            input .short name="older" inputmode="numeric";
            (t.older.1)
        }
        label {
            (t.rate.0)
            input .short name="rate" value="100" inputmode="numeric";
            (t.rate.1)
        }
        label { input type="checkbox" name="dry_run" value="true"; " " (t.dry_run) }
        (reason(texts))
    }
}

pub(crate) async fn redrive_queue(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    Path(name): Path<String>,
    form: Form,
) -> Result<Response> {
    operator(&principal)?;
    let asked = StartOperation {
        rate_per_s: whole(&form, "rate", "the rate is not a number of jobs in a second")?,
        only: only(&form)?,
        dry_run: form.get("dry_run") == Some("true"),
        ..StartOperation::new(OperationKind::Redrive, name)
    };
    start(&api, &principal, &asked).await
}

pub(crate) async fn redrive_job(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    Path(id): Path<String>,
) -> Result<Response> {
    operator(&principal)?;
    let id = number(&id)?;
    let asked = StartOperation {
        ids: Some(vec![id]),
        ..StartOperation::new(OperationKind::Redrive, api.job(&principal, JobId(id)).await?.queue)
    };
    start(&api, &principal, &asked).await
}

/// The dead letters that a form is about. `None`: all.
fn only(form: &Form) -> Result<Option<DeadFilter>> {
    let chosen = form.get("cause");
    let cause = chosen.and_then(|text| CAUSES.into_iter().find(|(name, _)| *name == text));
    if chosen.is_some() && cause.is_none() {
        let why = "the cause is not one of the list";
        return Err(Problem::new(ProblemKind::BadRequest, why).into());
    }
    let filter = DeadFilter {
        cause: cause.map(|(_, cause)| cause),
        key: form.get("key").map(str::to_owned),
        error: form.get("error").map(str::to_owned),
        older_than_s: whole(form, "older", "the age is not a number of seconds")?,
        ..DeadFilter::default()
    };
    Ok(Some(filter).filter(|filter| *filter != DeadFilter::default()))
}

/// The whole number in a field, if it has one.
fn whole<N: std::str::FromStr>(form: &Form, field: &str, why: &str) -> Result<Option<N>> {
    let text = form.get(field).map(str::trim).filter(|text| !text.is_empty());
    let number = text.map(str::parse::<N>).transpose();
    Ok(number.map_err(|_| Problem::new(ProblemKind::BadRequest, why))?)
}
