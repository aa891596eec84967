//! Tests of harmful clients: browsers with requests of a web page, clients that open many
//! connections from one address, and clients that stop in the middle of a request.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use crate::config::protocol::Protocol;
use crate::serving_tests::{LIMIT, Plan, Serving, eventually, limits};

const LINE_PROTOCOLS: [Protocol; 5] = [
    Protocol::Beanstalk,
    Protocol::Gearman,
    Protocol::Kestrel,
    Protocol::KestrelText,
    Protocol::KestrelThrift,
];

fn serve(protocol: Protocol) -> Serving {
    Plan { protocol, ..Plan::default() }.serve()
}

fn connect(serving: &Serving) -> TcpStream {
    let stream = TcpStream::connect(serving.address.to_string()).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// All bytes until the server closes the connection.
fn rest(stream: &mut TcpStream) -> String {
    let mut received = Vec::new();
    if let Err(error) = stream.read_to_end(&mut received) {
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
    }
    String::from_utf8_lossy(&received).into_owned()
}

fn jobs(serving: &Serving) -> u64 {
    serving.broker.turn(serving.broker.last_time()).totals().ready
}

fn sessions(serving: &Serving) -> u64 {
    serving.broker.turn(serving.broker.last_time()).totals().sessions
}

#[test]
fn a_request_of_a_browser_ends_its_connection_and_does_nothing() {
    let body = "\nput 0 0 60 5\r\nhello\r\nput q:\nx\n\nset q 0 0 1\r\nx\r\nshutdown\n";
    let post = format!(
        "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let long_path = format!("GET /{} HTTP/1.1\r\n\r\n{body}", "a".repeat(300_000));
    let preface = format!("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n{body}");
    for protocol in LINE_PROTOCOLS {
        let serving = serve(protocol);
        for request in [&post, &long_path, &preface] {
            let mut browser = connect(&serving);
            // Ignore an error, because the server may close the connection before it has received
            // everything.
            let _ = browser.write_all(request.as_bytes());
            let reply = rest(&mut browser);
            assert!(
                !reply.contains("INSERTED") && !reply.contains("STORED"),
                "{protocol:?}: {reply}"
            );
        }
        eventually("the sessions end", || sessions(&serving) == 0);
        assert_eq!(jobs(&serving), 0, "{protocol:?}");
    }
}

#[test]
fn a_request_of_a_browser_is_known_byte_by_byte_too() {
    let serving = serve(Protocol::Beanstalk);
    let mut browser = connect(&serving);
    for byte in b"POST / HTTP/1.1\r\n" {
        browser.write_all(&[*byte]).unwrap();
    }
    assert_eq!(rest(&mut browser), "");
}

#[test]
fn a_first_line_that_only_resembles_a_request_is_a_command() {
    let serving = serve(Protocol::Beanstalk);
    let mut client = connect(&serving);
    client.write_all(b"use HTTP/1.1\r\nGET / HTTP/1.1\r\nquit\r\n").unwrap();
    assert_eq!(rest(&mut client), "USING HTTP/1.1\r\nUNKNOWN_COMMAND\r\n");
}

#[test]
fn an_address_with_too_many_connections_is_refused_further_ones() {
    let serving = limits(|limits| limits.connections_per_address = Some(2)).serve();
    let ask = |stream: &mut TcpStream| {
        stream.write_all(b"list-tube-used\r\n").unwrap();
        let mut reply = [0; 15];
        stream.read_exact(&mut reply).unwrap();
        assert_eq!(&reply, b"USING default\r\n");
    };
    let (mut first, mut second) = (connect(&serving), connect(&serving));
    ask(&mut first);
    ask(&mut second);
    assert_eq!(rest(&mut connect(&serving)), "");
    ask(&mut first);
    drop(second);
    eventually("the session ends", || sessions(&serving) == 1);
    eventually("there is room again", || {
        let mut third = connect(&serving);
        third.write_all(b"quit\r\nquit\r\n").is_ok() && third.read(&mut [0]).is_ok()
    });
}

#[test]
fn a_client_that_stops_mid_request_is_closed_and_an_idle_one_is_not() {
    let impatient = |protocol| {
        let mut plan = limits(|limits| limits.unfinished_time = Some(Duration::from_millis(100)));
        plan.protocol = protocol;
        plan.serve()
    };
    let begun = [
        (Protocol::Beanstalk, &b"put 0 0 60 5\r\n"[..]),
        (Protocol::Beanstalk, b"list-tu"),
        (Protocol::Gearman, b"\0REQ\0\0\0\x07\0\0"),
        (Protocol::Kestrel, b"set q 0 0 5\r\nab"),
        (Protocol::KestrelText, b"put q:\nitem\n"),
        (Protocol::KestrelThrift, b"\0\0\0\x20\x80\x01"),
        (Protocol::GearmanHttp, b""),
        (Protocol::GearmanHttp, b"POST /f HTTP/1.1\r\nContent-"),
        (Protocol::GearmanHttp, b"POST /f HTTP/1.1\r\nContent-Length: 5\r\n\r\n"),
    ];
    let begun = begun.map(|(protocol, bytes)| {
        let serving = impatient(protocol);
        let mut stream = connect(&serving);
        stream.write_all(bytes).unwrap();
        (serving, stream)
    });
    for (serving, mut stream) in begun {
        rest(&mut stream);
        eventually("the session ends", || sessions(&serving) == 0);
    }
    let serving = impatient(Protocol::Beanstalk);
    let (mut idle, mut waiting) = (connect(&serving), connect(&serving));
    waiting.write_all(b"reserve\r\nlist-tube").unwrap();
    eventually("it waits", || {
        serving.broker.turn(serving.broker.last_time()).totals().waiting_sessions == 1
    });
    // This client connects last. So its time limit ends after the time limits of the other clients.
    let mut stuck = connect(&serving);
    stuck.write_all(b"put 0 0 60 5\r\n").unwrap();
    rest(&mut stuck);
    idle.write_all(b"put 0 0 60 5\r\nhello\r\n").unwrap();
    let mut reply = [0; 12];
    idle.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"INSERTED 2\r\n");
    let mut reply = [0; 14];
    waiting.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"RESERVED 2 5\r\n");
}
