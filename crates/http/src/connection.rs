//! One connection: HTTP/1 with keep-alive, and bounds on everything that a peer decides.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::answer::{Answer, Asked, Site};
use crate::stall::Stalling;

/// Longest head of a request, and the most that waits to be sent beside one answer.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Most headers of a request.
const HEADERS_MAX: usize = 64;
/// How long a head may take to arrive; also how long a connection may be idle.
const HEAD_TIME_MAX: Duration = Duration::from_secs(15);
/// How long a peer may take nothing of an answer.
const STALL_TIME_MAX: Duration = Duration::from_secs(10);
/// No connection is older than this: whoever reads byte by byte comes to an end too.
const AGE_MAX: Duration = Duration::from_mins(5);

/// Serves one connection to its end. Faults of the peer end it, and are nobody else's matter.
pub async fn serve<S>(socket: S, site: Arc<dyn Site>)
where
    S: AsyncRead + AsyncWrite + Send + Unpin,
{
    let service = service_fn(|request: Request<Incoming>| {
        let answer = answer(site.as_ref(), request);
        async move { Ok::<_, Infallible>(answer) }
    });
    let socket = TokioIo::new(Stalling::new(socket, STALL_TIME_MAX));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME_MAX)
        .max_headers(HEADERS_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(socket, service);
    let mut connection = pin!(connection);
    // Its errors are the peer's: garbage, silence, or a socket that broke.
    let is_over = tokio::time::timeout(AGE_MAX, connection.as_mut()).await.is_ok();
    if !is_over {
        connection.as_mut().graceful_shutdown();
        let _ = tokio::time::timeout(STALL_TIME_MAX, connection).await;
    }
}

fn answer(site: &dyn Site, request: Request<Incoming>) -> Answer {
    let (head, _unread) = request.into_parts();
    let mut answer: Answer = site.answer(&Asked::from_parts(head, ()));
    mark(&mut answer);
    answer
}

/// What browsers need to be told of every answer.
fn mark<B>(answer: &mut Response<B>) {
    use hyper::header::{CONTENT_SECURITY_POLICY, HeaderValue, X_FRAME_OPTIONS};
    let headers = answer.headers_mut();
    let policy = HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'");
    headers.insert(CONTENT_SECURITY_POLICY, policy);
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
}
