//! The operations: changes of many jobs, with their progress.

use api::types::{Operation, OperationKind, OperationStatus, Role};
use api::{Api, Principal};
use axum::Extension;
use axum::extract::State;
use hyper::Uri;
use maud::{Markup, html};

use crate::page::{Page, Result};
use crate::{actions, link, number};

pub(crate) async fn page(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    uri: Uri,
) -> Result {
    let operations = api.operations().items;
    let contents = html! {
        div .title { h1 { "Operations" } }
        (actions::done(&uri))
        section #operations data-live {
            @if operations.is_empty() {
                p .empty { "No operation has run since the server started." }
            } @else {
                div .scroll {
                    table .wide {
                        caption .hidden { "Changes of many jobs, the newest first" }
                        thead {
                            tr {
                                th scope="col" { "Operation" }
                                th scope="col" { "Queue" }
                                th scope="col" { "Progress" }
                                th .num scope="col" { "Jobs/s" }
                                th scope="col" { "Started" }
                                th scope="col" { "By" }
                                th scope="col" { "State" }
                            }
                        }
                        tbody { @for operation in &operations { (row(operation, &principal)) } }
                    }
                }
            }
        }
    };
    Ok(Page::new(&api, "/operations", "Operations", contents))
}

fn row(operation: &Operation, principal: &Principal) -> Markup {
    let kind = match operation.kind {
        OperationKind::Kick => "kick",
        OperationKind::Clear => "end",
    };
    let is_running = operation.status == OperationStatus::Running;
    let can_cancel = is_running && principal.require(Role::Operator).is_ok();
    let address = format!("{}/{}/cancel", link::operations(), operation.id);
    html! {
        tr {
            th scope="row" { (operation.id) " " (kind) }
            td { a href=(link::queue(&operation.queue)) { (operation.queue) } }
            td {
                progress value=(operation.done) max=(operation.total.max(1)) {}
                " " (number::grouped(operation.done)) " of " (number::grouped(operation.total))
            }
            td .num { (number::rate(Some(operation.per_s))) }
            td { (operation.started_at) }
            td { (operation.who) }
            td {
                (status(operation.status))
                @if let Some(problem) = &operation.problem { ": " (problem.detail) }
                @if can_cancel { (actions::form(principal, &address, "Cancel", &html! {})) }
            }
        }
    }
}

fn status(status: OperationStatus) -> &'static str {
    match status {
        OperationStatus::Running => "running",
        OperationStatus::Done => "done",
        OperationStatus::Cancelled => "cancelled",
        OperationStatus::Failed => "failed",
    }
}
