//! Policies: the rules in force, and the settings of one name.

use axum::extract::State;
use axum::response::Response;
use broker::policy::{Rules, parent_name};
use hyper::{HeaderMap, Uri};

use crate::openapi::Refusals;
use crate::problem::Problem;
use crate::state::Api;
use crate::text::name::{parse_name, shown_name};
use crate::text::query::Query;
use crate::types;
use crate::version::document;

/// The rules in force, in the order of the configuration.
#[utoipa::path(
    get,
    path = "/policies",
    tag = "policies",
    responses(
        (status = 200, description = "The rules.", body = types::Policies),
        (status = 304, description = "The client has the current version (`If-None-Match`)."),
        Refusals,
    )
)]
pub(crate) async fn get_policies(
    State(api): State<Api>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response, Problem> {
    Query::read(&uri, &[])?;
    Ok(document(&headers, &api.policies()))
}

/// The settings of a queue with this name. The queue need not exist.
#[utoipa::path(
    get,
    path = "/policies/effective",
    tag = "policies",
    params(("name" = String, Query, description = "The name of a queue.")),
    responses(
        (status = 200, description = "The settings.", body = types::EffectivePolicy),
        (status = 304, description = "The client has the current version (`If-None-Match`)."),
        Refusals,
    )
)]
pub(crate) async fn get_effective(
    State(api): State<Api>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response, Problem> {
    let query = Query::read(&uri, &["name"])?;
    let name =
        parse_name(query.require("name")?).map_err(|problem| problem.of_parameter("name"))?;
    Ok(document(&headers, &api.effective_policy(&name)))
}

impl Api {
    /// The rules in force, in the order of the configuration.
    pub fn policies(&self) -> types::Policies {
        let rules = self.rules();
        let items = rules.0.iter().map(|rule| types::Rule {
            patterns: rule.patterns.iter().map(|it| shown_name(it.as_bytes())).collect(),
            line: line(rule.line),
            settings: rule
                .settings
                .iter()
                .map(|asked| types::Setting {
                    key: asked.setting.key().to_owned(),
                    value: (self.setup.show_setting)(&asked.setting),
                    line: line(asked.line),
                })
                .collect(),
        });
        types::Policies { items: items.collect() }
    }

    /// The settings of a queue with this name. If the queue does not exist, and its name has a `+`, these are
    /// the settings of a child.
    pub fn effective_policy(&self, name: &[u8]) -> types::EffectivePolicy {
        let facts = self.turn().queue_facts(name);
        let parent = parent_name(name).filter(|_| facts.is_none_or(|facts| facts.child));
        let settings = self.rules().resolve_with_origins(name, parent);
        let settings = settings.into_iter().map(|(setting, place)| types::Setting {
            key: setting.key().to_owned(),
            value: (self.setup.show_setting)(&setting),
            line: place.and_then(line),
        });
        types::EffectivePolicy { name: shown_name(name), settings: settings.collect() }
    }

    /// A copy of the rules, because matching many patterns must not delay the other clients.
    fn rules(&self) -> Rules {
        self.turn().policies().clone()
    }
}

/// Line 0 stands for a setting that does not come from a file.
fn line(line: u32) -> Option<u32> {
    (line > 0).then_some(line)
}
