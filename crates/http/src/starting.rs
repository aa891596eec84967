//! The site of a server that still reads its log. It reports that the server is live, but not
//! ready.

use std::sync::{Arc, OnceLock};

use hyper::StatusCode;

use crate::answer::{Answer, Reply, Request, Site, TEXT, answer, method_not_allowed, only_looks};

/// A site that reports the progress of the start. After the start, another site answers all
/// requests.
pub struct Starting {
    /// Returns the progress of the start as a text, such as
    /// `starting: 45 % of a log of 2 GiB is read`.
    state: Box<dyn Fn() -> String + Send + Sync>,
    site: OnceLock<Arc<dyn Site>>,
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
    pub fn become_site(&self, site: Arc<dyn Site>) {
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

impl Site for Starting {
    fn reply(&self, request: &Request) -> Reply {
        match self.site.get() {
            Some(site) => site.reply(request),
            None if only_looks(request) => Reply::Now(self.page(request.uri().path())),
            None => Reply::Now(method_not_allowed()),
        }
    }

    fn tick(&self) {
        if let Some(site) = self.site.get() {
            site.tick();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Ready;

    impl Site for Ready {
        fn reply(&self, _request: &Request) -> Reply {
            Reply::Now(answer(StatusCode::OK, TEXT, "ready\n"))
        }
    }

    fn ask(site: &dyn Site, path: &str) -> (u16, String) {
        let request = hyper::Request::builder().uri(path).body(()).unwrap();
        let Reply::Now(answer) = site.reply(&request) else { panic!("it waits") };
        (answer.status().as_u16(), String::from_utf8(answer.into_body().into()).unwrap())
    }

    #[test]
    fn a_start_lives_and_is_not_ready_until_it_is_over() {
        let site = Starting::new(|| "starting: 45 %".to_owned());
        assert_eq!(ask(&site, "/health/live"), (200, "live, starting: 45 %\n".to_owned()));
        assert_eq!(ask(&site, "/health/ready"), (503, "not ready: starting: 45 %\n".to_owned()));
        assert_eq!(ask(&site, "/metrics").0, 503);
        site.become_site(Arc::new(Ready));
        assert_eq!(ask(&site, "/health/ready"), (200, "ready\n".to_owned()));
    }
}
