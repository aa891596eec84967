//! Requests and responses, and [`Site`]: the pages of a listener.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use hyper::body::Bytes;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::{HeaderMap, Method, Response, StatusCode};
use origin::{Claims, Rejection};

/// A request, as a handler gets it. Its extensions contain the [`origin::Gate`] of its listener, its
/// [`crate::Peer`], and the [`crate::Unread`] of its site.
pub type Request = axum::extract::Request;

/// The head of a request, for pages that need no body.
pub type Head = hyper::Request<()>;

/// A complete response.
pub type Answer = Response<Bytes>;

/// The content type of plain text.
pub const TEXT: &str = "text/plain; charset=utf-8";
/// The content type of a page.
pub const HTML: &str = "text/html; charset=utf-8";

/// The pages of one or more listeners, and the timed work behind them.
#[derive(Clone)]
pub struct Site {
    router: Router,
    tick: Option<Arc<dyn Fn() + Send + Sync>>,
}

impl std::fmt::Debug for Site {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Site").field("router", &self.router).finish_non_exhaustive()
    }
}

impl Site {
    /// A site with these pages. All connections of the site share one thread. So a handler must not
    /// block the thread; it can take a turn of the broker. Longer work must be asynchronous.
    pub fn new(router: Router) -> Site {
        Site { router, tick: None }
    }

    /// The thread of the site calls `tick` once a second.
    #[must_use]
    pub fn with_tick(self, tick: impl Fn() + Send + Sync + 'static) -> Site {
        Site { tick: Some(Arc::new(tick)), ..self }
    }

    /// Does the timed work.
    pub fn tick(&self) {
        if let Some(tick) = &self.tick {
            tick();
        }
    }

    /// Answers one request. axum's own error type shows that the router has an answer for every
    /// request.
    pub async fn answer(&self, request: Request) -> Response<Body> {
        let mut router = self.router.clone();
        match tower_service::Service::call(&mut router, request).await {
            Ok(answer) => answer,
            Err(never) => match never {},
        }
    }
}

/// Separates the head of a request from its body, and drops the body.
pub fn head_of(request: Request) -> Head {
    request.map(drop)
}

/// A complete response, as a handler returns it.
pub fn complete(answer: Answer) -> Response<Body> {
    answer.map(Body::from)
}

/// Creates a response with the content type `kind`. The response forbids caching, because a later
/// response can differ.
pub fn answer(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(body.into());
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

/// Whether the request only reads. HEAD is a GET without the body of the response.
pub fn only_looks(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

/// The headers that show where a request comes from.
pub fn claims(headers: &HeaderMap) -> Claims<'_> {
    Claims::of(headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())))
}

/// The response to a rejected request.
pub fn forbidden(why: Rejection) -> Answer {
    answer(StatusCode::FORBIDDEN, TEXT, format!("refused: {why}\n"))
}

/// The response to a method other than GET and HEAD.
pub fn method_not_allowed() -> Answer {
    let mut answer = answer(StatusCode::METHOD_NOT_ALLOWED, TEXT, "use GET or HEAD\n");
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    answer
}
