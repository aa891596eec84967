//! The site of a server that still reads its log, or follows the leader of its cluster. It reports
//! that the server is live, but not ready. A follower passes all other requests on to the leader.

use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::body::Body;
use hyper::{Response, StatusCode};

use crate::answer::{
    Answer, Request, Site, TEXT, answer, complete, method_not_allowed, only_looks,
};
use crate::cluster::{self, ClusterFacts};
use crate::exposition::CONTENT_TYPE;

const METRICS: &str = "/metrics";

/// How far a start is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StartState {
    /// A text such as `starting: 45 % of a log of 2 GiB is read`.
    pub text: String,
    /// Whether clients can connect already: the node of a cluster passes them on to another one.
    pub is_ready: bool,
}

/// Answers a request in place of this server.
pub type PassOn =
    Box<dyn Fn(Request) -> Pin<Box<dyn Future<Output = Response<Body>> + Send>> + Send + Sync>;

/// The answer to a client that may not read metrics. `None`: it may.
pub type RefuseMetrics = Box<dyn Fn(&Request) -> Option<Response<Body>> + Send + Sync>;

/// A site that reports the progress of the start. After the start, another site answers all
/// requests.
pub struct Starting {
    state: Box<dyn Fn() -> StartState + Send + Sync>,
    /// Returns what the node of a cluster knows about itself.
    cluster: Box<dyn Fn() -> Option<ClusterFacts> + Send + Sync>,
    refuse_metrics: RefuseMetrics,
    pass_on: OnceLock<PassOn>,
    site: OnceLock<Site>,
}

impl std::fmt::Debug for Starting {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let has_started = self.site.get().is_some();
        formatter
            .debug_struct("Starting")
            .field("has_started", &has_started)
            .finish_non_exhaustive()
    }
}

impl Starting {
    /// The site of a start. `state` returns how far it is.
    pub fn new(state: impl Fn() -> StartState + Send + Sync + 'static) -> Starting {
        Starting {
            state: Box::new(state),
            cluster: Box::new(|| None),
            refuse_metrics: Box::new(|_| None),
            pass_on: OnceLock::new(),
            site: OnceLock::new(),
        }
    }

    /// The same site, with metrics of the node of a cluster.
    #[must_use]
    pub fn with_cluster(
        self,
        cluster: impl Fn() -> Option<ClusterFacts> + Send + Sync + 'static,
    ) -> Starting {
        Starting { cluster: Box::new(cluster), ..self }
    }

    /// The same site, which asks this function before it shows metrics.
    #[must_use]
    pub fn with_metrics_for(self, refuse_metrics: RefuseMetrics) -> Starting {
        Starting { refuse_metrics, ..self }
    }

    /// The same site, without metrics.
    #[must_use]
    pub fn without_metrics(self) -> Starting {
        let page = || answer(StatusCode::NOT_FOUND, TEXT, "no such page; see /\n");
        self.with_metrics_for(Box::new(move |_| Some(complete(page()))))
    }

    /// From now on, `pass_on` answers all requests, except those for health and metrics. A second call
    /// does nothing.
    pub fn pass_on(&self, pass_on: PassOn) {
        let _ = self.pass_on.set(pass_on);
    }

    /// Ends the start: from now on, `site` answers all requests. A second call does nothing.
    pub fn become_site(&self, site: Site) {
        let _ = self.site.set(site);
    }

    fn page(&self, path: &str) -> Answer {
        let StartState { text: state, is_ready } = (self.state)();
        match path {
            // Reply with 200. After another status, a supervisor could restart the server, and a
            // restart would only begin the start again.
            "/health/live" => answer(StatusCode::OK, TEXT, format!("live, {state}\n")),
            "/health/ready" if is_ready => {
                answer(StatusCode::OK, TEXT, format!("ready, {state}\n"))
            }
            "/health/ready" => {
                answer(StatusCode::SERVICE_UNAVAILABLE, TEXT, format!("not ready: {state}\n"))
            }
            METRICS => match (self.cluster)() {
                Some(facts) => answer(StatusCode::OK, CONTENT_TYPE, cluster::page(&facts)),
                None => answer(StatusCode::SERVICE_UNAVAILABLE, TEXT, format!("{state}\n")),
            },
            _ => answer(StatusCode::SERVICE_UNAVAILABLE, TEXT, format!("{state}\n")),
        }
    }
}

impl Starting {
    /// The site that the server serves from the beginning of the start.
    pub fn site(self: &Arc<Self>) -> Site {
        let (starting, ticking) = (self.clone(), self.clone());
        let page = move |request: Request| {
            let starting = starting.clone();
            async move { starting.reply(request).await }
        };
        Site::new(Router::new().fallback(page)).with_tick(move || {
            if let Some(site) = ticking.site.get() {
                site.tick();
            }
        })
    }

    async fn reply(&self, request: Request) -> Response<Body> {
        match (self.site.get(), self.pass_on.get()) {
            (Some(site), _) => site.answer(request).await,
            (None, Some(pass_on)) if !is_about_this_node(request.uri().path()) => {
                pass_on(request).await
            }
            (None, _) if only_looks(request.method()) => {
                let path = request.uri().path();
                let refused = if path == METRICS { (self.refuse_metrics)(&request) } else { None };
                refused.unwrap_or_else(|| complete(self.page(path)))
            }
            (None, _) => complete(method_not_allowed()),
        }
    }
}

/// Whether the page is about this process, and not about the jobs that all nodes share.
fn is_about_this_node(path: &str) -> bool {
    path == METRICS || path.starts_with("/health/")
}

#[cfg(test)]
mod tests {
    use tokio::runtime::Builder;

    use super::*;

    fn ask(site: &Site, path: &str) -> (u16, String) {
        let request = hyper::Request::builder().uri(path).body(Body::empty()).unwrap();
        let runtime = Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let answer = site.answer(request).await;
            let status = answer.status().as_u16();
            let body = axum::body::to_bytes(answer.into_body(), usize::MAX).await.unwrap();
            (status, String::from_utf8(body.into()).unwrap())
        })
    }

    #[test]
    fn a_follower_has_metrics() {
        let mut facts = ClusterFacts { number: 7, lag_ms: 1500, ..ClusterFacts::default() };
        facts.appends_us.add(900);
        let state = || StartState { text: "follows one".to_owned(), is_ready: false };
        let starting = Starting::new(state).with_cluster(move || Some(facts.clone()));
        let site = Arc::new(starting).site();
        let (status, text) = ask(&site, "/metrics");
        assert_eq!(status, 200);
        for line in [
            "lineshaft_cluster_role{role=\"follower\"} 1",
            "lineshaft_cluster_role{role=\"leader\"} 0",
            "lineshaft_cluster_group 7",
            "lineshaft_cluster_lag_seconds 1.5",
            "lineshaft_cluster_append_seconds_bucket{le=\"0.000512\"} 0",
            "lineshaft_cluster_append_seconds_bucket{le=\"0.001024\"} 1",
            "lineshaft_cluster_append_seconds_count 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{text}");
        }
        assert_eq!(ask(&site, "/health/ready").0, 503);
    }

    #[test]
    fn a_follower_shows_metrics_only_to_those_who_may_read_them() {
        let state = || StartState { text: "follows one".to_owned(), is_ready: true };
        let refuse = |_: &Request| Some(complete(answer(StatusCode::UNAUTHORIZED, TEXT, "no\n")));
        let starting = Starting::new(state).with_cluster(|| Some(ClusterFacts::default()));
        let site = Arc::new(starting.with_metrics_for(Box::new(refuse))).site();
        assert_eq!(ask(&site, "/metrics"), (401, "no\n".to_owned()));
        assert_eq!(ask(&site, "/health/live").0, 200);
        let starting = Starting::new(state).with_cluster(|| Some(ClusterFacts::default()));
        assert_eq!(ask(&Arc::new(starting.without_metrics()).site(), "/metrics").0, 404);
    }

    #[test]
    fn a_follower_answers_only_about_itself() {
        let state = || StartState { text: "follows one".to_owned(), is_ready: true };
        let starting = Arc::new(Starting::new(state));
        starting.pass_on(Box::new(|request| {
            let path = request.uri().path().to_owned();
            Box::pin(async move { complete(answer(StatusCode::OK, TEXT, path)) })
        }));
        let site = starting.site();
        assert_eq!(ask(&site, "/health/ready"), (200, "ready, follows one\n".to_owned()));
        assert_eq!(ask(&site, "/metrics").0, 503);
        for path in ["/", "/api/v1/server", "/health", "/console/", "/metrics/x"] {
            assert_eq!(ask(&site, path), (200, path.to_owned()));
        }
        let own = || async { complete(answer(StatusCode::OK, TEXT, "own")) };
        starting.become_site(Site::new(Router::new().fallback(own)));
        assert_eq!(ask(&site, "/api/v1/server"), (200, "own".to_owned()));
    }

    #[test]
    fn a_start_lives_and_is_not_ready_until_it_is_over() {
        let state = || StartState { text: "starting: 45 %".to_owned(), is_ready: false };
        let starting = Arc::new(Starting::new(state));
        let site = starting.site();
        assert_eq!(ask(&site, "/health/live"), (200, "live, starting: 45 %\n".to_owned()));
        assert_eq!(ask(&site, "/health/ready"), (503, "not ready: starting: 45 %\n".to_owned()));
        assert_eq!(ask(&site, "/metrics").0, 503);
        let ready = || async { complete(answer(StatusCode::OK, TEXT, "ready\n")) };
        starting.become_site(Site::new(Router::new().fallback(ready)));
        assert_eq!(ask(&site, "/health/ready"), (200, "ready\n".to_owned()));
    }
}
