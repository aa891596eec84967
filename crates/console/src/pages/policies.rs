//! The policies: the rules in force, and what a name gets.

use api::types::Setting;
use api::{Api, parse_name};
use axum::extract::State;
use hyper::Uri;
use maud::{Markup, html};

use crate::page::{Page, Result};

pub(crate) async fn page(State(api): State<Api>, uri: Uri) -> Result {
    let query = uri.query().unwrap_or_default();
    let name = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "name");
    let name = name.map(|(_, value)| value.into_owned()).filter(|name| !name.is_empty());
    let effective = match &name {
        Some(name) => Some(api.effective_policy(&parse_name(name)?)),
        None => None,
    };
    let rules = api.policies().items;
    let contents = html! {
        div .title { h1 { "Policies" } }
        form .filter {
            input type="search" name="name" value=[&name] placeholder="Name of a queue"
                aria-label="Name of a queue";
            button { "What does it get?" }
        }
        @if let Some(effective) = &effective {
            section {
                h2 { "A queue named " code { (effective.name) } " gets" }
                (settings(&effective.settings))
            }
        }
        section {
            h2 { "Rules " small { "a later rule wins" } }
            @if rules.is_empty() { p .empty { "No rule. All queues have the defaults." } }
            @for rule in &rules {
                h3 {
                    @for pattern in &rule.patterns { code { (pattern) } " " }
                    @if let Some(line) = rule.line { small { "line " (line) } }
                }
                (settings(&rule.settings))
            }
        }
    };
    Ok(Page::new(&api, "/policies", "Policies", contents))
}

fn settings(settings: &[Setting]) -> Markup {
    html! {
        dl .policy {
            @for setting in settings {
                dt { code { (setting.key) } }
                dd {
                    (setting.value)
                    " " small { @if let Some(line) = setting.line { "line " (line) } @else { "default" } }
                }
            }
        }
    }
}
