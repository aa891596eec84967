//! A redrive over crashes and restarts of the real program: it goes on with its number, and brings each
//! letter back once.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::ask;
use crate::kestrel::write_config;
use crate::running::{Running, command, wait_for};

const POLICY: &str =
    "[[policy]]\nmatch = \"mail\"\nretries.limit = 0\ndead.queue = \"dead.mail\"\n";
const LISTENERS: [&str; 4] = ["serve", "--only", "--beanstalk=127.0.0.1:0", "--http=127.0.0.1:0"];
const LETTERS: u64 = 300;
/// The redrive takes about six seconds. It is interrupted in the first three.
const RATE_PER_S: u64 = 50;

/// Sends a request over the operator's socket.
fn api(folder: &Path, method: &str, path: &str, body: &str) -> Value {
    let mut stream = UnixStream::connect(folder.join("lineshaft-data/api")).unwrap();
    let request = format!(
        "{method} /api/v1{path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {head}\n{body}"))
}

/// Takes as many jobs of the queue, and gives them back: they become dead letters. Returns what the
/// server says.
fn kill_jobs(address: &str, ids: impl Iterator<Item = u64>) -> String {
    let each = ids.map(|id| format!("reserve-with-timeout 0\r\nrelease {id} 0 0\r\n"));
    ask(address, &("watch mail\r\nignore default\r\n".to_owned() + &each.collect::<String>()))
}

#[test]
fn a_redrive_goes_on_after_each_end_of_the_process() {
    let folder = tempfile::tempdir().unwrap();
    write_config(folder.path(), POLICY);
    let mut server = Running::spawn(command(folder.path(), &LISTENERS));
    let puts = "use mail\r\n".to_owned() + &"put 0 0 600 1\r\nx\r\n".repeat(LETTERS as usize);
    ask(&server.address(), &puts);
    let killed = kill_jobs(&server.address(), 1..=LETTERS);
    assert_eq!(killed.matches("RELEASED\r\n").count() as u64, LETTERS, "{killed}");

    let asked = json!({ "kind": "redrive", "queue": "dead.mail", "rate_per_s": RATE_PER_S });
    let started = api(folder.path(), "POST", "/operations", &asked.to_string());
    assert_eq!((&started["id"], &started["total"]), (&json!(1), &json!(LETTERS)), "{started}");
    let operation = || api(folder.path(), "GET", "/operations/1", "");
    let done = || operation()["done"].as_u64().unwrap();
    let mut least = 0;
    for signal in [Signal::KILL, Signal::TERM, Signal::KILL] {
        let before = wait_for("the next letters", || Some(done()).filter(|done| *done > least));
        assert!(before < LETTERS, "it goes on at once");
        if least == 0 {
            // These die again. They are no letters of this redrive any more.
            let again = kill_jobs(&server.address(), 1..=5);
            assert_eq!(again.matches("RELEASED\r\n").count(), 5, "{again}");
        }
        server.signal(signal);
        server.wait();
        server = Running::spawn(command(folder.path(), &LISTENERS));
        server.address();
        let after = operation();
        least = after["done"].as_u64().unwrap();
        assert!(least >= before, "{before}, {after}");
        let same = ["id", "queue", "total", "who"].map(|key| after[key] == started[key]);
        assert_eq!(same, [true; 4], "{started}, {after}");
    }
    wait_for("the end", || (operation()["status"] != "running").then_some(()));
    let ended = operation();
    assert_eq!((&ended["status"], &ended["done"]), (&json!("done"), &json!(LETTERS)), "{ended}");
    server.wait_for_stderr("operation 1 goes on: redrive of dead.mail");

    let take_all = "watch mail\r\n".to_owned()
        + &"reserve-with-timeout 0\r\n".repeat(LETTERS as usize)
        + "stats-tube dead.mail\r\n";
    let taken = ask(&server.address(), &take_all);
    assert_eq!(taken.matches("RESERVED").count() as u64, LETTERS - 5, "{taken}");
    assert!(taken.contains("current-jobs-ready: 5\n"), "{taken}");

    // It has ended for the next start, too.
    server.signal(Signal::KILL);
    server.wait();
    let mut server = Running::spawn(command(folder.path(), &LISTENERS));
    server.address();
    assert_eq!(api(folder.path(), "GET", "/operations", ""), json!({ "items": [] }));
}

#[test]
fn a_line_break_in_the_name_of_a_queue_forges_no_message() {
    let folder = tempfile::tempdir().unwrap();
    write_config(folder.path(), &POLICY.replace("dead.mail", "dead.\\nERROR forged"));
    let mut server = Running::spawn(command(folder.path(), &LISTENERS));
    ask(&server.address(), &("use mail\r\n".to_owned() + &"put 0 0 600 1\r\nx\r\n".repeat(20)));
    kill_jobs(&server.address(), 1..=20);
    // The redrive takes about 20 seconds, so it runs when the server ends.
    let asked = json!({ "kind": "redrive", "queue": "dead.\nERROR forged", "rate_per_s": 1 });
    let started = api(folder.path(), "POST", "/operations", &asked.to_string());
    assert_eq!((&started["id"], &started["total"]), (&json!(1), &json!(20)), "{started}");
    server.signal(Signal::KILL);
    server.wait();
    server = Running::spawn(command(folder.path(), &LISTENERS));
    server.wait_for_stderr("operation 1 goes on: redrive of dead. ERROR forged");
}
