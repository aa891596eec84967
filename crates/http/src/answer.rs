//! Requests, responses, and the trait [`Site`], which turns a request into a response.

use std::pin::Pin;

use hyper::body::Bytes;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::{HeaderMap, Method, Response, StatusCode};
use origin::{Claims, Rejection};

/// The head of a request. Its extensions contain the [`origin::Gate`] of its listener. The server
/// does not read bodies of requests, because no page needs them.
pub type Request = hyper::Request<()>;

/// A complete response.
pub type Answer = Response<Bytes>;

/// The content type of plain text.
pub const TEXT: &str = "text/plain; charset=utf-8";
/// The content type of a page.
pub const HTML: &str = "text/html; charset=utf-8";

/// Work that must end before the response is sent.
pub type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A response that is sent now, or after some work.
pub enum Reply {
    /// The response is ready.
    Now(Answer),
    /// The response is sent when the work is done.
    After(Work, Answer),
}

impl std::fmt::Debug for Reply {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (when, answer) = match self {
            Reply::Now(answer) => ("Now", answer),
            Reply::After(_, answer) => ("After", answer),
        };
        formatter.debug_tuple(when).field(answer).finish()
    }
}

impl Reply {
    /// Waits for the work, if any, and returns the response.
    pub async fn answer(self) -> Answer {
        match self {
            Reply::Now(answer) => answer,
            Reply::After(work, answer) => {
                work.await;
                answer
            }
        }
    }
}

/// A site: the pages of one or more listeners.
pub trait Site: Send + Sync {
    /// Answers one request. All connections of the site share one thread, so this function may wait
    /// only for a turn of the broker. For longer work, return [`Reply::After`].
    fn reply(&self, request: &Request) -> Reply;

    /// The thread of the site calls this once a second, for timed work.
    fn tick(&self) {}
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
pub fn only_looks(request: &Request) -> bool {
    matches!(*request.method(), Method::GET | Method::HEAD)
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
