//! One connection: HTTP/1 with keep-alive, and limits on everything that the client controls.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use hyper::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use origin::Gate;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::answer::{Site, claims, complete, forbidden, only_looks};
use crate::guarded::Guarded;
use crate::peer::Peer;
use crate::stall::Stalling;
use crate::unread::Unread;

/// Longest head of a request, in bytes. Also the limit of unsent bytes in addition to one response.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Limit of headers in a request.
const HEADERS_MAX: usize = 64;
/// Time limit for the arrival of a head, and for an idle connection.
const HEAD_TIME_MAX: Duration = Duration::from_secs(5);
/// Time limit for the first byte of a new connection. It is shorter than the other limits, because
/// the connections of a site are limited, and silent clients must not use all of them.
const SILENCE_TIME_MAX: Duration = Duration::from_secs(2);
/// Time limit for a client that has an unread response and reads nothing.
const STALL_TIME_MAX: Duration = Duration::from_secs(10);
/// Age limit of a connection. It also ends connections of clients that read very slowly. A
/// [`LongResponse`] extends it.
const AGE_MAX: Duration = Duration::from_mins(5);

/// In the extensions of a response: it can take longer than other connections last. The time limit for
/// a client that reads nothing still applies.
#[derive(Copy, Clone, Debug)]
pub struct LongResponse;

/// In the extensions of a response: if too many long responses are unread, an error can replace it,
/// although the method is not GET or HEAD. A site that reads by POST sets it, because the memory of
/// these responses must stay limited. No long response to a change may have it.
#[derive(Copy, Clone, Debug)]
pub struct ReplaceableResponse;

/// The client of a connection, and the rules of the listener.
#[derive(Clone, Debug)]
pub struct Client {
    /// The rules of the listener.
    pub gate: Gate,
    /// The other end of the connection.
    pub peer: Peer,
}

/// Serves one connection to its end. An error of the client ends only this connection.
///
/// This function calls `begin_request` for each request. It drops the first of the two values when the
/// response is sent or the connection ends, and the second one when the body of the request has
/// arrived, or the site does not want it. All connections of a site share one `unread`.
pub async fn serve<S, R, A>(
    socket: S,
    site: Site,
    client: Client,
    unread: Unread,
    begin_request: impl Fn() -> (R, A),
) where
    S: AsyncRead + AsyncWrite + Send + Unpin,
    R: Unpin + Send + 'static,
    A: Unpin + Send + 'static,
{
    // Each long response that is not sent has a second count of this.
    let long = Arc::new(());
    let service = service_fn(|request: hyper::Request<Incoming>| {
        let (guard, arriving) = begin_request();
        let (site, client, unread) = (site.clone(), client.clone(), unread.clone());
        let long = long.clone();
        let only_looks = only_looks(request.method());
        async move {
            let request = request.map(|body| {
                if body.is_end_stream() {
                    return Body::empty();
                }
                Body::new(Guarded { body, _guard: arriving })
            });
            let answer = reply(&site, client, unread.clone(), request).await;
            let is_long = answer.extensions().get::<LongResponse>().is_some();
            let guard = (guard, is_long.then_some(long));
            let is_replaceable =
                only_looks || answer.extensions().get::<ReplaceableResponse>().is_some();
            let mut answer =
                unread.admit(answer, is_replaceable).map(|body| Guarded { body, _guard: guard });
            mark(&mut answer);
            Ok::<_, Infallible>(answer)
        }
    });
    let socket = TokioIo::new(Stalling::new(socket, STALL_TIME_MAX, SILENCE_TIME_MAX));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME_MAX)
        .max_headers(HEADERS_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(socket, service);
    let mut connection = pin!(connection);
    // Ignore all errors of the connection, because they come from the client: garbage, silence, or
    // a broken socket.
    let is_over = loop {
        let is_over = tokio::time::timeout(AGE_MAX, connection.as_mut()).await.is_ok();
        if is_over || Arc::strong_count(&long) == 1 {
            break is_over;
        }
    };
    if !is_over {
        connection.as_mut().graceful_shutdown();
        let _ = tokio::time::timeout(STALL_TIME_MAX, connection).await;
    }
}

async fn reply(
    site: &Site,
    client: Client,
    unread: Unread,
    mut request: hyper::Request<Body>,
) -> Response<Body> {
    let Client { gate, peer } = client;
    if let Err(why) = gate.may_read(&claims(request.headers())) {
        return complete(forbidden(why));
    }
    request.extensions_mut().insert(gate);
    request.extensions_mut().insert(peer);
    request.extensions_mut().insert(unread);
    site.answer(request).await
}

/// Adds headers for browsers. `nosniff` makes browsers use the given content type. The other
/// headers prevent pages of other sites from embedding the response. A page that needs styles or
/// scripts sets its own content policy.
fn mark<B>(answer: &mut Response<B>) {
    use hyper::header::{
        CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
    };
    let headers = answer.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    let resource_policy = HeaderName::from_static("cross-origin-resource-policy");
    headers.insert(resource_policy, HeaderValue::from_static("same-origin"));
    let policy = HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'");
    headers.entry(CONTENT_SECURITY_POLICY).or_insert(policy);
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Poll};

    use axum::Router;
    use axum::body::HttpBody;
    use broker::{Broker, EngineSetup, Millis};
    use hyper::StatusCode;
    use hyper::body::{Bytes, Frame};
    use origin::Reach;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
    use tokio::runtime::Builder;
    use tokio::time::{Instant, sleep, timeout};

    use super::*;
    use crate::answer::{Answer, Request, TEXT, answer};
    use crate::received::{ReceiveError, Sender, read_body};

    /// A site that always sends a response of this length.
    fn site(bytes: usize) -> Site {
        let page = move || async move { complete(answer(StatusCode::OK, TEXT, "x".repeat(bytes))) };
        Site::new(Router::new().fallback(page))
    }

    /// Runs a client of a site with responses of this length: see `run_at`.
    fn run<F: Future<Output = ()>>(
        bytes: usize,
        client: impl FnOnce(DuplexStream) -> F,
    ) -> Duration {
        run_at(site(bytes), client)
    }

    fn unread() -> Unread {
        Unread::new(Broker::memory(EngineSetup::default(), Millis(0)))
    }

    /// Runs a client on a connection, in simulated time. Returns how long the connection was open.
    fn run_at<F: Future<Output = ()>>(
        site: Site,
        client: impl FnOnce(DuplexStream) -> F,
    ) -> Duration {
        run_with(unread(), site, client)
    }

    /// Runs a client of a site with these unread responses: see `run_at`.
    fn run_with<F: Future<Output = ()>>(
        unread: Unread,
        site: Site,
        client: impl FnOnce(DuplexStream) -> F,
    ) -> Duration {
        let runtime =
            Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let (near, far) = duplex(1024);
            let began = Instant::now();
            let served = async {
                let gate = Gate { names: Arc::default(), reach: Reach::Network };
                let client = Client { gate, peer: Peer::default() };
                serve(near, site, client, unread, || ((), ())).await;
                began.elapsed()
            };
            tokio::join!(served, client(far)).0
        })
    }

    #[test]
    fn a_silent_or_slow_client_is_cut_off() {
        let silent = run(1, |mut peer| async move {
            assert_eq!(peer.read(&mut [0]).await.unwrap_or(0), 0);
        });
        assert!(silent <= SILENCE_TIME_MAX + Duration::from_secs(1), "{silent:?}");
        let slow = run(1, |mut peer| async move {
            // The client has sent a byte, so the longer limit applies.
            for byte in b"GET / HTTP/1.1\r\nHost: somebody-who-has-time\r\n\r\n" {
                if peer.write_all(&[*byte]).await.is_err() {
                    return;
                }
                sleep(Duration::from_secs(1)).await;
            }
            panic!("the connection was not closed");
        });
        assert!(slow > SILENCE_TIME_MAX, "{slow:?}");
        assert!(slow <= HEAD_TIME_MAX + Duration::from_secs(1), "{slow:?}");
    }

    #[test]
    fn an_idle_connection_is_closed() {
        let idle = run(1, |mut peer| async move {
            peer.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
            let mut answer = Vec::new();
            peer.read_to_end(&mut answer).await.unwrap();
            assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n"));
        });
        assert!(idle <= HEAD_TIME_MAX + Duration::from_secs(1), "{idle:?}");
    }

    #[test]
    fn a_client_that_reads_its_answer_slowly_or_not_is_cut_off() {
        let ask = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";
        let stalled = run(1 << 20, |mut peer| async move {
            peer.write_all(ask).await.unwrap();
            sleep(Duration::from_hours(1)).await;
        });
        assert!(stalled <= STALL_TIME_MAX + Duration::from_secs(1), "{stalled:?}");
        let slow = run(1 << 20, |mut peer| async move {
            peer.write_all(ask).await.unwrap();
            let mut taken = 0;
            while let Ok(1..) = peer.read(&mut [0; 100]).await {
                taken += 1;
                sleep(Duration::from_secs(1)).await;
            }
            assert!(taken > 200, "a slow reader is served for some time: {taken}");
        });
        assert!(slow <= AGE_MAX + STALL_TIME_MAX + Duration::from_secs(1), "{slow:?}");
    }

    #[test]
    fn a_long_response_can_take_longer_than_other_connections_last() {
        let page = || async {
            let mut response = complete(answer(StatusCode::OK, TEXT, "x".repeat(1 << 20)));
            response.extensions_mut().insert(LongResponse);
            response
        };
        let site = Site::new(Router::new().fallback(page));
        let open = run_at(site, |mut peer| async move {
            peer.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
            for second in 0..3 * AGE_MAX.as_secs() {
                let read = peer.read(&mut [0; 100]).await;
                assert!(matches!(read, Ok(1..)), "cut off in second {second}: {read:?}");
                sleep(Duration::from_secs(1)).await;
            }
        });
        assert!(open >= 3 * AGE_MAX, "{open:?}");
    }

    #[test]
    fn a_refusal_replaces_no_answer_to_a_change() {
        // Another client has not read a response that is as long as all of them may be.
        let unread = unread();
        let other = complete(answer(StatusCode::OK, TEXT, "x".repeat(32 << 20)));
        let _other = unread.admit(other, true);
        let bytes = 1 << 20;
        let reads_by_post = move || async move {
            let mut response = complete(answer(StatusCode::OK, TEXT, "x".repeat(bytes)));
            response.extensions_mut().insert(ReplaceableResponse);
            response
        };
        let reading = Site::new(Router::new().fallback(reads_by_post));
        for (site, method, wanted) in [
            (site(bytes), "GET", "HTTP/1.1 503"),
            (site(bytes), "POST", "HTTP/1.1 200"),
            (reading, "POST", "HTTP/1.1 503"),
        ] {
            run_with(unread.clone(), site, async |mut peer: DuplexStream| {
                let request =
                    format!("{method} / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
                peer.write_all(request.as_bytes()).await.unwrap();
                let mut status = [0; 12];
                peer.read_exact(&mut status).await.unwrap();
                assert_eq!(String::from_utf8_lossy(&status), wanted, "{method}");
            });
        }
    }

    #[test]
    fn a_response_is_in_the_account_until_its_client_leaves() {
        let broker = Broker::memory(EngineSetup::default(), Millis(0));
        let used_bytes = || broker.memory_usage().used_bytes;
        let (before, mut meanwhile) = (used_bytes(), 0);
        run_with(Unread::new(broker.clone()), site(1 << 20), async |mut peer: DuplexStream| {
            peer.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
            peer.read_exact(&mut [0; 100]).await.unwrap();
            meanwhile = used_bytes();
        });
        assert_eq!((meanwhile - before, used_bytes() - before), (1 << 20, 0));
    }

    #[test]
    fn a_browser_may_not_read_under_a_foreign_name_wherever_the_listener_is() {
        let ask = |host: &str, program: &str| {
            let request = format!(
                "GET / HTTP/1.1\r\nHost: {host}\r\nUser-Agent: {program}\r\nConnection: close\r\n\r\n"
            );
            let mut answer = Vec::new();
            let read = async |mut peer: DuplexStream| {
                peer.write_all(request.as_bytes()).await.unwrap();
                peer.read_to_end(&mut answer).await.unwrap();
            };
            run(1, read);
            String::from_utf8(answer).unwrap()
        };
        let browser = "Mozilla/5.0 (X11; Linux x86_64)";
        // The host name of the page now resolves to this address (DNS rebinding).
        let rebound = ask("evil.example", browser);
        assert!(
            rebound.starts_with("HTTP/1.1 403 ") && rebound.contains("http.hosts"),
            "{rebound}"
        );
        for (host, program) in [
            ("192.0.2.1:7300", browser),
            ("jobs.default.svc:7300", "Prometheus/3.0.1"),
            ("jobs.default.svc:7300", "kube-probe/1.31"),
        ] {
            let answer = ask(host, program);
            assert!(answer.starts_with("HTTP/1.1 200 "), "{program}: {answer}");
        }
    }

    /// A site that reads bodies of at most so many bytes, and sends them back.
    fn echo(bytes_max: usize, sender: Sender) -> Site {
        echo_with_room(bytes_max, sender, usize::MAX)
    }

    /// Like `echo`. The memory has room for so many bytes at a time.
    fn echo_with_room(bytes_max: usize, sender: Sender, room: usize) -> Site {
        let page = move |request: Request| async move {
            let unread = request.extensions().get::<Unread>().unwrap().clone();
            let body = request.into_body();
            let has_room = |bytes| bytes <= room;
            complete(match read_body(body, bytes_max, sender, &unread, has_room).await {
                Ok(body) => answer(StatusCode::OK, TEXT, body.bytes().to_vec()),
                Err(error @ ReceiveError::NoRoom) => {
                    answer(StatusCode::INSUFFICIENT_STORAGE, TEXT, error.to_string())
                }
                Err(error @ ReceiveError::TooLong(_)) => {
                    answer(StatusCode::PAYLOAD_TOO_LARGE, TEXT, error.to_string())
                }
                Err(error) => answer(StatusCode::BAD_REQUEST, TEXT, error.to_string()),
            })
        };
        Site::new(Router::new().fallback(page))
    }

    fn ask(site: Site, request: String) -> String {
        let mut answer = Vec::new();
        run_at(site, async |mut peer: DuplexStream| {
            peer.write_all(request.as_bytes()).await.unwrap();
            peer.read_to_end(&mut answer).await.unwrap();
        });
        String::from_utf8(answer).unwrap()
    }

    #[test]
    fn a_handler_gets_the_body_and_a_long_body_ends_the_connection() {
        let post = |body: &str, more: &str| {
            format!(
                "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{body}{more}",
                body.len(),
            )
        };
        let last = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        let both = ask(echo(100, Sender::Client), post("hello", last));
        assert!(both.starts_with("HTTP/1.1 200 "), "{both}");
        assert!(both.contains("\r\n\r\nhelloHTTP/1.1 200 "), "{both}");
        // The body has no stated length, so the server must count.
        let chunks = "1f\r\n0123456789012345678901234567890\r\n".repeat(10);
        let endless =
            format!("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}");
        let cut = ask(echo(100, Sender::Client), endless);
        assert!(cut.starts_with("HTTP/1.1 413 ") && cut.ends_with("100 bytes"), "{cut}");
    }

    #[test]
    fn a_body_without_room_in_the_memory_is_refused_before_it_is_there() {
        let site = || echo_with_room(1_000, Sender::Client, 100);
        let long = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 101\r\n\r\n";
        let refused = ask(site(), long.to_owned());
        assert!(refused.starts_with("HTTP/1.1 507 "), "{refused}");
        // A body without a stated length is refused when it has become too long.
        let chunked = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
        let chunks = "1f\r\n0123456789012345678901234567890\r\n".repeat(10);
        let refused = ask(site(), format!("{chunked}{chunks}"));
        assert!(refused.starts_with("HTTP/1.1 507 "), "{refused}");
        let last = "0\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        let read = ask(site(), format!("{chunked}{}{last}", &chunks[..2 * 37]));
        assert!(read.starts_with("HTTP/1.1 200 "), "{read}");
    }

    #[test]
    fn a_body_whose_client_is_silent_is_cut_off() {
        let silent = run_at(echo(100, Sender::Client), async |mut peer: DuplexStream| {
            let head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhell";
            peer.write_all(head).await.unwrap();
            let mut answer = String::new();
            peer.read_to_string(&mut answer).await.unwrap();
            assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
        });
        assert!(silent >= Duration::from_secs(30), "{silent:?}");
        assert!(silent <= Duration::from_secs(31), "{silent:?}");
    }

    /// Sends a body in parts, with a pause after each one. Returns the begin of the reply, and how long
    /// the connection was open.
    fn drip(sender: Sender, bytes: usize, part: usize, pause: Duration) -> (String, Duration) {
        let mut status = [0; 12];
        let open = run_at(echo(bytes, sender), async |mut peer: DuplexStream| {
            let head = format!(
                "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {bytes}\r\nConnection: close\r\n\r\n"
            );
            peer.write_all(head.as_bytes()).await.unwrap();
            for _ in 0..bytes / part {
                peer.write_all(&vec![b'x'; part]).await.unwrap();
                if let Ok(read) = timeout(pause, peer.read(&mut status)).await {
                    assert_ne!(read.unwrap(), 0);
                    return;
                }
            }
            panic!("there was no reply");
        });
        (String::from_utf8_lossy(&status).into_owned(), open)
    }

    #[test]
    fn a_body_that_drips_is_cut_off_and_a_long_one_has_time() {
        let second = Duration::from_secs(1);
        let quick = drip(Sender::Stranger, 100, 50, second);
        assert_eq!(quick.0, "HTTP/1.1 200");
        let stranger = drip(Sender::Stranger, 60_000, 1, second);
        assert_eq!(stranger.0, "HTTP/1.1 400");
        assert!((5 * second..=6 * second).contains(&stranger.1), "{:?}", stranger.1);
        // No pause is as long as the limit for one part.
        let client = drip(Sender::Client, 60_000, 1, 29 * second);
        assert_eq!(client.0, "HTTP/1.1 400");
        assert!((30 * second..=31 * second).contains(&client.1), "{:?}", client.1);
        let steady = drip(Sender::Client, 800 << 10, 8 << 10, second);
        assert_eq!(steady.0, "HTTP/1.1 200");
        assert!(steady.1 >= 99 * second, "{:?}", steady.1);
    }

    /// An endless stream of parts. It counts the parts that it has produced.
    struct Endless(Arc<AtomicUsize>);

    impl HttpBody for Endless {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            self: Pin<&mut Self>,
            _context: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Poll::Ready(Some(Ok(Frame::data(Bytes::from(vec![b'x'; 8 << 10])))))
        }
    }

    #[test]
    fn a_stream_waits_for_its_reader() {
        let parts = Arc::new(AtomicUsize::new(0));
        let counter = parts.clone();
        let page =
            move || async move { complete(Answer::default()).map(|_| Body::new(Endless(counter))) };
        let site = Site::new(Router::new().fallback(page));
        let stalled = run_at(site, async |mut peer: DuplexStream| {
            peer.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
            let mut head = [0; 1024];
            peer.read_exact(&mut head).await.unwrap();
            assert!(head.starts_with(b"HTTP/1.1 200 "));
            sleep(Duration::from_hours(1)).await;
        });
        assert!(stalled <= STALL_TIME_MAX + Duration::from_secs(1), "{stalled:?}");
        let parts = parts.load(Ordering::Relaxed);
        assert!((1..=10).contains(&parts), "{parts} parts of 8 KiB are in memory");
    }
}
