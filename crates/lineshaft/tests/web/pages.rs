//! Sends browsers' requests to every port, byte for byte. They are the requests for a page of
//! another site.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use crate::request::get;
use crate::running::wait_for;
use crate::{PROTOCOLS, SECRET, Target};

/// Commands of all protocols that change something. Each command is on a line of its own.
const COMMANDS: &str = "\nshutdown\nSHUTDOWN\r\nstatus quiescent\nSTATUS quiescent\r\nput 0 0 60 5\r\nhello\r\n\
    delete 1\r\nput q:\nitem\n\nset q 0 0 1\r\nx\r\nflush secret-queue\nFLUSH_ALL\r\ndelete secret-queue\n\
    drop function secret-queue\r\nshutdown graceful\r\nquit\r\n";

/// The headers that Chromium sends, except that Chromium keeps the connection open.
const HEAD_OF_CHROMIUM: &str = "Connection: close\r\nsec-ch-ua: \"Chromium\";v=\"156\"\r\nsec-ch-ua-mobile: ?0\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/156.0.0.0 Safari/537.36\r\n\
    Accept: */*\r\nAccept-Encoding: gzip, deflate, br, zstd\r\nAccept-Language: en-US,en;q=0.9\r\n";

/// `fetch(url, {method: "POST", mode: "no-cors", body})`.
fn fetch(host: &str, path: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: {host}\r\n{HEAD_OF_CHROMIUM}Content-Length: {}\r\n\
         Content-Type: text/plain;charset=UTF-8\r\nOrigin: http://evil.example\r\nSec-Fetch-Site: cross-site\r\n\
         Sec-Fetch-Mode: no-cors\r\nSec-Fetch-Dest: empty\r\nReferer: http://evil.example/\r\n\r\n{body}",
        body.len()
    )
}

/// A form with `enctype="text/plain"`, on a page that hides its origin. For addresses like this
/// one, browsers send no `Sec-Fetch-Site`.
fn form(host: &str, path: &str, body: &str) -> String {
    let body = format!("{body}=\r\n");
    format!(
        "POST {path} HTTP/1.1\r\nHost: {host}\r\n{HEAD_OF_CHROMIUM}Content-Length: {}\r\nOrigin: null\r\n\
         Content-Type: text/plain\r\nUpgrade-Insecure-Requests: 1\r\n\r\n{body}",
        body.len()
    )
}

/// `<img src=url>`.
fn picture(host: &str, path: &str) -> String {
    format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\n{HEAD_OF_CHROMIUM}Sec-Fetch-Site: cross-site\r\n\
         Sec-Fetch-Mode: no-cors\r\nSec-Fetch-Dest: image\r\nReferer: http://evil.example/\r\n\r\n"
    )
}

/// `<img referrerpolicy=no-referrer src=url>`, for an address for which browsers send no
/// `Sec-Fetch-Site`.
fn unmarked_picture(host: &str, path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{HEAD_OF_CHROMIUM}\r\n")
}

/// A page's request to its own host name, which now resolves to this machine.
fn rebound(path: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: evil.example:2223\r\n{HEAD_OF_CHROMIUM}Content-Length: {}\r\n\
         Content-Type: text/plain;charset=UTF-8\r\nOrigin: http://evil.example:2223\r\n\
         Referer: http://evil.example:2223/\r\n\r\n{body}",
        body.len()
    )
}

/// Sends a request. Reads until the server closes the connection.
fn send(address: &str, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    // The write can fail, because the server can close the connection before it has the whole
    // request.
    let _ = stream.write_all(request);
    let mut answer = Vec::new();
    if let Err(error) = stream.read_to_end(&mut answer) {
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
    }
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn a_page_of_another_site_changes_nothing_on_any_port() {
    let folder = tempfile::tempdir().unwrap();
    let target = Target::start(folder.path());
    for (protocol, address) in PROTOCOLS.iter().zip(&target.addresses) {
        let before = target.foreign_count();
        let paths = ["/", "/shutdown", "/quiesce.txt", "/reload", "/f"];
        let requests = paths.iter().flat_map(|path| {
            [
                fetch(address, path, COMMANDS),
                form(address, path, COMMANDS),
                picture(address, path),
                unmarked_picture(address, path),
                rebound(path, COMMANDS),
            ]
        });
        let requests: Vec<String> = requests.collect();
        for request in &requests {
            let answer = send(address, request.as_bytes());
            assert!(!answer.contains(SECRET), "{protocol}: {answer}");
            if ["gearman_http", "kestrel_admin", "http"].contains(protocol) {
                assert!(answer.starts_with("HTTP/1."), "{protocol}: {answer}");
            } else {
                assert_eq!(answer, "", "{protocol}");
            }
        }
        let foreign = target.foreign_count() - before;
        let is_http = ["gearman_http", "kestrel_admin", "http"].contains(protocol);
        assert_eq!(foreign, if is_http { 0 } else { requests.len() as u64 }, "{protocol}");
        target.check_unharmed();
    }
    let warnings = target.server.stderr().matches("perhaps a web page did").count();
    assert!(
        (1..=2).contains(&warnings),
        "a crowd of pages fills no log: {}",
        target.server.stderr()
    );
}

#[test]
fn a_script_of_a_page_learns_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let target = Target::start(folder.path());
    let admin = target.address("kestrel_admin");
    // This creates a queue that the admin commands show.
    send(target.address("kestrel"), format!("set {SECRET} 0 0 1\r\nx\r\nquit\r\n").as_bytes());
    assert!(get(admin, "/stats.json").body.contains(SECRET));
    for path in ["/stats.json?callback=f", "/stats?callback=f", "/graph_data?callback"] {
        let script = picture(admin, path).replace("Dest: image", "Dest: script");
        let answer = send(admin, script.as_bytes());
        assert!(answer.starts_with("HTTP/1.1 403 ") && !answer.contains(SECRET), "{answer}");
        // A browser that does not send the origin still does not run the answer as a script.
        let answer = send(admin, unmarked_picture(admin, path).as_bytes());
        assert!(answer.contains("\r\nx-content-type-options: nosniff\r\n"), "{answer}");
        let kind = if path.starts_with("/stats") { "application/json" } else { "text/plain" };
        assert!(answer.contains(&format!("\r\ncontent-type: {kind}")), "{answer}");
    }
    for (protocol, path) in [("kestrel_admin", "/stats.json"), ("http", "/metrics")] {
        let address = target.address(protocol);
        let answer = get(address, path);
        assert_eq!(answer.headers["x-content-type-options"], "nosniff");
        assert_eq!(answer.headers["cross-origin-resource-policy"], "same-origin");
        assert!(!answer.headers.contains_key("access-control-allow-origin"));
        // The page's host name now resolves to this machine.
        let rebound =
            format!("GET {path} HTTP/1.1\r\nHost: evil.example\r\n{HEAD_OF_CHROMIUM}\r\n");
        let answer = send(address, rebound.as_bytes());
        assert!(answer.starts_with("HTTP/1.1 403 ") && !answer.contains(SECRET), "{answer}");
    }
}

#[test]
fn a_page_takes_no_numbers_from_monitoring() {
    let folder = tempfile::tempdir().unwrap();
    let target = Target::start(folder.path());
    let admin = target.address("kestrel_admin");
    target.count_a_get_after_monitoring_asked();
    for path in ["/stats.json?namespace=mon", "/stats.txt?namespace=mon", "/stats?period=60"] {
        for request in [
            picture(admin, path),
            unmarked_picture(admin, path),
            fetch(admin, path, ""),
            form(admin, path, ""),
            format!(
                "GET {path} HTTP/1.1\r\nHost: {admin}\r\nOrigin: http://evil.example\r\nConnection: close\r\n\r\n"
            ),
        ] {
            let answer = send(admin, request.as_bytes());
            assert!(answer.starts_with("HTTP/1.1 403 "), "{request}: {answer}");
        }
    }
    target.check_numbers_of_monitoring();
}

#[test]
fn a_page_gets_nothing_through_a_port_with_tls_either() {
    let folder = tempfile::tempdir().unwrap();
    let target = Target::start(folder.path());
    // The first bytes that a browser sends for https.
    let hello = [&b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03"[..], COMMANDS.as_bytes()].concat();
    for protocol in ["beanstalk", "gearman", "kestrel", "kestrel_text", "kestrel_thrift"] {
        assert_eq!(send(target.address(protocol), &hello), "", "{protocol}");
    }
    assert_eq!(target.foreign_count(), 5);
    target.check_unharmed();
}

#[test]
fn a_crowd_of_silent_connections_keeps_no_probe_out() {
    let folder = tempfile::tempdir().unwrap();
    let target = Target::start(folder.path());
    let address = target.address("http");
    let _crowd: Vec<TcpStream> = (0..500).map(|_| TcpStream::connect(address).unwrap()).collect();
    let mut probe = TcpStream::connect(address).unwrap();
    // A typical probe waits at most this long.
    probe.set_read_timeout(Some(Duration::from_secs(3))).unwrap();
    probe.write_all(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = [0; 15];
    probe.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200 OK");
}

#[test]
fn a_configuration_that_cannot_be_read_holds_up_neither_health_nor_other_commands() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lineshaft.toml");
    std::fs::write(&file, "").unwrap();
    let target = Target::start(folder.path());
    std::fs::remove_file(&file).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&file).status().unwrap().success());
    let admin = target.address("kestrel_admin");
    let reload = format!("POST /reload HTTP/1.1\r\nHost: {admin}\r\n\r\n");
    let waiting: Vec<TcpStream> = (0..5)
        .map(|_| {
            let mut stream = TcpStream::connect(admin).unwrap();
            stream.write_all(reload.as_bytes()).unwrap();
            stream
        })
        .collect();
    assert_eq!(get(target.address("http"), "/health/live").body, "live\n");
    assert_eq!(get(admin, "/ping.txt").body, "pong\n");
    for stream in &waiting {
        stream.set_nonblocking(true).unwrap();
        assert_eq!((&*stream).read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    }
    // These clients wait for the file. They get their answers as soon as the server can read it.
    let mut pipe = std::fs::OpenOptions::new().write(true).open(&file).unwrap();
    pipe.write_all(b"[[policy]]\nmatch = \"q\"\nlimits.jobs = 1\n").unwrap();
    std::fs::remove_file(&file).unwrap();
    std::fs::write(&file, "").unwrap();
    drop(pipe);
    for stream in &waiting {
        let mut answer = [0; 15];
        wait_for("the answer", || (&*stream).read_exact(&mut answer).ok());
        assert_eq!(&answer, b"HTTP/1.1 200 OK");
    }
}
