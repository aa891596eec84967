//! Tests the drain of a running beanstalkd over its protocol into a running Lineshaft, and back.

use std::collections::BTreeMap;
use std::process::Command;

use testkit::client::Client;
use testkit::process::{Program, Server};
use testkit::{tools, wait};

use super::{command, path, run};

/// The limit of jobs that a drain has in flight.
const IN_FLIGHT: usize = 100;

fn original() -> Option<Server> {
    let program = tools::find_or_skip("/usr/bin/beanstalkd")?;
    Some(Program::like_beanstalkd(program, &[]).start().unwrap())
}

fn lineshaft() -> Server {
    Program::serve(path(), &["--data", "data"]).start().unwrap()
}

fn client(server: &Server, tube: &str) -> Client {
    Client::on_tube(server.address(), tube).unwrap()
}

fn arguments(from: &Server, to: &Server) -> [String; 6] {
    let [from, to] = [from, to].map(|server| server.address().to_string());
    ["import", "beanstalkd", "--from", &from, "--server", &to].map(str::to_owned)
}

fn drain(from: &Server, to: &Server) -> (i32, String) {
    run(&std::env::temp_dir(), &arguments(from, to))
}

fn stat(client: &mut Client, id: u64, key: &str) -> String {
    client.stats(&format!("stats-job {id}")).unwrap()[key].clone()
}

/// Puts jobs of all states into two tubes.
fn fill(server: &Server) {
    let mut mail = client(server, "mail");
    for body in ["buried first", "buried second"] {
        mail.put(0, 0, 60, body.as_bytes()).unwrap();
        let id = mail.reserve(0).unwrap().unwrap().id;
        mail.expect(&format!("bury {id} 7"), "BURIED").unwrap();
    }
    mail.put(5, 500, 61, b"soon").unwrap();
    mail.put(5, 900, 61, b"late").unwrap();
    for (pri, body) in [(9, "third"), (2, "first"), (2, "second")] {
        mail.put(pri, 0, 62, body.as_bytes()).unwrap();
    }
    let mut paused = client(server, "paused");
    paused.put(1, 0, 1, &vec![0xFF; 60_000]).unwrap();
    paused.expect("pause-tube paused 500", "PAUSED").unwrap();
}

/// Checks all jobs of `fill`, and deletes them.
fn check(server: &Server) {
    let mut mail = client(server, "mail");
    for body in ["soon", "late"] {
        let job = mail.peek("peek-delayed").unwrap().unwrap();
        assert_eq!(job.body, body.as_bytes());
        let left_s: u64 = stat(&mut mail, job.id, "time-left").parse().unwrap();
        let longest_s = if body == "soon" { 501 } else { 901 };
        assert!((longest_s - 60..=longest_s).contains(&left_s), "{left_s} s are left");
        assert_eq!(stat(&mut mail, job.id, "pri"), "5");
        mail.expect(&format!("delete {}", job.id), "DELETED").unwrap();
    }
    for (body, pri) in [("first", "2"), ("second", "2"), ("third", "9")] {
        let job = mail.reserve(0).unwrap().unwrap();
        assert_eq!(job.body, body.as_bytes());
        assert_eq!([stat(&mut mail, job.id, "pri"), stat(&mut mail, job.id, "ttr")], [pri, "62"]);
    }
    for body in ["buried first", "buried second"] {
        let job = mail.peek("peek-buried").unwrap().unwrap();
        assert_eq!((&job.body[..], &stat(&mut mail, job.id, "pri")[..]), (body.as_bytes(), "7"));
        mail.expect(&format!("delete {}", job.id), "DELETED").unwrap();
    }
    let job = client(server, "paused").reserve(0).unwrap().unwrap();
    assert_eq!(job.body, vec![0xFF; 60_000]);
}

#[test]
fn all_states_move_to_lineshaft_and_back() {
    let Some(old) = original() else { return };
    let new = lineshaft();
    fill(&old);
    let (code, said) =
        run(&std::env::temp_dir(), &[&arguments(&old, &new)[..], &["--dry-run".into()]].concat());
    assert!(code == 0 && said.contains("would move 8 jobs"), "{code} {said}");
    let (code, said) = drain(&old, &new);
    assert!(code == 0 && said.contains("Moved 8 jobs"), "{code} {said}");
    assert!(said.contains("mail: 3 ready, 2 delayed, 2 buried"), "{said}");
    let (code, said) = drain(&new, &old);
    assert!(code == 0 && said.contains("Moved 8 jobs"), "{code} {said}");
    let (code, said) = drain(&old, &new);
    assert!(code == 0 && said.contains("Moved 8 jobs"), "{code} {said}");
    check(&new);
    let json = |more: &[&str]| -> serde_json::Value {
        let more = more.iter().map(|&word| word.to_owned());
        let all: Vec<String> = arguments(&old, &new).into_iter().chain(more).collect();
        let done = command(&std::env::temp_dir(), &all).output().unwrap();
        serde_json::from_slice(&done.stdout).unwrap_or_else(|error| panic!("{error}: {done:?}"))
    };
    client(&old, "mail").put(0, 0, 60, b"last").unwrap();
    let planned = json(&["--dry-run", "--json"]);
    let left = planned["left"].as_array().unwrap();
    let mail = serde_json::json!({ "tube": "mail", "waiting": 1, "held": 0 });
    assert!(planned["moved"] == 0 && left.contains(&mail), "{planned}");
    let moved = json(&["--json"]);
    let tubes = serde_json::json!([{ "tube": "mail", "ready": 1, "delayed": 0, "buried": 0 }]);
    assert_eq!((&moved["moved"], &moved["tubes"]), (&1.into(), &tubes), "{moved}");
    let (code, said) = drain(&old, &new);
    assert!(code == 0 && said.contains("Moved 0 jobs"), "{code} {said}");
}

#[test]
fn what_workers_hold_stays_and_is_named() {
    let Some(old) = original() else { return };
    let new = lineshaft();
    let mut worker = client(&old, "mail");
    let id = worker.put(0, 0, 60, b"held").unwrap();
    worker.reserve(0).unwrap().unwrap();
    worker.put(0, 0, 60, b"waiting").unwrap();
    let (code, said) = drain(&old, &new);
    assert!(code == 1 && said.contains("Moved 1 job."), "{code} {said}");
    assert!(said.contains("Not moved: 1 job held by workers"), "{said}");
    worker.expect(&format!("release {id} 0 0"), "RELEASED").unwrap();
    let (code, said) = drain(&old, &new);
    assert!(code == 0 && said.contains("Moved 1 job."), "{code} {said}");
    let (code, said) = drain(&new, &new);
    assert!(code == 1 && said.contains("the same server"), "{code} {said}");
}

#[test]
fn a_named_tube_that_the_source_does_not_have_is_a_failure() {
    let (old, new) = (lineshaft(), lineshaft());
    let mut mail = client(&old, "mail");
    mail.put(0, 0, 60, b"text").unwrap();
    let drain_of = |words: &[&str]| {
        let words = words.iter().map(|&word| word.to_owned());
        let all: Vec<String> = arguments(&old, &new).into_iter().chain(words).collect();
        run(&std::env::temp_dir(), &all)
    };
    let both = ["--tube", "nail", "--tube", "mail"];
    let (code, said) = drain_of(&[&both[..], &["--dry-run"]].concat());
    assert!(code == 1 && said.contains("would move 1 job"), "{code} {said}");
    let (code, said) = drain_of(&both);
    assert!(code == 1 && said.contains("Moved 1 job."), "{code} {said}");
    assert!(said.contains("tube nail: it does not exist"), "{said}");
    assert!(!said.contains("tube mail"), "{said}");
    // The client still uses the other tube, so it exists without jobs.
    let (code, said) = drain_of(&["--tube", "mail"]);
    assert!(code == 0 && said.contains("Moved 0 jobs."), "{code} {said}");
}

#[test]
fn a_job_that_the_target_refuses_stays_in_the_source() {
    let Some(old) = original() else { return };
    let small = ["--data", "data", "--max-job-size", "1KiB"];
    let new = Program::serve(path(), &small).start().unwrap();
    let mut mail = client(&old, "mail");
    mail.put(1, 0, 60, b"small").unwrap();
    mail.put(2, 0, 60, &vec![b'x'; 5000]).unwrap();
    let (code, said) = drain(&old, &new);
    assert!(code == 1 && said.contains("--max-job-size"), "{code} {said}");
    let left = mail.reserve(5).unwrap().unwrap();
    assert_eq!(left.body.len(), 5000);
    assert_eq!(client(&new, "mail").reserve(0).unwrap().unwrap().body, b"small");
}

#[test]
fn a_job_that_the_target_had_stays_as_it_is() {
    let old = lineshaft();
    let policy = "[[policy]]\nmatch = \"mail\"\nunique = { by = \"body\" }\n";
    let new = Program::serve(path(), &["--data", "data"]).with_configuration(policy);
    let new = new.start().unwrap();
    let mut there = client(&new, "mail");
    let ready = there.put(0, 0, 60, b"ready there").unwrap();
    let delayed = there.put(0, 500, 60, b"delayed there").unwrap();
    let mut mail = client(&old, "mail");
    for body in [&b"ready there"[..], b"delayed there", b"new", b"new"] {
        mail.put(0, 0, 60, body).unwrap();
        let id = mail.reserve(0).unwrap().unwrap().id;
        mail.expect(&format!("bury {id} 7"), "BURIED").unwrap();
    }
    let (code, said) = drain(&old, &new);
    assert!(code == 0 && said.contains("mail: 0 ready, 0 delayed, 4 buried"), "{code} {said}");
    assert!(said.contains("3 buried jobs: joined with jobs that the target had"), "{said}");
    for (id, state) in [(ready, "ready"), (delayed, "delayed")] {
        assert_eq!(stat(&mut there, id, "state"), state);
        assert_eq!(stat(&mut there, id, "buries"), "0");
    }
    let moved = there.peek("peek-buried").unwrap().unwrap();
    assert_eq!(moved.body, b"new");
    assert_eq!(stat(&mut there, moved.id, "pri"), "7");
    assert_eq!(there.stats("stats-tube mail").unwrap()["current-jobs-buried"], "1");
}

const JOBS: usize = 5000;

fn fill_with_many(server: &Server) {
    let mut mail = client(server, "mail");
    for numbers in (0..JOBS).collect::<Vec<_>>().chunks(500) {
        let puts = numbers.iter().map(|number| format!("put 0 0 60 6\r\n{number:0>6}\r\n"));
        mail.send(puts.collect::<Vec<_>>().concat().as_bytes()).unwrap();
        for _ in numbers {
            assert!(mail.read_line().unwrap().starts_with("INSERTED"));
        }
    }
}

/// Takes all jobs, and counts each body.
fn count_all(server: &Server, counts: &mut BTreeMap<Vec<u8>, usize>) {
    let mut mail = client(server, "mail");
    while let Some(job) = mail.reserve(1).unwrap() {
        *counts.entry(job.body).or_default() += 1;
        mail.expect(&format!("delete {}", job.id), "DELETED").unwrap();
    }
}

fn wait_until_some_moved(command: &mut Command, new: &Server) -> std::process::Child {
    let mut child = command.spawn().unwrap();
    let mut watcher = Client::connect(new.address()).unwrap();
    wait::until("some jobs have moved", || {
        let is_over = child.try_wait().unwrap().is_some();
        is_over || watcher.stats("stats").unwrap()["cmd-put"].parse::<usize>().unwrap() > 300
    });
    child
}

#[test]
fn a_killed_drain_loses_nothing_and_doubles_only_what_was_in_flight() {
    let Some(old) = original() else { return };
    let new = lineshaft();
    fill_with_many(&old);
    let mut drain = command(&std::env::temp_dir(), &arguments(&old, &new));
    let mut child = wait_until_some_moved(&mut drain, &new);
    child.kill().unwrap();
    child.wait().unwrap();
    let (code, said) = self::drain(&old, &new);
    assert_eq!(code, 0, "{said}");
    let mut counts = BTreeMap::new();
    count_all(&new, &mut counts);
    count_all(&old, &mut counts);
    assert_eq!(counts.len(), JOBS, "a job is lost");
    let doubles = counts.values().sum::<usize>() - JOBS;
    assert!(doubles <= IN_FLIGHT, "{doubles} jobs came twice");
}

#[test]
fn a_killed_target_loses_nothing() {
    let Some(old) = original() else { return };
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data");
    let program = Program::serve(path(), &["--data", data.to_str().unwrap()]);
    let new = program.start().unwrap();
    fill_with_many(&old);
    let mut drain = command(&std::env::temp_dir(), &arguments(&old, &new));
    let mut child = wait_until_some_moved(&mut drain, &new);
    new.kill();
    assert!(!child.wait().unwrap().success(), "it noticed nothing");
    let new = program.start().unwrap();
    let (code, said) = self::drain(&old, &new);
    assert_eq!(code, 0, "{said}");
    let mut counts = BTreeMap::new();
    count_all(&new, &mut counts);
    assert_eq!(counts.len(), JOBS, "a job is lost");
    let doubles = counts.values().sum::<usize>() - JOBS;
    assert!(doubles <= IN_FLIGHT, "{doubles} jobs came twice");
}
