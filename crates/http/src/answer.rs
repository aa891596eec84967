//! Requests, responses, and the sites that serve them.

use std::pin::Pin;

use hyper::body::Bytes;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::{HeaderMap, Method, Response, StatusCode};
use origin::{Claims, Rejection};

/// The head of a request. Its extensions contain the [`origin::Gate`] that it came through. Bodies
/// are not read, because no page needs them.
pub type Request = hyper::Request<()>;

/// A complete response.
pub type Answer = Response<Bytes>;

/// The type of plain text.
pub const TEXT: &str = "text/plain; charset=utf-8";
/// The type of a page.
pub const HTML: &str = "text/html; charset=utf-8";

/// Work to await before the response.
pub type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A response, now or after some work.
pub enum Reply {
    /// The response is ready.
    Now(Answer),
    /// The response follows when the work is done.
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

/// A site that is served at an address.
pub trait Site: Send + Sync {
    /// Answers one request. It must not wait for anything but a turn of the broker, because all
    /// connections share one thread. Longer work is awaited with the reply.
    fn reply(&self, request: &Request) -> Reply;

    /// Called once a second, for timed work.
    fn tick(&self) {}
}

/// A response of this type. It forbids caching, because the next response can differ.
pub fn answer(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(body.into());
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

/// Whether the request only reads. HEAD is a GET whose body is not sent.
pub fn only_looks(request: &Request) -> bool {
    matches!(*request.method(), Method::GET | Method::HEAD)
}

/// What the headers say about the client.
pub fn claims(headers: &HeaderMap) -> Claims<'_> {
    Claims::of(headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())))
}

/// The response to a foreign request.
pub fn forbidden(why: Rejection) -> Answer {
    answer(StatusCode::FORBIDDEN, TEXT, format!("refused: {why}\n"))
}

/// The response to a method other than GET and HEAD.
pub fn method_not_allowed() -> Answer {
    let mut answer = answer(StatusCode::METHOD_NOT_ALLOWED, TEXT, "use GET or HEAD\n");
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    answer
}
