//! One queue: its numbers, its clients, its policy, and its jobs.

use api::types::{Job, Jobs, Queue, Setting};
use api::{Api, Principal, parse_name};
use axum::Extension;
use axum::extract::{Path, State};
use hyper::Uri;
use maud::{Markup, html};

use crate::page::{Page, Result};
use crate::pages::connections;
use crate::table::paging;
use crate::{actions, bar, link, number};

/// The parameters of the list of jobs.
const LIST: &str = "limit=50&body=text";
/// The number of clients that are shown.
const CONSUMERS_MAX: usize = 20;

pub(crate) async fn page(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    Path(name): Path<String>,
    uri: Uri,
) -> Result {
    let bytes = parse_name(&name)?;
    let (queue, why) = (api.queue(&bytes)?, api.why(&bytes)?);
    let parameters: Vec<(String, String)> =
        form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()).into_owned().collect();
    let parameter = |name: &str| {
        let found = parameters.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    };
    let state = parameter("state").unwrap_or(first_state(&queue));
    let cursor = parameter("cursor");
    let list = link::with("", &[("state", Some(state)), ("cursor", cursor)]);
    let list = format!("{LIST}&{}", list.trim_start_matches('?'));
    let jobs = api.jobs(api.list_jobs(bytes.clone(), &list)?).await?;
    let consumers = api.consumers(&bytes, CONSUMERS_MAX, None).await?;
    let path = link::queue(&queue.name);
    let contents = html! {
        div .title {
            h1 { (queue.name) }
            @if queue.pause_left_ms > 0 {
                p .level .warning { "paused for " (number::span(queue.pause_left_ms)) }
            }
            @if queue.is_being_removed { p .level .warning { "is being removed" } }
        }
        (actions::done(&uri))
        (actions::of_queue(&principal, &queue))
        section #counts data-live {
            div .tiles {
                (tile("Ready", "ready", queue.ready))
                (tile("Leased", "leased", queue.leased))
                (tile("Delayed", "delayed", queue.delayed))
                (tile("Buried", "buried", queue.buried))
            }
            (bar::states(queue.ready, queue.leased, queue.delayed, queue.buried))
            @if queue.ready > 0 { p .remark { (why.text) } }
        }
        div .columns {
            section #facts data-live {
                h2 { "Jobs" }
                dl {
                    dt { "Age of the next job" } dd { (number::duration(queue.head_age_ms)) }
                    dt { "Put" } dd { (number::count(queue.puts)) }
                    dt { "Ended by clients" } dd { (number::count(queue.finishes)) }
                    dt { "Bodies of ready jobs" } dd { (number::bytes(queue.ready_bytes)) }
                    dt { "High, normal, low priority" }
                    dd {
                        (number::count(queue.bands.high)) ", " (number::count(queue.bands.normal))
                        ", " (number::count(queue.bands.low))
                    }
                    @if queue.has_cold_jobs { dt { "In the log only" } dd { "some jobs" } }
                }
            }
            section #clients data-live {
                h2 { "Clients" }
                dl {
                    dt { "Wait for a job" } dd { (number::count_or_dash(queue.waiters)) }
                    dt { "Watch the queue" } dd { (number::count_or_dash(queue.watchers)) }
                    dt { "Gearman workers" } dd { (number::count_or_dash(queue.workers)) }
                    dt { "Use the queue for puts" } dd { (number::count_or_dash(queue.users)) }
                }
            }
            @if let Some(items) = &queue.items {
                section #items data-live {
                    h2 { "Kestrel" }
                    dl {
                        dt { "Items added" } dd { (number::count(items.puts)) }
                        dt { "Reads that found one" } dd { (number::count(items.hits)) }
                        dt { "Reads that found none" } dd { (number::count(items.misses)) }
                        dt { "Expired" } dd { (number::count_or_dash(items.expired)) }
                        dt { "Dropped, queue full" } dd { (number::count_or_dash(items.discarded)) }
                        dt { "Open reads" } dd { (number::count_or_dash(items.open_reads)) }
                    }
                }
            }
            section {
                h2 { "Policy" }
                @let (given, defaults): (Vec<&Setting>, Vec<&Setting>) =
                    queue.policy.iter().partition(|setting| setting.line.is_some());
                @if given.is_empty() { p .empty { "The defaults." } } @else { (settings(&given)) }
                @if !defaults.is_empty() {
                    details {
                        summary { (defaults.len()) " settings with their defaults" }
                        (settings(&defaults))
                    }
                }
            }
        }
        section #consumers data-live {
            h2 { "Clients that take jobs" }
            (connections::consumers(&consumers.items))
            @if consumers.next.is_some() { p .count { "There are more." } }
        }
        section #jobs data-live {
            nav .tabs aria-label="jobs by state" {
                @for (name, number) in
                    [("ready", queue.ready), ("leased", queue.leased), ("delayed", queue.delayed),
                        ("buried", queue.buried)]
                {
                    a href=(link::with(&path, &[("state", Some(name))]))
                        aria-current=[(name == state).then_some("true")]
                    { (name) " " span .n { (number::grouped(number)) } }
                }
            }
            (list_of(&jobs, state))
        }
        (paging(
            cursor.map(|_| link::with(&path, &[("state", Some(state))])),
            jobs.next.map(|next| link::with(&path, &[("state", Some(state)), ("cursor", Some(&next))])),
        ))
    };
    Ok(Page::new(&api, "/queues", &queue.name, contents))
}

/// The state whose jobs are shown first: the first one that has jobs.
fn first_state(queue: &Queue) -> &'static str {
    match (queue.ready, queue.delayed, queue.buried) {
        (0, 0, buried) if buried > 0 => "buried",
        (0, delayed, _) if delayed > 0 => "delayed",
        _ => "ready",
    }
}

fn settings(settings: &[&Setting]) -> Markup {
    html! {
        dl .policy {
            @for setting in settings {
                dt { code { (setting.key) } }
                dd {
                    (setting.value)
                    @if let Some(line) = setting.line { " " small { "line " (line) } }
                }
            }
        }
    }
}

fn tile(name: &str, class: &str, number: u64) -> Markup {
    html! {
        div class={ "tile " (class) } {
            span .name { (name) }
            span .value { (number::count(number)) }
        }
    }
}

fn list_of(jobs: &Jobs, state: &str) -> Markup {
    html! {
        @if jobs.items.is_empty() {
            p .empty { "No " (state) " jobs." }
        } @else {
            div .scroll {
                table .wide .jobs {
                    caption .hidden { "The " (state) " jobs, in the order in which they come" }
                    thead {
                        tr {
                            th scope="col" { "Job" }
                            th .num scope="col" { "Age" }
                            th .num scope="col" { "Priority" }
                            th .num scope="col" { "Taken" }
                            @if state == "delayed" { th .num scope="col" { "Due in" } }
                            @if state == "leased" {
                                th .num scope="col" { "Held for" }
                                th .num scope="col" { "Time left" }
                            }
                            th .num scope="col" { "Size" }
                            th scope="col" { "Body" }
                        }
                    }
                    tbody { @for job in &jobs.items { (row(job, state)) } }
                }
            }
        }
        @if jobs.unreadable > 0 {
            p .remark {
                (number::grouped(jobs.unreadable))
                " jobs are left out, because the log cannot be read. See " a href="/console/log" { "the log" } "."
            }
        }
    }
}

fn row(job: &Job, state: &str) -> Markup {
    html! {
        tr {
            th scope="row" { a href=(link::job(job.id)) { (job.id) } }
            td .num { (number::duration(job.age_ms)) }
            td .num { (job.priority) }
            td .num { (number::count_or_dash(job.counters.takes.into())) }
            @if state == "delayed" { td .num { (number::duration(job.time_left_ms)) } }
            @if state == "leased" {
                td .num {
                    @if let Some(holder) = &job.holder {
                        a href=(link::connection(&holder.connection)) {
                            (number::duration(holder.held_ms))
                        }
                    }
                }
                td .num { (number::duration(job.time_left_ms)) }
            }
            td .num { (number::bytes(job.body_bytes)) }
            td .body {
                @if let Some(body) = &job.body { code { (body.text) @if body.is_cut { "…" } } }
            }
        }
    }
}
