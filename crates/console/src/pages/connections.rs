//! The connections of clients: a list, and one of them with the jobs that it holds.

use api::Api;
use api::types::{Connection, ConnectionWait, Consumer, WaitFor};
use axum::extract::{Path, State};
use hyper::Uri;
use maud::{Markup, html};

use crate::page::{Page, Result};
use crate::table::paging;
use crate::{link, number};

const PATH: &str = "/connections";

pub(crate) async fn list(State(api): State<Api>, uri: Uri) -> Result {
    let query = uri.query().unwrap_or_default();
    let shown = api.connections(api.list_connections(query)?).await?;
    let parameters: Vec<(String, String)> =
        form_urlencoded::parse(query.as_bytes()).into_owned().collect();
    let parameter = |name: &str| {
        let found = parameters.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    };
    let (protocol, address) = (parameter("protocol"), parameter("address"));
    let path = &format!("{}{PATH}", crate::PREFIX);
    let page_at = |cursor: Option<&str>| {
        let parameters = [("protocol", protocol), ("address", address), ("cursor", cursor)];
        link::with(path, &parameters)
    };
    let server = api.server();
    let mut protocols: Vec<&str> =
        server.listeners.iter().map(|listener| listener.protocol.as_str()).collect();
    protocols.retain(|protocol| !["http", "kestrel_admin"].contains(protocol));
    protocols.dedup();
    let contents = html! {
        div .title { h1 { "Connections" } }
        form .filter action=(path) {
            input type="search" name="address" value=[address] placeholder="Beginning of an address"
                aria-label="Beginning of an address";
            @if let Some(protocol) = protocol {
                input type="hidden" name="protocol" value=(protocol);
            }
            button { "Search" }
            span .chips role="group" aria-label="which connections" {
                a href=(link::with(path, &[("address", address)]))
                    aria-current=[protocol.is_none().then_some("true")] { "All" }
                @for name in protocols {
                    a href=(link::with(path, &[("protocol", Some(name)), ("address", address)]))
                        aria-current=[(protocol == Some(name)).then_some("true")] { (name) }
                }
            }
        }
        section #connections data-live {
            p .count { (number::grouped(shown.open)) " open, without those for HTTP" }
            @if shown.items.is_empty() {
                p .empty { "No connection matches." }
            } @else {
                div .scroll { (table(&shown.items)) }
            }
        }
        (paging(
            parameter("cursor").map(|_| page_at(None)),
            shown.next.map(|next| page_at(Some(&next))),
        ))
    };
    Ok(Page::new(&api, PATH, "Connections", contents))
}

fn table(rows: &[Connection]) -> Markup {
    html! {
        table .wide {
            caption .hidden { "Connections of clients" }
            thead {
                tr {
                    th scope="col" { "Client" }
                    th scope="col" { "Protocol" }
                    th .num scope="col" { "Holds" }
                    th scope="col" { "Waits" }
                    th scope="col" { "Queues" }
                    th .num scope="col" { "Silent for" }
                    th .num scope="col" { "Received" }
                    th .num scope="col" { "Sent" }
                }
            }
            tbody {
                @for row in rows {
                    tr {
                        th .name scope="row" {
                            @match &row.id {
                                Some(id) => a href=(link::connection(id)) { (row.address) },
                                None => (row.address),
                            }
                            @if row.tls { " " span .mark { "TLS" } }
                        }
                        td { (row.protocol) }
                        td .num { (number::count_or_dash(row.holds)) }
                        td { (wait(row.wait)) }
                        td .body { (queues(row)) }
                        td .num { (number::duration(row.idle_ms)) }
                        td .num { (number::bytes(row.received_bytes)) }
                        td .num { (number::bytes(row.sent_bytes)) }
                    }
                }
            }
        }
    }
}

/// The first queues from which a client takes jobs.
fn queues(row: &Connection) -> Markup {
    let all = row.watched + row.registrations;
    let shown = row.queues.iter().take(3);
    html! {
        @for (index, name) in shown.enumerate() {
            @if index > 0 { ", " }
            a href=(link::queue(name)) { (name) }
        }
        @if all > 3 { " and " (number::grouped(all - 3)) " more" }
    }
}

/// What a client waits for.
pub(crate) fn wait(wait: Option<ConnectionWait>) -> Markup {
    html! {
        @match wait {
            None => span .none { "–" },
            Some(ConnectionWait { what, left_ms }) => {
                @match what {
                    WaitFor::Job => "for a job",
                    WaitFor::Work => "sleeps until there is work",
                    WaitFor::Request => "for the end of its request",
                }
                @if let Some(left_ms) = left_ms { ", " (number::span(left_ms)) " left" }
            }
        }
    }
}

pub(crate) async fn one(State(api): State<Api>, Path(id): Path<String>) -> Result {
    let row = api.connection(&id).await?;
    let held = row.held.as_deref().unwrap_or_default();
    let contents = html! {
        div .title { h1 { (row.address) } p .level { (row.protocol) } }
        div .columns {
            section #facts data-live {
                h2 { "Connection" }
                dl {
                    dt { "Number" } dd { code { (id) } }
                    dt { "Opened" } dd { time datetime=(row.opened_at) { (row.opened_at) } }
                    dt { "Silent for" } dd { (number::duration(row.idle_ms)) }
                    dt { "TLS" } dd { @if row.tls { "yes" } @else { "no" } }
                    dt { "Received" } dd { (number::bytes(row.received_bytes)) }
                    dt { "Sent" } dd { (number::bytes(row.sent_bytes)) }
                    dt { "Replies that wait" } dd { (number::bytes(row.unsent_bytes)) }
                }
            }
            section #work data-live {
                h2 { "Work" }
                dl {
                    dt { "Waits" } dd { (wait(row.wait)) }
                    dt { "Holds" } dd { (number::count_or_dash(row.holds)) " jobs" }
                    dt { "Puts into" }
                    dd {
                        @if let Some(used) = &row.used { a href=(link::queue(used)) { (used) } }
                    }
                    dt { "Watches" } dd { (number::count_or_dash(row.watched)) " queues" }
                    dt { "Is registered for" } dd { (number::count_or_dash(row.registrations)) " functions" }
                }
            }
            section #queues data-live {
                h2 { "Takes jobs from" }
                @if row.queues.is_empty() { p .empty { "No queue." } }
                @for name in &row.queues { p { a href=(link::queue(name)) { (name) } } }
            }
        }
        section #held data-live {
            h2 { "Jobs that it holds " small { "by deadline" } }
            @if held.is_empty() {
                p .empty { "No jobs." }
            } @else {
                table {
                    thead {
                        tr {
                            th scope="col" { "Job" }
                            th scope="col" { "Queue" }
                            th .num scope="col" { "Held for" }
                            th .num scope="col" { "Time left" }
                        }
                    }
                    tbody {
                        @for job in held {
                            tr {
                                th scope="row" { a href=(link::job(job.id)) { (job.id) } }
                                td .name { a href=(link::queue(&job.queue)) { (job.queue) } }
                                td .num { (number::duration(job.held_ms)) }
                                td .num { (left(job.time_left_ms)) }
                            }
                        }
                    }
                }
            }
        }
    };
    Ok(Page::new(&api, PATH, &row.address, contents))
}

/// The time until a deadline.
fn left(time_left_ms: Option<u64>) -> Markup {
    html! {
        @match time_left_ms {
            Some(ms) => (number::duration(ms)),
            None => span .none { "no limit" },
        }
    }
}

/// The clients of a queue that take jobs.
pub(crate) fn consumers(rows: &[Consumer]) -> Markup {
    html! {
        @if rows.is_empty() {
            p .empty { "No client takes jobs from this queue." }
        } @else {
            div .scroll {
                table .wide {
                    thead {
                        tr {
                            th scope="col" { "Client" }
                            th scope="col" { "Protocol" }
                            th .num scope="col" { "Holds" }
                            th .num scope="col" { "Time left" }
                            th scope="col" { "Waits" }
                            th .num scope="col" { "Silent for" }
                        }
                    }
                    tbody {
                        @for row in rows {
                            tr {
                                th .name scope="row" {
                                    a href=(link::connection(&row.id)) { (row.address) }
                                }
                                td { (row.protocol) }
                                td .num { (number::count_or_dash(row.holds)) }
                                td .num {
                                    @if row.holds > 0 { (left(row.time_left_ms)) }
                                }
                                td { (wait(row.wait)) }
                                td .num { (number::duration(row.idle_ms)) }
                            }
                        }
                    }
                }
            }
        }
    }
}
