//! The list of queues: searched, sorted, and in pages.

use api::Api;
use api::types::QueueRow;
use axum::extract::State;
use hyper::Uri;
use maud::{Markup, html};

use crate::page::{Page, Result};
use crate::table::{Sorting, paging};
use crate::{bar, link, number};

/// The choices of queues: the value of the parameter, and the text.
const STATES: [(Option<&str>, &str); 4] = [
    (None, "All"),
    (Some("nonempty"), "With jobs"),
    (Some("paused"), "Paused"),
    (Some("unwatched"), "Nobody watches"),
];

pub(crate) async fn page(State(api): State<Api>, uri: Uri) -> Result {
    let query = uri.query().unwrap_or_default();
    let queues = api.queues(api.list_queues(query)?).await;
    let parameters: Vec<(String, String)> =
        form_urlencoded::parse(query.as_bytes()).into_owned().collect();
    let parameter = |name: &str| {
        let found = parameters.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    };
    let (search, state) = (parameter("search"), parameter("state"));
    let sort = parameter("sort").unwrap_or("name");
    let path = &format!("{}/queues", crate::PREFIX);
    let kept = [("search", search), ("state", state)];
    let sorting = Sorting { path, now: sort, kept: &kept };
    let page_at = |cursor: Option<&str>| {
        let parameters =
            [("search", search), ("state", state), ("sort", Some(sort)), ("cursor", cursor)];
        link::with(path, &parameters)
    };
    let contents = html! {
        div .title { h1 { "Queues" } }
        form .filter action=(path) {
            input type="search" name="search" value=[search] placeholder="Part of a name"
                aria-label="Part of a name";
            @if let Some(state) = state { input type="hidden" name="state" value=(state); }
            input type="hidden" name="sort" value=(sort);
            button { "Search" }
            span .chips role="group" aria-label="which queues" {
                @for (value, name) in STATES {
                    @let parameters = [("search", search), ("state", value), ("sort", Some(sort))];
                    a href=(link::with(path, &parameters))
                        aria-current=[(value == state).then_some("true")]
                    { (name) }
                }
            }
        }
        section #queues data-live {
            p .count {
                (number::grouped(queues.matched)) " of " (number::grouped(queues.total)) " queues"
            }
            @if queues.items.is_empty() {
                p .empty { "No queue matches." }
            } @else {
                div .scroll { (list(&queues.items, sorting)) }
            }
        }
        (paging(parameter("cursor").map(|_| page_at(None)), queues.next.map(|next| page_at(Some(&next)))))
    };
    Ok(Page::new(&api, "/queues", "Queues", contents))
}

fn list(rows: &[QueueRow], sorting: Sorting<'_>) -> Markup {
    html! {
        table .wide {
            caption .hidden { "Queues with their numbers of jobs and clients" }
            thead {
                tr {
                    (sorting.heading("Queue", "name"))
                    th scope="col" { "Jobs" }
                    (sorting.heading("Ready", "ready"))
                    (sorting.heading("Leased", "leased"))
                    (sorting.heading("Delayed", "delayed"))
                    (sorting.heading("Buried", "buried"))
                    (sorting.heading("Age", "age"))
                    (sorting.heading("In/s", "in"))
                    (sorting.heading("Out/s", "out"))
                    (sorting.heading("Growth/s", "growth"))
                    (sorting.heading("Waiting", "waiters"))
                }
            }
            tbody {
                @for row in rows {
                    tr {
                        th .name scope="row" {
                            a href=(link::queue(&row.name)) { (row.name) }
                            (marks(row))
                        }
                        td .bar { (bar::states(row.ready, row.leased, row.delayed, row.buried)) }
                        td .num { (number::count_or_dash(row.ready)) }
                        td .num { (number::count_or_dash(row.leased)) }
                        td .num { (number::count_or_dash(row.delayed)) }
                        td .num { (number::count_or_dash(row.buried)) }
                        td .num { (number::duration(row.head_age_ms)) }
                        td .num { (number::rate(row.puts_per_s)) }
                        td .num { (number::rate(row.finishes_per_s)) }
                        td .num { (number::rate(row.growth_per_s)) }
                        td .num { (number::count_or_dash(row.waiters)) }
                    }
                }
            }
        }
    }
}

fn marks(row: &QueueRow) -> Markup {
    html! {
        @if row.workers > 0 { " " span .mark { "Gearman" } }
        @if row.is_of_items { " " span .mark { "Kestrel" } }
        @if row.is_child { " " span .mark { "fan-out" } }
        @if row.pause_left_ms > 0 {
            " " span .mark .warning { "paused " (number::span(row.pause_left_ms)) }
        }
    }
}
