//! The overview: is all well, and where is work waiting?

use api::Api;
use api::types::QueueRow;
use axum::extract::State;
use maud::{Markup, html};

use crate::page::{Page, Result, level};
use crate::{bar, link, number};

/// The rows of each list.
const TOP: &str = "limit=8&state=nonempty&sort=";

pub(crate) async fn page(State(api): State<Api>) -> Result {
    let server = api.server();
    let totals = &server.totals;
    let top = async |sort: &str| -> Result<Vec<QueueRow>> {
        Ok(api.queues(api.list_queues(&format!("{TOP}{sort}"))?).await.items)
    };
    let (longest, oldest, growing) =
        (top("-ready").await?, top("-age").await?, top("-growth").await?);
    let oldest: Vec<QueueRow> = oldest.into_iter().filter(|row| row.head_age_ms > 0).collect();
    let longest: Vec<QueueRow> = longest.into_iter().filter(|row| row.ready > 0).collect();
    let growing: Vec<QueueRow> =
        growing.into_iter().filter(|row| row.growth_per_s.is_some_and(|rate| rate > 0.0)).collect();
    let health = server.health.level;
    let contents = html! {
        div .title {
            h1 { "Overview" }
            p #health data-live class={ "level " (level(health)) } { (level(health)) }
        }
        section #tiles data-live .tiles aria-label="jobs" {
            (tile("Ready", "ready", number::count(totals.ready), "jobs wait for a worker"))
            (tile("Leased", "leased", number::count(totals.leased), "jobs that workers have"))
            (tile("Delayed", "delayed", number::count(totals.delayed), "jobs wait for their time"))
            (tile("Buried", "buried", number::count(totals.buried), "jobs that were set aside"))
            (tile("Waiting", "", number::count(totals.waiting_sessions), "clients wait for a job"))
            (tile("Queues", "", number::count(totals.queues), "that exist"))
            (tile("Connections", "", number::count(server.connections.open), "are open"))
            (tile("Up", "", html! { (number::span(server.uptime_ms)) }, "since the start"))
        }
        section #bar data-live {
            (bar::states(totals.ready, totals.leased, totals.delayed, totals.buried))
        }
        div .columns {
            (list("Longest", "by ready jobs", "longest", &longest, "Ready", |row| {
                number::count(row.ready)
            }))
            (list("Oldest", "by the age of the next job", "oldest", &oldest, "Age", |row| {
                number::duration(row.head_age_ms)
            }))
            (list("Growing", "ready jobs per second", "growing", &growing, "Growth", |row| {
                number::rate(row.growth_per_s)
            }))
        }
        div .columns {
            section #work data-live {
                h2 { "Since the start" }
                dl {
                    dt { "Jobs put" } dd { (number::count(totals.puts)) }
                    dt { "Jobs handed out" } dd { (number::count(totals.takes)) }
                    dt { "Jobs ended" } dd { (number::count(totals.ends)) }
                    dt { "Given back" } dd { (number::count_or_dash(totals.releases)) }
                    dt { "Buried" } dd { (number::count_or_dash(totals.buries)) }
                    dt { "Time to run ended" } dd { (number::count_or_dash(totals.timeouts)) }
                }
            }
            section #memory data-live {
                h2 { "Memory" }
                @if let Some(limit) = server.memory.limit_bytes {
                    (bar::used(server.memory.used_bytes, limit, "memory in use"))
                }
                dl {
                    dt { "Jobs, queues and connections" }
                    dd { (number::bytes(server.memory.used_bytes)) }
                    @if let Some(limit) = server.memory.limit_bytes {
                        dt { "Limit" } dd { (number::bytes(limit)) }
                    }
                    dt { "Puts refused" } dd { (number::count_or_dash(server.memory.refused)) }
                    dt { "The whole process" }
                    dd { (number::bytes(server.process.resident_bytes)) }
                }
            }
            section {
                h2 { "Server" }
                dl {
                    dt { "Version" } dd { (server.version) }
                    dt { "Started" } dd { time datetime=(server.started_at) { (server.started_at) } }
                    @for listener in &server.listeners {
                        dt { (listener.protocol) }
                        dd { code { (listener.address) } @if listener.tls { " TLS" } }
                    }
                }
            }
        }
    };
    Ok(Page::new(&api, "", "Overview", contents))
}

fn tile(name: &str, class: &str, value: Markup, what: &str) -> Markup {
    html! {
        div class={ "tile " (class) } {
            span .name { (name) }
            span .value { (value) }
            span .what { (what) }
        }
    }
}

fn list(
    title: &str,
    what: &str,
    id: &str,
    rows: &[QueueRow],
    column: &str,
    value: impl Fn(&QueueRow) -> Markup,
) -> Markup {
    html! {
        section id=(id) data-live {
            h2 { (title) " " small { (what) } }
            @if rows.is_empty() {
                p .empty { "No queue." }
            } @else {
                table {
                    thead { tr { th scope="col" { "Queue" } th .num scope="col" { (column) } } }
                    tbody {
                        @for row in rows {
                            tr {
                                td .name { a href=(link::queue(&row.name)) { (row.name) } }
                                td .num { (value(row)) }
                            }
                        }
                    }
                }
            }
        }
    }
}
