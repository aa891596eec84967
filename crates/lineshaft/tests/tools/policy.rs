//! `lineshaft policy test` and `lineshaft policy diff`.

use std::fs;

use serde_json::{Value, json};
use testkit::client::Client;
use testkit::process::{Program, Server};

use crate::{LINESHAFT, Output, Tool};

const OLD: &str = r#"
[[policy]]
match = "*"
limits.item_bytes = "1KiB"

[[policy]]
match = "mail*"
limits.jobs = 100
"#;

const NEW: &str = r#"
[[policy]]
match = "*"
limits.item_bytes = "1KiB"

[[policy]]
match = "mail*"
limits = { jobs = 2, age = "1ms" }
expire_to = "late"
pause = { reason = "moving" }
unique = { by = "json:/to", window = "until-start" }

[[policy]]
match = "mail.bulk"
alias = ["a", "b"]

[[policy]]
match = "work"
concurrency.limit = 1
rate.per_second = 5
"#;

/// A server with the old policies, and files with both.
struct Site {
    folder: tempfile::TempDir,
    server: Server,
}

impl Site {
    fn new() -> Site {
        Site::with(OLD)
    }

    fn with(old: &str) -> Site {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("old.toml"), old).unwrap();
        fs::write(folder.path().join("new.toml"), NEW).unwrap();
        let config = folder.path().join("old.toml");
        let arguments = ["--memory", "--config", config.to_str().unwrap()];
        let program = Program::serve_on(&["beanstalk", "http"], LINESHAFT, &arguments);
        Site { folder, server: program.start().unwrap() }
    }

    fn client(&self, tube: &str) -> Client {
        Client::on_tube(self.server.address(), tube).unwrap()
    }

    fn file(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    fn diff(&self, more: &[&str]) -> Output {
        let (file, http) = (self.file("new.toml"), self.server.address_of("http").to_string());
        let all = [&["policy", "diff", &file, "--http", &http], more].concat();
        Tool::start("", &all).wait()
    }
}

fn values(output: &Output) -> Vec<Value> {
    output.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The effects of a queue, by their codes, with their numbers of jobs.
fn effects(change: &Value) -> Value {
    let effects = change["effects"].as_array().unwrap().iter();
    effects.map(|it| (it["code"].as_str().unwrap().to_owned(), it["jobs"].clone())).collect()
}

#[test]
fn a_diff_says_what_a_reload_would_do_to_each_queue() {
    let site = Site::new();
    let mut mail = site.client("mail");
    for body in [b"1", b"2", b"3"] {
        mail.put(0, 0, 60, body).unwrap();
    }
    mail.put(0, 3600, 60, b"4").unwrap();
    site.client("mail.bulk").put(0, 0, 60, b"5").unwrap();
    let mut work = site.client("work");
    for body in [b"6", b"7", b"8"] {
        work.put(0, 0, 60, body).unwrap();
    }
    work.reserve(0).unwrap().unwrap();
    work.reserve(0).unwrap().unwrap();
    site.client("other").put(0, 0, 60, b"9").unwrap();

    let shown = site.diff(&["--json"]);
    assert_eq!(shown.status.code(), Some(0), "{shown:?}");
    let changes = values(&shown);
    let names: Vec<&str> = changes.iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["mail", "mail.bulk", "work"]);
    let [mail, bulk, work] = &changes[..] else { panic!("three queues") };
    assert_eq!((&mail["ready"], &mail["delayed"]), (&json!(3), &json!(1)));
    let jobs = &mail["settings"][0];
    let wanted = json!({
        "key": "limits.jobs", "old": "100", "old_line": 8, "new": "2", "new_line": 8,
    });
    assert_eq!(*jobs, wanted);
    let age = mail["settings"].as_array().unwrap().iter().find(|it| it["key"] == "limits.age");
    assert_eq!(age.unwrap()["old_line"], Value::Null);
    assert_eq!(effects(mail), json!({ "full": 1, "pauses": 3, "keys": 4, "expires": 3 }));
    assert!(shown.stdout.contains("move to late"), "{shown:?}");
    assert_eq!(effects(bulk)["alias"], 1);
    assert_eq!(effects(work), json!({ "slots": 2, "tokens": 1 }));

    let text = site.diff(&[]).stdout;
    for part in [
        "mail: 3 ready, 0 leased, 1 delayed, 0 buried\n",
        "  limits.jobs: 100 (line 8) -> 2 (line 8)\n",
        "  limits.age: \"none\" (default) -> \"1ms\" (line 8)\n",
        "  => 3 ready jobs would wait: the queue hands out no job\n",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(text.ends_with("3 of 5 queues would get another policy\n"), "{text}");
    let few = values(&site.diff(&["--json", "--jobs", "2"]));
    let expires = few[0]["effects"].as_array().unwrap().last().unwrap();
    assert_eq!((&expires["jobs"], &expires["at_least"]), (&json!(2), &json!(true)));

    // Nothing has changed.
    let mut late = site.client("mail");
    assert_eq!(late.reserve(0).unwrap().unwrap().body, b"1");
    assert!(late.put(0, 0, 60, b"10").is_ok());
}

/// A change of the order of hand-outs: it sorts the jobs again.
#[test]
fn a_diff_says_in_which_order_jobs_would_come() {
    let site = Site::new();
    let mut tube = site.client("orders");
    for delay in [0, 0, 0, 3600] {
        tube.put(0, delay, 60, b"1").unwrap();
    }
    tube.reserve(0).unwrap().unwrap();
    let diff = |policy: &str| {
        fs::write(
            site.file("new.toml"),
            format!("{OLD}\n[[policy]]\nmatch = \"orders\"\n{policy}\n"),
        )
        .unwrap();
        let changes = values(&site.diff(&["--json"]));
        effects(&changes[0])
    };
    let strict = "concurrency = { limit = 1, key = \"json:/a\", order = \"strict\" }";
    let wanted = json!({ "leases": 1, "groups": 4, "order": 1, "sorts": 2 });
    assert_eq!(diff(strict), wanted);
    assert_eq!(diff("concurrency.limit = 1"), json!({ "slots": 1 }));
    let rate = "rate = { per_second = 5, key = \"json:/a\" }";
    assert_eq!(diff(rate), json!({ "tokens": 2, "groups": 4, "sorts": 2 }));
    let fair = "fair = { key = \"json:/a\" }\naging = \"1/60s\"";
    assert_eq!(diff(fair), json!({ "groups": 4, "fair": 2, "aging": 2, "sorts": 2 }));
    let text = site.diff(&[]).stdout;
    for part in [
        "  => 4 jobs would share the limits and the turns of the empty key\n",
        "  => 2 ready jobs would be ordered by their priority and the time that they have waited\n",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn a_diff_of_the_same_policies_is_empty_and_mistakes_are_named() {
    let site = Site::new();
    site.client("mail").put(0, 0, 60, b"1").unwrap();
    fs::write(site.file("new.toml"), OLD.replace("match = \"*\"", "match = [\"mai?\", \"*\"]"))
        .unwrap();
    assert_eq!(site.diff(&["--json"]).stdout, "");
    assert_eq!(site.diff(&[]).stdout, "0 of 2 queues would get another policy\n");
    fs::write(site.file("new.toml"), "[[policy]]\nmatch = \"a\"\nlimits.jbs = 1\n").unwrap();
    let wrong = site.diff(&[]);
    assert_eq!(wrong.status.code(), Some(78), "{wrong:?}");
    assert!(wrong.stderr.contains("new.toml:3"), "{wrong:?}");
}

#[test]
fn a_test_shows_what_a_put_gets_without_a_server() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::write(path("new.toml"), NEW).unwrap();
    fs::write(path("order"), r#"{"to":"ann@\u001b"}"#).unwrap();
    fs::write(path("none"), "no JSON").unwrap();
    fs::write(path("long"), vec![b'x'; 1025]).unwrap();
    let config = path("new.toml");
    let test = |queue: &str, more: &[&str]| {
        let all = [&["policy", "test", queue, "--config", &config], more].concat();
        let output = Tool::start("", &all).wait();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        output.stdout
    };
    let bodies = [path("order"), path("none"), path("long")];
    let bodies: Vec<&str> = bodies.iter().flat_map(|body| ["--body", body]).collect();
    let text = test("mail.in", &bodies);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("limits.jobs = 2 ") && lines[0].ends_with("new.toml:8"), "{text}");
    assert!(!text.contains("retries"), "only what a policy sets: {text}");
    for (line, end) in [
        (lines.len() - 3, "order: 19 bytes, has the key `ann@\\x1b` by json:/to"),
        (lines.len() - 2, "none: 7 bytes, has no key by json:/to: it is never a duplicate"),
        (lines.len() - 1, "long: 1,025 bytes, refused: limits.item_bytes is 1KiB"),
    ] {
        assert!(lines[line].ends_with(end), "{end} in {text}");
    }
    assert!(test("mail.bulk", &[]).contains("a put into mail.bulk goes to: a, b\n"));
    let json: Value =
        serde_json::from_str(&test("mail.in", &[&bodies[..], &["--json"]].concat())).unwrap();
    assert_eq!(json["puts_to"], json!(["mail.in"]));
    assert_eq!(json["settings"][0]["key"], "limits.jobs");
    assert_eq!(
        (&json["bodies"][0]["bytes"], &json["bodies"][2]["limit"]),
        (&json!(19), &json!(1024))
    );
    fs::write(path("new.toml"), "").unwrap();
    assert_eq!(test("mail", &[]), "no policy has a setting for mail: it is as in the original\n");
    let absent = Tool::start("", &["policy", "test", "a", "--config", &config, "--body", "absent"]);
    let absent = absent.wait();
    assert_eq!(absent.status.code(), Some(1));
    assert!(absent.stderr.contains("cannot read the body absent"), "{absent:?}");
}

/// A limit of each key becomes one of the whole queue.
#[test]
fn a_diff_says_that_a_queue_has_fewer_slots_and_tokens_than_its_keys() {
    let keyed = r#"
[[policy]]
match = "orders"
concurrency = { limit = 2, key = "json:/a" }
rate = { per_second = 1000, burst = 1000, key = "json:/a" }
"#;
    let site = Site::with(keyed);
    let mut tube = site.client("orders");
    for body in [br#"{"a":1}"#, br#"{"a":2}"#, br#"{"a":3}"#] {
        tube.put(0, 0, 60, body).unwrap();
    }
    for _ in 0..2 {
        tube.reserve(10).unwrap().unwrap();
    }
    let whole = keyed.replace(", key = \"json:/a\"", "");
    fs::write(site.file("new.toml"), whole).unwrap();
    let changes = values(&site.diff(&["--json"]));
    assert_eq!(effects(&changes[0]), json!({ "slots": 2, "tokens": 1 }));
}

/// Queues to which no dead letter can go.
const STORING_NOTHING: &str = r#"
[[policy]]
match = "both"
alias = ["one", "other"]
[[policy]]
match = "parent"
fanout_only = true
"#;

#[test]
fn a_diff_says_which_jobs_would_become_dead_letters() {
    let site = Site::new();
    let mut tube = site.client("orders");
    for body in [b"1", b"2", b"3"] {
        tube.put(0, 0, 60, body).unwrap();
    }
    let drops = |what: &str| format!("each put would {what}, until the queue is within its limits");
    let expires =
        |what: &str| format!("3 ready jobs would expire, by the time since the put, and {what}");
    let limited = "limits = { jobs = 1, when_full = \"drop-oldest\" }";
    let aged = "limits.age = \"1ms\"";
    for (limits, dead, text) in [
        (limited, "queue = \"d.{name}\"", drops("end up to two of the 3 ready jobs")),
        (limited, "dropped = true", drops("bury up to two of the 3 ready jobs as dead letters")),
        (
            limited,
            "dropped = true, queue = \"d.{name}\"",
            drops("move up to two of the 3 ready jobs to d.orders as dead letters"),
        ),
        (limited, "dropped = true, queue = \"drop\"", drops("end up to two of the 3 ready jobs")),
        (aged, "dropped = true", expires("end")),
        (aged, "expired = true", expires("be buried as dead letters")),
        (aged, "expired = true, queue = \"d.{name}\"", expires("become dead letters in d.orders")),
        (aged, "expired = true, max_jobs = 0", expires("end")),
        // These two store nothing.
        (aged, "expired = true, queue = \"both\"", expires("be buried as dead letters")),
        (aged, "expired = true, queue = \"parent\"", expires("be buried as dead letters")),
        ("expire_to = \"late\"\nlimits.age = \"1ms\"", "expired = true", expires("move to late")),
    ] {
        let rule = format!("[[policy]]\nmatch = \"orders\"\n{limits}\ndead = {{ {dead} }}\n");
        fs::write(site.file("new.toml"), format!("{OLD}\n{rule}\n{STORING_NOTHING}")).unwrap();
        let shown = site.diff(&[]).stdout;
        assert!(shown.contains(&format!("  => {text}\n")), "{text} in {shown}");
    }
}
