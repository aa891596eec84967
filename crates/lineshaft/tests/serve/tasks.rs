//! The examples of docs/howto/policies.md. The servers run with the page's own TOML, and an unmodified
//! client of each protocol sees what the page says. The scripts are in `tests/clients/policies`.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use testkit::readme::{blocks_of, root, shell};
use testkit::wait;

use crate::dead_letters::{client_script, run_with};
use crate::kestrel::{Client, write_config};
use crate::running::{Running, command, finish};

/// The sections of the page that have TOML, in order. With each, the function of the scripts that tries
/// it, and the protocols that can express it: a client of beanstalkd's protocol sends `priority`,
/// `delay` and `ttr` itself, and only such a client sends many priorities. `urgent` also has a test
/// below, across protocols. Histories have tests over HTTP: see `tests/http/past_jobs.rs`.
const SECTIONS: [(&str, &str, &[&str]); 21] = [
    ("## Retry five times, then set aside", "retry", &ALL),
    ("## At most ten calls a second to an API", "rate", &ALL),
    ("## At most two exports of each customer at one time", "two_of_each_customer", &ALL),
    ("## The jobs of each customer in order, as in SQS FIFO", "in_order", &ALL),
    ("## No customer may starve others", "in_turns", &ALL),
    ("## Login codes before newsletters", "urgent", &["gearman"]),
    ("## Urgent jobs first, but the others not last for ever", "aging", &["beanstalk"]),
    ("## Never the same job twice", "unique", &ALL),
    ("## The same mail not again within a day", "not_again", &ALL),
    (NIGHTLY, "nightly", &[]),
    ("## No work at weekends", "weekend", &ALL),
    ("## Stop a queue now", "stopped", &ALL),
    ("## An hour later", "later", &["gearman", "kestrel"]),
    ("## A backlog that does not grow without bound", "backlog", &ALL),
    ("## A producer that waits for the workers", "waits", &ALL),
    ("## No work that is too old", "too_old", &ALL),
    ("## A worker that hangs loses its job", "hangs", &["gearman", "kestrel"]),
    ("## What happened to a job, and once more", "history", &[]),
    ("## The result for a client that comes back", "result", &["gearman"]),
    ("## A copy of each job for a second team", "copy", &ALL),
    ("## One queue under two names", "two_names", &ALL),
];

const ALL: [&str; 3] = ["beanstalk", "gearman", "kestrel"];

/// The section about schedules. Its test is below: it waits for the next minute.
const NIGHTLY: &str = "## Every night at three";

/// What a test cannot wait for, and what it has instead.
const SHORTER: [(&str, &str); 8] = [
    (r#"aging = "1/60s""#, r#"aging = "1/10ms""#),
    (r#"base = "2s""#, r#"base = "1s""#),
    (r#"base = "10s""#, r#"base = "10ms""#),
    (r#"cron = "0 0 * * sat""#, r#"cron = "* * * * *""#),
    (r#"delay = "1h""#, r#"delay = "1s""#),
    ("jobs = 100000", "jobs = 3"),
    (r#"limits.age = "15m""#, r#"limits.age = "100ms""#),
    (r#"ttr = "10m""#, r#"ttr = "1s""#),
];

fn page() -> String {
    fs::read_to_string(root().join("docs/howto/policies.md")).unwrap()
}

/// Replaces a text that must be there.
fn replaced(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "`{from}` is not in {text}");
    text.replace(from, to)
}

/// All policies of the page in one file, with shorter times and smaller numbers.
fn policies() -> String {
    let page = page();
    let blocks = SECTIONS.iter().flat_map(|(heading, ..)| blocks_of(&page, heading));
    let all = blocks.collect::<Vec<_>>().join("\n");
    SHORTER.iter().fold(all, |all, (from, to)| replaced(&all, from, to))
}

fn file(protocol: &str) -> &'static str {
    match protocol {
        "beanstalk" => "greenstalk_tasks.py",
        "gearman" => "gear_tasks.py",
        _ => "pymemcache_tasks.py",
    }
}

/// Runs all tasks that a protocol can express against one server.
fn check(protocol: &str) {
    let tasks = SECTIONS.iter().filter(|(.., protocols)| protocols.contains(&protocol));
    let tasks: Vec<&str> = tasks.map(|(_, task, _)| *task).collect();
    if let Some(script) = client_script(protocol, file(protocol)) {
        let script = script.with_environment("TASKS", tasks.join(" "));
        run_with(&policies(), protocol, &script);
    }
}

#[test]
fn greenstalk() {
    check("beanstalk");
}

#[test]
fn gear() {
    check("gearman");
}

#[test]
fn pymemcache() {
    check("kestrel");
}

#[test]
fn every_policy_of_the_page_is_tried() {
    let page = page();
    let headings = page.lines().filter(|line| line.starts_with("## "));
    let with_toml: Vec<&str> = headings
        .filter(|heading| blocks_of(&page, heading).iter().any(|block| block.contains("[[")))
        .collect();
    assert_eq!(
        with_toml,
        SECTIONS.map(|(heading, ..)| heading),
        "try each new section in a script"
    );
}

/// A server of the given protocols in this folder, with these lines as its configuration.
fn serve(folder: &Path, configuration: &str, protocols: &[&str]) -> Running {
    write_config(folder, configuration);
    let listeners = protocols.iter().map(|protocol| format!("--{protocol}=127.0.0.1:0"));
    let arguments: Vec<String> =
        ["serve".into(), "--only".into()].into_iter().chain(listeners).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    Running::spawn(command(folder, &arguments))
}

/// Runs commands of the page in the server's folder, and returns what they print.
fn run(folder: &Path, commands: &str) -> String {
    let program = command(folder, &[]).get_program().to_owned();
    let output = shell(Path::new(&program), folder, commands).unwrap().output().unwrap();
    assert!(output.status.success(), "{commands}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_file_is_checked_compared_and_loaded() {
    let page = page();
    let commands = page.split("```").find_map(|block| block.strip_prefix("sh\n")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut server = serve(folder.path(), "", &["beanstalk", "http"]);
    crate::ask(&server.address(), "use calls\r\nput 0 0 60 1\r\nx\r\n");
    write_config(folder.path(), &policies());
    let printed = run(folder.path(), commands);
    assert!(printed.contains("calls: 1 ready"), "{printed}");
    let reserved = crate::ask(&server.address(), "watch calls\r\nreserve-with-timeout 0\r\n");
    assert!(reserved.contains("TIMED_OUT"), "the policy pauses the queue: {reserved}");
}

#[test]
fn a_failed_batch_goes_back() {
    let Some(script) = client_script("beanstalk", file("beanstalk")) else { return };
    let [commands] = &blocks_of(&page(), "## Put a failed batch back")[..] else { panic!() };
    let folder = tempfile::tempdir().unwrap();
    let mut server = serve(folder.path(), &policies(), &["beanstalk", "http"]);
    let address: SocketAddr = server.address().parse().unwrap();
    script.clone().with_environment("TASKS", "retry").run(address).unwrap();
    let printed = run(folder.path(), commands);
    assert!(printed.contains('1'), "{printed}");
    script.with_environment("TASKS", "redriven").run(address).unwrap();
}

/// The test cannot wait until three o'clock. So there is a job each minute, in a queue for each
/// protocol.
#[test]
fn a_job_comes_by_schedule() {
    let [entry] = &blocks_of(&page(), NIGHTLY)[..] else { panic!() };
    let entry = replaced(entry, r#"spec = "0 3 * * *""#, r#"spec = "* * * * *""#);
    let entries = ALL.map(|protocol| {
        let entry = replaced(&entry, "nightly report", &format!("report for {protocol}"));
        replaced(&entry, r#""reports""#, &format!("\"reports.{protocol}\""))
    });
    let folder = tempfile::tempdir().unwrap();
    let protocols = [&ALL[..], &["http"]].concat();
    let mut server = serve(folder.path(), &entries.concat(), &protocols);
    let http = server.address_of("http");
    let all_fired = || {
        let output = finish(command(folder.path(), &["cron", "--json", "--http", &http]));
        let lines = String::from_utf8(output.stdout).unwrap();
        let fired = |line: &str| serde_json::from_str::<Value>(line).unwrap()["fired"] != 0;
        (lines.lines().count() == 3 && lines.lines().all(fired)).then_some(())
    };
    wait::for_some(Duration::from_secs(90), all_fired).expect("a job comes each minute");
    for protocol in ALL {
        if let Some(script) = client_script(protocol, file(protocol)) {
            let address: SocketAddr = server.address_of(protocol).parse().unwrap();
            script.with_environment("TASKS", "nightly").run(address).unwrap();
        }
    }
}

/// Kestrel's client cannot send a priority, and all jobs of a queue have the same. A worker that watches
/// several tubes sees the difference.
#[test]
fn login_codes_come_before_newsletters() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = serve(folder.path(), &policies(), &["beanstalk", "kestrel"]);
    let mut client = Client::connect(&server.address_of("kestrel"));
    assert_eq!(client.set("newsletter", "news"), "STORED");
    assert_eq!(client.set("login_code", "code"), "STORED");
    let request = "watch newsletter\r\nwatch login_code\r\nreserve-with-timeout 0\r\n";
    let reply = crate::ask(&server.address(), request);
    assert!(reply.contains("code\r\n") && !reply.contains("news\r\n"), "{reply}");
}
