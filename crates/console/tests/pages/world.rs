//! A console over a broker in memory.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use api::{Api, ServerInfo, Setup};
use axum::Router;
use axum::body::{Body, to_bytes};
use broker::{Answer, Broker, EngineSetup, Event, Mailbox, Millis, NewJob, SessionId};
use http_api::{Door, ProcessFacts, Site};
use hyper::{HeaderMap, Request};
use origin::{Gate, Names, Reach};

pub(crate) const NOW: Millis = Millis(1_700_000_000_000);

struct Deaf;

impl Mailbox for Deaf {
    fn deliver(&self, _session: SessionId, _event: Answer<Event>) {}
    fn released(&self) {}
    fn alarm(&self, _at: Millis) {}
}

pub(crate) struct World {
    pub(crate) broker: Broker,
    pub(crate) api: Api,
    pub(crate) site: Site,
    /// What is wrong in the file of the configuration.
    pub(crate) mistake: Arc<Mutex<Option<String>>>,
}

pub(crate) struct Shown {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl World {
    pub(crate) fn new() -> World {
        World::with_tokens(None)
    }

    pub(crate) fn with_tokens(tokens: Option<PathBuf>) -> World {
        World::with_access(api::AccessSettings { tokens, ..api::AccessSettings::default() })
    }

    pub(crate) fn with_access(access: api::AccessSettings) -> World {
        World::with_settings(access, api::BodySettings::default())
    }

    pub(crate) fn with_settings(access: api::AccessSettings, bodies: api::BodySettings) -> World {
        World::of(access, bodies, None)
    }

    pub(crate) fn of(
        access: api::AccessSettings,
        bodies: api::BodySettings,
        cluster: Option<Box<dyn Fn() -> api::types::Cluster + Send + Sync>>,
    ) -> World {
        let mistake: Arc<Mutex<Option<String>>> = Arc::default();
        let reload = mistake.clone();
        let broker = Broker::memory(EngineSetup::default(), NOW);
        broker.add_mailbox(Arc::new(Deaf));
        let api = Api::new(Setup {
            door: Door::open(broker.clone(), Arc::new(|| NOW)),
            info: ServerInfo { host: "machine".to_owned(), ..ServerInfo::default() },
            process: Box::new(ProcessFacts::default),
            access,
            bodies,
            has_console: true,
            body_bytes_max: 1 << 20,
            backup: Box::new(|_| Err("no log".to_owned())),
            reload: Box::new(move || {
                let mistake = reload.lock().expect("no panic").clone();
                Box::pin(async { mistake.map_or(Ok(Vec::new()), Err) })
            }),
            show_setting: |setting| format!("{setting:?}"),
            connections: Box::new(()),
            cluster,
            history: api::HistoryFiles::default(),
        });
        let router = Router::new()
            .merge(console::router(api.clone()))
            .nest(api::PREFIX, api::router(api.clone()));
        World { broker, api, site: Site::new(router), mistake }
    }

    pub(crate) fn put(&self, queue: &[u8], body: &[u8]) -> u64 {
        let mut turn = self.broker.turn(NOW);
        let session = turn.open_reader_session(0);
        turn.caller(session).use_queue(queue);
        let put = turn.caller(session).put(NewJob::default(), broker::Body::from(body));
        turn.close_session(session);
        put.value.expect("there is room").0
    }

    pub(crate) fn fail(&self, queue: &[u8], error: &[u8]) {
        let mut turn = self.broker.turn(NOW);
        let (session, order) = (turn.open_worker_session(0), broker::GrabOrder::NewestFirst);
        turn.caller(session).register(queue, None);
        let id = turn.caller(session).take_registered(order).value.map(|it| it.handout.id);
        let error = broker::News::Exception(error.into());
        let _ = turn.caller(session).fail(id.expect("it is ready"), &error);
    }

    pub(crate) fn show(&self, path: &str) -> Shown {
        self.ask("GET", path, Reach::Loopback)
    }

    /// Shows a page to somebody whose browser prefers a language.
    pub(crate) fn show_in(&self, language: &str, path: &str) -> Shown {
        let request = Request::get(format!("{}{path}", console::PREFIX));
        let request = request.header("accept-language", language).body(Body::empty());
        self.send(request.expect("valid"), Reach::Loopback)
    }

    pub(crate) fn ask(&self, method: &str, path: &str, reach: Reach) -> Shown {
        let uri = format!("{}{path}", console::PREFIX);
        let request = Request::builder().method(method).uri(uri).body(Body::empty());
        self.send(request.expect("the path is valid"), reach)
    }

    /// Sends a form as a browser does. `cookie` is the cookie of a session.
    pub(crate) fn submit(
        &self,
        path: &str,
        cookie: &str,
        fields: &[(&str, &str)],
        reach: Reach,
    ) -> Shown {
        let form = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let request = Request::post(format!("{}{path}", console::PREFIX))
            .header("host", "127.0.0.1:7300")
            .header("origin", "http://127.0.0.1:7300")
            .header("sec-fetch-site", "same-origin")
            .header("user-agent", "Mozilla/5.0")
            .header("cookie", cookie)
            .body(Body::from(form));
        self.send(request.expect("valid"), reach)
    }

    /// Shows a page to somebody with a session.
    pub(crate) fn show_to(&self, cookie: &str, path: &str, reach: Reach) -> Shown {
        let request = Request::get(format!("{}{path}", console::PREFIX))
            .header("host", "127.0.0.1:7300")
            .header("sec-fetch-site", "same-origin")
            .header("cookie", cookie)
            .body(Body::empty());
        self.send(request.expect("valid"), reach)
    }

    pub(crate) fn send(&self, mut request: Request<Body>, reach: Reach) -> Shown {
        request.extensions_mut().insert(Gate { names: Arc::new(Names::default()), reach });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.expect("a runtime").block_on(async {
            let (head, body) = self.site.answer(request).await.into_parts();
            let bytes = to_bytes(body, usize::MAX).await.expect("the body is in memory");
            let text = String::from_utf8(bytes.to_vec()).expect("a page is text");
            // An operation that the request started runs to its end.
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
            Shown { status: head.status.as_u16(), headers: head.headers, text }
        })
    }
}

/// The secret in the forms of a page.
pub(crate) fn csrf(page: &Shown) -> String {
    let rest = page.text.split("name=\"csrf\" value=\"").nth(1).expect("a form");
    rest.split('"').next().expect("a value").to_owned()
}
