//! The policies: the rules in force, and what a name gets.

use api::types::Setting;
use api::{Api, parse_name};
use axum::extract::State;
use hyper::Uri;
use maud::{Markup, html};

use crate::equal::Equal;
use crate::page::{Page, Result};
use crate::texts::Texts;

pub(crate) async fn page(State(api): State<Api>, texts: &'static Texts, uri: Uri) -> Result {
    let t = &texts.policies;
    let query = uri.query().unwrap_or_default();
    let name = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "name");
    let name = name.map(|(_, value)| value.into_owned()).filter(|name| !name.is_empty());
    let effective = match &name {
        Some(name) => Some(api.effective_policy(&parse_name(name)?)),
        None => None,
    };
    let rules = api.policies().items;
    let contents = html! {
        div .title { h1 { (texts.frame.policies) } }
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
    };
    let equal = match &name {
        Some(name) => Equal::default()
            .file_command(&["policy", "show"], Some(name))
            .get("/policies/effective", &[("name", Some(name))]),
        None => Equal::default().file_command(&["config", "show"], None).get("/policies", &[]),
    };
    Ok(Page::new(&api, "/policies", texts.frame.policies, contents).equal_to(equal))
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
