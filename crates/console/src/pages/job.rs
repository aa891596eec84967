//! One job: its state, what happened to it, and its body.

use api::types::{DeadLetter, Job, JobState, Role};
use api::{Api, JobId, Principal, Problem, ProblemKind, parse_name};
use axum::Extension;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Response};
use hyper::body::Bytes;
use hyper::{HeaderMap, Uri};
use maud::{Markup, html};

use crate::equal::Equal;
use crate::page::{Page, Result, see_other};
use crate::texts::Texts;
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
    t: &'static Texts,
    Path(id): Path<String>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response> {
    let id = number_of(&id)?;
    let job = match api.job(&principal, JobId(id)).await {
        Ok(job) => job,
        Err(problem) => {
            // The history may have a job that has ended.
            let problem = api.or_ended(JobId(id), problem).await;
            let has_ended = problem.is(ProblemKind::JobEnded);
            return if has_ended {
                Ok(see_other(&link::past_job(id)))
            } else {
                Err(problem.into())
            };
        }
    };
    let is_for_script = headers.contains_key("x-live");
    let body = match api.sees_bodies(&principal) {
        _ if is_for_script => BodyPart::Nothing,
        false => BodyPart::Hidden,
        true if job.body_bytes > SHOWN_BYTES_MAX => BodyPart::Long,
        true => BodyPart::Read(api.job_body(&principal, JobId(id)).await),
    };
    let why = why(&api, t, &job)?;
    let counters = &job.counters;
    let (texts, words) = (&t.job, &t.words);
    let title = (texts.title)(&job.id.to_string());
    let state = words.state(job.state);
    let contents = html! {
        nav .crumbs aria-label=(words.queue) { (link::to_queue(t, &job.queue)) }
        div .title {
            h1 { (title) }
            p class={ "level " (class(&job)) } { (state) }
        }
        (actions::done(t, &uri))
        p #why .remark data-live { strong { (t.job.why) } " " (why) }
        (actions::of_job(t, &principal, &job))
        div .columns {
            section #state data-live {
                h2 { (texts.state) }
                dl {
                    dt { (texts.state) } dd { (state) }
                    dt { (words.age) } dd { (number::duration(job.age_ms)) }
                    dt { (texts.put) } dd { (number::moment(&job.created_at)) }
                    @if let Some(due) = &job.due_at {
                        dt { (texts.due) } dd { (number::moment(due)) }
                    }
                    @if job.state == JobState::Leased && job.time_left_ms > 0 {
                        dt { (texts.ready_in) } dd { (number::duration(job.time_left_ms)) }
                    }
                    @if let Some(holder) = &job.holder {
                        dt { (texts.held_by) }
                        dd {
                            a href=(link::connection(&holder.connection)) { (texts.a_client) }
                            ((texts.held_for)(&number::span(holder.held_ms)))
                        }
                    }
                    @if let Some(expires) = &job.expires_at {
                        dt { (texts.expires) } dd { (number::moment(expires)) }
                    }
                    dt { (words.priority) } dd { (job.priority) }
                    dt { (texts.ttr) }
                    dd {
                        @if job.ttr_s == 0 { (words.no_limit) }
                        @else { (number::span(u64::from(job.ttr_s) * 1000)) }
                    }
                    @if let Some(unique) = &job.unique { dt { (texts.key) } dd { code { (unique) } } }
                    dt { (texts.in_log) }
                    dd { @if job.is_durable { (words.yes) } @else { (words.no) } }
                }
            }
            section #counters data-live {
                h2 { (texts.so_far) }
                dl {
                    dt { (texts.taken) } dd { (number::count_or_dash(counters.takes.into())) }
                    dt { (words.given_back) } dd { (number::count_or_dash(counters.releases.into())) }
                    dt { (words.timeouts) } dd { (number::count_or_dash(counters.timeouts.into())) }
                    dt { (words.times_buried) } dd { (number::count_or_dash(counters.buries.into())) }
                    dt { (texts.kicked) } dd { (number::count_or_dash(counters.kicks.into())) }
                    dt { (texts.lost) } dd { (number::count_or_dash(counters.failures.into())) }
                    @if job.attempts > 0 {
                        dt { (texts.attempts) } dd { (number::count(job.attempts.into())) }
                    }
                }
                p .form { (texts.no_times) }
            }
            @if let Some(dead) = &job.dead { (dead_letter(t, dead)) }
        }
        section {
            h2 { (t.queue.body) " " small { (number::bytes(job.body_bytes)) } }
            @match &body {
                BodyPart::Read(Ok(bytes)) => { (body::shown(texts, bytes)) }
                BodyPart::Read(Err(problem)) => { p .remark { (problem.detail) } }
                BodyPart::Long => { p .form { (texts.too_long) } }
                BodyPart::Hidden => { p .form { (texts.hidden) } }
                BodyPart::Nothing => {}
            }
            @if let BodyPart::Read(Ok(_)) | BodyPart::Long = &body {
                p {
                    a href={ "/api/v1/jobs/" (job.id) "/body" } download={ "job-" (job.id) } { (texts.save) }
                }
            }
        }
    };
    let page = Page::new(&api, "/queues", &title, contents).equal_to(equal(&principal, &job));
    Ok(page.into_response())
}

/// Why a job is a dead letter.
fn dead_letter(t: &Texts, dead: &DeadLetter) -> Markup {
    let texts = &t.job;
    html! {
        section #dead data-live {
            h2 { (texts.dead) }
            dl {
                dt { (texts.died) } dd { (number::moment(&dead.died_at)) }
                dt { (texts.cause) } dd { (texts.death(dead.cause)) }
                dt { (texts.attempts) } dd { (number::count(dead.attempts.into())) }
                @if let Some(origin) = &dead.origin {
                    dt { (texts.origin) } dd { (link::to_queue(t, origin)) }
                }
                @if let Some(worker) = &dead.worker { dt { (texts.last_worker) } dd { (worker) } }
                @match &dead.error {
                    Some(error) if error.is_empty() => {}
                    Some(error) => { dt { (texts.error) } dd { code { (error) } } }
                    None => { dt { (texts.error) } dd { em { (t.history.hidden_error) } } }
                }
                @if let Some(ends) = &dead.ends_at {
                    dt { (texts.removed) } dd { (number::moment(ends)) }
                }
            }
        }
    }
}

/// Why the job does not run. For a ready job, this is the first obstacle of its queue.
fn why(api: &Api, t: &Texts, job: &Job) -> Result<String> {
    let t_job = &t.job;
    Ok(match job.state {
        JobState::Ready => {
            let name = parse_name(&job.queue)?;
            (t.queue.why)(&api.why(&name)?, &api.queue(&name)?)
        }
        JobState::Delayed => t_job.why_delayed.to_owned(),
        JobState::Buried => t_job.why_buried.to_owned(),
        JobState::Leased => t_job.why_leased.to_owned(),
    })
}

/// The page and its actions as commands and requests.
fn equal(principal: &Principal, job: &Job) -> Equal {
    let (id, path) = (&job.id.to_string(), &format!("/jobs/{}", job.id));
    let looks = Equal::default()
        .job_command(&["peek", "--id", id])
        .get(path, &[])
        .get(&format!("{path}/body"), &[]);
    if principal.require(Role::Operator).is_err() {
        return looks;
    }
    let delete =
        |equal: Equal| equal.job_command(&["delete", "--id", id]).request("DELETE", path, None);
    let set_aside = |equal: Equal| {
        if job.dead.is_some() {
            return equal;
        }
        let equal = equal.command(&["set-aside", "--id", id]);
        equal.request("POST", &format!("{path}/set_aside"), None)
    };
    match job.state {
        // Only the worker ends the job over its protocol.
        JobState::Leased => looks.request("DELETE", &format!("{path}?force=true"), None),
        JobState::Ready => delete(set_aside(looks)),
        JobState::Delayed | JobState::Buried => {
            let kick = looks.job_command(&["kick", "--id", id]);
            delete(set_aside(kick.request("POST", &format!("{path}/kick"), None)))
        }
    }
}

/// What the page shows of the body.
enum BodyPart {
    /// The script needs only the parts of the page that change.
    Nothing,
    /// The client does not see bodies.
    Hidden,
    /// The body is too long for a page.
    Long,
    Read(std::result::Result<Bytes, Problem>),
}

fn number_of(text: &str) -> Result<u64> {
    let why = "the number of a job is a whole number";
    text.parse().map_err(|_| Problem::new(ProblemKind::BadRequest, why).into())
}

/// The class of a state, which has the color.
fn class(job: &Job) -> &'static str {
    match job.state {
        JobState::Ready => "ready",
        JobState::Delayed => "delayed",
        JobState::Leased => "leased",
        JobState::Buried => "buried",
    }
}
