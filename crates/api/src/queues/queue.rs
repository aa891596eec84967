//! One queue.

use axum::extract::State;
use axum::response::Response;
use broker::Band;
use hyper::Uri;

use crate::openapi::Refusals;
use crate::problem::Problem;
use crate::state::Api;
use crate::text::moment;
use crate::text::name::QueueName;
use crate::text::name::shown_name;
use crate::text::query::Query;
use crate::types;
use crate::version;
use crate::version::with_version;

/// One queue: its jobs by state, its clients, its counters and its policy.
#[utoipa::path(
    get,
    path = "/queues/{queue}",
    tag = "queues",
    params(("queue" = String, Path, description = "The name of the queue.")),
    responses(
        (
            status = 200,
            description = "The queue.",
            body = types::Queue,
            headers(("ETag" = String, description = "The version of its limits, its pause and its \
                policy, for `If-Match`. The number of its jobs does not change the version.")),
        ),
        Refusals,
    )
)]
pub(crate) async fn get_queue(
    State(api): State<Api>,
    QueueName(name): QueueName,
    uri: Uri,
) -> Result<Response, Problem> {
    Query::read(&uri, &[])?;
    let version = version::of_queue(&api.turn(), &name).ok_or_else(|| Problem::no_queue(&name))?;
    // A change in between makes the version old, so `If-Match` fails.
    Ok(with_version(&api.queue(&name)?, &version))
}

impl Api {
    /// One queue: its jobs by state, its clients, its counters and its policy.
    pub fn queue(&self, name: &[u8]) -> Result<types::Queue, Problem> {
        let turn = self.turn();
        let id = turn.queue_id(name).ok_or_else(|| Problem::no_queue(name))?;
        let (stats, facts) = (turn.queue_stats_of(id), turn.queue_facts_of(id));
        let items =
            facts.items.then(|| (turn.item_stats_of(id), turn.children_of(id).unwrap_or_default()));
        let is_being_removed = turn.is_being_removed(id);
        let has_cold_jobs = turn.has_cold_jobs(id);
        let keeps_history = turn.policy(name).history.is_on;
        let created_at = facts.items.then(|| turn.wall_at(facts.created));
        let as_of_at = turn.wall_at(turn.now());
        let name = &*turn.shown_name(name);
        drop(turn);
        let band = |band: Band| stats.bands[band as usize];
        Ok(types::Queue {
            name: shown_name(name),
            as_of_at: moment::written(as_of_at),
            ready: stats.ready,
            leased: stats.leased,
            delayed: stats.delayed,
            buried: stats.buried,
            dead: stats.dead,
            urgent: stats.urgent,
            bands: types::Bands {
                high: band(Band::High),
                normal: band(Band::Normal),
                low: band(Band::Low),
            },
            ready_bytes: stats.ready_bytes,
            head_age_ms: stats.head_age_ms,
            puts: stats.puts,
            finishes: stats.finishes,
            users: stats.users,
            watchers: stats.watchers,
            waiters: stats.waiters,
            workers: stats.workers,
            pauses: stats.pauses,
            pause_s: stats.pause_s,
            pause_left_ms: stats.pause_left_ms,
            kept: facts.kept,
            is_child: facts.child,
            is_being_removed,
            has_cold_jobs,
            keeps_history,
            limits: facts.limits,
            created_at: created_at.map(moment::written),
            items: items.map(|(items, children)| types::Items {
                puts: items.puts,
                put_bytes: items.put_bytes,
                hits: items.hits,
                misses: items.misses,
                expired: items.expired,
                discarded: items.discarded,
                flushes: items.flushes,
                open_reads: items.open,
                cancelled_reads: items.cancelled,
                children: children.iter().map(|it| shown_name(it)).collect(),
            }),
            policy: self.effective_policy(name).settings,
        })
    }
}
