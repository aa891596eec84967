//! The site of a server that still reads its log. It reports that the server is live, but not
//! ready.

use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::body::Body;
use hyper::{Response, StatusCode};

use crate::answer::{
    Answer, Request, Site, TEXT, answer, complete, method_not_allowed, only_looks,
};

/// A site that reports the progress of the start. After the start, another site answers all
/// requests.
pub struct Starting {
    /// Returns the progress of the start as a text, such as
    /// `starting: 45 % of a log of 2 GiB is read`.
    state: Box<dyn Fn() -> String + Send + Sync>,
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
    /// The site of a start. `state` returns the progress of the start as a text.
    pub fn new(state: impl Fn() -> String + Send + Sync + 'static) -> Starting {
        Starting { state: Box::new(state), site: OnceLock::new() }
    }

    /// Ends the start: from now on, `site` answers all requests. A second call does nothing.
    pub fn become_site(&self, site: Site) {
        let _ = self.site.set(site);
    }

    fn page(&self, path: &str) -> Answer {
        let state = (self.state)();
        match path {
            // Reply with 200. After another status, a supervisor could restart the server, and a
            // restart would only begin the start again.
            "/health/live" => answer(StatusCode::OK, TEXT, format!("live, {state}\n")),
            "/health/ready" => {
                answer(StatusCode::SERVICE_UNAVAILABLE, TEXT, format!("not ready: {state}\n"))
            }
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
        match self.site.get() {
            Some(site) => site.answer(request).await,
            None if only_looks(request.method()) => complete(self.page(request.uri().path())),
            None => complete(method_not_allowed()),
        }
    }
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
    fn a_start_lives_and_is_not_ready_until_it_is_over() {
        let starting = Arc::new(Starting::new(|| "starting: 45 %".to_owned()));
        let site = starting.site();
        assert_eq!(ask(&site, "/health/live"), (200, "live, starting: 45 %\n".to_owned()));
        assert_eq!(ask(&site, "/health/ready"), (503, "not ready: starting: 45 %\n".to_owned()));
        assert_eq!(ask(&site, "/metrics").0, 503);
        let ready = || async { complete(answer(StatusCode::OK, TEXT, "ready\n")) };
        starting.become_site(Site::new(Router::new().fallback(ready)));
        assert_eq!(ask(&site, "/health/ready"), (200, "ready\n".to_owned()));
    }
}
