//! The policies: the rules in force, and what a name gets.

use api::types::{Role, Setting};
use api::{Api, Principal, parse_name};
use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use hyper::Uri;
use maud::{Markup, html};

use crate::equal::Equal;
use crate::page::{Page, Result};
use crate::texts::Texts;
use crate::{PREFIX, actions};

pub(crate) async fn page(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    texts: &'static Texts,
    uri: Uri,
) -> Result {
    let t = &texts.policies;
    let query = uri.query().unwrap_or_default();
    let name = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "name");
    let name = name.map(|(_, value)| value.into_owned()).filter(|name| !name.is_empty());
    let effective = match &name {
        Some(name) => Some(api.effective_policy(&parse_name(name)?)),
        None => None,
    };
    let rules = api.policies().items;
    let may_reload = principal.require(Role::Admin).is_ok();
    let contents = html! {
        div .title { h1 { (texts.frame.policies) } }
        (actions::done(texts, &uri))
        form .filter {
            input type="search" name="name" value=[&name] placeholder=(t.name)
                aria-label=(t.name);
            button { (t.button) }
        }
        @if let Some(effective) = &effective {
            section {
                h2 { (t.gets) " " code { (effective.name) } }
                (settings(texts, &effective.settings))
            }
        }
        section {
            h2 { (t.rules) " " small { (t.later_wins) } }
            @if rules.is_empty() { p .empty { (t.empty) } }
            @for rule in &rules {
                h3 {
                    @for pattern in &rule.patterns { code { (pattern) } " " }
                    @if let Some(line) = rule.line {
                        small { ((texts.words.line)(&line.to_string())) }
                    }
                }
                (settings(texts, &rule.settings))
            }
        }
        @if may_reload {
            section #reload {
                h2 { (t.file) }
                p { (t.reload_remark) }
                (actions::form(&principal, &format!("{PREFIX}/policies/reload"), t.reload, &html! {}))
            }
        }
    };
    let equal = match &name {
        Some(name) => Equal::default()
            .file_command(&["policy", "show"], Some(name))
            .get("/policies/effective", &[("name", Some(name))]),
        None => Equal::default().file_command(&["config", "show"], None).get("/policies", &[]),
    };
    let equal = if may_reload { equal.request("POST", "/server/reload", None) } else { equal };
    Ok(Page::new(&api, "/policies", texts.frame.policies, contents).equal_to(equal))
}

/// Reads the configuration again.
pub(crate) async fn reload(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
) -> Result<Response> {
    principal.require(Role::Admin)?;
    api.reload().await?;
    Ok(actions::back(&format!("{PREFIX}/policies"), "reloaded"))
}

fn settings(t: &Texts, settings: &[Setting]) -> Markup {
    html! {
        dl .policy {
            @for setting in settings {
                dt { (setting.key) }
                dd {
                    (setting.value)
                    " "
                    small {
                        @match setting.line {
                            Some(line) => ((t.words.line)(&line.to_string())),
                            None => (t.words.default),
                        }
                    }
                }
            }
        }
    }
}
