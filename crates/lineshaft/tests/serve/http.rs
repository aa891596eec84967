//! Tests Gearman jobs over HTTP with real sockets: `serve --gearman-http` and `gearmand -r http`.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use crate::packet::{CAN_DO, Peer, WORK_COMPLETE};
use crate::running::{Running, command, wait_for};

/// Sends a request. The caller reads the answer later.
fn send(address: &str, request: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

/// Reads until the connection ends.
fn answer(mut stream: TcpStream) -> String {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Submits a job over HTTP and finishes it. Then submits another job in the background.
fn check_jobs(packets: &str, http: &str) {
    let client = send(http, "POST /f HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\nin");
    let mut worker = Peer::connect(packets);
    worker.send(CAN_DO, &["f"]);
    let job = wait_for("the job", || worker.try_grab());
    assert_eq!(job[1..], ["f", "in"]);
    worker.send(WORK_COMPLETE, &[&job[0], "out"]);
    let wanted = format!(
        "HTTP/1.0 200 OK\r\nX-Gearman-Job-Handle: {}\r\nX-Gearman-Command: WORK_COMPLETE\r\n\
         Content-Length: 3\r\nServer: Lineshaft/{}\r\n\r\nout",
        job[0],
        env!("CARGO_PKG_VERSION")
    );
    assert_eq!(answer(client), wanted);

    let background = "GET /f HTTP/1.0\r\nX-Gearman-Background: true\r\n\r\n";
    let created = answer(send(http, background));
    let job = worker.grab();
    assert!(
        created.contains(&format!("{}\r\nX-Gearman-Command: JOB_CREATED", job[0])),
        "{created}"
    );

    let (prefix, number) = job[0].rsplit_once(':').unwrap();
    let next = format!("{prefix}:{}", number.parse::<u64>().unwrap() + 1);
    let gone = send(http, "GET /gone HTTP/1.0\r\n\r\n");
    wait_for("the job", || (worker.status(&next).0 == "1").then_some(()));
    drop(gone);
    wait_for("the end of a job without a waiting client", || {
        (worker.status(&next).0 == "0").then_some(())
    });
    assert!(answer(send(http, "GET / HTTP/1.0\r\n\r\n")).starts_with("HTTP/1.0 404 NOT_FOUND\r\n"));
}

#[test]
fn serve_with_an_address_for_http() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = [
        "serve",
        "--data",
        "d",
        "--only",
        "--gearman",
        "127.0.0.1:0",
        "--gearman-http",
        "127.0.0.1:0",
    ];
    let mut server = Running::spawn(command(folder.path(), &arguments));
    let (packets, http) = (server.address_of("gearman "), server.address_of("gearman_http"));
    check_jobs(&packets, &http);
    let file = std::fs::read(folder.path().join("d/listen.json")).unwrap();
    let said: serde_json::Value = serde_json::from_slice(&file).unwrap();
    assert_eq!(said["gearman_http"][0], http.as_str());
}

#[test]
fn gearmand_with_its_protocol_module() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = [
        "gearmand",
        "-L",
        "127.0.0.1",
        "-p",
        "0",
        "-P",
        "pid",
        "-l",
        "log",
        "-r",
        "http",
        "--http-port=0",
    ];
    let mut server = Running::spawn(command(folder.path(), &arguments));
    let packets = server.gearmand_address();
    let stderr = server.stderr();
    let (_, http) = stderr.split_once("http://").unwrap();
    check_jobs(&packets, http.split(',').next().unwrap());
}
