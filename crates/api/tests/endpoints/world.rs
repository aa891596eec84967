//! A broker in memory, and the API of it.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::types::Role;
use api::{
    AccessSettings, Api, BodySettings, ConnectionFacts, ConnectionPage, Connections, HistoryFiles,
    Later, PREFIX, ServerInfo, Setup,
};
use axum::Router;
use axum::body::{Body, to_bytes};
use broker::{
    Answer, Broker, EngineSetup, Event, Mailbox, Millis, NewJob, Patience, SessionId, Take,
};
use http_api::{Door, ProcessFacts, Site, Unread};
use hyper::{HeaderMap, Request};
use origin::{Gate, Names, Reach};
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

/// The time of all requests: 2023-11-14.
pub(crate) const NOW: Millis = Millis(1_700_000_000_000);

/// The mailbox of a thread that ignores its messages. The first mailbox gets the alarms.
struct Deaf;

impl Mailbox for Deaf {
    fn deliver(&self, _session: SessionId, _event: Answer<Event>) {}
    fn released(&self) {}
    fn alarm(&self, _at: Millis) {}
}

/// The connections of one thread.
#[derive(Clone)]
struct Clients {
    broker: Broker,
    all: Arc<Mutex<Vec<ConnectionFacts>>>,
}

impl Connections for Clients {
    fn threads(&self) -> usize {
        1
    }

    fn list(&self, _thread: usize, from: u32, rows: usize) -> Later<Option<ConnectionPage>> {
        let all = self.all.lock().unwrap();
        let behind = all.iter().filter(|row| row.place >= from);
        let rows: Vec<ConnectionFacts> = behind.take(rows).cloned().collect();
        let end = rows.last().map(|row| row.place + 1);
        let next = end.filter(|end| all.iter().any(|row| row.place >= *end));
        Box::pin(async move { Some(ConnectionPage { rows, next }) })
    }

    fn find(
        &self,
        _thread: usize,
        sessions: Vec<SessionId>,
    ) -> Later<Option<Vec<ConnectionFacts>>> {
        let all = self.all.lock().unwrap().clone();
        let found =
            all.into_iter().filter(move |row| row.session.is_some_and(|it| sessions.contains(&it)));
        let found = found.collect();
        Box::pin(async move { Some(found) })
    }

    fn close(&self, _thread: usize, session: SessionId) -> Later<Option<bool>> {
        self.broker.turn(NOW).close_session(session);
        let mut all = self.all.lock().unwrap();
        let before = all.len();
        all.retain(|row| row.session != Some(session));
        let has_closed = all.len() < before;
        Box::pin(async move { Some(has_closed) })
    }
}

pub(crate) struct World {
    pub(crate) broker: Broker,
    pub(crate) api: Api,
    clients: Clients,
    site: Site,
    now_ms: Arc<AtomicU64>,
    clock_breaks: Arc<AtomicBool>,
    runtime: Runtime,
}

/// A response.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
    pub(crate) bytes: Vec<u8>,
}

impl World {
    /// A world in which clients of this machine can do everything.
    pub(crate) fn open() -> World {
        World::with_access(AccessSettings { anonymous: Role::Admin, ..AccessSettings::default() })
    }

    pub(crate) fn new() -> World {
        World::with_access(AccessSettings::default())
    }

    pub(crate) fn with_access(access: AccessSettings) -> World {
        World::over(Broker::memory(EngineSetup::default(), NOW), access)
    }

    pub(crate) fn over(broker: Broker, access: AccessSettings) -> World {
        World::with_settings(broker, access, BodySettings::default())
    }

    /// A world in which clients of this machine can do everything, with settings about bodies.
    pub(crate) fn with_bodies(bodies: BodySettings) -> World {
        World::with_anonymous(Role::Admin, bodies)
    }

    /// A world in which clients of this machine have a role.
    pub(crate) fn with_anonymous(anonymous: Role, bodies: BodySettings) -> World {
        let access = AccessSettings { anonymous, ..AccessSettings::default() };
        World::with_settings(Broker::memory(EngineSetup::default(), NOW), access, bodies)
    }

    fn with_settings(broker: Broker, access: AccessSettings, bodies: BodySettings) -> World {
        broker.add_mailbox(Arc::new(Deaf));
        let clients = Clients { broker: broker.clone(), all: Arc::default() };
        let now_ms = Arc::new(AtomicU64::new(NOW.0));
        let clock = now_ms.clone();
        let clock_breaks = Arc::new(AtomicBool::new(false));
        let breaks = clock_breaks.clone();
        let api = Api::new(Setup {
            door: Door::open(
                broker.clone(),
                Arc::new(move || {
                    assert!(!breaks.swap(false, Ordering::Relaxed), "the clock breaks once");
                    Millis(clock.load(Ordering::Relaxed))
                }),
            ),
            info: ServerInfo {
                version: "1.2.3".to_owned(),
                host: "machine".to_owned(),
                started: Millis(NOW.0 - 5_000),
                listeners: Vec::new(),
                recovery: None,
            },
            process: Box::new(|| ProcessFacts {
                connections: 7,
                connections_by_protocol: vec![("beanstalk", 5), ("gearman", 2)],
                ..ProcessFacts::default()
            }),
            access,
            bodies,
            has_console: true,
            body_bytes_max: 100_000,
            backup: Box::new(|_| Err("no log".to_owned())),
            reload: Box::new(|| Box::pin(async { Err("line 7: no".to_owned()) })),
            show_setting: |setting| format!("{setting:?}"),
            connections: Box::new(clients.clone()),
            cluster: None,
            history: HistoryFiles::default(),
        });
        let router = Router::new().nest(PREFIX, api::router(api.clone()));
        let runtime =
            Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        World { broker, api, clients, site: Site::new(router), now_ms, clock_breaks, runtime }
    }

    pub(crate) fn now(&self) -> Millis {
        Millis(self.now_ms.load(Ordering::Relaxed))
    }

    /// Advances the time of the broker and of the requests.
    pub(crate) fn pass(&self, millis: u64) {
        self.now_ms.fetch_add(millis, Ordering::Relaxed);
        while self.broker.turn(self.now()).advance() {}
        self.runtime.block_on(async { tokio::time::sleep(Duration::from_millis(millis)).await });
    }

    /// The next task that asks the API for the time panics.
    pub(crate) fn break_next_task(&self) {
        self.clock_breaks.store(true, Ordering::Relaxed);
    }

    /// Does the timed work.
    pub(crate) fn tick(&self) {
        self.block_on(async { self.api.tick() });
    }

    pub(crate) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    /// Opens a connection with a session.
    pub(crate) fn connect(&self, protocol: &'static str, address: &str) -> SessionId {
        let session = self.broker.turn(self.now()).open_session(0);
        let mut all = self.clients.all.lock().unwrap();
        // Some places are free.
        let place = all.len() as u32 * 3;
        let address = address.to_owned();
        let session_of = Some(session);
        all.push(ConnectionFacts {
            place,
            session: session_of,
            protocol,
            address,
            opened: self.now(),
            ..ConnectionFacts::default()
        });
        session
    }

    pub(crate) fn put(&self, queue: &[u8], job: NewJob, body: &[u8]) -> u64 {
        let mut turn = self.broker.turn(self.now());
        let session = turn.open_reader_session(0);
        turn.caller(session).use_queue(queue);
        let id = turn.caller(session).put(job, broker::Body::from(body)).value.unwrap();
        turn.close_session(session);
        id.0
    }

    /// Takes the first job of the queue and gives it back. The policy of the queue must make a dead letter
    /// of it.
    pub(crate) fn kill_one(&self, queue: &str) {
        let mut turn = self.broker.turn(self.now());
        let session = turn.open_session(0);
        let mut caller = turn.caller(session);
        caller.watch(queue.as_bytes());
        let Take::Granted(job) = caller.take(Patience::None).value else { panic!("no job") };
        caller.give_back(job.id, 0, 0).value.expect("it becomes a dead letter");
        turn.close_session(session);
    }

    pub(crate) fn ask(&self, method: &str, path: &str) -> Reply {
        self.ask_at(Reach::Loopback, method, path)
    }

    pub(crate) fn ask_at(&self, reach: Reach, method: &str, path: &str) -> Reply {
        let uri = format!("{PREFIX}{path}");
        let mut request = Request::builder().method(method).uri(uri).body(Body::empty()).unwrap();
        request.extensions_mut().insert(Gate { names: Arc::new(Names::default()), reach });
        self.send(request)
    }

    /// Sends JSON from this machine.
    pub(crate) fn post(&self, path: &str, json: &Value) -> Reply {
        self.post_as(path, &[("content-type", "application/json")], json.to_string().as_bytes())
    }

    pub(crate) fn post_as(&self, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
        self.send(request("POST", path, headers, body))
    }

    /// Sends a request, and does not wait for the body of the response.
    pub(crate) fn respond(&self, mut request: Request<Body>) -> axum::response::Response {
        request.extensions_mut().insert(Unread::new(self.broker.clone()));
        self.runtime.block_on(self.site.answer(request))
    }

    pub(crate) fn send(&self, mut request: Request<Body>) -> Reply {
        request.extensions_mut().insert(Unread::new(self.broker.clone()));
        self.runtime.block_on(async { read(self.site.answer(request).await).await })
    }

    /// Sends a request, and calls `meanwhile` when it waits. Then waits for its reply, which must come
    /// within an hour of simulated time.
    pub(crate) fn send_and(&self, request: Request<Body>, meanwhile: impl FnOnce()) -> Reply {
        self.runtime.block_on(async {
            let reply = self.begin(request).await;
            meanwhile();
            tokio::time::timeout(Duration::from_hours(1), reply).await.unwrap().unwrap()
        })
    }

    /// Sends a request, and disconnects when it waits.
    pub(crate) fn send_and_leave(&self, request: Request<Body>) {
        self.runtime.block_on(async {
            let reply = self.begin(request).await;
            reply.abort();
            assert!(reply.await.unwrap_err().is_cancelled());
        });
    }

    /// Sends a request, and returns when it waits for something outside of the runtime.
    async fn begin(&self, mut request: Request<Body>) -> JoinHandle<Reply> {
        request.extensions_mut().insert(Unread::new(self.broker.clone()));
        let site = self.site.clone();
        let reply = tokio::spawn(async move { read(site.answer(request).await).await });
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert!(!reply.is_finished(), "it does not wait");
        reply
    }

    pub(crate) fn get(&self, path: &str) -> Value {
        let reply = self.ask("GET", path);
        assert_eq!(reply.status, 200, "{path}: {reply:?}");
        assert_eq!(reply.headers["content-type"], "application/json", "{path}");
        reply.body
    }
}

/// A request from this machine.
pub(crate) fn request(
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Request<Body> {
    let mut request = Request::builder().method(method).uri(format!("{PREFIX}{path}"));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let mut request = request.body(Body::from(body.to_vec())).unwrap();
    let gate = Gate { names: Arc::new(Names::default()), reach: Reach::Loopback };
    request.extensions_mut().insert(gate);
    request
}

async fn read(answer: axum::response::Response) -> Reply {
    let (head, body) = answer.into_parts();
    let bytes = to_bytes(body, usize::MAX).await.unwrap().to_vec();
    let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
    Reply { status: head.status.as_u16(), headers: head.headers, body, bytes }
}
