//! The jobs that have left a queue, and one of them.

use api::types::{AttemptOutcome, Outcome, PastAttempt, PastJob, PastTimes, Role};
use api::{Api, JobId, PastEntry, Principal, parse_name};
use axum::Extension;
use axum::extract::{Path, State};
use axum::response::Response;
use hyper::Uri;
use maud::{Markup, html};
use notation::plain::is_hostile;

use crate::equal::{self, Equal};
use crate::page::{Page, Result, see_other};
use crate::table::paging;
use crate::texts::Texts;
use crate::{actions, body, chosen, link, number};

/// The parameters of the list.
const LIST: &str = "limit=50&body=text";
/// A longer body can only be saved.
const SHOWN_BYTES_MAX: u64 = 1 << 20;

/// All outcomes, with their names in the API.
const OUTCOMES: [(&str, Outcome); 10] = [
    ("done", Outcome::Done),
    ("failed", Outcome::Failed),
    ("dead", Outcome::Dead),
    ("deleted", Outcome::Deleted),
    ("expired", Outcome::Expired),
    ("dropped", Outcome::Dropped),
    ("flushed", Outcome::Flushed),
    ("abandoned", Outcome::Abandoned),
    ("replaced", Outcome::Replaced),
    ("moved", Outcome::Moved),
];

/// The value of a parameter of a page.
fn parameter(uri: &Uri, name: &str) -> Option<String> {
    let mut all = form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
    let found = all.find(|(known, _)| known == name);
    found.map(|(_, value)| value.into_owned()).filter(|value| !value.is_empty())
}

/// The entry of the history that a page is about.
fn entry_of(id: &str, uri: &Uri) -> Result<PastEntry> {
    let (queue, left_at) = (parameter(uri, "queue"), parameter(uri, "left_at"));
    let id = JobId(actions::number(id)?);
    Ok(PastEntry::new(id, queue.as_deref(), left_at.as_deref())?)
}

/// The jobs that have left a queue.
pub(crate) async fn list(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    t: &'static Texts,
    Path(name): Path<String>,
    uri: Uri,
) -> Result {
    let bytes = parse_name(&name)?;
    let name = api::shown_name(&bytes);
    let (outcome, cursor) = (parameter(&uri, "outcome"), parameter(&uri, "cursor"));
    let (outcome, cursor) = (outcome.as_deref(), cursor.as_deref());
    let text = parameter(&uri, chosen::SEARCH);
    let text = text.as_deref();
    let query = link::with("", &[("outcome", outcome), ("text", text), ("cursor", cursor)]);
    let query = format!("{LIST}&{}", query.trim_start_matches('?'));
    let found = api.past_jobs(api.list_past_jobs(&principal, bytes, &query)?).await?;
    let (texts, words) = (&t.history, &t.words);
    let path = link::queue_history(&name);
    let page = |outcome: Option<&str>, cursor: Option<&str>| {
        link::with(&path, &[("outcome", outcome), (chosen::SEARCH, text), ("cursor", cursor)])
    };
    let contents = html! {
        nav .crumbs aria-label=(words.queue) { (link::to_queue(t, &name)) }
        div .title { h1 { (texts.title) } p { ((texts.total)(&number::grouped(found.total))) } }
        @if found.lost > 0 { p .remark { ((texts.lost)(&number::grouped(found.lost))) } }
        @if let Some(times) = &found.times { (times_table(t, times)) }
        // A search reads files, so a page with one does not repeat it every two seconds.
        section #jobs data-live[text.is_none()] {
            (chosen::search_form(t, &path, ("outcome", outcome), texts.search, text))
            nav .tabs aria-label=(texts.by_outcome) {
                a href=(page(None, None)) aria-current=[outcome.is_none().then_some("true")] {
                    (t.frame.all)
                }
                @for (key, shown) in OUTCOMES {
                    a href=(page(Some(key), None))
                        aria-current=[(outcome == Some(key)).then_some("true")]
                    { (texts.outcome(shown)) }
                }
            }
            @if found.items.is_empty() {
                p .empty { (texts.empty) }
            } @else {
                (jobs_table(t, &found.items, text))
            }
            @if text.is_some() && found.next.is_some() { p .remark { (t.actions.goes_on) } }
            @if found.unreadable > 0 {
                p .remark { ((texts.unreadable)(&number::grouped(found.unreadable))) }
            }
            (paging(
                t,
                cursor.map(|_| page(outcome, None)),
                found.next.map(|next| page(outcome, Some(&next))),
            ))
        }
    };
    let options =
        [outcome.map(|it| format!("--outcome={it}")), text.map(|it| format!("--text={it}"))];
    let command = ["history"].into_iter().chain(options.iter().flatten().map(String::as_str));
    let mut equal = Equal::default();
    // A shell cannot show some characters.
    if !text.is_some_and(|text| text.contains(is_hostile)) {
        equal = equal.command_of(&command.collect::<Vec<_>>(), &[&name]);
    }
    let parameters = [("outcome", outcome), ("text", text)];
    let equal = equal.get(&format!("{}/history", equal::queue(&name)), &parameters);
    let title = format!("{name}: {}", texts.title);
    Ok(Page::new(&api, "/queues", &title, contents).equal_to(equal))
}

fn jobs_table(t: &Texts, jobs: &[PastJob], text: Option<&str>) -> Markup {
    let (texts, words) = (&t.history, &t.words);
    html! {
        div .scroll {
            table .wide {
                caption .hidden { (texts.caption) }
                thead {
                    tr {
                        th scope="col" { (words.job) }
                        th scope="col" { (texts.how) }
                        th scope="col" { (texts.left) }
                        th .num scope="col" { (words.takes) }
                        th .num scope="col" { (texts.waited) }
                        th .num scope="col" { (texts.ran) }
                        th .num scope="col" { (texts.total_time) }
                        th scope="col" { (texts.worker) }
                        th scope="col" { (t.queue.body) }
                    }
                }
                tbody {
                    @for job in jobs {
                        tr {
                            th scope="row" {
                                a href=(address_of(&link::past_job(job.id), job)) { (job.id) }
                            }
                            td { (how(t, job)) }
                            td { (number::moment(&job.left_at)) }
                            td .num { (number::count_or_dash(job.takes.into())) }
                            td .num { (number::duration(job.waited_ms.unwrap_or(0))) }
                            td .num { (number::duration(job.ran_ms.unwrap_or(0))) }
                            td .num { (number::duration(job.total_ms)) }
                            td { (job.attempts.last().and_then(|it| it.worker.as_deref()).unwrap_or("–")) }
                            td .body {
                                @if let Some(body) = &job.body {
                                    code {
                                        (chosen::marked(&body.text, text))
                                        @if body.is_cut { "…" }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The address of an entry of the history, below this path for the job.
fn address_of(path: &str, job: &PastJob) -> String {
    link::entry(path, &job.queue, &job.left_at)
}

fn times_table(t: &Texts, times: &PastTimes) -> Markup {
    let texts = &t.history;
    let rows = [
        (texts.waited, times.waited.as_ref()),
        (texts.ran, times.ran.as_ref()),
        (texts.total_time, Some(&times.total)),
    ];
    let rows = rows.into_iter().filter_map(|(name, values)| Some((name, values?)));
    html! {
        section #times data-live {
            h2 { (texts.times) }
            div .scroll {
                table {
                    thead {
                        tr {
                            th scope="col" {}
                            th .num scope="col" { (texts.mean) }
                            th .num scope="col" { "50 %" }
                            th .num scope="col" { "95 %" }
                            th .num scope="col" { "99 %" }
                        }
                    }
                    tbody {
                        @for (name, values) in rows {
                            tr {
                                th scope="row" { (name) }
                                @for value in
                                    [values.mean_ms, values.p50_ms, values.p95_ms, values.p99_ms]
                                {
                                    td .num { (number::time(value)) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// How a job left its queue.
fn how(t: &Texts, job: &PastJob) -> Markup {
    html! {
        span class={ "level " (class(job.outcome)) } { (t.history.outcome(job.outcome)) }
        @if let Some(to) = &job.to { " → " (link::to_queue(t, to)) }
    }
}

/// The class of an outcome, which has the color.
fn class(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Done => "ok",
        Outcome::Failed | Outcome::Dead => "critical",
        Outcome::Expired | Outcome::Dropped | Outcome::Abandoned => "warning",
        Outcome::Deleted | Outcome::Flushed | Outcome::Replaced | Outcome::Moved => "ready",
    }
}

/// A job that has left its queue.
pub(crate) async fn one(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    t: &'static Texts,
    Path(id): Path<String>,
    uri: Uri,
) -> Result {
    let entry = entry_of(&id, &uri)?;
    let job = api.past_job(&principal, entry.clone()).await?;
    let is_shown = job.kept_bytes > 0 && job.kept_bytes <= SHOWN_BYTES_MAX;
    let bytes = if is_shown && api.sees_bodies(&principal) {
        Some(api.past_body(&principal, entry).await)
    } else {
        None
    };
    let (texts, words) = (&t.history, &t.words);
    let title = (t.job.title)(&job.id.to_string());
    let is_operator = principal.require(Role::Operator).is_ok();
    let contents = html! {
        nav .crumbs aria-label=(words.queue) {
            (link::to_queue(t, &job.queue)) " "
            a href=(link::queue_history(&job.queue)) { (texts.title) }
        }
        div .title { h1 { (title) } p { (how(t, &job)) } }
        (actions::done(t, &uri))
        @if is_operator && job.can_run_again {
            div .actions {
                (actions::form(
                    &principal,
                    &address_of(&format!("{}/run-again", link::job(job.id)), &job),
                    texts.run_again,
                    &actions::reason(t),
                ))
            }
        }
        section {
            h2 { (texts.life) }
            (life(t, &job))
            dl {
                dt { (texts.waited) } dd { (number::duration(job.waited_ms.unwrap_or(0))) }
                dt { (texts.ran) } dd { (number::duration(job.ran_ms.unwrap_or(0))) }
                dt { (texts.total_time) } dd { (number::duration(job.total_ms)) }
                dt { (words.priority) } dd { (job.priority) }
                dt { (t.job.ttr) }
                dd {
                    @if job.ttr_s == 0 { (words.no_limit) }
                    @else { (number::span(u64::from(job.ttr_s) * 1000)) }
                }
            }
        }
        section {
            h2 { (t.queue.body) " " small { (number::bytes(job.body_bytes)) } }
            @if job.kept_bytes < job.body_bytes {
                p .form { ((texts.kept)(&number::grouped(job.kept_bytes))) }
            }
            @match &bytes {
                Some(Ok(bytes)) => { (body::shown(&t.job, bytes)) }
                Some(Err(problem)) => { p .remark { (problem.detail) } }
                None if !api.sees_bodies(&principal) => { p .form { (t.job.hidden) } }
                None if job.kept_bytes > SHOWN_BYTES_MAX => { p .form { (t.job.too_long) } }
                None => {}
            }
            @if job.kept_bytes > 0 && api.sees_bodies(&principal) {
                p {
                    a href=(address_of(&format!("/api/v1/jobs/{}/history/body", job.id), &job))
                        download={ "job-" (job.id) } { (t.job.save) }
                }
            }
        }
    };
    let (number, path) = (&job.id.to_string(), format!("/jobs/{}", job.id));
    let looks = Equal::default()
        .command_of(&["history", "--job", number], &[&job.queue])
        .get(&address_of(&format!("{path}/history"), &job), &[]);
    let equal = if is_operator && job.can_run_again {
        let command = ["history", "--job", number, "--run-again"];
        looks.command_of(&command, &[&job.queue]).request(
            "POST",
            &address_of(&format!("{path}/run_again"), &job),
            None,
        )
    } else {
        looks
    };
    Ok(Page::new(&api, "/queues", &title, contents).equal_to(equal))
}

/// What happened to the job, in order.
fn life(t: &Texts, job: &PastJob) -> Markup {
    let texts = &t.history;
    let unknown = u64::from(job.takes).saturating_sub(job.attempts.len() as u64);
    html! {
        div .scroll {
            table .wide {
                caption .hidden { (texts.life) }
                tbody {
                    tr {
                        td { (number::moment(&job.created_at)) }
                        td { (t.job.put) }
                        td {}
                    }
                    @if unknown > 0 {
                        tr { td {} td { ((texts.unknown)(&number::grouped(unknown))) } td {} }
                    }
                    @for attempt in &job.attempts { (attempt_row(t, attempt)) }
                    tr {
                        td { (number::moment(&job.left_at)) }
                        td { (how(t, job)) }
                        td {}
                    }
                }
            }
        }
    }
}

fn attempt_row(t: &Texts, attempt: &PastAttempt) -> Markup {
    let texts = &t.history;
    let worker = attempt.worker.as_deref().unwrap_or(texts.unknown_worker);
    let end = match attempt.outcome {
        AttemptOutcome::Left => None,
        AttemptOutcome::Buried => Some(t.words.buried),
        AttemptOutcome::TimedOut => Some(t.job.causes[0]),
        AttemptOutcome::Aborted => Some(t.job.causes[1]),
        AttemptOutcome::WorkerLeft => Some(t.job.causes[2]),
        AttemptOutcome::Released => Some(t.job.causes[3]),
        AttemptOutcome::Reported => Some(t.job.causes[4]),
    };
    let (waited, ran) = (number::span(attempt.waited_ms), number::span(attempt.ran_ms));
    html! {
        tr {
            td { (number::moment(&attempt.taken_at)) }
            td { ((texts.attempt)(worker, &waited, &ran)) }
            td {
                @if let Some(end) = end { (end) }
                @match attempt.error.as_deref() {
                    Some("") => {}
                    Some(error) => { " " code { (error) } }
                    None => { " " em { (texts.hidden_error) } }
                }
            }
        }
    }
}

/// Puts a copy of a job that has left its queue, and goes to the page of the copy.
pub(crate) async fn run_again(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    Path(id): Path<String>,
    uri: Uri,
) -> Result<Response> {
    actions::operator(&principal)?;
    let put = api.run_again(entry_of(&id, &uri)?).await?;
    Ok(see_other(&link::job(put.id)))
}
