//! One job: its state, what happened to it, and its body.

use api::types::{Job, JobState};
use api::{Api, JobId, Principal, Problem, ProblemKind};
use axum::Extension;
use axum::extract::{Path, State};
use axum::response::Response;
use hyper::{HeaderMap, Uri};
use maud::html;

use crate::page::{Page, Result, see_other};
use crate::{actions, body, link, number};

/// A longer body can only be saved.
const SHOWN_BYTES_MAX: u64 = 1 << 20;

/// Goes to the job whose number is the parameter `id`.
pub(crate) async fn find(uri: Uri) -> Result<Response> {
    let query = uri.query().unwrap_or_default();
    let id = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "id");
    let id = number_of(id.as_ref().map_or("", |(_, value)| value.trim()))?;
    Ok(see_other(&link::job(id)))
}

pub(crate) async fn page(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    Path(id): Path<String>,
    headers: HeaderMap,
    uri: Uri,
) -> Result {
    let id = number_of(&id)?;
    let job = api.job(JobId(id)).await?;
    // The script needs only the parts that change.
    let is_shown = job.body_bytes <= SHOWN_BYTES_MAX && !headers.contains_key("x-live");
    let body = if is_shown { Some(api.job_body(JobId(id)).await) } else { None };
    let counters = &job.counters;
    let contents = html! {
        div .title {
            h1 { "Job " (job.id) }
            p class={ "level " (state(&job)) } { (state(&job)) }
            p { "in " a href=(link::queue(&job.queue)) { (job.queue) } }
        }
        (actions::done(&uri))
        (actions::of_job(&principal, &job))
        div .columns {
            section #state data-live {
                h2 { "State" }
                dl {
                    dt { "State" } dd { (state(&job)) }
                    dt { "Age" } dd { (number::duration(job.age_ms)) }
                    dt { "Put" } dd { time datetime=(job.created_at) { (job.created_at) } }
                    @if let Some(due) = &job.due_at {
                        dt { "Due" } dd { time datetime=(due) { (due) } }
                    }
                    @if job.state == JobState::Leased && job.time_left_ms > 0 {
                        dt { "Ready again in" } dd { (number::duration(job.time_left_ms)) }
                    }
                    @if let Some(holder) = &job.holder {
                        dt { "Held by" }
                        dd {
                            a href=(link::connection(&holder.connection)) { "a client" }
                            ", for " (number::span(holder.held_ms))
                        }
                    }
                    @if let Some(expires) = &job.expires_at {
                        dt { "Expires" } dd { time datetime=(expires) { (expires) } }
                    }
                    dt { "Priority" } dd { (job.priority) }
                    dt { "Time to run" }
                    dd {
                        @if job.ttr_s == 0 { "no limit" } @else { (number::span(u64::from(job.ttr_s) * 1000)) }
                    }
                    @if let Some(unique) = &job.unique { dt { "Key" } dd { code { (unique) } } }
                    dt { "In the log" } dd { @if job.is_durable { "yes" } @else { "no" } }
                }
            }
            section #counters data-live {
                h2 { "So far" }
                dl {
                    dt { "Taken by a worker" } dd { (number::count_or_dash(counters.takes.into())) }
                    dt { "Given back" } dd { (number::count_or_dash(counters.releases.into())) }
                    dt { "Time to run ended" } dd { (number::count_or_dash(counters.timeouts.into())) }
                    dt { "Buried" } dd { (number::count_or_dash(counters.buries.into())) }
                    dt { "Kicked" } dd { (number::count_or_dash(counters.kicks.into())) }
                    dt { "Lost by a worker" } dd { (number::count_or_dash(counters.failures.into())) }
                }
                p .form { "The times of earlier attempts are not kept." }
            }
        }
        section {
            h2 { "Body " small { (number::bytes(job.body_bytes)) } }
            @match &body {
                Some(Ok(bytes)) => { (body::shown(bytes)) }
                Some(Err(problem)) => { p .remark { (problem.detail) } }
                None => { p .form { "The body is too long to show." } }
            }
            p { a href={ "/api/v1/jobs/" (job.id) "/body" } download={ "job-" (job.id) } { "Save the body" } }
        }
    };
    Ok(Page::new(&api, "/queues", &format!("Job {}", job.id), contents))
}

fn number_of(text: &str) -> Result<u64> {
    let why = "the number of a job is a whole number";
    text.parse().map_err(|_| Problem::new(ProblemKind::BadRequest, why).into())
}

fn state(job: &Job) -> &'static str {
    match job.state {
        JobState::Ready => "ready",
        JobState::Delayed => "delayed",
        JobState::Leased => "leased",
        JobState::Buried => "buried",
    }
}
