//! Tests who can use the HTTP API and the console of a whole server.

use std::os::unix::net::UnixStream;
use std::path::Path;

use serde_json::Value;

use crate::Site;
use crate::request::{Answer, Peer};
use crate::running::{Running, command, finish, wait_for};

fn json(answer: &Answer) -> Value {
    serde_json::from_str(&answer.body).unwrap()
}

/// Runs `lineshaft token`, and returns its output.
fn token(folder: &Path, arguments: &[&str]) -> String {
    let output = finish(command(folder, &[&["token"], arguments].concat()));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{error}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn ask_with(address: &str, token: &str, path: &str) -> Answer {
    let mut peer = Peer::connect(address);
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\r\n");
    peer.send(request.as_bytes());
    peer.answer(true)
}

#[test]
fn tokens_open_a_listener_for_other_machines_and_stop_working_when_they_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["serve", "--beanstalk", "127.0.0.1:0", "--http", "0.0.0.0:0"];
    let mut server = Running::start(folder.path(), &arguments);
    let address = server.address_of("http").replace("0.0.0.0", "127.0.0.1");
    let refused = Peer::connect(&address).ask("GET", "/api/v1/server");
    assert_eq!(refused.status, 401, "{refused:?}");
    assert!(refused.headers["www-authenticate"].starts_with("Bearer"));
    assert_eq!(Peer::connect(&address).ask("GET", "/console").status, 401);
    assert_eq!(Peer::connect(&address).ask("GET", "/health/live").status, 200);
    assert_eq!(Peer::connect(&address).ask("GET", "/metrics").status, 200);

    let secret = token(folder.path(), &["add", "ann", "--role", "operator"]);
    let other = token(folder.path(), &["add", "bob", "--role", "viewer"]);
    assert!(token(folder.path(), &["list"]).contains("ann"));
    wait_for("the token", || {
        let me = ask_with(&address, &secret, "/api/v1/me");
        (me.status == 200).then(|| assert_eq!(json(&me)["role"], "operator"))
    });
    assert_eq!(ask_with(&address, &other, "/api/v1/server").status, 200);
    assert_eq!(ask_with(&address, &other, "/api/v1/audit").status, 403);

    token(folder.path(), &["remove", "ann"]);
    wait_for("the end of the token", || {
        (ask_with(&address, &secret, "/api/v1/me").status == 401).then_some(())
    });
    assert_eq!(ask_with(&address, &other, "/api/v1/me").status, 200, "bob's token stays");
    let kept = std::fs::read_to_string(folder.path().join("lineshaft-data/tokens.toml")).unwrap();
    assert!(!kept.contains(&other) && kept.contains("bob"), "{kept}");
}

#[test]
fn the_operators_socket_is_for_the_user_of_the_server() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let mut site = Site::start(folder.path(), &[]);
    let path = folder.path().join("lineshaft-data/api");
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let mut peer = Peer::over(UnixStream::connect(&path).unwrap());
    let me = json(&peer.ask("GET", "/api/v1/me"));
    assert_eq!((&me["role"], &me["via"]), (&"admin".into(), &"socket".into()));
    assert_eq!(json(&site.get("/api/v1/me"))["role"], "viewer");
    site.server.signal(rustix::process::Signal::TERM);
    assert!(site.server.wait().success());
    assert!(!path.exists(), "the socket's file is removed");
}

#[test]
fn a_change_is_refused_and_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let site = Site::start_with(folder.path(), &[], &[("LINESHAFT_HTTP_ANONYMOUS", "operator")]);
    let mut peer = Peer::connect(&site.http);
    let evil = format!(
        "DELETE /api/v1/nothing HTTP/1.1\r\nHost: {}\r\nOrigin: http://evil.example\r\n\
         X-Reason: because\r\n\r\n",
        site.http
    );
    peer.send(evil.as_bytes());
    assert_eq!(peer.answer(true).status, 403);
    let audit = json(&site.get("/api/v1/audit"));
    let line = &audit["items"][0];
    assert_eq!((&line["status"], &line["reason"]), (&403.into(), &"because".into()), "{line}");
    assert_eq!(line["address"], "127.0.0.1");
    let said = "audit: anonymous (operator, anonymous, 127.0.0.1): DELETE /api/v1/nothing: 403; \
                forbidden; reason: because";
    assert!(site.server.stderr().contains(said), "{}", site.server.stderr());
}

#[test]
fn mistakes_with_tokens_are_said() {
    let folder = tempfile::tempdir().unwrap();
    let fails = |arguments: &[&str]| {
        let output = finish(command(folder.path(), &[&["token"], arguments].concat()));
        assert!(!output.status.success(), "{arguments:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let file = ["--file", "t.toml"];
    assert!(fails(&["add", "ann", "--role", "viewer"]).contains("start the server once"));
    assert!(fails(&["add", "ann", "--role", "root"]).contains("viewer"));
    token(folder.path(), &[&["add", "ann", "--role", "viewer"], &file[..]].concat());
    let add = |name| [&["add", name, "--role", "viewer"], &file[..]].concat();
    assert!(fails(&add("ann")).contains("used already"));
    assert!(fails(&add("a b")).contains("not a name"));
    assert!(fails(&[&["remove", "bob"], &file[..]].concat()).contains("has no `bob`"));
    std::fs::write(folder.path().join("t.toml.new"), "").unwrap();
    assert!(fails(&add("bob")).contains("another tool"));
    let certificate = ["--fingerprint", &"ab".repeat(32)];
    std::fs::remove_file(folder.path().join("t.toml.new")).unwrap();
    token(folder.path(), &[&add("deploy")[..], &certificate].concat());
    assert!(token(folder.path(), &[&["list"], &file[..]].concat()).contains("certificate"));
}

#[test]
fn metrics_can_need_a_token() {
    let folder = tempfile::tempdir().unwrap();
    let mut starting =
        command(folder.path(), &["serve", "--beanstalk", "127.0.0.1:0", "--http", "0.0.0.0:0"]);
    starting.env("LINESHAFT_HTTP_METRICS", "viewer");
    let mut server = Running::spawn(starting);
    server.address();
    let address = server.address_of("http").replace("0.0.0.0", "127.0.0.1");
    let refused = Peer::connect(&address).ask("GET", "/metrics");
    assert_eq!(refused.status, 401, "{refused:?}");
    assert!(!refused.body.contains("lineshaft_"), "{refused:?}");
    assert_eq!(ask_with(&address, "wrong", "/metrics").status, 401);
    assert_eq!(Peer::connect(&address).ask("GET", "/health/live").status, 200);
    let secret = token(folder.path(), &["add", "prometheus", "--role", "viewer"]);
    wait_for("the token", || {
        let metrics = ask_with(&address, &secret, "/metrics");
        (metrics.status == 200).then(|| assert!(metrics.body.contains("lineshaft_puts_total")))
    });

    // Clients on this machine are viewers, unless the configuration says otherwise.
    let viewer = ("LINESHAFT_HTTP_METRICS", "viewer");
    let folder = tempfile::tempdir().unwrap();
    let site = Site::start_with(folder.path(), &[], &[viewer]);
    assert_eq!(site.get("/metrics").status, 200);
    let folder = tempfile::tempdir().unwrap();
    let nobody = ("LINESHAFT_HTTP_ANONYMOUS", "none");
    let site = Site::start_with(folder.path(), &[], &[viewer, nobody]);
    assert_eq!(site.get("/metrics").status, 401);
}

#[test]
fn the_console_and_the_metrics_can_be_off() {
    let folder = tempfile::tempdir().unwrap();
    let off = [("LINESHAFT_HTTP_METRICS", "off"), ("LINESHAFT_HTTP_CONSOLE", "false")];
    let site = Site::start_with(folder.path(), &[], &off);
    for path in ["/metrics", "/console", "/console/login", "/console/queues"] {
        assert_eq!(site.get(path).status, 404, "{path}");
        let mut socket =
            Peer::over(UnixStream::connect(folder.path().join("lineshaft-data/api")).unwrap());
        assert_eq!(socket.ask("GET", path).status, 404, "{path} for the operator");
    }
    let refused = operate(folder.path(), "POST", "/login_codes", "");
    assert_eq!(refused.status, 404, "{refused:?}");
    assert!(refused.body.contains("http.console"), "{refused:?}");
    assert_eq!(site.get("/health/ready").status, 200);
    assert_eq!(site.get("/api/v1/server").status, 200);
}

/// Sends a request with a body to the operator's socket.
fn operate(folder: &Path, method: &str, path: &str, body: &str) -> Answer {
    let mut peer = Peer::over(UnixStream::connect(folder.join("lineshaft-data/api")).unwrap());
    let length = body.len();
    let head = format!("{method} /api/v1{path} HTTP/1.1\r\nHost: localhost\r\n");
    peer.send(format!("{head}Content-Length: {length}\r\n\r\n{body}").as_bytes());
    peer.answer(true)
}

#[test]
fn an_operator_changes_a_running_server_and_its_jobs_survive() {
    let folder = tempfile::tempdir().unwrap();
    let configuration = folder.path().join("lineshaft.toml");
    std::fs::write(&configuration, "[limits]\nqueues = 50\n").unwrap();
    let mut site = Site::start(folder.path(), &[]);
    let operate = |method: &str, path: &str, body: &str| operate(folder.path(), method, path, body);
    assert_eq!(operate("POST", "/queues/mail/jobs", "kept").status, 201);
    assert_eq!(operate("POST", "/queues/mail/jobs", "ended").status, 201);
    let taken = operate("POST", "/take", "{\"queues\":[\"mail\"]}");
    assert_eq!((taken.status, &json(&taken)["body"]), (200, &"kept".into()));
    assert_eq!(operate("POST", "/jobs/2/bury", "").status, 204);
    let clear = "{\"kind\":\"clear\",\"queue\":\"mail\",\"state\":\"buried\",\"confirm\":\"mail\"}";
    assert_eq!(operate("POST", "/operations", clear).status, 202);
    wait_for("the operation", || {
        (json(&operate("GET", "/operations/1", ""))["status"] == "done").then_some(())
    });

    std::fs::write(&configuration, "[limits]\nqueues = 60\n").unwrap();
    let reloaded = operate("POST", "/server/reload", "");
    assert_eq!(reloaded.body, "{\"changed\":[\"limits.queues\"]}");
    std::fs::write(&configuration, "[limits]\nqueues = -1\n").unwrap();
    let refused = operate("POST", "/server/reload", "");
    assert_eq!(refused.status, 409, "{refused:?}");
    std::fs::write(&configuration, "").unwrap();
    assert_eq!(operate("POST", "/server/drain", "").status, 204);
    assert_eq!(operate("POST", "/queues/mail/jobs", "late").status, 503);
    assert_eq!(operate("DELETE", "/server/drain", "").status, 204);

    // The worker's lease ends with the process. Its job is there again.
    site.server.signal(rustix::process::Signal::TERM);
    assert!(site.server.wait().success());
    let site = Site::start(folder.path(), &[]);
    let queue = json(&site.get("/api/v1/queues/mail"));
    assert_eq!((&queue["ready"], &queue["buried"]), (&1.into(), &0.into()), "{queue}");
}
