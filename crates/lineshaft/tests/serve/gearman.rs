//! Tests `lineshaft serve` with Gearman clients and workers: addresses, settings, jobs that move
//! from one protocol to another, and crashes.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;

use rustix::process::Signal;

use super::ask;
use crate::packet::{
    CAN_DO, ECHO_REQ, ECHO_RES, GRAB_JOB, JOB_ASSIGN, JOB_CREATED, NO_JOB, NOOP, PRE_SLEEP, Peer,
    SUBMIT_JOB, WORK_COMPLETE, WORK_FAIL,
};
use crate::running::{Running, command, finish, handed_over};

const BOTH: [&str; 6] =
    ["serve", "--memory", "--beanstalk", "127.0.0.1:0", "--gearman", "127.0.0.1:0"];
const DURABLE: [&str; 7] =
    ["serve", "--data", "d", "--only", "--gearman", "127.0.0.1:0", "--io-threads=2"];

#[test]
fn both_protocols_are_served() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Running::start(folder.path(), &BOTH);
    assert_eq!(ask(&server.address(), "list-tube-used\r\n"), "USING default\r\n");
    let mut peer = Peer::connect(&server.address_of("gearman"));
    peer.send(ECHO_REQ, &["hello", "there"]);
    assert_eq!(peer.expect(ECHO_RES), ["hello", "there"]);
    assert_eq!(peer.ask("version"), format!("OK {}\n", env!("CARGO_PKG_VERSION")));
    assert_eq!(peer.ask("getpid"), format!("OK {}\n", server.process_id()));
    assert_eq!(peer.ask("verbose"), "OK INFO\n");
    let workers = peer.ask("workers");
    assert!(workers.ends_with(" 127.0.0.1 - :\n"), "{workers}");
}

#[test]
fn a_job_crosses_from_one_protocol_to_the_other_and_back() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Running::start(folder.path(), &BOTH);
    let (beanstalk, gearman) = (server.address(), server.address_of("gearman"));

    let mut worker = Peer::connect(&gearman);
    worker.send(CAN_DO, &["mail"]);
    worker.send(PRE_SLEEP, &[]);
    // The reply shows that the server has handled all earlier requests. So the worker sleeps.
    worker.ask("version");
    assert_eq!(
        ask(&beanstalk, "use mail\r\nput 0 0 60 2\r\nhi\r\n"),
        "USING mail\r\nINSERTED 1\r\n"
    );
    worker.expect(NOOP);
    let assigned = worker.grab();
    assert_eq!(assigned[1..], ["mail", "hi"]);
    assert_eq!(ask(&beanstalk, "peek 1\r\n"), "FOUND 1 2\r\nhi\r\n");
    worker.send(WORK_COMPLETE, &[&assigned[0], ""]);
    worker.send(GRAB_JOB, &[]);
    worker.expect(NO_JOB);
    assert_eq!(ask(&beanstalk, "peek 1\r\n"), "NOT_FOUND\r\n");

    let mut client = Peer::connect(&gearman);
    client.send(SUBMIT_JOB, &["back", "", "ho"]);
    let handle = client.expect(JOB_CREATED).remove(0);
    assert_eq!(
        ask(&beanstalk, "watch back\r\nreserve\r\ndelete 2\r\n"),
        "WATCHING 2\r\nRESERVED 2 2\r\nho\r\nDELETED\r\n"
    );
    assert_eq!(client.expect(WORK_COMPLETE), [handle, String::new()]);
}

#[test]
fn the_start_and_a_file_say_where_gearman_clients_connect() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Running::spawn(command(folder.path(), &DURABLE));
    let address = server.address_of("gearman");
    let stdout = server.stdout();
    assert!(!stdout.contains("beanstalk") && !stdout.contains("try"), "{stdout}");
    let file = std::fs::read(folder.path().join("d/listen.json")).unwrap();
    let said: serde_json::Value = serde_json::from_slice(&file).unwrap();
    assert_eq!(said["gearman"][0], address.as_str());
    assert_eq!(said["beanstalk"].as_array().map(Vec::len), Some(0));
}

#[test]
fn a_unix_socket_and_the_environment() {
    let folder = tempfile::tempdir().unwrap();
    let mut starting = command(folder.path(), &["serve", "--memory", "--beanstalk", "off"]);
    starting.env("LINESHAFT_LISTEN_GEARMAN", "unix:g,127.0.0.1:0");
    let mut server = Running::spawn(starting);
    assert!(server.address_of("gearman").starts_with("unix:"));
    let mut stream = UnixStream::connect(folder.path().join("g")).unwrap();
    stream.write_all(b"workers\n").unwrap();
    let mut reply = [0; 13];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!(String::from_utf8_lossy(&reply), "1 unix - :\n.\n");
}

#[test]
fn a_port_that_is_taken_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let arguments =
        ["serve", "--memory", "--beanstalk", "127.0.0.1:0", "--gearman", address.as_str()];
    let finished = finish(command(folder.path(), &arguments));
    let stderr = String::from_utf8_lossy(&finished.stderr);
    assert_eq!(finished.status.code(), Some(69), "{stderr}");
    assert!(stderr.contains(&format!("{address}: the address is in use")), "{stderr}");
}

#[test]
fn settings_reach_the_dialect_and_the_engine() {
    let folder = tempfile::tempdir().unwrap();
    let settings = "[gearman]\nhandle_prefix = \"H:here\"\njob_retries = 1\nworker_wakeup = 1\n\
                    round_robin = true\n[limits]\ngearman_packet_size = 10000\n";
    std::fs::write(folder.path().join("lineshaft.toml"), settings).unwrap();
    let mut server = Running::start(folder.path(), &BOTH);
    let address = server.address_of("gearman");

    let mut workers = [Peer::connect(&address), Peer::connect(&address)];
    for worker in &mut workers {
        worker.send(CAN_DO, &["a"]);
        worker.send(CAN_DO, &["b"]);
        worker.send(PRE_SLEEP, &[]);
        worker.ask("version");
    }
    let mut client = Peer::connect(&address);
    client.send(SUBMIT_JOB, &["a", "", "x"]);
    assert_eq!(client.expect(JOB_CREATED), ["H:here:1"]);
    let [mut first, mut second] = workers;
    first.expect(NOOP);
    // The second worker was not woken: the next packet is the reply to this echo.
    second.send(ECHO_REQ, &["quiet"]);
    second.expect(ECHO_RES);

    for workload in ["b1", "b2"] {
        client.submit_background("b", workload);
    }
    client.submit_background("a", "a2");
    second.expect(NOOP);
    let functions: Vec<String> = (0..4).map(|_| second.grab().remove(1)).collect();
    assert_eq!(functions, ["b", "a", "b", "a"]);
    // The worker disconnects. This was the job's only attempt, so the job fails.
    drop(second);
    assert_eq!(client.expect(WORK_FAIL), ["H:here:1"]);

    client.send(ECHO_REQ, &[&"x".repeat(10_000)]);
    client.expect_end();
}

#[test]
fn a_background_job_survives_a_crash_with_its_handle() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Running::spawn(command(folder.path(), &DURABLE));
    let mut client = Peer::connect(&server.address_of("gearman"));
    let waiting = client.submit_background("f", "waiting");
    let done = client.submit_background("g", "done");
    let mut worker = Peer::connect(&server.address_of("gearman"));
    worker.send(CAN_DO, &["g"]);
    assert_eq!(worker.grab(), [&done, "g", "done"]);
    worker.send(WORK_COMPLETE, &[&done, ""]);
    worker.send(GRAB_JOB, &[]);
    worker.expect(NO_JOB);
    // No reply confirms a completion. But the reply that a job is unknown waits for the log.
    assert_eq!(worker.status(&done).0, "0");
    server.signal(Signal::KILL);
    server.wait();

    let mut again = Running::spawn(command(folder.path(), &DURABLE));
    let mut worker = Peer::connect(&again.address_of("gearman"));
    assert_eq!(worker.status(&waiting), ("1".to_owned(), "0".to_owned()));
    assert_eq!(worker.status(&done), ("0".to_owned(), "0".to_owned()));
    worker.send(CAN_DO, &["f"]);
    assert_eq!(worker.grab(), [&waiting, "f", "waiting"]);
    assert_eq!(worker.status(&waiting), ("1".to_owned(), "1".to_owned()));
    // The server does not assign an old job number again.
    let new = worker.submit_background("f", "new");
    assert!(![waiting, done].contains(&new), "{new}");
}

#[test]
fn a_socket_that_was_handed_over_says_its_protocol_by_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["serve", "--memory", "--beanstalk=127.0.0.1:0", "--gearman=127.0.0.1:0"];
    let (mut server, address) = handed_over(folder.path(), Some("gearman"), &arguments);
    let address = address.to_string();
    assert_eq!(server.address_of("gearman"), address);
    assert_eq!(ask(&server.address(), "list-tube-used\r\n"), "USING default\r\n");
    let mut worker = Peer::connect(&address);
    worker.submit_background("f", "x");
    worker.send(CAN_DO, &["f"]);
    worker.send(GRAB_JOB, &[]);
    worker.expect(JOB_ASSIGN);
}

#[test]
fn the_settings_of_gearman_are_shown() {
    let folder = tempfile::tempdir().unwrap();
    let mut showing = command(folder.path(), &["config", "show"]);
    showing.env_remove("LINESHAFT_LISTEN_GEARMAN").env("LINESHAFT_GEARMAN_JOB_RETRIES", "3");
    showing.stderr(File::create(folder.path().join("stderr")).unwrap());
    let shown = String::from_utf8(finish(showing).stdout).unwrap();
    for line in [
        "gearman = \"127.0.0.1:4730\" ",
        "gearman_packet_size = \"64MiB\" ",
        "[gearman]",
        "job_retries = 3 ",
        "handle_prefix = \"auto\" ",
    ] {
        assert!(shown.lines().any(|shown| shown.starts_with(line)), "{line} in {shown}");
    }
}
