//! Connections of clients, and the sessions behind them: what each one uses, waits for and holds.
//!
//! The server's I/O threads own the connections, and answer through [`Connections`]. The broker owns
//! the sessions. A connection has the number of its session, in hexadecimal digits.

use std::future::Future;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::time::Duration;

use axum::extract::{Path, State};
use broker::{HeldCursor, Millis, SessionId, SessionInfo, SessionWait};
use hyper::{StatusCode, Uri};

use crate::openapi::Refusals;
use crate::problem::{Problem, ProblemKind};
use crate::state::Api;
use crate::text::cursor::CursorKey;
use crate::text::json::Json;
use crate::text::moment;
use crate::text::name::{QueueName, shown_name};
use crate::text::query::Query;
use crate::types;

/// A thread is asked for this many connections at once.
const ROWS_AT_ONCE: usize = 200;
/// A request looks at this many connections, or at this many sessions for the clients of a queue.
const LOOKS_MAX: u32 = 20_000;
/// The queues of a connection that are named.
const NAMES_MAX: usize = 20;
/// A page of connections ends when the names of their queues have this many bytes of text. A name can
/// have 8 KiB, and its text can be four times as long.
const PAGE_NAME_BYTES_MAX: usize = 1 << 20;
/// The held jobs of a connection that are shown.
const HELD_MAX: usize = 100;
/// The held jobs of a connection that are looked at, to count those of one queue.
const HELD_LOOKS_MAX: usize = 200;
/// Time limit for the answer of an I/O thread.
const TIME_MAX: Duration = Duration::from_secs(5);

/// The name of the list of all connections, for its cursors.
const LIST: &[u8] = b"connections";
const PARAMETERS: [&str; 4] = ["protocol", "address", "limit", "cursor"];

/// An answer that comes later.
pub type Later<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The connections of all I/O threads. Mailbox `n` of the broker belongs to thread `n`. An answer is
/// `None` if the thread has ended.
pub trait Connections: Send + Sync {
    /// The number of threads.
    fn threads(&self) -> usize;
    /// At most this many connections of a thread, at places from `from` on.
    fn list(&self, thread: usize, from: u32, rows: usize) -> Later<Option<ConnectionPage>>;
    /// The connections with these sessions, in any order, without those that do not exist.
    fn find(&self, thread: usize, sessions: Vec<SessionId>) -> Later<Option<Vec<ConnectionFacts>>>;
    /// Closes the connection with this session. Its jobs return to their queues. Returns whether it
    /// existed.
    fn close(&self, thread: usize, session: SessionId) -> Later<Option<bool>>;
}

/// No connections, for tests.
impl Connections for () {
    fn threads(&self) -> usize {
        0
    }

    fn list(&self, _thread: usize, _from: u32, _rows: usize) -> Later<Option<ConnectionPage>> {
        Box::pin(async { None })
    }

    fn find(
        &self,
        _thread: usize,
        _sessions: Vec<SessionId>,
    ) -> Later<Option<Vec<ConnectionFacts>>> {
        Box::pin(async { None })
    }

    fn close(&self, _thread: usize, _session: SessionId) -> Later<Option<bool>> {
        Box::pin(async { None })
    }
}

/// Some connections of a thread.
#[derive(Clone, Debug, Default)]
pub struct ConnectionPage {
    /// The connections, by place.
    pub rows: Vec<ConnectionFacts>,
    /// The next place. `None`: there are no more connections.
    pub next: Option<u32>,
}

/// What an I/O thread knows of a connection.
#[derive(Clone, Debug, Default)]
pub struct ConnectionFacts {
    /// The place in the thread's table.
    pub place: u32,
    /// The session. `None`: the TLS handshake is not finished.
    pub session: Option<SessionId>,
    /// The name of the protocol.
    pub protocol: &'static str,
    /// The address of the client.
    pub address: String,
    /// Whether the connection uses TLS.
    pub is_tls: bool,
    /// When the connection was opened.
    pub opened: Millis,
    /// The time since the last byte from the client, in milliseconds.
    pub idle_ms: u64,
    /// Bytes from the client.
    pub received_bytes: u64,
    /// Bytes of replies that were sent.
    pub sent_bytes: u64,
    /// Bytes of replies that wait.
    pub unsent_bytes: u64,
}

/// The connections of clients, by thread.
#[utoipa::path(
    get,
    path = "/connections",
    tag = "connections",
    params(
        ("protocol" = Option<String>, Query, description = "Only connections of this protocol, \
            such as `beanstalk`."),
        ("address" = Option<String>, Query, description = "Only connections whose address begins \
            with this text."),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 500, description = "The size of a \
            page. The default is 50."),
        ("cursor" = Option<String>, Query, description = "The field `next` of the page before."),
    ),
    responses(
        (status = 200, description = "A page of connections.", body = types::Connections),
        Refusals,
    )
)]
pub(crate) async fn get_connections(
    State(api): State<Api>,
    uri: Uri,
) -> Result<Json<types::Connections>, Problem> {
    let list = ListConnections::read(&api.cursor_key, &Query::read(&uri, &PARAMETERS)?)?;
    api.connections(list).await.map(Json)
}

/// One connection, and the jobs that it holds.
#[utoipa::path(
    get,
    path = "/connections/{id}",
    tag = "connections",
    params(("id" = String, Path, description = "The number of the connection.")),
    responses(
        (status = 200, description = "The connection.", body = types::Connection),
        Refusals,
    )
)]
pub(crate) async fn get_connection(
    State(api): State<Api>,
    Path(id): Path<String>,
    uri: Uri,
) -> Result<Json<types::Connection>, Problem> {
    Query::read(&uri, &[])?;
    api.connection(&id).await.map(Json)
}

/// Closes a connection. The jobs that it holds return to their queues.
#[utoipa::path(
    delete,
    path = "/connections/{id}",
    tag = "connections",
    params(("id" = String, Path, description = "The number of the connection.")),
    responses(
        (status = 204, description = "The connection is closed."),
        Refusals,
    )
)]
pub(crate) async fn delete_connection(
    State(api): State<Api>,
    Path(id): Path<String>,
    uri: Uri,
) -> Result<StatusCode, Problem> {
    Query::read(&uri, &[])?;
    api.close_connection(&id).await.map(|()| StatusCode::NO_CONTENT)
}

/// The clients of a queue that take jobs: those that watch it, have registered for it, or hold some
/// of its jobs.
#[utoipa::path(
    get,
    path = "/queues/{queue}/consumers",
    tag = "queues",
    params(
        ("queue" = String, Path, description = "The name of the queue."),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 500, description = "The size of a \
            page. The default is 50."),
        ("cursor" = Option<String>, Query, description = "The field `next` of the page before."),
    ),
    responses(
        (status = 200, description = "A page of clients.", body = types::Consumers),
        Refusals,
    )
)]
pub(crate) async fn get_consumers(
    State(api): State<Api>,
    QueueName(name): QueueName,
    uri: Uri,
) -> Result<Json<types::Consumers>, Problem> {
    let query = Query::read(&uri, &["limit", "cursor"])?;
    api.consumers(&name, query.limit()?, query.get("cursor")).await.map(Json)
}

/// Which connections a page has.
#[derive(Clone, Debug)]
pub struct ListConnections {
    protocol: Option<String>,
    address: Option<String>,
    limit: usize,
    /// The thread and the place where the page begins.
    from: (usize, u32),
}

impl ListConnections {
    fn read(key: &CursorKey, query: &Query) -> Result<ListConnections, Problem> {
        let from = match query.get("cursor") {
            None => (0, 0),
            Some(text) => parse_place(&key.read(LIST, text)?)?,
        };
        Ok(ListConnections {
            protocol: query.get("protocol").map(str::to_owned),
            address: query.get("address").map(str::to_owned),
            limit: query.limit()?,
            from: (from.0 as usize, from.1),
        })
    }

    fn has(&self, row: &ConnectionFacts) -> bool {
        self.protocol.as_ref().is_none_or(|protocol| *protocol == row.protocol)
            && self.address.as_ref().is_none_or(|address| row.address.starts_with(address.as_str()))
    }
}

/// Two numbers of a cursor.
fn parse_place(text: &str) -> Result<(u64, u32), Problem> {
    let read = || {
        let (first, second) = text.split_once(' ')?;
        Some((first.parse().ok()?, second.parse().ok()?))
    };
    read().ok_or_else(|| {
        Problem::new(ProblemKind::BadRequest, "the cursor is damaged").of_parameter("cursor")
    })
}

/// The session of the connection with this number.
fn session_of(id: &str) -> Result<SessionId, Problem> {
    u64::from_str_radix(id, 16).map(SessionId).map_err(|_| no_connection(id))
}

fn no_connection(id: &str) -> Problem {
    let why = format!("no connection has the number `{id}`; perhaps it is closed");
    Problem::new(ProblemKind::NotFound, why)
}

/// The number of a connection, as text.
pub(crate) fn shown_id(session: SessionId) -> String {
    format!("{:x}", session.0)
}

impl Api {
    /// The list that these parameters describe: the text behind the `?` of `/connections`.
    pub fn list_connections(&self, query: &str) -> Result<ListConnections, Problem> {
        ListConnections::read(&self.cursor_key, &Query::read_form(query, &PARAMETERS)?)
    }

    /// A page of connections.
    pub async fn connections(&self, list: ListConnections) -> Result<types::Connections, Problem> {
        let connections = &self.setup.connections;
        let (mut thread, mut from) = list.from;
        let (mut rows, mut looked_at, mut next) = (Vec::new(), 0, None);
        'threads: while thread < connections.threads() {
            let page = in_time(connections.list(thread, from, ROWS_AT_ONCE)).await?;
            for row in page.rows {
                if rows.len() == list.limit || looked_at == LOOKS_MAX {
                    next = Some((thread, row.place));
                    break 'threads;
                }
                looked_at += 1;
                if list.has(&row) {
                    rows.push((thread, row));
                }
            }
            (thread, from) = page.next.map_or((thread + 1, 0), |place| (thread, place));
        }
        let (mut items, mut name_bytes) = (Vec::new(), 0);
        for (thread, row) in &rows {
            if name_bytes >= PAGE_NAME_BYTES_MAX {
                next = Some((*thread, row.place));
                break;
            }
            let shown = self.shown_connection(row);
            name_bytes += shown.used.iter().chain(&shown.queues).map(String::len).sum::<usize>();
            items.push(shown);
            http_api::between_turns().await;
        }
        let next = next.map(|(thread, place)| format!("{thread} {place}"));
        Ok(types::Connections {
            items,
            next: next.map(|place| self.cursor_key.written(LIST, &place)),
            open: (self.setup.process)().connections,
        })
    }

    /// One connection, with the jobs that it holds.
    pub async fn connection(&self, id: &str) -> Result<types::Connection, Problem> {
        let session = session_of(id)?;
        let facts = self.connection_facts(vec![session]).await?.pop();
        let facts = facts.ok_or_else(|| no_connection(id))?;
        let mut shown = self.shown_connection(&facts);
        let (mut cursor, mut rows) = (HeldCursor::default(), Vec::new());
        let walk = self.setup.door.slices(|turn| {
            while rows.len() < HELD_MAX {
                if turn.slice_is_spent() {
                    return ControlFlow::Continue(());
                }
                let Some(job) = turn.next_held(session, &mut cursor, |_| true) else { break };
                rows.extend(job.map(|job| (turn.queue_name(job.queue).to_vec(), job)));
            }
            ControlFlow::Break(())
        });
        walk.await;
        let held = rows.into_iter().map(|(queue, job)| types::HeldJob {
            id: job.facts.id.0,
            queue: shown_name(&queue),
            held_ms: job.held_ms,
            time_left_ms: job.time_left_ms,
        });
        shown.held = Some(held.collect());
        Ok(shown)
    }

    /// Closes a connection. The jobs that it holds return to their queues.
    pub async fn close_connection(&self, id: &str) -> Result<(), Problem> {
        let session = session_of(id)?;
        let thread = self.turn().mailbox_of(session);
        let connections = &self.setup.connections;
        let thread = thread.filter(|thread| *thread < connections.threads());
        let thread = thread.ok_or_else(|| no_connection(id))?;
        let has_closed = in_time(connections.close(thread, session)).await?;
        if has_closed { Ok(()) } else { Err(no_connection(id)) }
    }

    /// The connections of these sessions.
    async fn connection_facts(
        &self,
        sessions: Vec<SessionId>,
    ) -> Result<Vec<ConnectionFacts>, Problem> {
        let connections = &self.setup.connections;
        let mut of_thread: Vec<Vec<SessionId>> = vec![Vec::new(); connections.threads()];
        {
            let turn = self.turn();
            for session in sessions {
                // Sessions of other mailboxes have no connection: requests over HTTP, for example.
                if let Some(thread) = turn.mailbox_of(session)
                    && let Some(of_thread) = of_thread.get_mut(thread)
                {
                    of_thread.push(session);
                }
            }
        }
        let mut facts = Vec::new();
        for (thread, sessions) in of_thread.into_iter().enumerate() {
            if !sessions.is_empty() {
                facts.extend(in_time(connections.find(thread, sessions)).await?);
            }
        }
        Ok(facts)
    }

    fn shown_connection(&self, facts: &ConnectionFacts) -> types::Connection {
        // Long names take a while to write, so the broker's lock must not be held meanwhile.
        let (info, opened_at) = {
            let mut turn = self.turn();
            turn.begin_slice();
            let info = facts.session.and_then(|session| turn.session_info(session, NAMES_MAX));
            (info, turn.wall_at(facts.opened))
        };
        let has_session = info.is_some();
        let SessionInfo { used, queues, watched, registrations, held, wait } =
            info.unwrap_or_default();
        types::Connection {
            id: facts.session.map(shown_id),
            protocol: facts.protocol.to_owned(),
            address: facts.address.clone(),
            tls: facts.is_tls,
            opened_at: moment::written(opened_at),
            idle_ms: facts.idle_ms,
            received_bytes: facts.received_bytes,
            sent_bytes: facts.sent_bytes,
            unsent_bytes: facts.unsent_bytes,
            used: has_session.then(|| shown_name(&used)),
            queues: queues.iter().map(|name| shown_name(name)).collect(),
            watched: watched as u64,
            registrations: registrations as u64,
            holds: held as u64,
            wait: wait.map(shown_wait),
            held: None,
        }
    }

    /// A page of the clients of a queue that take jobs.
    pub async fn consumers(
        &self,
        queue: &[u8],
        limit: usize,
        cursor: Option<&str>,
    ) -> Result<types::Consumers, Problem> {
        let list = [b"consumers ", queue].concat();
        let mut place = match cursor {
            None => 0,
            Some(text) => parse_place(&self.cursor_key.read(&list, text)?)?.1,
        };
        let (mut found, mut looked_at, mut next) = (Vec::new(), 0, None);
        let walk = self.setup.door.slices(|turn| {
            let Some(id) = turn.queue_id(queue) else {
                return ControlFlow::Break(Err(Problem::no_queue(queue)));
            };
            loop {
                if place >= turn.session_places() {
                    return ControlFlow::Break(Ok(()));
                }
                if found.len() == limit || looked_at == LOOKS_MAX {
                    next = Some(place);
                    return ControlFlow::Break(Ok(()));
                }
                if turn.slice_is_spent() {
                    return ControlFlow::Continue(());
                }
                if let Some(session) = turn.session_at(place) {
                    looked_at += 1;
                    found.extend(consumer(turn, session, id));
                }
                place += 1;
            }
        });
        walk.await?;
        let facts = self.connection_facts(found.iter().map(|(session, _)| *session).collect());
        let facts = facts.await?;
        let items = found.into_iter().filter_map(|(session, consumer)| {
            let facts = facts.iter().find(|facts| facts.session == Some(session))?;
            Some(types::Consumer {
                protocol: facts.protocol.to_owned(),
                address: facts.address.clone(),
                idle_ms: facts.idle_ms,
                ..consumer
            })
        });
        Ok(types::Consumers {
            items: items.collect(),
            next: next.map(|place| self.cursor_key.written(&list, &format!("0 {place}"))),
            looked_at: looked_at.into(),
        })
    }
}

/// What a session does for a queue. `None`: nothing.
fn consumer(
    turn: &mut broker::Turn<'_>,
    session: SessionId,
    queue: broker::QueueId,
) -> Option<(SessionId, types::Consumer)> {
    let (watches, is_worker) = turn.serves(session, queue);
    let (mut cursor, mut holds, mut time_left_ms) = (HeldCursor::default(), 0, None);
    for _ in 0..HELD_LOOKS_MAX {
        let Some(held) = turn.next_held(session, &mut cursor, |of| of == queue) else { break };
        if let Some(held) = held {
            holds += 1;
            // The job with the earliest deadline comes first.
            time_left_ms = time_left_ms.or(held.time_left_ms);
        }
    }
    if !watches && !is_worker && holds == 0 {
        return None;
    }
    let wait = turn.session_info(session, 0).and_then(|info| info.wait);
    let consumer = types::Consumer {
        id: shown_id(session),
        watches,
        is_worker,
        holds,
        time_left_ms,
        wait: wait.map(shown_wait),
        ..types::Consumer::default()
    };
    Some((session, consumer))
}

fn shown_wait(wait: SessionWait) -> types::ConnectionWait {
    let (what, left_ms) = match wait {
        SessionWait::Job(left_ms) => (types::WaitFor::Job, left_ms),
        SessionWait::Work => (types::WaitFor::Work, None),
        SessionWait::Request => (types::WaitFor::Request, None),
    };
    types::ConnectionWait { what, left_ms }
}

/// Waits for the answer of an I/O thread.
async fn in_time<T>(answer: Later<Option<T>>) -> Result<T, Problem> {
    let answer = tokio::time::timeout(TIME_MAX, answer).await.ok().flatten();
    answer.ok_or_else(|| {
        let why = "an I/O thread did not answer in time; it is busy, or the server is stopping";
        Problem::new(ProblemKind::Unavailable, why)
    })
}
