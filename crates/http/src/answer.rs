//! What is asked, what an answer looks like, and who gives it.

use std::pin::Pin;

use hyper::body::Bytes;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use origin::{Claims, Foreign};

/// The head of a request; the [`origin::Gate`] that it came through is among its extensions. Bodies are not read: nothing here
/// has a use for them.
pub type Asked = Request<()>;

/// A whole answer.
pub type Answer = Response<Bytes>;

/// The type of plain text.
pub const TEXT: &str = "text/plain; charset=utf-8";
/// The type of a page.
pub const HTML: &str = "text/html; charset=utf-8";

/// What happens meanwhile.
pub type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// An answer, or what its client has to wait for first.
pub enum Reply {
    /// It is there.
    Now(Answer),
    /// It is given when the work is done.
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
    /// The answer, when the client may have it.
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

/// What is served at an address.
pub trait Site: Send + Sync {
    /// Answers one request. Must not wait for anything but a turn of the broker: all connections share one thread. What
    /// takes longer is awaited with the reply.
    fn reply(&self, asked: &Asked) -> Reply;

    /// Is called once a second, for what has to be done in time.
    fn tick(&self) {}
}

/// An answer of this type. None of them may be kept: the next one says something else.
pub fn answer(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(body.into());
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

/// Whether the request only looks. HEAD is a GET whose body is not sent.
pub fn only_looks(asked: &Asked) -> bool {
    matches!(*asked.method(), Method::GET | Method::HEAD)
}

/// What the headers say about who asks.
pub fn claims(headers: &HeaderMap) -> Claims<'_> {
    Claims::of(headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())))
}

/// The request is not to be answered.
pub fn forbidden(why: Foreign) -> Answer {
    answer(StatusCode::FORBIDDEN, TEXT, format!("refused: {why}\n"))
}

/// What is there can only be looked at.
pub fn method_not_allowed() -> Answer {
    let mut answer = answer(StatusCode::METHOD_NOT_ALLOWED, TEXT, "only GET and HEAD\n");
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    answer
}
