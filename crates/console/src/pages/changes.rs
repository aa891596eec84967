//! The record of changes: who requested what over HTTP, and why.

use api::types::{AuditLine, Role};
use api::{Api, Principal};
use axum::Extension;
use axum::extract::State;
use hyper::Uri;
use maud::{Markup, html};

use crate::equal::Equal;
use crate::page::{Page, Result};
use crate::table::paging;
use crate::texts::Texts;
use crate::{link, number};

/// The path of the page.
const PATH: &str = "/changes";

pub(crate) async fn page(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    t: &'static Texts,
    uri: Uri,
) -> Result {
    principal.require(Role::Operator)?;
    let query = uri.query().unwrap_or_default();
    let audit = api.audit_page(query)?;
    let texts = &t.changes;
    let path = &format!("{}{PATH}", crate::PREFIX);
    let contents = html! {
        div .title { h1 { (texts.title) } }
        section #changes data-live {
            @if audit.items.is_empty() {
                p .empty { (texts.empty) }
            } @else {
                // No cell can have the focus. So the region has it, and keys can scroll it.
                div .scroll tabindex="0" role="region" aria-label=(texts.caption) {
                    table .wide {
                        caption .hidden { (texts.caption) }
                        thead {
                            tr {
                                th scope="col" { (texts.at) }
                                th scope="col" { (texts.who) }
                                th scope="col" { (texts.change) }
                                th scope="col" { (texts.reason) }
                                th scope="col" { (texts.status) }
                            }
                        }
                        tbody { @for line in &audit.items { (row(line)) } }
                    }
                }
            }
            (paging(
                t,
                query.contains("cursor=").then(|| path.clone()),
                audit.next.map(|next| link::with(path, &[("cursor", Some(&next))])),
            ))
        }
    };
    let equal = Equal::default().get("/audit", &[]);
    // The page belongs to the operations: both show what people have changed.
    Ok(Page::new(&api, "/operations", texts.title, contents).equal_to(equal))
}

fn row(line: &AuditLine) -> Markup {
    html! {
        tr {
            td { (number::moment(&line.at)) }
            th .name scope="row" {
                (line.who) " "
                small { (line.role.name()) @if let Some(address) = &line.address { ", " (address) } }
            }
            td .body {
                (line.action)
                @if let Some(detail) = &line.detail { br; small { (detail) } }
            }
            td .body { @if let Some(reason) = &line.reason { (reason) } }
            td {
                (line.status)
                @if let Some(problem) = &line.problem { br; small { (problem) } }
            }
        }
    }
}
