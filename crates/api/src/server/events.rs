//! Events for clients that show the present state: the numbers of each second, operations, and
//! requested changes. The form is that of server-sent events.
//!
//! The server makes the text of an event once for all streams. A stream has no queue of its own: it
//! gets the newest numbers, and reads the other events from one buffer of all streams. The stream of
//! a client that reads too slowly ends. So does each stream after some minutes; browsers then connect
//! again.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::{Request, State};
use axum::response::Response;
use broker::Millis;
use http_api::LongResponse;
use hyper::Method;
use hyper::body::{Bytes, Frame};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast, watch};
use tokio::time::{Instant, sleep, sleep_until};

use crate::openapi::Failures;
use crate::problem::{Problem, ProblemKind, as_json};
use crate::state::Api;
use crate::text::query::Query;
use crate::types::{self, Role, Totals};

/// At most this many streams. A site has many more connections, so that health checks always find
/// one.
const STREAMS_MAX: usize = 16;
/// Events other than ticks that a slow client can be behind.
const BEHIND_MAX: usize = 64;
/// A stream without events gets a comment after this time.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// A stream ends after this time. A connection can be a minute older.
const AGE_MAX: Duration = Duration::from_mins(4);
/// Older numbers give no rates.
const RATES_AGE_MAX_MS: u64 = 5_000;

/// The streams, and what they send.
#[derive(Debug)]
pub(crate) struct Events {
    streams: Arc<Semaphore>,
    /// The text of the newest tick.
    tick: watch::Sender<Bytes>,
    news: broadcast::Sender<News>,
    /// The numbers of the tick before.
    before: Mutex<Option<(Millis, Totals)>>,
}

/// An event other than a tick.
#[derive(Clone, Debug)]
struct News {
    text: Bytes,
    /// Who can see it.
    role: Role,
}

impl Default for Events {
    fn default() -> Self {
        Events {
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
            tick: watch::Sender::default(),
            news: broadcast::Sender::new(BEHIND_MAX),
            before: Mutex::default(),
        }
    }
}

impl Events {
    /// Whether somebody listens. Otherwise, there is no need to make events.
    fn has_streams(&self) -> bool {
        self.tick.receiver_count() > 0
    }

    fn tell(&self, role: Role, name: &str, value: &impl Serialize) {
        // Nobody may listen any more.
        let _ = self.news.send(News { text: event(name, value), role });
    }
}

/// The text of an event.
fn event(name: &str, value: &impl Serialize) -> Bytes {
    let mut text = format!("event: {name}\ndata: ").into_bytes();
    // JSON has no line breaks.
    text.extend(as_json(value));
    text.extend(b"\n\n");
    text.into()
}

/// Events as they happen, in the form of server-sent events: `tick` each second, `operation` when an
/// operation starts, changes or ends, and `audit` for each requested change (operators only). The
/// data of an event is JSON. The stream ends after four minutes.
#[utoipa::path(
    get,
    path = "/events",
    tag = "server",
    responses(
        (
            status = 200,
            description = "Events: `tick` with a `Tick`, `operation` with an `Operation`, and \
                `audit` with an `AuditLine`.",
            body = String,
            content_type = "text/event-stream",
        ),
        Failures,
    )
)]
pub(crate) async fn get_events(
    State(api): State<Api>,
    request: Request,
) -> Result<Response, Problem> {
    Query::read(request.uri(), &[])?;
    let has_body = request.method() == Method::GET;
    let events = &api.events;
    let permit = events.streams.clone().try_acquire_owned().map_err(|_| {
        let why = format!("{STREAMS_MAX} clients listen to events already; ask for the numbers");
        Problem::new(ProblemKind::Unavailable, why)
    })?;
    let (head, _) = request.into_parts();
    let stream = Stream {
        // A receiver begins with the next value.
        tick: events.tick.subscribe(),
        news: events.news.subscribe(),
        ends_at: Instant::now() + AGE_MAX,
        has_begun: false,
        asked: Request::from_parts(head, Body::empty()),
        api: api.clone(),
        _permit: permit,
    };
    let body = if has_body { Body::new(EventBody::new(stream)) } else { Body::empty() };
    let mut response = Response::new(body);
    // A stream can begin on a connection that is minutes old.
    response.extensions_mut().insert(LongResponse);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// The stream of one client.
struct Stream {
    tick: watch::Receiver<Bytes>,
    news: broadcast::Receiver<News>,
    ends_at: Instant,
    has_begun: bool,
    /// The request. Each event is only for a client that could send the request again.
    asked: Request,
    api: Api,
    _permit: OwnedSemaphorePermit,
}

impl Stream {
    /// The next part, and the stream for the part after it. `None` at the end.
    async fn next(mut self) -> Option<(Bytes, Stream)> {
        if !self.has_begun {
            self.has_begun = true;
            return Some((Bytes::from_static(b"retry: 1000\n\n"), self));
        }
        loop {
            let (text, role) = tokio::select! {
                biased;
                () = sleep_until(self.ends_at) => return None,
                // An error means that the client is too slow.
                news = self.news.recv() => news.ok().map(|news| (news.text, news.role))?,
                changed = self.tick.changed() => {
                    changed.ok()?;
                    (self.tick.borrow_and_update().clone(), Role::Viewer)
                }
                () = sleep(KEEP_ALIVE) => (Bytes::from_static(b": keep-alive\n\n"), Role::Viewer),
            };
            let principal = self.api.identify(&self.asked).ok()?;
            // The client may have lost its rights since the last event.
            principal.require(Role::Viewer).ok()?;
            if principal.role >= role {
                return Some((text, self));
            }
        }
    }
}

/// The next part of a stream.
type NextPart = Pin<Box<dyn Future<Output = Option<(Bytes, Stream)>> + Send>>;

/// The stream as the body of a response.
struct EventBody {
    /// `None` after the end.
    next: Option<NextPart>,
}

impl EventBody {
    fn new(stream: Stream) -> EventBody {
        EventBody { next: Some(Box::pin(stream.next())) }
    }
}

impl HttpBody for EventBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(next) = self.next.as_mut() else { return Poll::Ready(None) };
        let Some((text, stream)) = ready!(next.as_mut().poll(context)) else {
            self.next = None;
            return Poll::Ready(None);
        };
        self.next = Some(Box::pin(stream.next()));
        Poll::Ready(Some(Ok(Frame::data(text))))
    }
}

impl Api {
    /// Sends the numbers of this second, and the progress of operations, if somebody listens.
    pub(crate) fn tell_tick(&self) {
        let events = &self.events;
        if !events.has_streams() {
            return;
        }
        let now = self.setup.door.now();
        let server = self.server();
        let mut before = events.before.lock().unwrap_or_else(PoisonError::into_inner);
        let then = before.replace((now, server.totals));
        drop(before);
        let then = then.filter(|(at, _)| (1..=RATES_AGE_MAX_MS).contains(&now.since(*at)));
        let rate = |count: fn(&Totals) -> u64| {
            then.as_ref().map(|(at, totals)| {
                let more = count(&server.totals).saturating_sub(count(totals));
                more as f64 * 1e3 / now.since(*at) as f64
            })
        };
        let tick = types::Tick {
            puts_per_s: rate(|totals| totals.puts),
            takes_per_s: rate(|totals| totals.takes),
            ends_per_s: rate(|totals| totals.ends),
            now_at: server.now_at,
            status: server.status,
            draining: server.draining,
            health: server.health,
            totals: server.totals,
            memory: server.memory,
            connections: server.connections,
        };
        events.tick.send_replace(event("tick", &tick));
        for operation in self.running_operations() {
            events.tell(Role::Viewer, "operation", &operation);
        }
    }

    /// Sends the state of an operation, if somebody listens.
    pub(crate) fn tell_operation(&self, operation: impl FnOnce() -> types::Operation) {
        if self.events.has_streams() {
            self.events.tell(Role::Viewer, "operation", &operation());
        }
    }

    /// Sends a line about a change, if somebody listens.
    pub(crate) fn tell_audit(&self, line: impl FnOnce() -> types::AuditLine) {
        if self.events.has_streams() {
            self.events.tell(Role::Operator, "audit", &line());
        }
    }
}
