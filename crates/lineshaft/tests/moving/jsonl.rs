//! Tests that `import` reads the lines that `export` writes.

use std::fs;
use std::io::Write as _;
use std::process::Stdio;

use testkit::client::Client;

use super::{all, command, done, exported, run, serve};

#[test]
fn an_export_makes_the_same_jobs_elsewhere() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let server = serve(place, "lineshaft-data", &["beanstalk"]);
    let mut client = Client::on_tube(server.address(), "mail").unwrap();
    for (pri, delay_s, body) in [(9, 0, &b"text"[..]), (1, 0, b"\xFF\0"), (5, 900, b"later")] {
        client.put(pri, delay_s, 60, body).unwrap();
    }
    for _ in 0..2 {
        let id = client.put(0, 0, 60, b"bad").unwrap();
        client.reserve(0).unwrap().unwrap();
        client.expect(&format!("bury {id} 3"), "BURIED").unwrap();
    }
    let mut other = Client::on_tube(server.address(), "other").unwrap();
    other.put(0, 0, 60, b"another queue").unwrap();
    server.terminate().unwrap();

    let jobs = exported(place, "lineshaft-data");
    assert_eq!(all(&jobs, "id"), [1, 2, 3, 4, 5, 6]);
    let states = ["ready", "ready", "delayed", "buried", "buried", "ready"];
    assert_eq!(all(&jobs, "state"), states);
    let export = command(place, &["export", "--all"]).output().unwrap();
    fs::write(place.join("all.jsonl"), &export.stdout).unwrap();
    let said = done(place, &["import", "jsonl", "all.jsonl", "--data", "copy"]);
    assert!(said.contains("6 jobs: with the old number"), "{said}");
    assert_eq!(exported(place, "copy"), jobs, "nothing is lost on the way");

    let mail = command(place, &["export", "mail"]).output().unwrap();
    assert_eq!(mail.stdout.split(|byte| *byte == b'\n').count(), 6);
    let (code, said) = run(place, &["export", "mail", "--data", "nowhere"]);
    assert!(code == 1 && said.contains("nowhere"), "{code} {said}");
}

#[test]
fn lines_come_from_a_pipe_and_wrong_ones_are_named() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let mut import = command(place, &["import", "jsonl", "-"]);
    let mut child = import.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let lines =
        "{\"queue\":\"q\",\"body\":\"b\"}\nnonsense\n{\"queue\":\"q\",\"id\":7,\"body\":\"c\"}\n";
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let done = child.wait_with_output().unwrap();
    let said = String::from_utf8(done.stdout).unwrap();
    assert_eq!(done.status.code(), Some(65), "{said}");
    assert!(said.contains("standard input in line 2: not imported"), "{said}");
    let jobs = exported(place, "lineshaft-data");
    assert_eq!(all(&jobs, "body"), ["b", "c"]);
    assert_eq!(jobs[1]["id"], 7);
}

#[test]
fn a_running_server_is_exported_through_a_backup() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let server = serve(place, "lineshaft-data", &["beanstalk"]);
    let mut client = Client::on_tube(server.address(), "mail").unwrap();
    client.put(0, 0, 60, b"text").unwrap();
    done(place, &["backup", "copy", "--data", "lineshaft-data"]);
    assert_eq!(all(&exported(place, "copy"), "body"), ["text"]);
}
