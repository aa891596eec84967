//! Why no job of a queue runs: walks the rule of delivery, and names the first thing in the way.

use axum::extract::State;
use broker::{Held, QueueStats};
use hyper::Uri;

use crate::openapi::Refusals;
use crate::problem::Problem;
use crate::state::Api;
use crate::text::json::Json;
use crate::text::name::{QueueName, shown_name};
use crate::text::query::Query;
use crate::types;

/// Why no job of the queue runs: the first thing in the way, and what to do.
#[utoipa::path(
    get,
    path = "/queues/{queue}/why",
    tag = "queues",
    params(("queue" = String, Path, description = "The name of the queue.")),
    responses(
        (status = 200, description = "The reason.", body = types::Why),
        Refusals,
    )
)]
pub(crate) async fn get_why(
    State(api): State<Api>,
    QueueName(name): QueueName,
    uri: Uri,
) -> Result<Json<types::Why>, Problem> {
    Query::read(&uri, &[])?;
    api.why(&name).map(Json)
}

/// What decides whether a job of the queue runs.
struct Facts {
    stats: QueueStats,
    /// Why the queue hands out no job to a take. `None`: it does.
    held: Option<Held>,
    /// The reason of the policy that pauses the queue.
    reason: Option<String>,
    /// Why a put is refused now.
    put_refusal: Option<String>,
}

impl Facts {
    fn is_held(&self, held: Held) -> bool {
        self.held == Some(held)
    }
}

/// A check: its name, and the reason if it applies.
type Check = (types::WhyCode, fn(&Facts) -> Option<String>);

/// All checks, in the order of the rule of delivery.
const CHECKS: [Check; 17] = [
    (types::WhyCode::ReadsBlocked, |facts| {
        let text = "the status of the server does not let clients take jobs; set the status to up";
        facts.is_held(Held::Blocked).then(|| text.to_owned())
    }),
    (types::WhyCode::Removing, |facts| {
        let text = "a client removes the queue with all its jobs";
        facts.is_held(Held::Removed).then(|| text.to_owned())
    }),
    (types::WhyCode::PausedByPolicy, |facts| {
        facts.is_held(Held::PausedByPolicy).then(|| {
            let why = facts.reason.as_ref().map_or_else(String::new, |why| format!(" ({why})"));
            let end = match facts.stats.policy_pause_left_ms {
                0 => String::new(),
                left_ms => format!("; this pause ends in {} s", left_ms.div_ceil(1_000)),
            };
            format!("a policy pauses the queue{why}; the key `pause` of the policy says so{end}")
        })
    }),
    (types::WhyCode::NotReady, |facts| {
        let QueueStats { ready, leased, delayed, buried, .. } = facts.stats;
        (ready == 0).then(|| {
            format!(
                "no job is ready: {leased} are leased, {delayed} wait for their time, {buried} are \
                 buried until a client kicks them"
            )
        })
    }),
    (types::WhyCode::Alias, |facts| {
        let text = "a policy makes the name of the queue an alias, so takes of this name find \
                    nothing; move the jobs to another queue";
        facts.is_held(Held::Alias).then(|| text.to_owned())
    }),
    (types::WhyCode::Paused, |facts| {
        let left_ms = facts.stats.pause_left_ms;
        (left_ms > 0).then(|| {
            let left_s = left_ms.div_ceil(1_000);
            format!(
                "a client paused the queue; it continues in {left_s} s, or if you pause it for 0 s"
            )
        })
    }),
    (types::WhyCode::Concurrency, |facts| {
        let Some(Held::Concurrency { limit }) = facts.held else { return None };
        Some(format!(
            "{} jobs are leased, and the policy's concurrency.limit is {limit}; the queue hands \
             out the next job when a lease ends",
            facts.stats.leased
        ))
    }),
    (types::WhyCode::Rate, |facts| {
        let Some(Held::Rate { wait_ms }) = facts.held else { return None };
        Some(format!("the policy's rate lets the queue hand out the next job in {wait_ms} ms"))
    }),
    (types::WhyCode::KeyConcurrency, |facts| {
        let Some(Held::KeyConcurrency { limit }) = facts.held else { return None };
        Some(format!(
            "the policy's concurrency.limit lets {limit} jobs of each key be leased, and the keys of \
             all ready jobs are at a limit; the queue hands out the next job when a lease ends"
        ))
    }),
    (types::WhyCode::KeyRate, |facts| {
        let Some(Held::KeyRate { wait_ms }) = facts.held else { return None };
        Some(format!(
            "the policy's rate counts for each key, and the keys of all ready jobs are at a limit; the \
             queue hands out the next job with the key of the first job in {wait_ms} ms"
        ))
    }),
    (types::WhyCode::Order, |facts| {
        let text = "the policy's concurrency.order is strict: a job that was handed out is delayed, \
                    and the jobs behind it wait until it is done, buried or deleted (with \
                    concurrency.key, those with the same key)";
        facts.is_held(Held::Order).then(|| text.to_owned())
    }),
    (types::WhyCode::Sorting, |facts| {
        let text = "the policy has changed, and the queue sorts its jobs by their keys; this takes \
                    about a second for a million jobs";
        facts.is_held(Held::Sorting).then(|| text.to_owned())
    }),
    (types::WhyCode::Expired, |facts| {
        let text = "the next job has expired; the server ends it, and then looks at the one behind";
        facts.is_held(Held::Expired).then(|| text.to_owned())
    }),
    (types::WhyCode::NoWorkers, |facts| {
        let QueueStats { watchers, workers, .. } = facts.stats;
        (watchers + workers == 0).then(|| {
            "no connected client watches the queue, and no worker has registered for it; start a \
             worker (clients of Kestrel appear only while they wait)"
                .to_owned()
        })
    }),
    (types::WhyCode::AllBusy, |facts| {
        (facts.stats.waiters == 0).then(|| {
            "no client waits for a job of the queue: all are busy, or between two jobs; if this \
             stays so, start more workers"
                .to_owned()
        })
    }),
    // A cold job stands in nobody's way before a client asks for it.
    (types::WhyCode::Loading, |facts| {
        let text = "a client waits, and the next job is only in the log; the server loads it now";
        facts.is_held(Held::Cold).then(|| text.to_owned())
    }),
    (types::WhyCode::ShouldRun, |_| {
        Some("nothing is in the way: the server hands out the next job now".to_owned())
    }),
];

fn why(facts: &Facts) -> types::Why {
    let mut checked = Vec::new();
    for (code, check) in CHECKS {
        checked.push(code);
        if let Some(text) = check(facts) {
            let reason = facts.reason.clone().filter(|_| code == types::WhyCode::PausedByPolicy);
            let wait_ms = match (code, facts.held) {
                (types::WhyCode::Paused, _) => Some(facts.stats.pause_left_ms),
                (types::WhyCode::PausedByPolicy, _) => {
                    Some(facts.stats.policy_pause_left_ms).filter(|left_ms| *left_ms > 0)
                }
                (types::WhyCode::Rate, Some(Held::Rate { wait_ms }))
                | (types::WhyCode::KeyRate, Some(Held::KeyRate { wait_ms })) => Some(wait_ms),
                _ => None,
            };
            let put_refusal = facts.put_refusal.clone();
            return types::Why { answer: code, text, reason, wait_ms, checked, put_refusal };
        }
    }
    unreachable!("the last check always applies")
}

impl Api {
    /// Why no job of a queue runs.
    pub fn why(&self, name: &[u8]) -> Result<types::Why, Problem> {
        let turn = self.turn();
        let queue = turn.queue_id(name).ok_or_else(|| Problem::no_queue(name))?;
        let reason = turn.policy(name).pause.reason.map(|why| shown_name(&why));
        let (stats, held) = (turn.queue_stats_of(queue), turn.held_back(queue));
        let put_refusal = turn.put_refusal(name).map(|refusal| Problem::from(refusal).detail);
        let facts = Facts { stats, held, reason, put_refusal };
        drop(turn);
        Ok(why(&facts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiting_client_and_a_ready_job_meet() {
        let stats = QueueStats { ready: 1, watchers: 1, waiters: 1, ..QueueStats::default() };
        let facts = Facts { stats, held: None, reason: None, put_refusal: None };
        assert_eq!(why(&facts).answer, types::WhyCode::ShouldRun);
        let removed = why(&Facts { held: Some(Held::Removed), ..facts });
        assert_eq!(removed.answer, types::WhyCode::Removing);
    }

    #[test]
    fn a_cold_job_is_loaded_for_a_client_that_waits() {
        let stats = QueueStats { ready: 1, watchers: 1, waiters: 1, ..QueueStats::default() };
        let cold = why(&Facts { stats, held: Some(Held::Cold), reason: None, put_refusal: None });
        assert_eq!(cold.answer, types::WhyCode::Loading);
    }

    #[test]
    fn a_cold_job_waits_for_a_worker_first() {
        let nobody = QueueStats { ready: 1, ..QueueStats::default() };
        let busy = QueueStats { watchers: 1, ..nobody };
        let held = Some(Held::Cold);
        let answer = |stats| why(&Facts { stats, held, reason: None, put_refusal: None }).answer;
        assert_eq!(answer(nobody), types::WhyCode::NoWorkers);
        assert_eq!(answer(busy), types::WhyCode::AllBusy);
    }
}
