//! The connections of clients: a list, and one of them with the jobs that it holds.

use api::types::{Connection, ConnectionWait, Consumer, Role, WaitFor};
use api::{Api, Principal};
use axum::Extension;
use axum::extract::{Path, State};
use axum::response::Response;
use hyper::Uri;
use maud::{Markup, html};

use crate::equal::Equal;
use crate::page::{Page, Result};
use crate::table::paging;
use crate::texts::Texts;
use crate::{actions, link, number};

const PATH: &str = "/connections";

pub(crate) async fn list(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    t: &'static Texts,
    uri: Uri,
) -> Result {
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
    let texts = &t.connections;
    let contents = html! {
        div .title {
            h1 { (t.frame.connections) }
            @if principal.require(Role::Admin).is_ok() {
                a href=(link::sessions()) { (t.sessions.title) }
            }
        }
        (actions::done(t, &uri))
        form .filter action=(path) {
            input type="search" name="address" value=[address]
                placeholder=(texts.address_begins) aria-label=(texts.address_begins);
            @if let Some(protocol) = protocol {
                input type="hidden" name="protocol" value=(protocol);
            }
            button { (t.frame.search) }
            span .chips role="group" aria-label=(texts.which) {
                a href=(link::with(path, &[("address", address)]))
                    aria-current=[protocol.is_none().then_some("true")] { (t.frame.all) }
                @for name in protocols {
                    a href=(link::with(path, &[("protocol", Some(name)), ("address", address)]))
                        aria-current=[(protocol == Some(name)).then_some("true")] { (name) }
                }
            }
        }
        section #connections data-live {
            p .count { ((texts.open)(&number::grouped(shown.open))) }
            @if shown.items.is_empty() {
                p .empty { (texts.no_match) }
            } @else {
                div .scroll { (table(t, &shown.items)) }
            }
            (paging(
                t,
                parameter("cursor").map(|_| page_at(None)),
                shown.next.map(|next| page_at(Some(&next))),
            ))
        }
    };
    let mut command = vec!["connections"];
    command.extend(protocol.iter().flat_map(|protocol| ["--only", *protocol]));
    command.extend(address.iter().flat_map(|address| ["--address", *address]));
    let parameters = [("protocol", protocol), ("address", address)];
    let equal = Equal::default().command(&command).get(PATH, &parameters);
    Ok(Page::new(&api, PATH, t.frame.connections, contents).equal_to(equal))
}

fn table(t: &Texts, rows: &[Connection]) -> Markup {
    let words = &t.words;
    html! {
        table .wide {
            caption .hidden { (t.connections.caption) }
            thead {
                tr {
                    th scope="col" { (words.client) }
                    th scope="col" { (words.protocol) }
                    th .num scope="col" { (words.holds) }
                    th scope="col" { (words.waits) }
                    th scope="col" { (t.connections.queues) }
                    th .num scope="col" { (words.silent_for) }
                    th .num scope="col" { (words.received) }
                    th .num scope="col" { (words.sent) }
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
                        td { (wait(t, row.wait)) }
                        td .body { (queues(t, row)) }
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
fn queues(t: &Texts, row: &Connection) -> Markup {
    let all = row.watched + row.registrations;
    let shown = row.queues.iter().take(3);
    html! {
        @for (index, name) in shown.enumerate() {
            @if index > 0 { ", " }
            (link::to_queue(t, name))
        }
        @if all > 3 { " " ((t.words.more)(&number::grouped(all - 3))) }
    }
}

/// What a client waits for.
pub(crate) fn wait(t: &Texts, wait: Option<ConnectionWait>) -> Markup {
    let t = &t.connections;
    html! {
        @match wait {
            None => span .none { "–" },
            Some(ConnectionWait { what, left_ms }) => {
                @match what {
                    WaitFor::Job => (t.for_job),
                    WaitFor::Work => (t.for_work),
                    WaitFor::Request => (t.for_request),
                }
                @if let Some(left_ms) = left_ms { ((t.left)(&number::span(left_ms))) }
            }
        }
    }
}

pub(crate) async fn one(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    t: &'static Texts,
    Path(id): Path<String>,
) -> Result {
    let (words, texts) = (&t.words, &t.connections);
    let row = api.connection(&id).await?;
    let held = row.held.as_deref().unwrap_or_default();
    let contents = html! {
        div .title { h1 { (row.address) } p .level { (row.protocol) } }
        @if principal.require(Role::Admin).is_ok() {
            div .actions {
                (actions::form(
                    &principal,
                    &format!("{}/close", link::connection(&id)),
                    texts.close,
                    &actions::reason(t),
                ))
            }
        }
        div .columns {
            section #facts data-live {
                h2 { (texts.title) }
                dl {
                    dt { (texts.number) } dd { code { (id) } }
                    dt { (texts.opened) } dd { (number::moment(&row.opened_at)) }
                    dt { (words.silent_for) } dd { (number::duration(row.idle_ms)) }
                    dt { "TLS" } dd { @if row.tls { (words.yes) } @else { (words.no) } }
                    dt { (words.received) } dd { (number::bytes(row.received_bytes)) }
                    dt { (words.sent) } dd { (number::bytes(row.sent_bytes)) }
                    dt { (texts.unsent) } dd { (number::bytes(row.unsent_bytes)) }
                }
            }
            section #work data-live {
                h2 { (texts.work) }
                dl {
                    dt { (words.waits) } dd { (wait(t, row.wait)) }
                    dt { (texts.held.0) } dd { (number::count_or_dash(row.holds)) }
                    dt { (texts.puts_into) }
                    dd {
                        @if let Some(used) = &row.used { (link::to_queue(t, used)) }
                    }
                    dt { (texts.watches) } dd { (number::count_or_dash(row.watched)) }
                    dt { (texts.registered) }
                    dd { (number::count_or_dash(row.registrations)) }
                }
            }
            section #queues data-live {
                h2 { (texts.takes_from) }
                @if row.queues.is_empty() { p .empty { (words.no_queue) } }
                @for name in &row.queues { p { (link::to_queue(t, name)) } }
            }
        }
        section #held data-live {
            h2 { (texts.held.0) " " small { (texts.held.1) } }
            @if held.is_empty() {
                p .empty { (words.no_jobs) }
            } @else {
                table {
                    thead {
                        tr {
                            th scope="col" { (words.job) }
                            th scope="col" { (words.queue) }
                            th .num scope="col" { (words.held_for) }
                            th .num scope="col" { (words.time_left) }
                        }
                    }
                    tbody {
                        @for job in held {
                            tr {
                                th scope="row" { a href=(link::job(job.id)) { (job.id) } }
                                td .name { (link::to_queue(t, &job.queue)) }
                                td .num { (number::duration(job.held_ms)) }
                                td .num { (left(t, job.time_left_ms)) }
                            }
                        }
                    }
                }
            }
        }
    };
    let path = format!("{PATH}/{id}");
    let mut equal = Equal::default().get(&path, &[]);
    if principal.require(Role::Admin).is_ok() {
        equal = equal.command(&["connections", "--close", &id]).request("DELETE", &path, None);
    }
    Ok(Page::new(&api, PATH, &row.address, contents).equal_to(equal))
}

pub(crate) async fn close(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    Path(id): Path<String>,
) -> Result<Response> {
    principal.require(Role::Admin)?;
    api.close_connection(&id).await?;
    Ok(actions::back(&format!("{}{PATH}", crate::PREFIX), "closed"))
}

/// The time until a deadline.
fn left(t: &Texts, time_left_ms: Option<u64>) -> Markup {
    html! {
        @match time_left_ms {
            Some(ms) => (number::duration(ms)),
            None => span .none { (t.words.no_limit) },
        }
    }
}

/// The clients of a queue that take jobs.
pub(crate) fn consumers(t: &Texts, rows: &[Consumer]) -> Markup {
    let words = &t.words;
    html! {
        @if rows.is_empty() {
            p .empty { (t.connections.no_consumers) }
        } @else {
            div .scroll {
                table .wide {
                    thead {
                        tr {
                            th scope="col" { (words.client) }
                            th scope="col" { (words.protocol) }
                            th .num scope="col" { (words.holds) }
                            th .num scope="col" { (words.time_left) }
                            th scope="col" { (words.waits) }
                            th .num scope="col" { (words.silent_for) }
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
                                    @if row.holds > 0 { (left(t, row.time_left_ms)) }
                                }
                                td { (wait(t, row.wait)) }
                                td .num { (number::duration(row.idle_ms)) }
                            }
                        }
                    }
                }
            }
        }
    }
}
