//! The operator's commands, which use the HTTP API.

use testkit::client::Client;
use testkit::process::{Program, Server};
use testkit::tls::certificates::Authority;
use testkit::wait::until as wait_until;

use crate::request::{Peer, get};
use crate::{LINESHAFT, Output, Tool};

/// A server with some jobs.
pub(crate) struct Site {
    pub(crate) server: Server,
    pub(crate) data: tempfile::TempDir,
}

impl Site {
    pub(crate) fn new() -> Site {
        let data = tempfile::tempdir().unwrap();
        let arguments = ["--data", data.path().to_str().unwrap()];
        let program = Program::serve_on(&["beanstalk", "http"], LINESHAFT, &arguments);
        let server = program.start().unwrap();
        let mut client = Client::on_tube(server.address(), "mail").unwrap();
        client.put(7, 0, 60, b"first").unwrap();
        client.put(8, 0, 60, "zweiter\n\u{4e2d}\u{6587}".as_bytes()).unwrap();
        client.put(9, 3600, 60, b"later").unwrap();
        Site { server, data }
    }

    fn http(&self) -> String {
        self.server.address_of("http").to_string()
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        let http = self.http();
        let all = [arguments, &["--http", &http]].concat();
        Tool::start("", &all).wait()
    }
}

/// Lines of JSON.
fn values(output: &Output) -> Vec<serde_json::Value> {
    output.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn status_shows_the_server_on_one_screen() {
    let site = Site::new();
    let shown = site.run(&["status"]);
    assert_eq!(shown.status.code(), Some(0), "{shown:?}");
    for part in ["health     ok", "2 ready, 0 leased, 1 delayed, 0 buried in", "listeners"] {
        assert!(shown.stdout.contains(part), "{part} in {shown:?}");
    }
    let json = values(&site.run(&["status", "--json"]));
    assert_eq!(json[0]["totals"]["ready"], 2);
}

#[test]
fn ping_measures_a_server_and_notices_its_absence() {
    let site = Site::new();
    let json = values(&site.run(&["ping", "--json"]));
    assert!(json[0]["round_trip_ms"].as_f64().unwrap() > 0.0, "{json:?}");
    let (http, beanstalk) = (site.http(), site.server.address().to_string());
    let other = Tool::start("", &["ping", "--http", &beanstalk]).wait();
    assert_eq!(other.status.code(), Some(1), "{other:?}");
    drop(site);
    let gone = Tool::start("", &["ping", "--http", &http]).wait();
    assert_eq!(gone.status.code(), Some(1));
    let begin = format!("lineshaft: cannot connect to {http}: ");
    assert!(gone.stderr.starts_with(&begin), "{gone:?}");
}

#[test]
fn jobs_lists_a_queue_in_its_order_and_takes_nothing() {
    let site = Site::new();
    for _ in 0..2 {
        let table = site.run(&["jobs", "mail"]);
        let lines: Vec<&str> = table.stdout.lines().collect();
        assert!(lines[0].ends_with("BODY"), "{table:?}");
        assert!(lines[1].ends_with("first") && lines[2].ends_with("zweiter 中文"), "{table:?}");
        assert_eq!(lines.last(), Some(&"2 of 2 ready jobs"));
    }
    let one = values(&site.run(&["jobs", "mail", "--limit", "1", "--json"]));
    assert_eq!((one.len(), &one[0]["body"]["text"]), (1, &"first".into()));
    let delayed = values(&site.run(&["jobs", "mail", "--state", "delayed", "--json"]));
    assert_eq!(delayed[0]["body"]["text"], "later");
    let absent = site.run(&["jobs", "a/b \u{4e2d}"]);
    assert_eq!(absent.status.code(), Some(1), "{absent:?}");
    assert!(absent.stderr.contains("a/b \u{4e2d}"), "{absent:?}");
    // With no job to list, the tool would never ask the server.
    let none = site.run(&["jobs", "mail", "--limit", "0"]);
    assert_eq!((none.status.code(), none.stdout.as_str()), (Some(2), ""), "{none:?}");
    assert!(none.stderr.contains("--limit"), "{none:?}");
}

#[test]
fn jobs_reads_more_than_a_page() {
    let site = Site::new();
    let bodies: Vec<String> = (0..250).map(|n| format!("body {n}")).collect();
    let mut client = Client::on_tube(site.server.address(), "many").unwrap();
    for body in &bodies {
        client.put(0, 0, 60, body.as_bytes()).unwrap();
    }
    let found = values(&site.run(&["jobs", "many", "--limit", "240", "--json"]));
    let found: Vec<&str> = found.iter().map(|job| job["body"]["text"].as_str().unwrap()).collect();
    assert_eq!(found, bodies[..240]);
}

#[test]
fn why_names_what_is_in_the_way() {
    let site = Site::new();
    let why = site.run(&["why", "mail"]);
    assert_eq!(why.status.code(), Some(0), "{why:?}");
    let json = values(&site.run(&["why", "mail", "--json"]));
    assert_eq!(json[0]["answer"], "no_workers");
}

#[test]
fn the_servers_user_is_an_admin_at_the_socket_of_the_folder() {
    let site = Site::new();
    let config = site.data.path().join("other.toml");
    std::fs::write(&config, format!("data.dir = {:?}\n", site.data.path())).unwrap();
    let run = |arguments: &[&str]| {
        let all = [arguments, &["--config", config.to_str().unwrap()]].concat();
        Tool::start("", &all).wait()
    };
    let status = run(&["status"]);
    assert_eq!(status.status.code(), Some(0), "{status:?}");
    assert!(status.stdout.contains("at unix:"), "{status:?}");

    let refused = site.run(&["drain"]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(refused.stderr.contains("--token-file"), "{refused:?}");
    let mut client = Client::on_tube(site.server.address(), "mail").unwrap();
    assert_eq!(run(&["drain"]).status.code(), Some(0));
    assert_eq!(client.try_put(0, 0, 60, b"x").unwrap(), "DRAINING");
    assert!(run(&["status"]).stdout.contains("the server refuses new jobs"));
    assert_eq!(run(&["drain", "--end"]).status.code(), Some(0));
    client.put(0, 0, 60, b"x").unwrap();
    let reload = run(&["reload"]);
    assert_eq!(reload.stdout, "no setting has changed\n", "{reload:?}");
}

#[test]
fn a_named_configuration_overrides_the_address_in_the_environment() {
    let site = Site::new();
    let config = site.data.path().join("other.toml");
    std::fs::write(&config, format!("data.dir = {:?}\n", site.data.path())).unwrap();
    let ping = |arguments: &[&str]| {
        let mut command = std::process::Command::new(LINESHAFT);
        command.arg("ping").args(arguments).env("LINESHAFT_HTTP", "127.0.0.1:1").output().unwrap()
    };
    assert_eq!(ping(&[]).status.code(), Some(1), "nothing listens there");
    let config = ["--config", config.to_str().unwrap()];
    let answered = ping(&config);
    assert_eq!(answered.status.code(), Some(0), "{answered:?}");
    let http = site.http();
    let refused = ping(&[&config[..], &["--http", &http]].concat());
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
}

#[test]
fn operators_connect_through_tls() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new(folder.path(), "authority").unwrap();
    let identity = authority.issue("server").unwrap();
    let program = Program::serve_on(&["http"], LINESHAFT, &["--memory"]).with_tls(&identity);
    let server = program.start().unwrap();
    let http = format!("tls:{}", server.address());
    let ca = authority.file.to_str().unwrap();
    let ping = Tool::start("", &["ping", "--http", &http, "--tls-ca", ca]).wait();
    assert_eq!(ping.status.code(), Some(0), "{ping:?}");
    let unknown = Tool::start("", &["ping", "--http", &http]).wait();
    assert_eq!(unknown.status.code(), Some(1), "{unknown:?}");
}

#[test]
fn doctor_looks_at_the_machine_and_the_server() {
    let site = Site::new();
    let findings = values(&site.run(&["doctor", "--json"]));
    for topic in ["config", "files", "server", "health"] {
        assert!(findings.iter().any(|finding| finding["topic"] == topic), "{topic}: {findings:?}");
    }
    let alone = Tool::start("", &["doctor", "--http", "127.0.0.1:1"]).wait();
    assert!(alone.stdout.contains("LOOK  server   cannot connect to 127.0.0.1:1"), "{alone:?}");
    // A mistake in the configuration is wrong.
    let config = site.data.path().join("wrong.toml");
    std::fs::write(&config, "io_threads = \"many\"\n").unwrap();
    let wrong = Tool::start("", &["doctor", "--config", config.to_str().unwrap()]).wait();
    assert_eq!(wrong.status.code(), Some(1), "{wrong:?}");
}

#[test]
fn a_mistake_in_the_configuration_does_not_lead_to_another_server() {
    let site = Site::new();
    let config = site.data.path().join("mistakes.toml");
    let data = site.data.path().to_str().unwrap();
    let ping = || Tool::start("", &["ping", "--config", config.to_str().unwrap()]).wait();
    let missing = ping();
    assert_eq!(missing.status.code(), Some(78), "{missing:?}");
    assert!(missing.stderr.contains("mistakes.toml: cannot read"), "{missing:?}");

    // The folder is right, so the server answers.
    std::fs::write(&config, format!("io_threads = 0\n[data]\ndir = \"{data}\"\n")).unwrap();
    let answered = ping();
    assert_eq!(answered.status.code(), Some(0), "{answered:?}");

    for (text, mistake) in [
        (format!("io_threads = 0\n[data]\ndir = \"{data}/elsewhere\"\n"), "1:14: io_threads"),
        (format!("[data]\ndir = \"{data}\"\n[data\n"), "mistakes.toml:3:"),
    ] {
        std::fs::write(&config, text).unwrap();
        let refused = ping();
        assert_eq!(refused.status.code(), Some(78), "{refused:?}");
        assert!(refused.stderr.contains(mistake), "{refused:?}");
    }

    // The server in the default folder is another one than the file means.
    std::fs::write(&config, format!("[data]\ndri = \"{data}\"\n")).unwrap();
    let place = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(data, place.path().join("lineshaft-data")).unwrap();
    let ping = |arguments: &[&str]| {
        let mut command = std::process::Command::new(LINESHAFT);
        command.arg("ping").args(arguments).current_dir(place.path()).output().unwrap()
    };
    assert_eq!(ping(&[]).status.code(), Some(0), "it is there");
    let refused = ping(&["--config", config.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(78), "{refused:?}");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("data.dri"), "{refused:?}");
}

#[test]
fn shells_and_man_get_their_files() {
    for shell in ["bash", "zsh", "fish"] {
        let script = Tool::start("", &["completions", shell]).wait();
        assert_eq!(script.status.code(), Some(0));
        assert!(script.stdout.contains("doctor"), "{shell}");
    }
    let folder = tempfile::tempdir().unwrap();
    let man = Tool::start("", &["man", folder.path().to_str().unwrap()]).wait();
    assert_eq!(man.status.code(), Some(0), "{man:?}");
    for page in ["lineshaft.1", "lineshaft-serve.1", "lineshaft-doctor.1"] {
        let text = std::fs::read_to_string(folder.path().join(page)).unwrap();
        assert!(text.contains(".TH"), "{page}");
    }
}

#[test]
fn connections_are_listed_and_closed() {
    let site = Site::new();
    let mut client = Client::on_tube(site.server.address(), "mail").unwrap();
    client.reserve(0).unwrap().unwrap();
    let rows = values(&site.run(&["connections", "--json"]));
    let [row] = rows.as_slice() else { panic!("{rows:?}") };
    assert_eq!((&row["protocol"], &row["holds"]), (&"beanstalk".into(), &1.into()));
    let table = site.run(&["connections"]).stdout;
    assert!(table.contains("beanstalk") && table.ends_with("\n1 of 1 connection\n"), "{table}");
    assert_eq!(values(&site.run(&["connections", "--only", "gearman", "--json"])).len(), 0);
    let socket = format!("unix:{}", site.data.path().join("api").display());
    let close = ["connections", "--http", &socket, "--close", row["id"].as_str().unwrap()];
    let closed = Tool::start("", &close).wait();
    assert_eq!(closed.status.code(), Some(0), "{closed:?}");
    wait_until("the job to come back", || {
        values(&site.run(&["status", "--json"]))[0]["totals"]["leased"] == 0
    });
    let again = Tool::start("", &close).wait();
    assert_eq!(again.status.code(), Some(1), "{again:?}");
}

#[test]
fn names_of_queues_complete_on_tab() {
    let site = Site::new();
    Client::on_tube(site.server.address(), "main.$x").unwrap().put(0, 0, 60, b"x").unwrap();
    let http = site.http();
    let complete = |prefix: &str| {
        let mut tool = std::process::Command::new(LINESHAFT);
        tool.args(["__complete", "queues", prefix]).env("LINESHAFT_HTTP", &http);
        String::from_utf8(tool.output().unwrap().stdout).unwrap()
    };
    // The server reads the names of all queues at most once a second.
    wait_until("the names", || complete("ma") == "mail\nmain.$x\n");
    assert_eq!(complete("x"), "");
    let dead = std::process::Command::new(LINESHAFT)
        .args(["__complete", "queues", "ma"])
        .env("LINESHAFT_HTTP", "127.0.0.1:1")
        .output()
        .unwrap();
    assert_eq!((dead.status.code(), dead.stdout.len(), dead.stderr.len()), (Some(0), 0, 0));

    // In bash, as Tab calls it.
    let script = format!(
        "source <({LINESHAFT} completions bash); \
         COMP_WORDS=({LINESHAFT} peek ma); COMP_CWORD=2; COMP_TYPE=9; \
         _lineshaft_with_queues lineshaft ma peek; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    );
    let bash = std::process::Command::new("bash")
        .args(["--norc", "-c", &script])
        .env("LINESHAFT_HTTP", &http)
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&bash.stdout);
    assert!(shown.contains("mail\nmain.\\$x\n"), "{bash:?}");
}

#[test]
fn jobs_are_found_by_their_text_moved_and_ended() {
    let site = Site::new();
    let config = site.data.path().join("other.toml");
    std::fs::write(&config, format!("data.dir = {:?}\n", site.data.path())).unwrap();
    let run = |arguments: &[&str]| {
        let all = [arguments, &["--config", config.to_str().unwrap()]].concat();
        Tool::start("", &all).wait()
    };
    let found = run(&["jobs", "mail", "--search", "\u{4e2d}\u{6587}"]);
    assert!(found.stdout.ends_with("\n1 job found in 3 jobs\n"), "{found:?}");
    let found = values(&run(&["jobs", "mail", "--search", "t", "--json"]));
    let found: Vec<&str> = found.iter().map(|job| job["body"]["text"].as_str().unwrap()).collect();
    assert_eq!(found, ["first", "zweiter\n\u{4e2d}\u{6587}", "later"]);
    assert_eq!(run(&["jobs", "mail", "--search", "none"]).status.code(), Some(1));

    // The server makes buried jobs ready, some of them or all.
    let mut client = Client::on_tube(site.server.address(), "failed").unwrap();
    for _ in 0..3 {
        let id = client.put(0, 0, 60, b"x").unwrap();
        client.reserve(0).unwrap().unwrap();
        client.expect(&format!("bury {id} 0"), "BURIED").unwrap();
    }
    let some = run(&["redrive", "failed", "--count", "1", "--rate", "1000"]);
    assert_eq!(some.stdout, "1 job of failed made ready\n", "{some:?}");
    let rest = values(&run(&["redrive", "failed", "--json"]));
    assert_eq!((&rest[0]["kind"], &rest[0]["done"]), (&"redrive".into(), &2.into()), "{rest:?}");
    assert_eq!(client.stats("stats-tube failed").unwrap()["current-jobs-ready"], "3");
    assert_eq!(run(&["redrive", "failed"]).status.code(), Some(1), "no job is buried");

    let moved = run(&["move", "mail", "a/b", "--count", "1"]);
    assert_eq!(moved.stdout, "1 job moved from mail to a/b\n", "{moved:?}");
    let moved = values(&run(&["move", "mail", "a/b", "--json"]));
    assert_eq!((&moved[0]["kind"], &moved[0]["done"]), (&"move".into(), &2.into()), "{moved:?}");
    let same = run(&["move", "a/b", "a/b"]);
    assert_eq!(same.status.code(), Some(1), "{same:?}");
    let counted = run(&["clear", "a/b", "--state", "ready"]);
    assert!(counted.stderr.contains("this would end 2 ready jobs of a/b"), "{counted:?}");
    assert_eq!(counted.status.code(), Some(1));
    let cleared = run(&["clear", "a/b", "--state", "ready", "--yes"]);
    assert_eq!(
        (cleared.stdout.as_str(), cleared.status.code()),
        ("2 jobs of a/b ended\n", Some(0))
    );
    assert_eq!(run(&["clear", "a/b", "--state", "ready", "--yes"]).status.code(), Some(1));
    let left = values(&run(&["jobs", "a/b", "--state", "delayed", "--json"]));
    assert_eq!(left[0]["body"]["text"], "later");
}

#[test]
fn console_makes_an_address_that_signs_in_once() {
    let site = Site::new();
    let socket = format!("unix:{}", site.data.path().join("api").display());
    let made = Tool::start("", &["console", "--print", "--http", &socket]).wait();
    assert_eq!(made.status.code(), Some(0), "{made:?}");
    let begin = format!("http://{}", site.http());
    let path = made.stdout.trim_end().strip_prefix(&begin).unwrap();
    assert!(path.starts_with("/console/login?code="), "{made:?}");
    let page = get(&site.http(), path);
    assert!(page.status == 200 && page.body.contains("with the role admin"), "{page:?}");
    let json = values(&Tool::start("", &["console", "--json", "--http", &socket]).wait());
    assert!(json[0]["url"].as_str().unwrap().starts_with(&begin), "{json:?}");
    assert_eq!(json[0]["expires_s"], 60);
    // Over the network, the tool needs a token.
    let refused = site.run(&["console"]);
    assert_eq!((refused.status.code(), refused.stdout.as_str()), (Some(1), ""), "{refused:?}");
    assert!(refused.stderr.contains("--token-file"), "{refused:?}");
}

#[test]
fn an_admin_sees_who_is_signed_in_and_ends_a_session() {
    let site = Site::new();
    let (http, socket) = (site.http(), format!("unix:{}", site.data.path().join("api").display()));
    let run =
        |arguments: &[&str]| Tool::start("", &[arguments, &["--http", &socket]].concat()).wait();
    assert_eq!(run(&["sessions"]).stdout, "nobody is signed in\n");
    let made = values(&run(&["console", "--json"]));
    let code = made[0]["url"].as_str().unwrap().rsplit_once('=').unwrap().1.to_owned();
    let ask = |head: &str, body: &str| {
        let length = body.len();
        let mut peer = Peer::connect(&http);
        let head = format!("{head}Host: {http}\r\nContent-Length: {length}\r\n\r\n{body}");
        peer.send(head.as_bytes());
        peer.answer(true)
    };
    let page = get(&http, &format!("/console/login?code={code}")).body;
    let csrf = page.split("name=\"csrf\" value=\"").nth(1).unwrap().split('"').next().unwrap();
    let head = "POST /console/login HTTP/1.1\r\nSec-Fetch-Site: same-origin\r\n";
    let signed_in = ask(head, &format!("code={code}&csrf={csrf}"));
    let cookie = signed_in.headers["set-cookie"].split(';').next().unwrap().to_owned();
    let via = || {
        let me = ask(&format!("GET /api/v1/me HTTP/1.1\r\nCookie: {cookie}\r\n"), "");
        serde_json::from_str::<serde_json::Value>(&me.body).unwrap()["via"].clone()
    };
    assert_eq!(via(), "session", "{signed_in:?}");

    let shown = run(&["sessions"]);
    assert!(shown.stdout.contains("operator") && shown.stdout.contains("127.0.0.1"), "{shown:?}");
    let json = values(&run(&["sessions", "--json"]));
    assert_eq!((&json[0]["id"], &json[0]["role"]), (&1.into(), &"admin".into()));
    let refused = site.run(&["sessions", "--end", "1"]);
    assert_eq!(refused.status.code(), Some(1), "a viewer ends nothing: {refused:?}");
    assert_eq!(run(&["sessions", "--end", "1"]).stdout, "session 1 has ended\n");
    assert_eq!(via(), "anonymous");
    let again = run(&["sessions", "--end", "1", "--json"]);
    assert_eq!((again.status.code(), again.stdout.as_str()), (Some(1), ""), "{again:?}");
    assert!(again.stderr.contains("no session has the number 1"), "{again:?}");
}

#[test]
fn console_keeps_its_address_out_of_the_arguments_of_other_programs() {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;
    let site = Site::new();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::create_dir(path("bin")).unwrap();
    // A browser that runs until a line comes.
    let fifo = std::process::Command::new("mkfifo").arg(path("end")).status().unwrap();
    assert!(fifo.success());
    let script = "#!/bin/sh\necho \"$@\" >seen && mv seen arguments && exec timeout 30 cat end\n";
    std::fs::write(path("bin/xdg-open"), script).unwrap();
    std::fs::set_permissions(path("bin/xdg-open"), Permissions::from_mode(0o755)).unwrap();
    let programs = format!("{}:{}", path("bin").display(), std::env::var("PATH").unwrap());
    let tool = std::process::Command::new(LINESHAFT)
        .args(["console", "--http"])
        .arg(format!("unix:{}", site.data.path().join("api").display()))
        .env("PATH", programs)
        .env("DISPLAY", ":0")
        .env("XDG_RUNTIME_DIR", folder.path())
        .current_dir(folder.path())
        .output()
        .unwrap();
    wait_until("the browser", || path("arguments").exists());
    // The tool does not wait for the end of the browser. End it now.
    std::fs::write(path("end"), "\n").unwrap();
    assert_eq!(tool.status.code(), Some(0), "{tool:?}");
    let url = String::from_utf8(tool.stdout).unwrap().trim().to_owned();
    assert!(url.contains("/console/login?code="), "{url}");
    let arguments = std::fs::read_to_string(path("arguments")).unwrap();
    let page = std::path::Path::new(arguments.trim());
    assert!(page.is_absolute() && !arguments.contains("code="), "{arguments}");
    assert!(std::fs::read_to_string(page).unwrap().contains(&format!("url={url}\"")));
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(page), mode(page.parent().unwrap())), (0o600, 0o700));
}

/// A server that says yes to each connection for which a client asks, and counts the operations.
fn forged_api(operations: std::sync::Arc<std::sync::atomic::AtomicUsize>) -> String {
    use std::io::{BufRead as _, BufReader, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    // The thread ends with the process of the test.
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let mut reader = BufReader::new(socket.unwrap());
            let mut line = String::new();
            while reader.read_line(&mut line).is_ok_and(|len| len > 0) {
                let request = std::mem::take(&mut line);
                while reader.read_line(&mut line).unwrap() > 2 {
                    line.clear();
                }
                line.clear();
                let path = request.split(' ').nth(1).unwrap().to_owned();
                if request.starts_with("POST") {
                    operations.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                }
                let reply = if let Some((_, address)) = path.split_once("address=") {
                    let address = address.replace("%3A", ":").replace("%2E", ".");
                    serde_json::json!({ "open": 1, "next": null, "items": [{
                        "id": "1", "protocol": "beanstalk", "address": address, "tls": false,
                        "opened_at": "2026-01-01T00:00:00.000Z", "idle_ms": 0,
                        "received_bytes": 0, "sent_bytes": 0, "unsent_bytes": 0, "used": "many",
                        "queues": ["default"], "watched": 1, "registrations": 0, "holds": 0,
                        "wait": null, "held": null,
                    }]})
                } else {
                    serde_json::json!({ "name": "a", "role": "admin", "via": "anonymous" })
                };
                let reply = reply.to_string();
                let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";
                let length = reply.len();
                let socket = reader.get_mut();
                write!(socket, "{head}Content-Length: {length}\r\n\r\n{reply}").unwrap();
            }
        }
    });
    address
}

#[test]
fn delete_trusts_no_server_that_only_knows_the_address_of_the_connection() {
    let site = Site::new();
    let mut client = Client::on_tube(site.server.address(), "many").unwrap();
    for _ in 0..1_001 {
        client.put(0, 3600, 60, b"x").unwrap();
    }
    let operations = std::sync::Arc::default();
    let forged = forged_api(std::sync::Arc::clone(&operations));
    let output = std::process::Command::new(LINESHAFT)
        .args(["delete", "many", "--state", "delayed", "--all", "--json"])
        .args(["--server", &site.server.address().to_string()])
        .env("LINESHAFT_HTTP", forged)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(output.stdout.starts_with(b"{\"deleted\":1001,\"left\":0,"), "{output:?}");
    assert_eq!(operations.load(std::sync::atomic::Ordering::Relaxed), 0);
    let queues = get(&site.http(), "/api/v1/queues").body;
    assert!(!queues.contains("lineshaft-delete"), "the tool leaves no queue: {queues}");
}

#[test]
fn delete_of_very_many_jobs_is_an_operation_of_the_same_server() {
    let site = Site::new();
    let mut client = Client::on_tube(site.server.address(), "many").unwrap();
    for _ in 0..1_001 {
        client.put(0, 3600, 60, b"x").unwrap();
    }
    let beanstalk = site.server.address().to_string();
    let socket = format!("unix:{}", site.data.path().join("api").display());
    let delete = |http: &str| {
        let output = std::process::Command::new(LINESHAFT)
            .args(["delete", "many", "--state", "delayed", "--all", "--json"])
            .args(["--server", &beanstalk])
            .env("LINESHAFT_HTTP", http)
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let done =
        "{\"deleted\":1001,\"left\":0,\"queue\":\"many\",\"state\":\"delayed\"}\n".to_owned();
    assert_eq!(delete(&socket), (Some(0), done.clone()));
    let list = || {
        let page = get(&site.http(), "/api/v1/operations").body;
        serde_json::from_str::<serde_json::Value>(&page).unwrap()["items"].as_array().unwrap().len()
    };
    assert_eq!(list(), 1);

    // The API of another server, and a client that can only read: the tool deletes the jobs itself.
    let other = Site::new();
    for http in [format!("unix:{}", other.data.path().join("api").display()), site.http()] {
        for _ in 0..1_001 {
            client.put(0, 3600, 60, b"x").unwrap();
        }
        assert_eq!(delete(&http), (Some(0), done.clone()));
    }
    assert_eq!(list(), 1);
}

#[test]
fn a_redrive_says_why_a_letter_stays() {
    let data = tempfile::tempdir().unwrap();
    let config = data.path().join("lineshaft.toml");
    let policy = "[[policy]]\nmatch = \"mail\"\nretries.limit = 0\nunique.by = \"body\"\n";
    std::fs::write(&config, policy).unwrap();
    let folder = data.path().to_str().unwrap();
    let arguments = ["--data", folder, "--config", config.to_str().unwrap()];
    let server = Program::serve_on(&["beanstalk", "http"], LINESHAFT, &arguments).start().unwrap();
    let mut client = Client::on_tube(server.address(), "mail").unwrap();
    let letter = client.put(0, 0, 60, b"x").unwrap();
    client.reserve(0).unwrap().unwrap();
    client.expect(&format!("release {letter} 0 0"), "RELEASED").unwrap();
    let other = client.put(0, 0, 60, b"x").unwrap();
    let redrive = |more: &[&str]| {
        let socket = format!("unix:{folder}/api");
        Tool::start("", &[&["redrive", "mail", "--http", &socket], more].concat()).wait()
    };
    let why = format!("1 left: job {letter} cannot come back: another job has its key; the policy");
    for more in [&["--dry-run"][..], &[]] {
        let stays = redrive(more);
        assert_eq!(stays.status.code(), Some(1), "{stays:?}");
        assert!(
            stays.stdout.starts_with("0 jobs of mail ") && stays.stdout.contains(&why),
            "{stays:?}"
        );
    }
    client.expect(&format!("delete {other}"), "DELETED").unwrap();
    assert_eq!(redrive(&[]).stdout, "1 job of mail made ready\n");
}

#[test]
fn a_job_that_is_set_aside_stays_a_letter_over_a_restart_until_a_redrive() {
    let data = tempfile::tempdir().unwrap();
    let config = data.path().join("lineshaft.toml");
    std::fs::write(&config, "[[policy]]\nmatch = \"mail\"\ndead.queue = \"dead.{name}\"\n")
        .unwrap();
    let folder = data.path().to_str().unwrap();
    let arguments = ["--data", folder, "--config", config.to_str().unwrap()];
    let socket = format!("unix:{folder}/api");
    let run = |words: &[&str]| Tool::start("", &[words, &["--http", &socket]].concat()).wait();
    let start =
        || Program::serve_on(&["beanstalk", "http"], LINESHAFT, &arguments).start().unwrap();
    let server = start();
    let mut client = Client::on_tube(server.address(), "mail").unwrap();
    let id = client.put(0, 3600, 60, b"x").unwrap().to_string();
    let set_aside = ["set-aside", "--id", &id];
    assert_eq!(run(&set_aside).stdout, format!("job {id} is a dead letter\n"));
    drop((client, server));

    let server = start();
    let again = run(&set_aside);
    assert_eq!(again.status.code(), Some(1), "{again:?}");
    assert!(again.stderr.contains("is a dead letter already"), "{again:?}");
    let letters = run(&["jobs", "dead.mail", "--json"]);
    assert!(letters.stdout.contains("\"cause\":\"operator\""), "{letters:?}");
    let redrive = |cause: &str| run(&["redrive", "dead.mail", "--cause", cause]);
    assert_eq!(redrive("expired").stdout, "0 jobs of dead.mail made ready\n");
    assert_eq!(redrive("operator").stdout, "1 job of dead.mail made ready\n");
    let mut client = Client::on_tube(server.address(), "mail").unwrap();
    client.expect(&format!("delete {id}"), "DELETED").unwrap();
}

#[test]
fn a_redrive_brings_back_the_letters_whose_ids_it_names() {
    let data = tempfile::tempdir().unwrap();
    let config = data.path().join("lineshaft.toml");
    let policy = "[[policy]]\nmatch = \"mail\"\nretries.limit = 0\ndead.queue = \"dead\"\n";
    std::fs::write(&config, policy).unwrap();
    let folder = data.path().to_str().unwrap();
    let arguments = ["--data", folder, "--config", config.to_str().unwrap()];
    let server = Program::serve_on(&["beanstalk", "http"], LINESHAFT, &arguments).start().unwrap();
    let mut client = Client::on_tube(server.address(), "mail").unwrap();
    let ids: Vec<String> = (0..4)
        .map(|_| {
            let id = client.put(0, 0, 60, b"x").unwrap();
            client.reserve(0).unwrap().unwrap();
            client.expect(&format!("release {id} 0 0"), "RELEASED").unwrap();
            id.to_string()
        })
        .collect();
    let socket = format!("unix:{folder}/api");
    let redrive = |more: &[&str]| {
        Tool::start("", &[&["redrive", "dead", "--http", &socket], more].concat()).wait()
    };
    let counted = redrive(&["--id", &ids[0], "--dry-run"]);
    assert_eq!(counted.stdout, "1 job of dead would become ready\n", "{counted:?}");
    let some = redrive(&["--id", &ids[3], "--id", &ids[1], "--id", "999"]);
    assert_eq!(some.stdout, "2 jobs of dead made ready\n", "{some:?}");
    let mut back = [(); 2].map(|()| client.reserve(0).unwrap().unwrap().id.to_string());
    back.sort();
    assert_eq!(back, [&ids[1][..], &ids[3]]);
    assert!(client.reserve(0).unwrap().is_none());
    assert_eq!(redrive(&["--id", &ids[1]]).status.code(), Some(1), "it is no letter any more");
    let both = redrive(&["--id", &ids[0], "--count", "1"]);
    assert_eq!(both.status.code(), Some(2), "{both:?}");
    assert_eq!(redrive(&[]).stdout, "2 jobs of dead made ready\n");
}
