//! What is asked, what an answer looks like, and who gives it.

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};

/// The head of a request. Bodies are not read: nothing here has a use for them.
pub type Asked = Request<()>;

/// A whole answer.
pub type Answer = Response<Full<Bytes>>;

pub(crate) const TEXT: &str = "text/plain; charset=utf-8";
pub(crate) const HTML: &str = "text/html; charset=utf-8";

/// What is served at an address.
pub trait Site: Send + Sync {
    /// Answers one request. Must not wait for anything but a turn of the broker: all connections share one thread.
    fn answer(&self, asked: &Asked) -> Answer;

    /// Is called once a second, for what has to be done in time.
    fn tick(&self) {}
}

/// An answer of this type. None of them may be kept: the next one says something else.
pub(crate) fn answer(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

/// Whether the request only looks. HEAD is a GET whose body is not sent.
pub(crate) fn only_looks(asked: &Asked) -> bool {
    matches!(*asked.method(), Method::GET | Method::HEAD)
}

/// What is there can only be looked at.
pub(crate) fn method_not_allowed() -> Answer {
    let mut answer = answer(StatusCode::METHOD_NOT_ALLOWED, TEXT, "only GET and HEAD\n");
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    answer
}
