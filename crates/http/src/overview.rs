//! The server's own pages: liveness, readiness, and metrics.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use axum::Router;
use axum::routing::get;
use broker::{Broker, Clock, Millis};
use hyper::{Method, StatusCode};

use crate::answer::{Answer, HTML, TEXT, answer, complete, method_not_allowed, only_looks};
use crate::exposition::CONTENT_TYPE;
use crate::metrics::{Gathered, Health, Identity, ProcessFacts, QueueTimes, RequestTimes, render};

/// The index page, for people.
fn index(overview: &Overview) -> String {
    let lines = [
        (overview.has_console, "/console", "queues and jobs, for clients on this machine"),
        (true, "/health/live", "the server works"),
        (true, "/health/ready", "the server accepts and hands out jobs"),
        (overview.has_metrics, "/metrics", "metrics, for Prometheus"),
    ];
    let lines = lines.into_iter().filter(|(exists, ..)| *exists);
    let list: Vec<String> = lines
        .map(|(_, path, what)| format!("<li><a href=\"{path}\">{path}</a>: {what}\n"))
        .collect();
    let list = list.concat();
    format!(
        "<!doctype html>\n<html lang=\"en\"><title>Lineshaft</title>\n<h1>Lineshaft</h1>\n<ul>\n\
         {list}</ul></html>\n"
    )
}

/// The names of queues, when they are known.
pub type QueueNames = Pin<Box<dyn Future<Output = Vec<Box<[u8]>>> + Send>>;

/// The server's own site.
pub struct Overview {
    /// The broker whose health and metrics this site reports.
    pub broker: Broker,
    /// The clock of the broker.
    pub clock: Clock,
    /// Version of the server.
    pub version: &'static str,
    /// When the server started, by the clock of the broker.
    pub started: Millis,
    /// Whether the server has the console.
    pub has_console: bool,
    /// Whether the server has metrics.
    pub has_metrics: bool,
    /// Number of queues with metrics of their own.
    pub queues_max: usize,
    /// Chooses the queues with metrics of their own, if there are more than `queues_max`.
    pub choose_queues: Box<dyn Fn() -> QueueNames + Send + Sync>,
    /// Returns the times of requests so far.
    pub requests: Box<dyn Fn() -> Vec<RequestTimes> + Send + Sync>,
    /// Returns the times of jobs that have left queues with a history.
    pub queue_times: Box<dyn Fn() -> Vec<QueueTimes> + Send + Sync>,
    /// Returns the current facts of the process.
    pub process: Box<dyn Fn() -> ProcessFacts + Send + Sync>,
}

impl std::fmt::Debug for Overview {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Overview").field("broker", &self.broker).finish_non_exhaustive()
    }
}

impl Overview {
    /// Why the server is not ready; `None` if it is ready. A server with a full log is ready:
    /// workers must still reach the server to finish jobs, because finished jobs make room.
    fn unready(&self) -> Option<String> {
        if let Some(failure) = self.broker.failure() {
            return Some(format!("the log failed: {failure}"));
        }
        if (self.process)().is_stopping {
            return Some("stopping".to_owned());
        }
        if !self.broker.may_answer(|| (self.clock)()) {
            return Some("the stream of the cluster does not answer".to_owned());
        }
        if self.broker.draining() {
            return Some("draining: new jobs are refused".to_owned());
        }
        let turn = self.broker.turn((self.clock)());
        (turn.reads_blocked() && turn.writes_blocked())
            .then(|| "the status is quiescent".to_owned())
    }

    /// Takes a turn, which proves that the broker is not stuck. If the broker is stuck, the server
    /// does not respond, and the probe times out.
    fn live(&self) -> Answer {
        drop(self.broker.turn((self.clock)()));
        answer(StatusCode::OK, TEXT, "live\n")
    }

    fn ready(&self) -> Answer {
        match self.unready() {
            Some(reason) => {
                answer(StatusCode::SERVICE_UNAVAILABLE, TEXT, format!("not ready: {reason}\n"))
            }
            None if self.broker.disk_room().is_some_and(|room| room.is_critical) => answer(
                StatusCode::OK,
                TEXT,
                "ready, but the disk has less free room than disk.critical: new jobs are refused\n",
            ),
            None if self.broker.is_full() => answer(
                StatusCode::OK,
                TEXT,
                "ready, but the log has no room: new jobs are refused\n",
            ),
            None if self.broker.memory_usage().is_full() => answer(
                StatusCode::OK,
                TEXT,
                "ready, but the memory is full: new jobs are refused\n",
            ),
            None if self.has_all_jobs() => answer(
                StatusCode::OK,
                TEXT,
                "ready, but the limit of jobs is reached: new jobs are refused\n",
            ),
            None if self.has_all_queues() => answer(
                StatusCode::OK,
                TEXT,
                "ready, but the limit of queues is reached: clients cannot create queues\n",
            ),
            None => answer(StatusCode::OK, TEXT, "ready\n"),
        }
    }

    fn has_all_jobs(&self) -> bool {
        let most = self.broker.job_count_limit();
        most.is_some_and(|most| self.broker.turn((self.clock)()).totals().jobs() >= most)
    }

    fn has_all_queues(&self) -> bool {
        let most = self.broker.queue_usage().most;
        most.is_some_and(|most| self.broker.turn((self.clock)()).totals().queues >= most as u64)
    }

    /// Reads the numbers of all queues, if there are few. `None` if some queues have no metrics of
    /// their own.
    fn gather_all(&self) -> Option<Gathered> {
        let turn = self.broker.turn((self.clock)());
        let has_few = turn.totals().queues <= self.queues_max as u64;
        has_few.then(|| Gathered::of(&turn, turn.queue_names()))
    }

    fn gather(&self, names: &[Box<[u8]>]) -> Gathered {
        let turn = self.broker.turn((self.clock)());
        Gathered::of(&turn, names.iter().map(|name| &name[..]))
    }

    /// When the server started, by the wall clock.
    fn started_at(&self) -> Millis {
        self.broker.turn((self.clock)()).wall_at(self.started)
    }

    async fn metrics(&self) -> Answer {
        let gathered = match self.gather_all() {
            Some(all) => all,
            None => self.gather(&(self.choose_queues)().await),
        };
        let identity = Identity { version: self.version, started_at: self.started_at() };
        let health = Health::of(&self.broker, self.unready().is_none());
        let (requests, queues) = ((self.requests)(), (self.queue_times)());
        let text = render(&gathered, identity, &health, (self.process)(), &requests, &queues);
        answer(StatusCode::OK, CONTENT_TYPE, text)
    }
}

/// The route of the metrics.
pub fn metrics_router(overview: Arc<Overview>) -> Router {
    Router::new()
        .route("/metrics", get(async move || complete(overview.metrics().await)))
        .method_not_allowed_fallback(|| async { complete(method_not_allowed()) })
}

/// The routes of the server's own pages, except for the metrics.
pub fn health_router(overview: Arc<Overview>) -> Router {
    let page = |page: fn(&Overview) -> Answer| {
        let overview = overview.clone();
        get(move || async move { complete(page(&overview)) })
    };
    Router::new()
        .route("/", page(|overview| answer(StatusCode::OK, HTML, index(overview))))
        .route("/health/live", page(Overview::live))
        .route("/health/ready", page(Overview::ready))
        // A node that follows has another site, which is never ready here.
        .route("/health/leader", page(Overview::ready))
        .method_not_allowed_fallback(|| async { complete(method_not_allowed()) })
        .fallback(async |method: Method| {
            complete(if only_looks(&method) {
                answer(StatusCode::NOT_FOUND, TEXT, "no such page; see /\n")
            } else {
                method_not_allowed()
            })
        })
}

#[cfg(test)]
mod tests {
    use broker::EngineSetup;
    use tokio::runtime::Builder;

    use super::*;

    /// The time of a new cluster begins at 0.
    #[test]
    fn the_start_is_a_time_of_the_wall_clock() {
        let (started, now) = (Millis(1_000), Millis(61_000));
        let broker = Broker::memory(EngineSetup::default(), started);
        assert!(broker.turn(now).set_wall(now, Millis(1_700_000_060_000)));
        let overview = Overview {
            broker,
            clock: Arc::new(move || now),
            version: "1.2.3",
            started,
            has_console: false,
            has_metrics: true,
            queues_max: 100,
            choose_queues: Box::new(|| Box::pin(async { Vec::<Box<[u8]>>::new() })),
            requests: Box::new(Vec::<RequestTimes>::new),
            queue_times: Box::new(Vec::<QueueTimes>::new),
            process: Box::new(ProcessFacts::default),
        };
        let runtime = Builder::new_current_thread().build().unwrap();
        let answer = runtime.block_on(overview.metrics());
        let text = str::from_utf8(answer.body()).unwrap();
        let line = "process_start_time_seconds 1700000000";
        assert!(text.lines().any(|found| found == line), "{text}");
    }
}
