//! Tests a start that takes long, because the log is large.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::Path;

use rustix::process::Signal;
use testkit::wait;

use super::ask;
use crate::running::{Running, command};

/// The number of jobs in the log, and the size of their bodies. A start needs a second or two to
/// read this log.
const JOBS: usize = 4_000;
const BODY_BYTES: usize = 60_000;

/// The server's response to a request for this path on its unix socket for health. `None`: the
/// socket does not listen.
fn health(socket: &Path, path: &str) -> Option<String> {
    let mut stream = UnixStream::connect(socket).ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

#[test]
fn a_long_start_listens_when_it_can_serve_and_tells_health_and_the_service_manager() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address = format!("127.0.0.1:{port}");
    let arguments =
        ["serve", "--sync", "never", "--beanstalk", &address, "--http", "unix:http.sock"];
    let mut server = Running::start(folder, &arguments);
    let body = "b".repeat(BODY_BYTES);
    let put = format!("put 0 0 60 {BODY_BYTES}\r\n{body}\r\n");
    for _ in 0..JOBS / 50 {
        ask(&address, &put.repeat(50));
    }
    server.signal(Signal::KILL);
    server.wait();

    let manager = folder.join("manager.sock");
    let told = UnixDatagram::bind(&manager).unwrap();
    let mut again = command(folder, &arguments);
    again.env("NOTIFY_SOCKET", &manager);
    let mut server = Running::spawn(again);
    let socket = folder.join("http.sock");
    let mut starting = Vec::new();
    wait::until("the server is ready", || {
        // Try to connect before the request for health. So if the response says that the server
        // is starting, it was also starting during the attempt to connect.
        let is_refused = TcpStream::connect(&address).is_err();
        match health(&socket, "/health/ready") {
            Some(answer) if answer.contains("not ready: starting") => {
                assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
                assert!(is_refused, "a client was accepted before the log was read");
                starting.push(answer);
                false
            }
            Some(answer) => answer.contains("\r\n\r\nready"),
            None => false,
        }
    });
    assert!(starting.len() > 1, "the start was too short for this test");
    assert!(starting.iter().any(|answer| answer.contains(" % of a log of")), "{starting:?}");
    assert!(ask(&server.address(), "stats-tube default\r\n").contains("current-jobs-ready: 4000"));
    told.set_nonblocking(true).unwrap();
    let mut messages = String::new();
    let mut bytes = [0; 4096];
    while let Ok(len) = told.recv(&mut bytes) {
        messages.push_str(std::str::from_utf8(&bytes[..len]).unwrap());
    }
    assert!(messages.contains("STATUS=starting: "), "{messages}");
    assert!(messages.contains("EXTEND_TIMEOUT_USEC="), "{messages}");
    let (before, _) = messages.split_once("READY=1").expect("it is ready");
    assert!(before.contains(" % of a log of "), "{messages}");
    server.signal(Signal::TERM);
    assert_eq!(server.wait().code(), Some(0));
    fs::remove_dir_all(folder.join("lineshaft-data")).unwrap();
}
