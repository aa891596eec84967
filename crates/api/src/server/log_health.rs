//! The log: its size, its work and its errors.

use axum::extract::State;
use hyper::Uri;

use crate::openapi::Refusals;
use crate::problem::Problem;
use crate::state::Api;
use crate::text::json::Json;
use crate::text::query::Query;
use crate::types;

/// The log: its size, its work and its errors. All numbers are 0 if the server has no log.
#[utoipa::path(
    get,
    path = "/log",
    tag = "server",
    responses(
        (status = 200, description = "The log.", body = types::Log),
        Refusals,
    )
)]
pub(crate) async fn get_log(State(api): State<Api>, uri: Uri) -> Result<Json<types::Log>, Problem> {
    Query::read(&uri, &[])?;
    Ok(Json(api.log()))
}

impl Api {
    /// The log: its size, its work and its errors.
    pub fn log(&self) -> types::Log {
        let stats = self.turn().log_stats();
        let broker = self.setup.door.broker();
        types::Log {
            oldest_segment: stats.oldest_segment,
            current_segment: stats.current_segment,
            live_bytes: stats.live_bytes,
            data_bytes: stats.data_bytes,
            prepared_bytes: stats.ahead_bytes,
            records_written: stats.records_written,
            records_copied: stats.records_copied,
            bytes_written: stats.bytes_written,
            bytes_of_clients: stats.bytes_of_clients,
            resident_body_bytes: stats.resident_body_bytes,
            stored_bodies: stats.stored_jobs,
            cold_jobs: stats.cold_jobs,
            unreadable_jobs: stats.unreadable_jobs,
            body_errors: stats.body_errors,
            is_full: broker.is_full(),
            failure: broker.failure().map(|failure| failure.to_string()),
            reclaim_error: broker.reclaim_error().map(|error| error.to_string()),
            index_error: broker.index_error().map(|error| error.to_string()),
            body_error: broker.body_error().map(|error| error.to_string()),
            stopped_ms: broker.stopped_ms(),
            recovery: self.setup.info.recovery,
        }
    }
}
