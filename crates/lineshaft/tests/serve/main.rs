//! Tests `lineshaft serve` and `lineshaft config` as an operator and a service manager use them:
//! messages at the start, exit codes, signals, configuration.

#![expect(clippy::unwrap_used, reason = "a test may end there")]

mod backup;
mod blocked;
mod configuration;
mod container;
mod crons;
mod dead_letters;
mod defaults;
mod descriptors;
mod exit_codes;
mod gates;
mod gearman;
mod gearmand;
mod http;
mod kestrel;
mod manager;
mod packages;
mod packet;
mod pairs;
mod pauses;
mod policies;
mod redrive;
mod repair;
mod results;
mod running;
mod same_as;
mod startup;
mod tasks;
mod tls;
mod unique;
mod upgrade;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;

use rustix::process::Signal;
use testkit::tools;

use running::{Running, command, finish};

/// Sends a request and then `quit`. Reads until the connection ends.
fn ask(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(format!("{request}quit\r\n").as_bytes()).unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    reply
}

#[test]
fn the_start_says_where_it_listens_and_a_file_says_it_too() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["serve", "--beanstalk", "127.0.0.1:0", "--http", "127.0.0.1:0"];
    let mut server = Running::start(folder.path(), &arguments);
    let address = server.address();
    assert_eq!(ask(&address, "put 0 0 60 1\r\nx\r\n"), "INSERTED 1\r\n");
    let stdout = server.stdout();
    assert!(stdout.contains("is ready"), "{stdout}");
    assert!(stdout.contains("(0 jobs), sync always: an acknowledged job survives"), "{stdout}");
    assert!(stdout.contains(&format!("lineshaft put --server {address} hello")), "{stdout}");
    let http = server.address_of("http");
    assert!(stdout.contains(&format!("http://{http}/console")), "{stdout}");

    let file = folder.path().join("lineshaft-data/listen.json");
    let said: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(said["beanstalk"][0], address.as_str());
    assert_eq!(said["pid"], server.process_id());
    server.signal(Signal::TERM);
    assert_eq!(server.wait().code(), Some(0));
    assert!(!file.exists());

    let mut again = Running::start(folder.path(), &["serve", "--beanstalk", "127.0.0.1:0"]);
    assert_eq!(ask(&again.address(), "peek 1\r\n"), "FOUND 1 1\r\nx\r\n");
    assert!(again.stdout().contains("(1 job)"));
    again.signal(Signal::INT);
    assert_eq!(again.wait().code(), Some(0));
}

#[test]
fn several_listeners_serve_the_same_queues() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["serve", "--memory", "--beanstalk", "127.0.0.1:0", "--beanstalk", "unix:s"];
    let mut server = Running::start(folder.path(), &arguments);
    assert_eq!(ask(&server.address(), "put 0 0 60 1\r\nx\r\n"), "INSERTED 1\r\n");
    let socket = folder.path().join("s");
    let mut stream = std::os::unix::net::UnixStream::connect(socket).unwrap();
    stream.write_all(b"peek 1\r\nquit\r\n").unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    assert_eq!(reply, "FOUND 1 1\r\nx\r\n");
    assert!(!folder.path().join("lineshaft-data").exists(), "nothing is kept");
    server.signal(Signal::TERM);
    assert_eq!(server.wait().code(), Some(0));
    assert!(!folder.path().join("s").exists(), "the socket stays");
}

#[test]
fn the_other_version_of_the_internet_protocol_is_served() {
    if TcpListener::bind("[::1]:0").is_err() {
        tools::leave_out("this machine has no IPv6");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["serve", "--memory", "--beanstalk", "[::1]:0"];
    let mut server = Running::start(folder.path(), &arguments);
    let address = server.address();
    assert!(address.starts_with("[::1]:"), "{address}");
    assert_eq!(ask(&address, "put 0 0 60 1\r\nx\r\n"), "INSERTED 1\r\n");
    let put = finish(command(folder.path(), &["put", "--server", &address, "default", "y"]));
    assert!(put.status.success(), "{put:?}");
    assert_eq!(ask(&address, "peek 2\r\n"), "FOUND 2 1\r\ny\r\n");
}

#[test]
fn a_large_job_size_can_be_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["serve", "--memory", "--max-job-size", "1MiB", "--beanstalk", "127.0.0.1:0"];
    let mut server = Running::start(folder.path(), &arguments);
    let body = "b".repeat(1 << 20);
    let address = server.address();
    assert_eq!(ask(&address, &format!("put 0 0 60 {}\r\n{body}\r\n", 1 << 20)), "INSERTED 1\r\n");
    let too_big = format!("put 0 0 60 {}\r\n{body}b\r\n", (1 << 20) + 1);
    assert_eq!(ask(&address, &too_big), "JOB_TOO_BIG\r\n");
}

#[test]
fn sigusr1_drains() {
    let folder = tempfile::tempdir().unwrap();
    let mut server =
        Running::start(folder.path(), &["serve", "--memory", "--beanstalk", "127.0.0.1:0"]);
    let address = server.address();
    server.signal(Signal::USR1);
    server.wait_for_stderr("draining");
    assert_eq!(ask(&address, "put 0 0 60 1\r\nx\r\n"), "DRAINING\r\n");
    server.signal(Signal::TERM);
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn waiting_clients_see_the_end_at_a_stop() {
    let folder = tempfile::tempdir().unwrap();
    let mut server =
        Running::start(folder.path(), &["serve", "--memory", "--beanstalk", "127.0.0.1:0"]);
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.write_all(b"list-tube-used\r\nreserve\r\n").unwrap();
    let mut reply = [0; 15];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"USING default\r\n");
    server.signal(Signal::TERM);
    assert_eq!(stream.read(&mut reply).unwrap(), 0);
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn json_lines_are_json() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("lineshaft.toml"), "[messages]\nformat = \"json\"\n")
        .unwrap();
    let arguments = ["serve", "--memory", "--beanstalk", "127.0.0.1:0"];
    let mut server = Running::spawn(command(folder.path(), &arguments));
    server.wait_for_stderr("\"ready\"");
    server.signal(Signal::TERM);
    server.wait();
    assert_eq!(server.stdout(), "");
    for line in server.stderr().lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(line["message"].is_string(), "{line}");
    }
}

#[test]
fn without_a_subcommand_the_server_starts() {
    let folder = tempfile::tempdir().unwrap();
    let mut starting = command(folder.path(), &[]);
    starting.env("LINESHAFT_LISTEN_BEANSTALK", "127.0.0.1:0");
    let mut server = Running::spawn(starting);
    assert_eq!(ask(&server.address(), "list-tube-used\r\n"), "USING default\r\n");
    assert!(Path::new(&folder.path().join("lineshaft-data/lock")).exists());
}

#[test]
fn only_without_a_listener_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let finished = finish(command(folder.path(), &["serve", "--memory", "--only"]));
    assert_eq!(finished.status.code(), Some(78));
    let stderr = String::from_utf8_lossy(&finished.stderr);
    assert!(stderr.contains("every listener is off"), "{stderr}");
}
