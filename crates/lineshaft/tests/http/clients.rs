//! Tests all kinds of HTTP clients: correct requests, requests for missing pages, and hostile
//! clients.

use std::io::Write as _;
use std::net::TcpStream;

use testkit::client::Client;

use crate::Site;
use crate::request::Peer;
use crate::running::wait_for;

/// More connections than the server keeps open at the same time.
const CROWD: usize = 100;

#[test]
fn a_connection_is_kept_and_requests_may_come_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let site = Site::start(folder.path(), &["--memory"]);
    let mut peer = Peer::connect(&site.http);
    for _ in 0..3 {
        assert_eq!(peer.ask("GET", "/health/live").body, "live\n");
    }
    peer.send(&b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(50));
    for _ in 0..50 {
        assert_eq!(peer.answer(true).body, "live\n");
    }
    let looked = peer.ask("HEAD", "/health/live");
    assert_eq!((looked.status, looked.headers["content-length"].as_str()), (200, "5"));
    peer.send(b"GET /health/live HTTP/1.0\r\n\r\n");
    assert!(peer.has_ended());
}

#[test]
fn unknown_pages_are_not_found_and_nothing_can_be_changed() {
    let folder = tempfile::tempdir().unwrap();
    let site = Site::start(folder.path(), &["--memory"]);
    for path in ["/nothing", "/health", "/metrics/", "//metrics", "/health/live/"] {
        assert_eq!(site.get(path).status, 404, "{path}");
    }
    for method in ["POST", "DELETE", "OPTIONS", "BREW"] {
        let answer = Peer::connect(&site.http).ask(method, "/metrics");
        assert_eq!((answer.status, answer.headers["allow"].as_str()), (405, "GET, HEAD"));
    }
}

#[test]
fn garbage_and_what_is_too_long_end_their_own_connection_only() {
    let folder = tempfile::tempdir().unwrap();
    let site = Site::start(folder.path(), &["--memory"]);
    let long_path = format!("GET /{} HTTP/1.1\r\n\r\n", "p".repeat(100_000));
    let long_header = format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "v".repeat(100_000));
    let many_headers = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(10_000));
    let huge_body = "POST /metrics HTTP/1.1\r\nContent-Length: 18446744073709551615\r\n\r\nx";
    let two_lengths = "GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n";
    let tls = "\x16\x03\x01\x02\0\x01\0\x01\u{7f}\x03\x03";
    let requests = [
        &long_path,
        &long_header,
        &many_headers,
        huge_body,
        two_lengths,
        tls,
        "put 0 0 1 1\r\nx\r\n\r\n",
    ];
    for request in requests {
        let mut peer = Peer::connect(&site.http);
        let mut stream = TcpStream::connect(&site.http).unwrap();
        // The write can fail, because the server can refuse a request before it has all of it.
        let _ = stream.write_all(request.as_bytes());
        let mut bad = Peer::over(stream);
        assert!(bad.has_ended(), "{}", &request[..20.min(request.len())]);
        assert_eq!(peer.ask("GET", "/health/live").status, 200);
    }
}

#[test]
fn a_crowd_of_silent_clients_holds_up_neither_the_queue_nor_health_for_good() {
    let folder = tempfile::tempdir().unwrap();
    let site = Site::start(folder.path(), &["--memory"]);
    let crowd: Vec<TcpStream> = (0..CROWD)
        .map(|_| {
            let mut stream = TcpStream::connect(&site.http).unwrap();
            stream.write_all(b"GET / HT").unwrap();
            stream
        })
        .collect();
    let mut client = Client::connect(site.beanstalk.parse().unwrap()).unwrap();
    client.put(0, 0, 60, b"x").unwrap();
    assert!(client.reserve(0).unwrap().is_some());
    assert_eq!(site.get("/health/ready").status, 200);
    drop(crowd);
}

#[test]
fn health_is_answered_when_no_more_clients_are_let_in() {
    let folder = tempfile::tempdir().unwrap();
    let limit = [("LINESHAFT_LIMITS_CONNECTIONS", "1")];
    let site = Site::start_with(folder.path(), &["--memory"], &limit);
    let _client = Client::connect(site.beanstalk.parse().unwrap()).unwrap();
    wait_for("the client", || {
        let metrics = site.get("/metrics").body;
        metrics.contains("\nlineshaft_connections 1\n").then_some(())
    });
    assert!(site.get("/metrics").body.contains("\nlineshaft_connections_max 1\n"));
    assert_eq!(site.get("/health/ready").status, 200);
}
