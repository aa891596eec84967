//! The people who are signed in to the console. An admin can end their sessions.

use api::types::{Role, Session};
use api::{Api, Principal};
use axum::Extension;
use axum::extract::{Path, State};
use axum::response::Response;
use hyper::Uri;
use maud::{Markup, html};

use crate::equal::Equal;
use crate::page::{Page, Result};
use crate::texts::Texts;
use crate::{actions, link, number};

/// The path of the page, in the console and in the API.
const PATH: &str = "/sessions";

pub(crate) async fn page(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    t: &'static Texts,
    uri: Uri,
) -> Result {
    principal.require(Role::Admin)?;
    let sessions = api.sessions(&principal).items;
    let texts = &t.sessions;
    let contents = html! {
        div .title { h1 { (texts.title) } }
        (actions::done(t, &uri))
        section #sessions data-live {
            @if sessions.is_empty() {
                p .empty { (texts.empty) }
            } @else {
                // No cell can have the focus. So the region has it, and keys can scroll it.
                div .scroll tabindex="0" role="region" aria-label=(texts.caption) {
                    table .wide {
                        caption .hidden { (texts.caption) }
                        thead {
                            tr {
                                th scope="col" { (texts.name) }
                                th scope="col" { (texts.role) }
                                th scope="col" { (texts.from) }
                                th scope="col" { (texts.began) }
                                th scope="col" { (texts.ends) }
                                th scope="col" { (texts.end) }
                            }
                        }
                        tbody { @for session in &sessions { (row(t, session, &principal)) } }
                    }
                }
            }
        }
        p .form { (texts.remark) " " code { "lineshaft token remove NAME" } }
    };
    let mut equal = Equal::default().command(&["sessions"]).get(PATH, &[]);
    // The command and the request that end the session of somebody else.
    if let Some(other) = sessions.iter().find(|session| !session.own) {
        let id = other.id.to_string();
        let path = format!("{PATH}/{id}");
        equal = equal.command(&["sessions", "--end", &id]).request("DELETE", &path, None);
    }
    // The page belongs to the connections: both are clients of the server.
    Ok(Page::new(&api, "/connections", texts.title, contents).equal_to(equal))
}

fn row(t: &Texts, session: &Session, principal: &Principal) -> Markup {
    let texts = &t.sessions;
    let address = format!("{}/{}/end", link::sessions(), session.id);
    html! {
        tr {
            th .name scope="row" { (session.name) }
            td { (session.role.name()) }
            td { (session.address) }
            td { (number::moment(&session.began_at)) }
            td { (number::moment(&session.ends_at)) }
            td {
                @if session.own {
                    (texts.own)
                } @else {
                    (actions::form(principal, &address, texts.end, &html! {}))
                }
            }
        }
    }
}

pub(crate) async fn end(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    Path(id): Path<String>,
) -> Result<Response> {
    principal.require(Role::Admin)?;
    Ok(api.end_session(&id, actions::back(&link::sessions(), "session"))?)
}
