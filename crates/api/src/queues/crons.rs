//! The entries that put jobs by schedules.

use axum::extract::State;
use broker::Millis;
use broker::crons::CronView;
use hyper::Uri;

use crate::openapi::Refusals;
use crate::problem::Problem;
use crate::state::Api;
use crate::text::json::Json;
use crate::text::moment;
use crate::text::name::shown_name;
use crate::text::query::Query;
use crate::types;

/// The entries that put jobs by schedules, with the next and the last job of each.
#[utoipa::path(
    get,
    path = "/crons",
    tag = "policies",
    responses((status = 200, description = "The entries.", body = types::Crons), Refusals)
)]
pub(crate) async fn get_crons(
    State(api): State<Api>,
    uri: Uri,
) -> Result<Json<types::Crons>, Problem> {
    Query::read(&uri, &[])?;
    Ok(Json(api.crons()))
}

impl Api {
    /// The entries that put jobs by schedules.
    pub fn crons(&self) -> types::Crons {
        types::Crons { items: self.turn().crons().map(|view| shown(&view)).collect() }
    }
}

fn shown(view: &CronView<'_>) -> types::Cron {
    let CronView { entry, state, next, counts } = view;
    let written = |at: Option<Millis>| at.map(moment::written);
    types::Cron {
        name: shown_name(&entry.name),
        queue: shown_name(&entry.queue),
        spec: entry.cron.as_str().to_owned(),
        tz: entry.zone.as_str().to_owned(),
        overlap: entry.overlap.as_str().to_owned(),
        catch_up: entry.catch_up.as_str().to_owned(),
        jitter_ms: entry.jitter_ms,
        body_bytes: entry.body.len() as u64,
        line: (entry.line > 0).then_some(entry.line),
        next_at: written(*next),
        last_at: written(state.fired),
        last_job: state.job.map(|id| id.0),
        fired: counts.fired,
        overlaps: counts.overlaps,
        missed: counts.missed,
        refused: counts.refused,
    }
}
