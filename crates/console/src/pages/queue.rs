//! One queue: its numbers, its clients, its policy, and its jobs.

use api::types::{Job, Queue, Role, Setting};
use api::{Api, Principal, parse_name};
use axum::Extension;
use axum::extract::{Path, State};
use hyper::{HeaderMap, Uri};
use maud::{Markup, html};
use serde_json::json;

use crate::equal::Equal;
use crate::page::{Page, Result};
use crate::pages::connections;
use crate::table::paging;
use crate::texts::{Texts, Words};
use crate::{actions, bar, chosen, equal, link, number};

/// The parameters of the list of jobs.
const LIST: &str = "limit=50&body=text";
/// The parameters of a search.
const SEARCH: &str = "limit=50";
/// The number of clients that are shown.
const CONSUMERS_MAX: usize = 20;

pub(crate) async fn page(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    t: &'static Texts,
    Path(name): Path<String>,
    headers: HeaderMap,
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
    // A search reads many jobs. So the script, which looks every few seconds, does not repeat it.
    let has_bodies = api.sees_bodies(&principal);
    let can_search = has_bodies && state != "leased";
    let searched = parameter(chosen::SEARCH)
        .filter(|text| !text.is_empty() && can_search && !headers.contains_key("x-live"));
    let has_boxes = chosen::may_choose(&principal, state);
    let shown = Shown { state, searched, has_boxes, has_bodies };
    let list = link::with("", &[("state", Some(state)), ("cursor", cursor), ("text", searched)]);
    let list = list.trim_start_matches('?');
    let (jobs, next, remark) = if searched.is_some() {
        let search = api.search_for(&principal, bytes.clone(), &format!("{SEARCH}&{list}"))?;
        let found = api.search(search).await?;
        let remark = chosen::remark(t, &found);
        (found.items, found.next, remark)
    } else {
        let list = api.list_jobs(&principal, bytes.clone(), &format!("{LIST}&{list}"))?;
        let jobs = api.jobs(list).await?;
        let remark = unreadable(t, jobs.unreadable);
        (jobs.items, jobs.next, remark)
    };
    let consumers = api.consumers(&bytes, CONSUMERS_MAX, None).await?;
    let path = link::queue(&queue.name);
    let (words, texts) = (&t.words, &t.queue);
    let tile =
        |class: &str, jobs| tile(words, class, jobs, &link::with(&path, &[("state", Some(class))]));
    let contents = html! {
        nav .crumbs aria-label=(t.frame.queues) {
            a href={ (crate::PREFIX) "/queues" } { (t.frame.queues) }
        }
        div .title {
            h1 { (queue.name) }
            @if queue.pause_left_ms > 0 {
                p .level .warning { ((words.paused)(&number::span(queue.pause_left_ms))) }
            }
            @if queue.is_being_removed { p .level .warning { (texts.removing) } }
        }
        @if queue.keeps_history {
            p { a href=(link::queue_history(&queue.name)) { (t.history.title) } }
        }
        (actions::done(t, &uri))
        (actions::of_queue(&api, t, &principal, &queue))
        section #counts data-live {
            div .tiles {
                (tile("ready", queue.ready))
                (tile("leased", queue.leased))
                (tile("delayed", queue.delayed))
                (tile("buried", queue.buried))
            }
            (bar::states(words, [queue.ready, queue.leased, queue.delayed, queue.buried]))
            @if queue.ready > 0 { p .remark { ((texts.why)(&why, &queue)) } }
            @if let Some(refusal) = &why.put_refusal {
                p .remark { (texts.puts_refused) " " (refusal) }
            }
        }
        div .columns {
            section #facts data-live {
                h2 { (words.jobs) }
                dl {
                    dt { (texts.head_age) } dd { (number::duration(queue.head_age_ms)) }
                    dt { (texts.put) } dd { (number::count(queue.puts)) }
                    dt { (texts.finished) } dd { (number::count(queue.finishes)) }
                    dt { (texts.ready_bytes) } dd { (number::bytes(queue.ready_bytes)) }
                    dt { (texts.bands) }
                    dd {
                        (number::count(queue.bands.high)) ", " (number::count(queue.bands.normal))
                        ", " (number::count(queue.bands.low))
                    }
                    @if queue.dead > 0 { dt { (texts.dead) } dd { (number::count(queue.dead)) } }
                    @if queue.has_cold_jobs { dt { (texts.cold.0) } dd { (texts.cold.1) } }
                }
            }
            section #clients data-live {
                h2 { (texts.clients) }
                dl {
                    dt { (texts.waiters) } dd { (number::count_or_dash(queue.waiters)) }
                    dt { (texts.watchers) } dd { (number::count_or_dash(queue.watchers)) }
                    dt { (texts.workers) } dd { (number::count_or_dash(queue.workers)) }
                    dt { (texts.users) } dd { (number::count_or_dash(queue.users)) }
                }
            }
            @if let Some(items) = &queue.items {
                section #items data-live {
                    h2 { "Kestrel" }
                    @let numbers = [items.puts, items.hits, items.misses, items.expired,
                        items.discarded, items.open_reads];
                    dl {
                        @for (name, number) in texts.items.into_iter().zip(numbers) {
                            dt { (name) } dd { (number::count_or_dash(number)) }
                        }
                    }
                }
            }
            section {
                h2 { (texts.policy) }
                @let (given, defaults): (Vec<&Setting>, Vec<&Setting>) =
                    queue.policy.iter().partition(|setting| setting.line.is_some());
                @if given.is_empty() { p .empty { (texts.defaults) } } @else { (settings(t, &given)) }
                @if !defaults.is_empty() {
                    details {
                        summary { ((texts.default_settings)(&defaults.len().to_string())) }
                        (settings(t, &defaults))
                    }
                }
            }
        }
        section #consumers data-live {
            h2 { (texts.consumers) }
            (connections::consumers(t, &consumers.items))
            @if consumers.next.is_some() { p .count { (texts.there_are_more) } }
        }
        section #jobs data-live[searched.is_none()] {
            nav .tabs aria-label=(texts.by_state) {
                @for (name, shown, number) in [
                    ("ready", words.ready, queue.ready),
                    ("leased", words.leased, queue.leased),
                    ("delayed", words.delayed, queue.delayed),
                    ("buried", words.buried, queue.buried),
                ] {
                    a href=(link::with(&path, &[("state", Some(name))]))
                        aria-current=[(name == state).then_some("true")]
                    { (shown) " " span .n { (number::grouped(number)) } }
                }
            }
            @if can_search {
                (chosen::search_form(
                    t, &path, ("state", Some(state)), t.actions.text_in_bodies, searched,
                ))
            }
            (chosen::form(t, &principal, &path, state, &list_of(t, &jobs, &shown)))
            (remark)
            (paging(
                t,
                cursor.map(|_| shown.page(&path, None)),
                next.map(|next| shown.page(&path, Some(&next))),
            ))
        }
    };
    let equal = same(&principal, &queue, &shown);
    Ok(Page::new(&api, "/queues", &queue.name, contents).equal_to(equal))
}

/// The page and its actions as commands and requests.
fn same(principal: &Principal, queue: &Queue, shown: &Shown<'_>) -> Equal {
    let (name, path, state) = (queue.name.as_str(), equal::queue(&queue.name), shown.state);
    let looks = Equal::default()
        .command_of(&["why"], &[name])
        .get(&path, &[])
        .get(&format!("{path}/why"), &[]);
    let looks = match shown.searched {
        Some(text) => looks
            .command_of(&["jobs", "--state", state, "--search", text], &[name])
            .get("/search", &[("queue", Some(name)), ("state", Some(state)), ("text", Some(text))]),
        // The tool has no list of leased jobs.
        None if state == "leased" => looks.get(&format!("{path}/jobs"), &[("state", Some(state))]),
        None => looks.command_of(&["jobs", "--state", state], &[name]).get(
            &format!("{path}/jobs"),
            &[("state", Some(state)), ("body", shown.has_bodies.then_some("text"))],
        ),
    };
    if principal.require(Role::Operator).is_err() {
        return looks;
    }
    let operations = |kind: &str| json!({ "kind": kind, "queue": name });
    let kicks = looks.job_command_of(&["pause"], name, &["10m"]).request(
        "POST",
        &format!("{path}/pause"),
        Some(json!({ "seconds": 600 })),
    );
    let kicks = if queue.buried > 0 {
        let kicks = kicks.job_command_of(&["kick", "--all"], name, &[]);
        kicks.request("POST", "/operations", Some(operations("kick")))
    } else {
        kicks
    };
    let kicks = if queue.dead > 0 {
        let redrives = kicks.command_of(&["redrive"], &[name]);
        redrives.request("POST", "/operations", Some(operations("redrive")))
    } else {
        kicks
    };
    let mut moves = operations("move");
    moves["to"] = "OTHER".into();
    // Without `confirm`, the server only says how many jobs would end.
    let mut clears = operations("clear");
    clears["state"] = "ready".into();
    kicks
        .command_of(&["move"], &[name, "OTHER"])
        .request("POST", "/operations", Some(moves))
        .command_of(&["clear", "--state", "ready"], &[name])
        .request("POST", "/operations", Some(clears))
}

/// How the jobs are shown.
struct Shown<'a> {
    state: &'a str,
    /// The text that was searched.
    searched: Option<&'a str>,
    /// Whether the client can choose jobs.
    has_boxes: bool,
    /// Whether the client sees bodies.
    has_bodies: bool,
}

impl Shown<'_> {
    /// The address of a page of the jobs.
    fn page(&self, path: &str, cursor: Option<&str>) -> String {
        let state = ("state", Some(self.state));
        link::with(path, &[state, (chosen::SEARCH, self.searched), ("cursor", cursor)])
    }
}

/// Jobs that are left out of the list.
fn unreadable(t: &Texts, count: u64) -> Markup {
    let texts = &t.queue;
    html! {
        @if count > 0 {
            p .remark {
                ((texts.unreadable)(&number::grouped(count))) " "
                a href={ (crate::PREFIX) "/log" } { (texts.see_log) }
            }
        }
    }
}

/// The state whose jobs are shown first: the first one that has jobs.
fn first_state(queue: &Queue) -> &'static str {
    match (queue.ready, queue.delayed, queue.buried) {
        (0, 0, buried) if buried > 0 => "buried",
        (0, delayed, _) if delayed > 0 => "delayed",
        _ => "ready",
    }
}

fn settings(t: &Texts, settings: &[&Setting]) -> Markup {
    html! {
        dl .policy {
            @for setting in settings {
                dt { (setting.key) }
                dd {
                    (setting.value)
                    @if let Some(line) = setting.line {
                        " " small { ((t.words.line)(&line.to_string())) }
                    }
                }
            }
        }
    }
}

/// The number of jobs of a state. A click shows these jobs.
fn tile(words: &Words, class: &str, number: u64, address: &str) -> Markup {
    html! {
        a class={ "tile " (class) } href=(address) {
            span .name { (state_name(words, class)) }
            span .value { (number::count(number)) }
        }
    }
}

fn state_name(words: &Words, state: &str) -> &'static str {
    match state {
        "leased" => words.leased,
        "delayed" => words.delayed,
        "buried" => words.buried,
        _ => words.ready,
    }
}

fn list_of(t: &Texts, jobs: &[Job], shown: &Shown<'_>) -> Markup {
    let (words, texts) = (&t.words, &t.queue);
    let state = shown.state;
    let name = state_name(words, state);
    html! {
        @if jobs.is_empty() {
            p .empty { ((texts.none_of)(name)) }
        } @else {
            div .scroll {
                table .wide .jobs {
                    caption .hidden { ((texts.caption)(name)) }
                    thead {
                        tr {
                            @if shown.has_boxes {
                                th scope="col" { span .hidden { (t.actions.choose) } }
                            }
                            th scope="col" { (words.job) }
                            th .num scope="col" { (words.age) }
                            th .num scope="col" { (words.priority) }
                            th .num scope="col" { (texts.taken) }
                            @if state == "delayed" { th .num scope="col" { (texts.due_in) } }
                            @if state == "leased" {
                                th .num scope="col" { (words.held_for) }
                                th .num scope="col" { (words.time_left) }
                            }
                            th .num scope="col" { (texts.size) }
                            @if shown.has_bodies { th scope="col" { (texts.body) } }
                        }
                    }
                    tbody { @for job in jobs { (row(t, job, shown)) } }
                }
            }
        }
    }
}

fn row(t: &Texts, job: &Job, shown: &Shown<'_>) -> Markup {
    let state = shown.state;
    html! {
        tr {
            @if shown.has_boxes { td { (chosen::tick(t, job.id)) } }
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
            @if shown.has_bodies {
                td .body {
                    @if let Some(body) = &job.body {
                        code {
                            (chosen::marked(&body.text, shown.searched))
                            @if body.is_cut { "…" }
                        }
                    }
                }
            }
        }
    }
}
