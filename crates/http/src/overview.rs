//! The server's own pages: liveness, readiness, and metrics.

use std::future::Future;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;

use axum::Router;
use axum::routing::get;
use broker::{Millis, QueueCursor};
use hyper::{Method, StatusCode};

use crate::answer::{Answer, HTML, TEXT, answer, complete, method_not_allowed, only_looks};
use crate::door::Door;
use crate::exposition::CONTENT_TYPE;
use crate::metrics::{
    Gathered, Health, Identity, ProcessFacts, QueueRows, QueueTimes, RequestTimes, render,
};

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
    /// The door to the broker whose health and metrics this site reports.
    pub door: Door,
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
        formatter.debug_struct("Overview").field("door", &self.door).finish_non_exhaustive()
    }
}

impl Overview {
    /// Why the server is not ready; `None` if it is ready. A server with a full log is ready:
    /// workers must still reach the server to finish jobs, because finished jobs make room.
    fn unready(&self) -> Option<String> {
        let broker = self.door.broker();
        if let Some(failure) = broker.failure() {
            return Some(format!("the log failed: {failure}"));
        }
        if (self.process)().is_stopping {
            return Some("stopping".to_owned());
        }
        if !broker.may_answer(|| self.door.now()) {
            return Some("the stream of the cluster does not answer".to_owned());
        }
        if broker.draining() {
            return Some("draining: new jobs are refused".to_owned());
        }
        let turn = self.door.turn();
        (turn.reads_blocked() && turn.writes_blocked())
            .then(|| "the status is quiescent".to_owned())
    }

    /// Takes a turn, which proves that the broker is not stuck. If the broker is stuck, the server
    /// does not respond, and the probe times out.
    fn live(&self) -> Answer {
        drop(self.door.turn());
        answer(StatusCode::OK, TEXT, "live\n")
    }

    fn ready(&self) -> Answer {
        let broker = self.door.broker();
        match self.unready() {
            Some(reason) => {
                answer(StatusCode::SERVICE_UNAVAILABLE, TEXT, format!("not ready: {reason}\n"))
            }
            None if broker.disk_room().is_some_and(|room| room.is_critical) => answer(
                StatusCode::OK,
                TEXT,
                "ready, but the disk has less free room than disk.critical: new jobs are refused\n",
            ),
            None if broker.is_full() => answer(
                StatusCode::OK,
                TEXT,
                "ready, but the log has no room: new jobs are refused\n",
            ),
            None if broker.memory_usage().is_full() => answer(
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
        let most = self.door.broker().job_count_limit();
        most.is_some_and(|most| self.door.turn().totals().jobs() >= most)
    }

    fn has_all_queues(&self) -> bool {
        let most = self.door.broker().queue_usage().most;
        most.is_some_and(|most| self.door.turn().totals().queues >= most as u64)
    }

    /// Reads the numbers of all queues, if there are few. `None` if some queues have no metrics of
    /// their own. Clients can make and remove queues meanwhile, so the rows are limited, too.
    async fn gather_all(&self) -> Option<Gathered> {
        let (mut cursor, mut queues) = (QueueCursor::default(), QueueRows::default());
        let walk = self.door.slices(|turn| {
            if turn.totals().queues.max(queues.len() as u64) > self.queues_max as u64 {
                return ControlFlow::Break(None);
            }
            while !turn.slice_is_spent() {
                let Some(queue) = turn.next_queue(&mut cursor) else {
                    return ControlFlow::Break(Some(Gathered::of(turn)));
                };
                queues.add(turn, queue);
            }
            ControlFlow::Continue(())
        });
        let gathered = walk.await?;
        Some(gathered.with(queues))
    }

    /// Reads the numbers of these queues. All others count as `other`.
    async fn gather(&self, names: &[Box<[u8]>]) -> Gathered {
        let (mut names, mut queues) = (names.iter(), QueueRows::default());
        let walk = self.door.slices(|turn| {
            while !turn.slice_is_spent() {
                let Some(name) = names.next() else {
                    return ControlFlow::Break(Gathered::of(turn));
                };
                turn.count_work(1);
                // The name of a removed queue can stand for another queue, which has its own name.
                let queue = turn.queue_id(name).filter(|queue| *turn.queue_name(*queue) == **name);
                if let Some(queue) = queue {
                    queues.add(turn, queue);
                }
            }
            ControlFlow::Continue(())
        });
        let gathered = walk.await;
        queues.count_others(gathered.totals());
        gathered.with(queues)
    }

    /// When the server started, by the wall clock.
    fn started_at(&self) -> Millis {
        self.door.turn().wall_at(self.started)
    }

    async fn metrics(&self) -> Answer {
        let gathered = match self.gather_all().await {
            Some(all) => all,
            None => self.gather(&(self.choose_queues)().await).await,
        };
        let identity = Identity { version: self.version, started_at: self.started_at() };
        let health = Health::of(self.door.broker(), self.unready().is_none());
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
    use std::sync::atomic::{AtomicUsize, Ordering};

    use broker::{
        Answer, Body, Broker, Clock, EngineSetup, Event, Limits, Mailbox, NewJob, SessionId,
    };
    use tokio::runtime::Builder;

    use super::*;

    /// The mailbox that gets the alarms.
    struct Deaf;

    impl Mailbox for Deaf {
        fn deliver(&self, _session: SessionId, _event: Answer<Event>) {}
        fn released(&self) {}
        fn alarm(&self, _at: Millis) {}
    }

    fn overview(broker: Broker, clock: Clock, started: Millis) -> Overview {
        broker.add_mailbox(Arc::new(Deaf));
        Overview {
            door: Door::open(broker, clock),
            version: "1.2.3",
            started,
            has_console: false,
            has_metrics: true,
            queues_max: 100,
            choose_queues: Box::new(|| Box::pin(async { Vec::<Box<[u8]>>::new() })),
            requests: Box::new(Vec::<RequestTimes>::new),
            queue_times: Box::new(Vec::<QueueTimes>::new),
            process: Box::new(ProcessFacts::default),
        }
    }

    fn metrics(overview: &Overview) -> String {
        let runtime = Builder::new_current_thread().build().unwrap();
        let answer = runtime.block_on(overview.metrics());
        str::from_utf8(answer.body()).unwrap().to_owned()
    }

    /// The time of a new cluster begins at 0.
    #[test]
    fn the_start_is_a_time_of_the_wall_clock() {
        let (started, now) = (Millis(1_000), Millis(61_000));
        let broker = Broker::memory(EngineSetup::default(), started);
        assert!(broker.turn(now).set_wall(now, Millis(1_700_000_060_000)));
        let text = metrics(&overview(broker, Arc::new(move || now), started));
        let line = "process_start_time_seconds 1700000000";
        assert!(text.lines().any(|found| found == line), "{text}");
    }

    /// The page of this many queues with one job each, and the number of turns for it. The page shows
    /// all queues, or all but the first one.
    fn page_and_turns(queues: usize, shows_all: bool) -> (String, usize) {
        let now = Millis(1_000);
        let limits = Limits { slice_units: 4 };
        let broker = Broker::memory(EngineSetup { limits, ..EngineSetup::default() }, now);
        let names: Vec<Box<[u8]>> =
            (0..queues).map(|number| format!("q{number}").into_bytes().into()).collect();
        let turns = Arc::new(AtomicUsize::new(0));
        let counted = turns.clone();
        let clock: Clock = Arc::new(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            now
        });
        let mut overview = overview(broker.clone(), clock, now);
        for name in &names {
            let mut turn = broker.turn(now);
            let session = turn.open_reader_session(0);
            turn.caller(session).use_queue(name);
            let body = Body::from(&b"x"[..]);
            turn.caller(session).put(NewJob::default(), body).value.unwrap();
            turn.close_session(session);
        }
        if !shows_all {
            overview.queues_max = queues - 1;
            overview.choose_queues = Box::new(move || -> QueueNames {
                let chosen = names[1..].to_vec();
                Box::pin(async move { chosen })
            });
        }
        let text = metrics(&overview);
        (text, turns.load(Ordering::Relaxed))
    }

    /// In one turn, many queues would delay all clients.
    #[test]
    fn the_numbers_of_many_queues_are_read_in_many_turns() {
        for (shows_all, others) in [(true, 0), (false, 1)] {
            let (_, few) = page_and_turns(1, shows_all);
            let (text, many) = page_and_turns(41, shows_all);
            // Four queues are a slice.
            assert!(many >= few + 9, "{few} and {many} turns");
            let has_job = |line: &&str| {
                line.starts_with("lineshaft_jobs{queue=\"q") && line.ends_with("state=\"ready\"} 1")
            };
            assert_eq!(text.lines().filter(has_job).count(), 41 - others, "{text}");
            let line = format!("lineshaft_jobs{{queue=\"other\",state=\"ready\"}} {others}");
            assert!(text.lines().any(|found| found == line), "{text}");
        }
    }
}
