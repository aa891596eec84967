//! The operations: changes of many jobs, with their progress.

use api::types::{Operation, OperationKind, OperationStatus, Role};
use api::{Api, Principal};
use axum::Extension;
use axum::extract::State;
use hyper::Uri;
use maud::{Markup, html};

use crate::equal::Equal;
use crate::page::{Page, Result};
use crate::texts::Texts;
use crate::{actions, link, number};

pub(crate) async fn page(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    t: &'static Texts,
    uri: Uri,
) -> Result {
    let operations = api.operations().items;
    let texts = &t.operations;
    let contents = html! {
        div .title {
            h1 { (t.frame.operations) }
            @if principal.require(Role::Operator).is_ok() {
                a href={ (crate::PREFIX) "/changes" } { (t.changes.title) }
            }
        }
        (actions::done(t, &uri))
        section #operations data-live {
            @if operations.is_empty() {
                p .empty { (texts.empty) }
            } @else {
                div .scroll {
                    table .wide {
                        caption .hidden { (texts.caption) }
                        thead {
                            tr {
                                th scope="col" { (texts.operation) }
                                th scope="col" { (t.words.queue) }
                                th scope="col" { (texts.progress) }
                                th .num scope="col" { (texts.rate) }
                                th scope="col" { (texts.started) }
                                th scope="col" { (texts.by) }
                                th scope="col" { (texts.state) }
                            }
                        }
                        tbody { @for operation in &operations { (row(t, operation, &principal)) } }
                    }
                }
            }
        }
    };
    let equal = Equal::default().get("/operations", &[]);
    Ok(Page::new(&api, "/operations", t.frame.operations, contents).equal_to(equal))
}

fn row(t: &Texts, operation: &Operation, principal: &Principal) -> Markup {
    let texts = &t.operations;
    let kind = match operation.kind {
        OperationKind::Kick => texts.kick,
        OperationKind::Redrive => texts.redrive,
        OperationKind::Clear => texts.clear,
        OperationKind::Move => texts.move_jobs,
        OperationKind::Remove => texts.remove,
    };
    let is_running = operation.status == OperationStatus::Running;
    let can_cancel = is_running && principal.require(Role::Operator).is_ok();
    let address = format!("{}/{}/cancel", link::operations(), operation.id);
    html! {
        tr {
            th scope="row" {
                (operation.id) " " (kind)
                @if operation.dry_run { " " small { (texts.dry_run) } }
            }
            td {
                (link::to_queue(t, &operation.queue))
                @if let Some(to) = &operation.to { " → " (link::to_queue(t, to)) }
            }
            td {
                progress value=(operation.done) max=(operation.total.max(1))
                    aria-label=(texts.progress) {}
                " " ((texts.of)(&number::grouped(operation.done), &number::grouped(operation.total)))
                @if operation.skipped > 0 {
                    ", " ((texts.skipped)(&number::grouped(operation.skipped)))
                }
            }
            td .num { (number::rate(Some(operation.per_s))) }
            td { (number::moment(&operation.started_at)) }
            td { (operation.who) }
            td .state {
                span class={ "level " (class(operation.status)) } { (texts.status(operation.status)) }
                @if let Some(problem) = &operation.problem { ": " (problem.detail) }
                @if let Some(refusal) = &operation.refusal { "; " (refusal) }
                @if can_cancel { (actions::form(principal, &address, t.actions.cancel, &html! {})) }
            }
        }
    }
}

/// The class of a status, which has the color.
fn class(status: OperationStatus) -> &'static str {
    match status {
        OperationStatus::Running => "ready",
        OperationStatus::Done => "ok",
        OperationStatus::Cancelled => "warning",
        OperationStatus::Failed => "critical",
    }
}
