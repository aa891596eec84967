//! The jobs that an operator chose: a search in the jobs of a queue, boxes to tick, and actions on the
//! ticked jobs. All of it works without a script.

use api::types::{OperationKind, Role, Search, StartOperation};
use api::{Api, JobId, Principal, Problem, ProblemKind, parse_name};
use axum::Extension;
use axum::extract::{Path, State};
use axum::response::Response;
use maud::{Markup, html};

use crate::guard::Form;
use crate::page::Result;
use crate::texts::Texts;
use crate::{actions, link, number};

/// The field with the text to search for.
pub(crate) const SEARCH: &str = "search";

/// The field to search in a list of jobs. `among` is the parameter that chooses the list.
pub(crate) fn search_form(
    t: &Texts,
    path: &str,
    among: (&str, Option<&str>),
    label: &str,
    text: Option<&str>,
) -> Markup {
    let t = &t.actions;
    html! {
        form .filter action=(path) {
            @if let (name, Some(value)) = among { input type="hidden" name=(name) value=(value); }
            input type="search" name=(SEARCH) value=[text] maxlength="200"
                placeholder=(label) aria-label=(label);
            button { (t.search) }
            @if text.is_some() {
                a href=(link::with(path, &[among])) { (t.all_jobs) }
            }
        }
    }
}

/// How far a search came.
pub(crate) fn remark(t: &Texts, search: &Search) -> Markup {
    let t = &t.actions;
    let number = number::grouped;
    let found = number(search.items.len() as u64);
    html! {
        p .remark {
            ((t.found)(&found, &number(search.scanned_jobs), &number(search.total)))
            @if search.next.is_some() { " " (t.goes_on) }
            @if search.unsearched > 0 { " " ((t.unsearched)(&number(search.unsearched))) }
        }
    }
}

/// A text in which each occurrence of another text is marked.
pub(crate) fn marked(text: &str, wanted: Option<&str>) -> Markup {
    let Some(wanted) = wanted.filter(|wanted| !wanted.is_empty()) else {
        return html! { (text) };
    };
    html! {
        @for (index, part) in text.split(wanted).enumerate() {
            @if index > 0 { mark { (wanted) } }
            (part)
        }
    }
}

/// A form around a list of jobs with boxes, for clients that are allowed to change them.
pub(crate) fn form(
    t: &Texts,
    principal: &Principal,
    path: &str,
    state: &str,
    list: &Markup,
) -> Markup {
    let t = &t.actions;
    if !may_choose(principal, state) {
        return html! { (list) };
    }
    html! {
        form method="post" action={ (path) "/chosen" } {
            // The Enter key presses the first button of a form. A disabled one does nothing.
            button type="submit" disabled hidden {}
            input type="hidden" name="csrf" value=(principal.csrf());
            input type="hidden" name="state" value=(state);
            (list)
            div .actions {
                (t.ticked)
                @if state != "ready" { button name="what" value="kick" { (t.kick) } }
                button name="what" value="delete" { (t.delete) }
                button name="what" value="move" { (t.move_to) }
                input name="to" placeholder=(t.other_queue) aria-label=(t.other_queue);
                input name="reason" placeholder=(t.reason) aria-label=(t.reason) maxlength="500";
            }
        }
    }
}

/// Whether the client can tick the jobs of this state.
pub(crate) fn may_choose(principal: &Principal, state: &str) -> bool {
    state != "leased" && principal.require(Role::Operator).is_ok()
}

/// The box of a job.
pub(crate) fn tick(t: &Texts, id: u64) -> Markup {
    html! { input type="checkbox" name="id" value=(id) aria-label={ (t.actions.choose) " " (id) }; }
}

fn bad(why: &str) -> Problem {
    Problem::new(ProblemKind::BadRequest, why)
}

/// The other queue of a move. A person writes its name as the console shows it.
fn target(form: &Form) -> Result<String> {
    Ok(form.get("to").ok_or_else(|| bad("write the name of the other queue"))?.to_owned())
}

/// Changes the ticked jobs of a queue.
pub(crate) async fn act(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    Path(name): Path<String>,
    form: Form,
) -> Result<Response> {
    actions::operator(&principal)?;
    let ids: Option<Vec<u64>> = form.all("id").map(|id| id.parse().ok()).collect();
    let ids = ids.filter(|ids| !ids.is_empty()).ok_or_else(|| bad("tick at least one job"))?;
    let (kind, to) = match form.get("what") {
        Some("kick") => (OperationKind::Kick, None),
        Some("delete") => (OperationKind::Clear, None),
        Some("move") => (OperationKind::Move, Some(target(&form)?)),
        _ => return Err(bad("choose what happens to the jobs").into()),
    };
    let asked = StartOperation {
        ids: Some(ids),
        to,
        state: actions::state_of(&form)?,
        ..StartOperation::new(kind, name)
    };
    actions::start(&api, &principal, &asked).await
}

/// Moves the jobs of a queue to another queue.
pub(crate) async fn move_queue(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    Path(name): Path<String>,
    form: Form,
) -> Result<Response> {
    actions::operator(&principal)?;
    let asked = StartOperation {
        to: Some(target(&form)?),
        state: actions::state_of(&form)?,
        ..StartOperation::new(OperationKind::Move, name)
    };
    actions::start(&api, &principal, &asked).await
}

/// Moves one job to another queue.
pub(crate) async fn move_job(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    Path(id): Path<String>,
    form: Form,
) -> Result<Response> {
    actions::operator(&principal)?;
    let id = actions::number(&id)?;
    api.move_job(JobId(id), &parse_name(&target(&form)?)?, &actions::ANY).await?;
    Ok(actions::back(&link::job(id), "moved"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_are_marked_and_escaped() {
        let marked = |text, wanted| marked(text, wanted).into_string();
        assert_eq!(marked("a<b>a", Some("<b>")), "a<mark>&lt;b&gt;</mark>a");
        assert_eq!(marked("aaa", Some("a")), "<mark>a</mark>".repeat(3));
        assert_eq!(marked("a&b", None), "a&amp;b");
    }
}
