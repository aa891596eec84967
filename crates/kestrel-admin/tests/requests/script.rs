//! Sends requests with any head to Kestrel's admin commands, at every kind of listener. The
//! response must be well-formed, and a request without permission must change nothing. The test and
//! the fuzz target share this file.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use broker::{Body, Broker, EngineSetup, Millis};
use http_api::{Head, ProcessFacts};
use hyper::{HeaderMap, Method};
use kestrel_admin::{
    AdminSetup, Controls, KestrelAdmin, Permissions, Reply, Served, ServerInfo, Work,
};
use origin::{Claims, Gate, Names, Reach};

const OWN_NAME: &str = "machine";
const NOW: Millis = Millis(1_700_000_000_000);

/// Sends a request to servers with all combinations of listener and permission. `script` has the
/// lines of the request's head.
pub(crate) fn check(script: &[u8]) {
    for reach in [Reach::Loopback, Reach::Unix, Reach::Network] {
        for by_get in [false, true] {
            if let Some(request) = read(script) {
                World::new(by_get).check(request, reach);
            }
        }
    }
}

/// Parses a request line and headers. Returns `None` if they are not a valid request.
fn read(script: &[u8]) -> Option<Head> {
    let mut lines = script.split(|byte| *byte == b'\n');
    let mut words = lines.next()?.split(|byte| *byte == b' ');
    let mut request = Head::builder().method(words.next()?).uri(words.next()?);
    for line in lines.take(64) {
        let colon = line.iter().position(|byte| *byte == b':')?;
        request = request.header(&line[..colon], line[colon + 1..].trim_ascii());
    }
    request.body(()).ok()
}

fn claims(headers: &HeaderMap) -> Claims<'_> {
    Claims::of(headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())))
}

/// Counts the requests that changed something.
struct Changes(AtomicU32);

struct Count(Arc<Changes>);

impl Controls for Count {
    fn reload(&self) -> Work {
        self.0.0.fetch_add(1, Ordering::Relaxed);
        Box::pin(async {})
    }

    fn shut_down(&self) {
        self.0.0.fetch_add(1, Ordering::Relaxed);
    }
}

struct World {
    broker: Broker,
    changes: Arc<Changes>,
    site: KestrelAdmin,
    by_get: bool,
}

impl World {
    fn new(by_get: bool) -> World {
        let broker = Broker::memory(EngineSetup::default(), NOW);
        let mut turn = broker.turn(NOW);
        let session = turn.open_reader_session(0);
        let added = turn.caller(session).add(b"q", Body::from(&b"item"[..]), None);
        added.value.expect("nothing limits the queue");
        turn.close_session(session);
        drop(turn);
        let info = ServerInfo {
            version: "2.4.1".to_owned(),
            build: "build".to_owned(),
            host: OWN_NAME.to_owned(),
            started: NOW,
        };
        let changes = Arc::new(Changes(AtomicU32::new(0)));
        let site = KestrelAdmin::new(AdminSetup {
            broker: broker.clone(),
            clock: Arc::new(|| NOW),
            info,
            permissions: Permissions { by_get, stop_locally: true, stop_from_elsewhere: true },
            served: Box::new(Served::default),
            process: Box::new(ProcessFacts::default),
            controls: Box::new(Count(changes.clone())),
        });
        World { broker, changes, site, by_get }
    }

    fn check(&self, mut request: Head, reach: Reach) {
        let names = Arc::new(Names::new([OWN_NAME.to_owned()], Vec::new()));
        let gate = Gate { names, reach };
        let host = request.headers().get_all("host").iter().next_back();
        let is_our_name = host.is_none_or(|host| is_our_name(host.as_bytes()));
        if gate.may_read(&claims(request.headers())).is_err() {
            return;
        }
        assert!(is_our_name || reach != Reach::Loopback, "{request:?}");
        request.extensions_mut().insert(gate);
        let used_bytes = self.broker.memory_usage().used_bytes;
        let status = self.ask(&request);
        let change_count = self.changes.0.load(Ordering::Relaxed);
        let may_change = *request.method() == Method::POST || self.by_get;
        assert!(change_count == 0 || (may_change && is_our_name && status == 200), "{request:?}");
        let is_get = matches!(*request.method(), Method::GET | Method::HEAD);
        if claims(request.headers()).check_no_page(is_get).is_err() {
            let now_bytes = self.broker.memory_usage().used_bytes;
            assert_eq!((change_count, now_bytes), (0, used_bytes), "{request:?}");
        }
        assert_eq!(self.ask(&request), status, "{request:?}");
    }

    /// Sends a request, checks that the response is well-formed, and returns its status.
    fn ask(&self, request: &Head) -> u16 {
        let (Reply::Now(answer) | Reply::After(_, answer)) = self.site.reply(request);
        let status = answer.status().as_u16();
        assert!([200, 403, 404, 405, 500].contains(&status), "{status}: {request:?}");
        let text = str::from_utf8(answer.body()).expect("all answers are text");
        // The body is JSON, perhaps inside a callback.
        if answer.headers()["content-type"] == "application/json" && text.starts_with('{') {
            let read: Result<serde_json::Value, _> = serde_json::from_str(text);
            assert!(read.is_ok(), "{request:?}: {text}");
        }
        status
    }
}

/// Whether a `Host` header may be allowed. This check is independent of the code under test.
fn is_our_name(host: &[u8]) -> bool {
    let Ok(host) = str::from_utf8(host) else { return false };
    let has_port = |end: &str| end.bytes().all(|byte| byte.is_ascii_digit());
    let name = match host.rsplit_once(':') {
        Some((name, port)) if has_port(port) && (!name.contains(':') || name.ends_with(']')) => {
            name
        }
        _ => host,
    };
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    let is_address = bare.unwrap_or(name).parse::<IpAddr>().is_ok();
    is_address || ["localhost", OWN_NAME].iter().any(|own| name.eq_ignore_ascii_case(own))
}
