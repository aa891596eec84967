//! Who can do what: tokens, certificates, roles, and the record of changes.

use std::fs::Permissions;
use std::num::NonZeroU32;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use api::AccessSettings;
use api::tokens::{Entry, EntryKind, TokenFile, new_token};
use api::types::{Role, Via};
use axum::body::Body;
use broker::policy::{Rule, Rules, Setting};
use http_api::{Peer, sha256};
use hyper::Request;
use origin::{Gate, Names, Reach};
use serde_json::{Value, json};
use tempfile::TempDir;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::routes::{documented, filled};
use crate::world::{Reply, World, request};

/// A world with a token for each role, and a certificate.
struct Guarded {
    world: World,
    path: PathBuf,
    /// The tokens of a viewer, an operator and an admin.
    tokens: [String; 3],
    file: TokenFile,
    _folder: TempDir,
}

const ROLES: [Role; 3] = [Role::Viewer, Role::Operator, Role::Admin];

impl Guarded {
    fn new(anonymous: Role) -> Guarded {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens.toml");
        let mut file = TokenFile::default();
        let entry = |kind, name: &str, role, fingerprint| Entry {
            kind,
            name: name.to_owned(),
            role,
            fingerprint,
            created: None,
        };
        let tokens = ROLES.map(|role| {
            let (token, fingerprint) = new_token().unwrap();
            file.entries.push(entry(EntryKind::Token, role.name(), role, fingerprint));
            token
        });
        let fingerprint = sha256(b"certificate");
        file.entries.push(entry(EntryKind::Certificate, "deploy", Role::Operator, fingerprint));
        std::fs::write(&path, file.written()).unwrap();
        let world = World::with_access(AccessSettings { tokens: Some(path.clone()), anonymous });
        Guarded { world, path, tokens, file, _folder: folder }
    }

    /// Sends a request from another machine.
    fn ask(&self, method: &str, path: &str, headers: &[(&'static str, &str)], peer: Peer) -> Reply {
        self.send(request(method, path, headers, b""), peer)
    }

    fn send(&self, mut request: Request<Body>, peer: Peer) -> Reply {
        let gate = Gate { names: Arc::new(Names::default()), reach: Reach::Network };
        request.extensions_mut().insert(gate);
        request.extensions_mut().insert(peer);
        self.world.send(request)
    }

    fn ask_as(&self, token: &str, method: &str, path: &str) -> Reply {
        let bearer = format!("Bearer {token}");
        self.ask(method, path, &[("authorization", &bearer)], Peer::default())
    }
}

#[test]
fn a_token_gives_its_role_from_any_machine() {
    let guarded = Guarded::new(Role::Viewer);
    for (token, role) in guarded.tokens.iter().zip(ROLES) {
        let me = guarded.ask_as(token, "GET", "/me").body;
        assert_eq!((&me["name"], &me["role"]), (&role.name().into(), &role.name().into()));
        assert_eq!(me["via"], "token");
        assert_eq!(guarded.ask_as(token, "GET", "/server").status, 200);
        let wanted = if role == Role::Viewer { 403 } else { 200 };
        let audit = guarded.ask_as(token, "GET", "/audit");
        assert_eq!(audit.status, wanted, "{audit:?}");
        if role == Role::Viewer {
            assert_eq!(audit.body["needs"], "operator");
        }
    }
    for wrong in ["lsh_wrong", "", "a b"] {
        assert_eq!(guarded.ask_as(wrong, "GET", "/server").status, 401, "{wrong}");
        assert_eq!(guarded.ask_as(wrong, "GET", "/me").status, 401, "never anonymous");
    }
    let basic = [("authorization", "Basic YTpi")];
    assert_eq!(guarded.ask("GET", "/server", &basic, Peer::default()).status, 401);
}

#[test]
fn a_client_certificate_counts_only_if_it_is_listed() {
    let guarded = Guarded::new(Role::None);
    let with = |certificate: &[u8]| Peer::default().over_tls(Some(certificate));
    let me = guarded.ask("GET", "/me", &[], with(b"certificate")).body;
    assert_eq!((&me["name"], &me["via"]), (&"deploy".into(), &"certificate".into()));
    assert_eq!(guarded.ask("GET", "/server", &[], with(b"other")).status, 401);
    assert_eq!(guarded.ask("GET", "/server", &[], Peer::default().over_tls(None)).status, 401);
}

#[test]
fn the_operators_socket_needs_no_token() {
    let guarded = Guarded::new(Role::None);
    let peer = Peer { is_operator: true, ..Peer::default() };
    let me = guarded.ask("GET", "/me", &[], peer).body;
    assert_eq!((&me["role"], &me["via"]), (&"admin".into(), &"socket".into()));
}

#[test]
fn removed_tokens_stop_working_and_a_broken_file_changes_nothing() {
    let mut guarded = Guarded::new(Role::Viewer);
    let operator = guarded.tokens[1].clone();
    let status = |guarded: &Guarded| {
        guarded.world.api.read_tokens();
        guarded.ask_as(&operator, "GET", "/server").status
    };
    assert_eq!(status(&guarded), 200);
    std::fs::write(&guarded.path, "[[token]]\nname = \"x\"\n").unwrap();
    assert_eq!(status(&guarded), 200, "a mistake does not lock everybody out");
    guarded.file.entries.retain(|entry| entry.name != "operator");
    std::fs::write(&guarded.path, guarded.file.written()).unwrap();
    assert_eq!(status(&guarded), 401);
    assert_eq!(guarded.ask_as(&guarded.tokens[2], "GET", "/server").status, 200);
    std::fs::remove_file(&guarded.path).unwrap();
    guarded.world.api.read_tokens();
    assert_eq!(guarded.ask_as(&guarded.tokens[2], "GET", "/server").status, 401);
}

/// Counts the warnings of a thread.
struct Warnings(Arc<AtomicUsize>);

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN
    }

    fn new_span(&self, _span: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, _event: &Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}
}

#[test]
fn a_token_file_that_others_can_write_causes_one_warning_when_it_can_be_read() {
    let guarded = Guarded::new(Role::Viewer);
    let count = Arc::new(AtomicUsize::new(0));
    let look = |text: &str| {
        std::fs::write(&guarded.path, text).unwrap();
        std::fs::set_permissions(&guarded.path, Permissions::from_mode(0o664)).unwrap();
        for _ in 0..3 {
            guarded.world.api.read_tokens();
        }
        count.swap(0, Ordering::Relaxed)
    };
    tracing::subscriber::with_default(Warnings(count.clone()), || {
        assert_eq!(look("[[token]]\nname = \"x\"\n"), 0, "it has no role");
        assert_eq!(look(&guarded.file.written()), 1);
    });
}

#[test]
fn the_configuration_says_what_clients_of_this_machine_can_do() {
    for (role, server, audit) in
        [(Role::None, 401, 401), (Role::Viewer, 200, 401), (Role::Operator, 200, 200)]
    {
        let guarded = Guarded::new(role);
        assert_eq!(guarded.world.ask("GET", "/server").status, server);
        assert_eq!(guarded.world.ask("GET", "/audit").status, audit);
        assert_eq!(guarded.world.ask("GET", "/me").body["role"], role.name());
        // The setting does not apply to other machines.
        assert_eq!(guarded.ask("GET", "/server", &[], Peer::default()).status, 401);
    }
}

/// All methods of all paths that change something.
fn changes() -> Vec<(String, String)> {
    let each = documented().into_iter().flat_map(|(path, methods)| {
        let changing = methods.into_iter().filter(|method| method != "GET");
        changing.map(move |method| (method, filled(&path))).collect::<Vec<_>>()
    });
    each.collect()
}

#[test]
fn every_change_needs_a_role_and_no_page_of_another_site() {
    let guarded = Guarded::new(Role::Viewer);
    for (method, path) in changes() {
        let refused = guarded.world.ask(&method, &path);
        assert_eq!(refused.status, 401, "{method} {path}: {refused:?}");
        let refused = guarded.ask(&method, &path, &[], Peer::default());
        assert_eq!(refused.status, 401, "{method} {path}");
        let viewer = guarded.ask_as(&guarded.tokens[0], &method, &path);
        // Viewers sign in to the console, too.
        let wanted = if path == "/login_codes" { 201 } else { 403 };
        assert_eq!(viewer.status, wanted, "{method} {path}");
        let bearer = format!("Bearer {}", guarded.tokens[2]);
        for (name, value) in [
            ("origin", "http://evil.example"),
            ("origin", "null"),
            ("sec-fetch-site", "cross-site"),
        ] {
            let headers =
                [("authorization", bearer.as_str()), ("host", "127.0.0.1"), (name, value)];
            let refused = guarded.ask(&method, &path, &headers, Peer::default());
            assert_eq!(refused.status, 403, "{method} {path} {name}");
        }
        // A browser sends the certificate by itself, so the page must know a secret.
        let peer = Peer::default().over_tls(Some(b"certificate"));
        let browser = [("user-agent", "Mozilla/5.0"), ("host", "127.0.0.1")];
        let refused = guarded.ask(&method, &path, &browser, peer);
        assert_eq!(refused.status, 403, "{method} {path}");
        // A GET changes nothing: the path either has a GET of its own, or none.
        let looked = guarded.ask_as(&guarded.tokens[2], "GET", &path);
        let has_get = documented()
            .iter()
            .any(|(known, methods)| filled(known) == path && methods.contains("GET"));
        assert_eq!(looked.status == 405, !has_get, "{path}");
    }
}

#[test]
fn refused_changes_are_recorded_but_cannot_fill_the_record() {
    let guarded = Guarded::new(Role::Viewer);
    let reason = [("x-reason", "a\tb"), ("host", "127.0.0.1")];
    let peer = Peer { address: Some([192, 0, 2, 7].into()), ..Peer::default() };
    assert_eq!(guarded.ask("POST", "/server?x=1", &reason, peer).status, 401);
    let audit = guarded.ask_as(&guarded.tokens[1], "GET", "/audit").body;
    let line = &audit["items"][0];
    for (key, wanted) in [
        ("who", "anonymous"),
        ("role", "none"),
        ("via", "anonymous"),
        ("address", "192.0.2.7"),
        ("action", "POST /api/v1/server?x=1"),
        ("problem", "unauthenticated"),
        ("at", "2023-11-14T22:13:20.000Z"),
    ] {
        assert_eq!(line[key], wanted, "{key}: {line}");
    }
    assert_eq!(line["reason"], Value::Null, "a client without a role gives none: {line}");
    for _ in 0..100 {
        guarded.ask("POST", "/server", &reason, Peer::default());
    }
    let audit = guarded.ask_as(&guarded.tokens[1], "GET", "/audit?limit=500").body;
    assert_eq!(audit["items"].as_array().unwrap().len(), 20);
    guarded.world.pass(59_999);
    guarded.ask("DELETE", "/server", &[], Peer::default());
    let page = |path: &str| guarded.ask_as(&guarded.tokens[1], "GET", path).body;
    assert_eq!(page("/audit?limit=500")["items"].as_array().unwrap().len(), 20);
    // A viewer's refusals have lines of their own.
    guarded.world.send(request("DELETE", "/server", &reason, b""));
    guarded.world.pass(1);
    guarded.ask("DELETE", "/server", &[], Peer::default());
    let first = page("/audit?limit=21");
    assert_eq!(first["items"][0]["action"], "DELETE /api/v1/server");
    let detail = "not recorded before this: 82 refused requests";
    assert_eq!(first["items"][0]["detail"], detail);
    assert_eq!(
        (&first["items"][1]["role"], &first["items"][1]["reason"]),
        (&"viewer".into(), &"a b".into())
    );
    let cursor = first["next"].as_str().unwrap();
    let second = page(&format!("/audit?cursor={cursor}"));
    assert_eq!(second["items"].as_array().unwrap().len(), 1);
    assert_eq!((&second["items"][0]["number"], &second["next"]), (&1.into(), &().into()));
}

#[test]
fn the_session_of_a_browser_needs_its_secret_to_change_something() {
    let guarded = Guarded::new(Role::Viewer);
    guarded.world.put(b"mail", broker::NewJob::default(), b"x");
    let of = |method: &str, headers: &[(&str, &str)]| {
        let mut all = vec![("host", "127.0.0.1:7300"), ("user-agent", "Mozilla/5.0")];
        all.extend([("origin", "http://127.0.0.1:7300"), ("sec-fetch-site", "same-origin")]);
        all.extend(headers);
        request(method, "/queues/mail/pause", &all, b"{\"seconds\":5}")
    };
    let (api, first) = (&guarded.world.api, of("POST", &[]));
    let anonymous = api.identify(&first).unwrap();
    let cookie = api.sign_in(&anonymous, first.headers(), &guarded.tokens[1]).unwrap();
    let cookie = cookie.cookie().to_str().unwrap().split(';').next().unwrap().to_owned();
    let session = api.identify(&of("POST", &[("cookie", &cookie)])).unwrap();
    assert_eq!((&*session.name, session.via), ("operator", Via::Session));
    let send = |csrf: &str| {
        let headers = [("cookie", cookie.as_str()), ("x-csrf-token", csrf)];
        guarded.world.send(of("POST", &headers)).status
    };
    assert_eq!(guarded.world.send(of("POST", &[("cookie", &cookie)])).status, 403);
    assert_eq!(send("wrong"), 403);
    assert_eq!(send(anonymous.csrf()), 403, "the secret of another client");
    assert_eq!(send(session.csrf()), 200);
    let foreign = format!("{cookie}x");
    let forged = guarded.world.send(of("POST", &[("cookie", &foreign)]));
    assert_eq!(forged.status, 401, "a forged cookie is no session");
}

#[test]
fn a_one_time_code_signs_in_its_maker_once() {
    let guarded = Guarded::new(Role::Admin);
    let socket = Peer { is_operator: true, ..Peer::default() };
    let local = [("host", "127.0.0.1:7300")];
    let anonymous = guarded.ask("POST", "/login_codes", &local, Peer::default());
    assert_eq!(anonymous.status, 401, "nobody has a name for the session: {anonymous:?}");
    let api = &guarded.world.api;
    let browser = request("GET", "/me", &local, b"");
    let person = api.identify(&browser).unwrap();
    let sign_in = |code: &str| {
        let cookie = api.sign_in_by_code(&person, browser.headers(), code);
        let cookie = cookie.map_err(|problem| problem.status)?;
        let cookie = cookie.cookie().to_str().unwrap().split(';').next().unwrap().to_owned();
        let session = request("GET", "/me", &[local[0], ("cookie", &cookie)], b"");
        let signed_in = api.identify(&session).unwrap();
        Ok::<_, u16>((signed_in.name.to_string(), signed_in.role, signed_in.via))
    };
    let made = guarded.ask("POST", "/login_codes", &local, socket).body;
    let code = made["code"].as_str().unwrap();
    assert_eq!(made["path"], format!("/console/login?code={code}"));
    assert_eq!(api.holder_of_code(code).unwrap(), ("operator".into(), Role::Admin));
    assert_eq!(sign_in(code).unwrap(), ("operator".to_owned(), Role::Admin, Via::Session));
    assert_eq!(sign_in(code).unwrap_err(), 401, "a code works once");

    let made = guarded.ask_as(&guarded.tokens[0], "POST", "/login_codes").body;
    let code = made["code"].as_str().unwrap().to_owned();
    guarded.world.pass(59_999);
    assert_eq!(sign_in(&code).unwrap(), ("viewer".to_owned(), Role::Viewer, Via::Session));
    let made = guarded.ask_as(&guarded.tokens[0], "POST", "/login_codes").body;
    guarded.world.pass(60_000);
    assert_eq!(sign_in(made["code"].as_str().unwrap()).unwrap_err(), 401);
}

#[test]
fn a_credential_signs_in_and_makes_codes_only_so_often() {
    let guarded = Guarded::new(Role::None);
    let [viewer, operator, _] = &guarded.tokens;
    let make = |token: &str| guarded.ask_as(token, "POST", "/login_codes");
    for number in 0..20 {
        assert_eq!(make(viewer).status, 201, "{number}");
    }
    let refused = make(viewer);
    assert_eq!(refused.status, 429);
    assert_eq!(refused.body["type"], "/console/help#too-many-sign-ins");
    let browser = request("GET", "/me", &[("host", "127.0.0.1:7300")], b"");
    let api = &guarded.world.api;
    let person = api.identify(&browser).unwrap();
    let sign_in = |token: &str| {
        let signed_in = api.sign_in(&person, browser.headers(), token);
        signed_in.err().map(|problem| problem.status)
    };
    assert_eq!(sign_in(viewer), Some(429));
    assert_eq!(sign_in(operator), None, "nobody keeps others from signing in");
    for _ in 0..100 {
        make(viewer);
    }
    let audit = guarded.ask_as(operator, "GET", "/audit?limit=500").body;
    let lines = audit["items"].as_array().unwrap();
    let count = |status: u16| lines.iter().filter(|line| line["status"] == status).count();
    assert_eq!([count(201), count(429)], [20, 20]);
    guarded.world.pass(3_000);
    assert_eq!([make(viewer).status, make(viewer).status], [201, 429]);
    guarded.world.pass(60_000);
    assert_eq!(sign_in(viewer), None);
}

#[test]
fn an_admin_ends_the_session_of_somebody_else() {
    let guarded = Guarded::new(Role::Viewer);
    let [viewer, operator, admin] = &guarded.tokens;
    let host = ("host", "127.0.0.1:7300");
    let api = &guarded.world.api;
    let sign_in = |token: &str, address: &str| {
        let mut browser = request("GET", "/me", &[host], b"");
        let address = Some(address.parse().unwrap());
        browser.extensions_mut().insert(Peer { address, ..Peer::default() });
        let person = api.identify(&browser).unwrap();
        let cookie = api.sign_in(&person, browser.headers(), token).unwrap();
        cookie.cookie().to_str().unwrap().split(';').next().unwrap().to_owned()
    };
    let of_operator = sign_in(operator, "192.0.2.7");
    let of_admin = sign_in(admin, "2001:db8::1");
    let me =
        |cookie: &str| guarded.world.send(request("GET", "/me", &[host, ("cookie", cookie)], b""));
    assert_eq!(me(&of_operator).body["via"], "session");

    let listed = guarded.ask_as(admin, "GET", "/sessions").body;
    let items = listed["items"].as_array().unwrap();
    let of = |item: &serde_json::Value| {
        ["id", "name", "role", "address", "own"].map(|name| item[name].clone())
    };
    let newest = serde_json::json!([2, "admin", "admin", "2001:db8::1", false]);
    assert_eq!(serde_json::json!(of(&items[0])), newest);
    assert_eq!(items[1]["address"], "192.0.2.7");
    assert!(items[1]["began_at"].as_str() < items[1]["ends_at"].as_str(), "{listed}");
    let secret = of_operator.split_once('=').unwrap().1;
    assert!(!listed.to_string().contains(secret), "the list has no secret");
    let own = request("GET", "/sessions", &[host, ("cookie", &of_admin)], b"");
    let own = guarded.world.send(own).body;
    let is_own = [&own["items"][0]["own"], &own["items"][1]["own"]];
    assert_eq!(serde_json::json!(is_own), serde_json::json!([true, false]));

    for token in [viewer, operator] {
        assert_eq!(guarded.ask_as(token, "GET", "/sessions").status, 403);
        assert_eq!(guarded.ask_as(token, "DELETE", "/sessions/1").status, 403);
    }
    assert_eq!(me(&of_operator).body["via"], "session", "a refused request ends nothing");
    assert_eq!(guarded.ask_as(admin, "DELETE", "/sessions/1").status, 204);
    assert_eq!(me(&of_operator).body["via"], "anonymous");
    assert_eq!(me(&of_admin).body["via"], "session", "others stay signed in");
    for number in ["1", "3", "x", "-1"] {
        assert_eq!(guarded.ask_as(admin, "DELETE", &format!("/sessions/{number}")).status, 404);
    }
    let audit = guarded.ask_as(admin, "GET", "/audit").body;
    let lines = audit["items"].as_array().unwrap();
    let line = lines.iter().find(|line| line["status"] == 204).unwrap();
    assert_eq!(line["action"], "DELETE /api/v1/sessions/1");
    assert_eq!(
        (&line["who"], &line["detail"]),
        (&"admin".into(), &"ended a session of operator".into())
    );
    // The session of a removed token is not shown.
    let mut file = guarded.file.clone();
    file.entries.retain(|entry| entry.name != "admin");
    std::fs::write(&guarded.path, file.written()).unwrap();
    api.read_tokens();
    let socket = Peer { is_operator: true, ..Peer::default() };
    let left = guarded.ask("GET", "/sessions", &[host], socket).body;
    assert_eq!(left["items"], serde_json::json!([]));
}

#[test]
fn a_limit_for_each_client_counts_for_each_name() {
    let guarded = Guarded::new(Role::None);
    let settings = [
        Setting::Concurrency(NonZeroU32::new(1)),
        Setting::ConcurrencyKey(Some("client".parse().unwrap())),
    ];
    let rules = Rules(vec![Rule::new(["mail"], settings)]);
    let _ = guarded.world.broker.turn(guarded.world.now()).set_policies(rules);
    let [_, operator, admin] = &guarded.tokens;
    for token in [operator, operator, admin] {
        let put = guarded.ask_as(token, "POST", "/queues/mail/jobs");
        assert_eq!(put.status, 201, "{}", put.body);
    }
    let bearer = format!("Bearer {admin}");
    let headers = [("authorization", &*bearer), ("content-type", "application/json")];
    let take = || {
        let asked = request("POST", "/take", &headers, br#"{"queues":["mail"]}"#);
        guarded.send(asked, Peer::default()).body["job"]["id"].as_u64().unwrap()
    };
    let (first, second) = (take(), take());
    assert_eq!(second, first + 2, "the second job of the operator waits for its first one");
    let queue = guarded.ask_as(admin, "GET", "/queues/mail").body;
    assert_eq!((&queue["ready"], &queue["leased"]), (&json!(1), &json!(2)));
}
