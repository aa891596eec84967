//! The history of jobs that have left their queue: with an unmodified client of each protocol, over a
//! restart, and by the tool.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use rustix::process::Signal;
use serde_json::Value;
use testkit::client::Client;
use testkit::process::{Script, installed, scripts};

use crate::Site;
use crate::running::{Running, command, wait_for};

const HISTORY: &str = "[[policy]]\nmatch = \"*\"\nhistory = { body = \"full\" }\n";
/// The policies of the scripts about dead letters, with a history.
const DEAD: &str = r#"
[[policy]]
match = "*"
history = { body = "full" }
[[policy]]
match = ["mail", "send_mail", "work"]
retries = { limit = 1, base = "3s", jitter = 0 }
dead = { queue = "dead.{name}", keep = "30d" }
[[policy]]
match = "buried"
retries = { limit = 0 }
"#;

/// The jobs that have left a queue, newest first. `None`: the server still reads its history, or the
/// queue has none.
fn past(http: &str, queue: &str) -> Option<Vec<Value>> {
    let answer = crate::request::get(http, &format!("/api/v1/queues/{queue}/history"));
    if answer.status != 200 {
        return None;
    }
    let page: Value = serde_json::from_str(&answer.body).unwrap();
    page["items"].as_array().cloned()
}

/// Waits until this many jobs have left a queue.
fn wait_for_past(http: &str, queue: &str, count: usize) -> Vec<Value> {
    wait_for("the history", || past(http, queue).filter(|jobs| jobs.len() == count))
}

/// How the attempts at a job ended.
fn ends(job: &Value) -> Vec<&str> {
    let attempts = job["attempts"].as_array().unwrap();
    attempts.iter().map(|attempt| attempt["outcome"].as_str().unwrap()).collect()
}

/// Runs a script of a protocol's client about dead letters, and returns the server. `None`: the client
/// is not installed.
fn with_script(protocol: &str, file: &str) -> Option<(Running, String, tempfile::TempDir)> {
    let (variable, python) = match protocol {
        "beanstalk" => ("BEANSTALK_PORT", "python/bin/python"),
        "gearman" => ("GEARMAN_PORT", "gearman/python/bin/python"),
        _ => ("KESTREL_PORT", "kestrel/python/bin/python"),
    };
    let script =
        Script::new(variable, installed(python), scripts(Path::new("policies").join(file)));
    let script = script.needing(installed(python));
    if !script.is_there() {
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("lineshaft.toml"), DEAD).unwrap();
    let listener = format!("--{protocol}=127.0.0.1:0");
    let arguments = ["serve", "--only", &listener, "--http=127.0.0.1:0"];
    let mut server = Running::spawn(command(folder.path(), &arguments));
    let (address, http) = (server.address_of(protocol), server.address_of("http"));
    script.run(address.parse().unwrap()).unwrap();
    Some((server, http, folder))
}

#[test]
fn greenstalk() {
    let Some((_server, http, _folder)) = with_script("beanstalk", "greenstalk_dead.py") else {
        return;
    };
    let jobs = wait_for_past(&http, "mail", 1);
    assert_eq!((&jobs[0]["outcome"], &jobs[0]["to"]), (&"dead".into(), &"dead.mail".into()));
    assert_eq!(ends(&jobs[0]), ["released", "released"]);
    let worker = jobs[0]["attempts"][0]["worker"].as_str().unwrap();
    assert!(worker.starts_with("127.0.0.1:"), "{worker}");
    let jobs = wait_for_past(&http, "dead.mail", 1);
    assert_eq!(jobs[0]["outcome"], "done");
    assert_eq!(ends(&jobs[0]), ["released", "released", "released", "left"]);
}

#[test]
fn gear() {
    let Some((_server, http, _folder)) = with_script("gearman", "gear_dead.py") else { return };
    let jobs = wait_for_past(&http, "send_mail", 2);
    // The newest one was in the foreground, so it was not retried.
    assert_eq!((&jobs[0]["outcome"], ends(&jobs[0])), (&"failed".into(), vec!["reported"]));
    assert_eq!(
        (&jobs[1]["outcome"], ends(&jobs[1])),
        (&"dead".into(), vec!["reported", "reported"])
    );
    assert_eq!(jobs[1]["attempts"][1]["error"], "no route to host");
    let jobs = wait_for_past(&http, "dead.send_mail", 1);
    assert_eq!((&jobs[0]["outcome"], ends(&jobs[0])), (&"done".into(), vec!["left"]));
}

#[test]
fn pymemcache() {
    let Some((_server, http, _folder)) = with_script("kestrel", "pymemcache_dead.py") else {
        return;
    };
    let jobs = wait_for_past(&http, "work", 1);
    assert_eq!((&jobs[0]["outcome"], ends(&jobs[0])), (&"dead".into(), vec!["aborted", "aborted"]));
    let jobs = wait_for_past(&http, "dead.work", 1);
    assert_eq!((&jobs[0]["outcome"], ends(&jobs[0])), (&"done".into(), vec!["left"]));
}

/// Puts a job, takes it and deletes it. Returns its number.
fn work(site: &Site, body: &[u8]) -> u64 {
    let address: SocketAddr = site.beanstalk.parse().unwrap();
    let mut client = Client::connect(address).unwrap();
    let id = client.put(0, 0, 60, body).unwrap();
    assert_eq!(client.reserve(0).unwrap().unwrap().id, id);
    client.expect(&format!("delete {id}"), "DELETED").unwrap();
    id
}

#[test]
fn the_history_survives_the_end_of_the_process_and_damage() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("lineshaft.toml"), HISTORY).unwrap();
    let start = || Site::start(folder.path(), &["--data", "d"]);
    let mut site = start();
    let first = work(&site, b"to=ann");
    wait_for_past(&site.http, "default", 1);
    site.server.signal(Signal::KILL);
    site.server.wait();
    let mut site = start();
    let jobs = wait_for_past(&site.http, "default", 1);
    assert_eq!((&jobs[0]["id"], &jobs[0]["outcome"]), (&first.into(), &"done".into()));
    let second = work(&site, b"to=bob");
    site.server.signal(Signal::TERM);
    assert!(site.server.wait().success());
    // The end of the server has written what happened last.
    let site = start();
    let jobs = wait_for_past(&site.http, "default", 2);
    assert_eq!(jobs[0]["id"], second);
    assert_eq!(site.get(&format!("/api/v1/jobs/{first}")).status, 410);
    drop(site);
    let file = folder.path().join("d/job-history/0000000001");
    let whole = std::fs::read(&file).unwrap();
    for damaged in [&whole[..whole.len() - 1], &b"no history"[..]] {
        std::fs::write(&file, damaged).unwrap();
        let mut site = start();
        site.server.wait_for_stderr("cannot read all of the history of jobs");
        work(&site, b"x");
        let has_new = |jobs: &Vec<Value>| jobs.iter().any(|job| job["body_bytes"] == 1);
        wait_for("a new entry", || past(&site.http, "default").filter(has_new));
        site.server.signal(Signal::KILL);
        site.server.wait();
    }
}

/// Deletes jobs, until there are no more of them or the server ends. Counts those that it has deleted.
fn delete_all(stream: TcpStream, jobs: std::ops::Range<u64>, deleted: &AtomicU64) {
    let mut sending = stream.try_clone().unwrap();
    let sender = thread::spawn(move || {
        for id in jobs {
            // The server can end in the middle.
            if sending.write_all(format!("delete {id}\r\n").as_bytes()).is_err() {
                return;
            }
        }
    });
    let replies = BufReader::new(stream).lines().map_while(Result::ok);
    for reply in replies {
        deleted.fetch_add(u64::from(reply == "DELETED"), Ordering::Relaxed);
    }
    sender.join().unwrap();
}

#[test]
fn a_stop_loses_nothing_that_any_of_the_threads_answered() {
    const CLIENTS: u64 = 4;
    const JOBS: u64 = 10_000;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("lineshaft.toml"), HISTORY).unwrap();
    let start = || Site::start(folder.path(), &["--data", "d", "--io-threads", "4"]);
    let mut site = start();
    let address: SocketAddr = site.beanstalk.parse().unwrap();
    let mut client = Client::connect(address).unwrap();
    for batch in 0..CLIENTS * JOBS / 1000 {
        client.send(&b"put 0 0 60 1\r\nx\r\n".repeat(1000)).unwrap();
        for id in batch * 1000 + 1..=(batch + 1) * 1000 {
            assert_eq!(client.read_line().unwrap(), format!("INSERTED {id}"));
        }
    }
    let ranges = (0..CLIENTS).map(|it| it * JOBS + 1..(it + 1) * JOBS + 1);
    let deleted = AtomicU64::new(0);
    thread::scope(|scope| {
        for jobs in ranges {
            let (stream, deleted) = (TcpStream::connect(address).unwrap(), &deleted);
            scope.spawn(move || delete_all(stream, jobs, deleted));
        }
        while deleted.load(Ordering::Relaxed) < 1000 {
            thread::yield_now();
        }
        site.server.signal(Signal::TERM);
        assert!(site.server.wait().success());
    });
    let deleted = deleted.into_inner();
    let site = start();
    wait_for("the history", || past(&site.http, "default"));
    let answer = site.get("/api/v1/queues/default/history");
    let page: Value = serde_json::from_str(&answer.body).unwrap();
    let total = page["total"].as_u64().unwrap();
    assert!(total >= deleted, "{deleted} jobs were deleted, and the history has {total}");
    assert!(deleted < CLIENTS * JOBS, "the stop must come in the middle");
}

#[test]
fn a_history_that_is_turned_off_keeps_no_attempts() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lineshaft.toml");
    std::fs::write(&file, HISTORY).unwrap();
    let site = Site::start(folder.path(), &["--data", "d"]);
    // The folder comes with the first second of the server.
    let files =
        || std::fs::read_dir(folder.path().join("d/job-history")).map_or(0, Iterator::count);
    let mut client = Client::connect(site.beanstalk.parse().unwrap()).unwrap();
    let id = client.put(0, 0, 60, b"x").unwrap();
    assert_eq!(client.reserve(0).unwrap().unwrap().id, id);
    client.expect(&format!("release {id} 0 0"), "RELEASED").unwrap();
    wait_for("the file of the attempt", || (files() == 1).then_some(()));
    std::fs::write(&file, "").unwrap();
    site.server.signal(Signal::HUP);
    wait_for("the file to go", || (files() == 0).then_some(()));
}

#[test]
fn the_tool_shows_jobs_and_puts_copies() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("lineshaft.toml"), HISTORY).unwrap();
    let site = Site::start(folder.path(), &["--data", "d"]);
    let id = work(&site, b"to=ann");
    wait_for_past(&site.http, "default", 1);
    let api = folder.path().join("d/api").display().to_string();
    let run = |arguments: &[&str]| {
        let output = command(folder.path(), arguments)
            .args(["--http", &format!("unix:{api}")])
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.success(), text(output.stdout), text(output.stderr))
    };
    let (is_ok, listed, said) = run(&["history", "default"]);
    assert!(is_ok, "{said}");
    for part in ["done", &id.to_string(), "1 of 1 job", "ALL JOBS"] {
        assert!(listed.contains(part), "{part}: {listed}");
    }
    let (_, none, _) = run(&["history", "default", "--outcome", "failed"]);
    assert!(none.contains("0 of 1 job"), "{none}");
    let (_, found, _) = run(&["history", "default", "--text", "to=ann"]);
    assert!(found.contains("1 of 1 job"), "{found}");
    let (_, none, _) = run(&["history", "default", "--text=to=bob"]);
    assert!(none.contains("0 of 1 job"), "{none}");
    let number = id.to_string();
    let (_, one, _) = run(&["history", "--job", &number]);
    for part in ["put, with priority 0", "taken by 127.0.0.1:", "done", "6 bytes of 6 bytes"] {
        assert!(one.contains(part), "{part}: {one}");
    }
    let (_, json, _) = run(&["history", "default", "--json"]);
    let job: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&job["id"], &job["can_run_again"]), (&id.into(), &true.into()));
    let (is_ok, copied, said) = run(&["history", "--job", &number, "--run-again"]);
    assert!(is_ok && copied.contains(&format!("is a copy of job {id}")), "{copied}{said}");
    let mut client = Client::connect(site.beanstalk.parse().unwrap()).unwrap();
    assert_eq!(client.reserve(0).unwrap().unwrap().body, b"to=ann");
    let (is_ok, _, said) = run(&["history", "--job", "999"]);
    assert!(!is_ok && said.contains("no job with the number 999"), "{said}");
    let metrics = site.get("/metrics").body;
    assert!(
        metrics.contains("lineshaft_queue_run_seconds_count{queue=\"default\"} 1"),
        "{metrics}"
    );
}
