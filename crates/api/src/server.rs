//! The server as a whole, and the client itself.

pub(crate) mod cluster;
pub(crate) mod connections;
pub(crate) mod events;
pub(crate) mod health;
pub(crate) mod history;
pub(crate) mod log_health;

use axum::Extension;
use axum::extract::State;
use broker::{Status, Totals};
use hyper::Uri;

use crate::access::Principal;
use crate::openapi::Refusals;
use crate::problem::Problem;
use crate::state::Api;
use crate::text::json::Json;
use crate::text::moment;
use crate::text::query::Query;
use crate::types::{self, Memory, QueueLimit};

/// The state of the server, its totals and its limits.
#[utoipa::path(
    get,
    path = "/server",
    tag = "server",
    responses(
        (status = 200, description = "The server.", body = types::Server),
        Refusals,
    )
)]
pub(crate) async fn get_server(
    State(api): State<Api>,
    uri: Uri,
) -> Result<Json<types::Server>, Problem> {
    Query::read(&uri, &[])?;
    Ok(Json(api.server()))
}

/// The client, as the server sees it.
#[utoipa::path(
    get,
    path = "/me",
    tag = "server",
    responses(
        (status = 200, description = "The client.", body = types::Me),
        Refusals,
    )
)]
pub(crate) async fn get_me(
    Extension(principal): Extension<Principal>,
    uri: Uri,
) -> Result<Json<types::Me>, Problem> {
    Query::read(&uri, &[])?;
    let Principal { name, role, via, .. } = principal;
    Ok(Json(types::Me { name: name.to_string(), role, via }))
}

impl Api {
    /// The state of the server, its totals and its limits.
    pub fn server(&self) -> types::Server {
        let (broker, info) = (self.setup.door.broker(), &self.setup.info);
        let process = (self.setup.process)();
        let turn = self.turn();
        let (now, started) = (turn.now(), info.started);
        let (now_at, started_at) = (turn.wall_at(now), turn.wall_at(started));
        let (totals, status, draining) = (turn.totals(), turn.status(), turn.draining());
        drop(turn);
        let memory = broker.memory_usage();
        let queues = broker.queue_usage();
        types::Server {
            version: info.version.clone(),
            host: info.host.clone(),
            started_at: moment::written(started_at),
            now_at: moment::written(now_at),
            uptime_ms: now.since(started),
            status: status_of(status),
            draining,
            health: health::of(broker, &totals, status, process.is_stopping),
            totals: totals_of(&totals),
            memory: Memory {
                used_bytes: memory.used_bytes,
                limit_bytes: memory.limit_bytes,
                refused: memory.refused,
            },
            queue_limit: QueueLimit {
                max: queues.most.map(|most| most as u64),
                refused: queues.refused,
            },
            connections: types::ConnectionCounts {
                open: process.connections,
                by_protocol: process
                    .connections_by_protocol
                    .iter()
                    .map(|(protocol, open)| ((*protocol).to_owned(), *open))
                    .collect(),
                max: process.connections_max,
            },
            process: types::Process {
                resident_bytes: process.resident_bytes,
                processor_us: process.processor_us,
                processors: process.processors,
            },
            listeners: info.listeners.clone(),
        }
    }
}

pub(crate) fn status_of(status: Status) -> types::Status {
    match status {
        Status::Up => types::Status::Up,
        Status::WriteAvoid => types::Status::WriteAvoid,
        Status::ReadOnly => types::Status::ReadOnly,
        Status::Quiescent => types::Status::Quiescent,
    }
}

fn totals_of(totals: &Totals) -> types::Totals {
    types::Totals {
        ready: totals.ready,
        leased: totals.leased,
        delayed: totals.delayed,
        buried: totals.buried,
        ready_bytes: totals.ready_bytes,
        queues: totals.queues,
        sessions: totals.sessions,
        waiting_sessions: totals.waiting_sessions,
        puts: totals.puts,
        takes: totals.takes,
        ends: totals.ends,
        releases: totals.releases,
        buries: totals.buries,
        timeouts: totals.timeouts,
    }
}
