//! Tests of TLS with real sockets. They test which clients the server accepts, and what server and
//! client report. They also test that a client does no harm if it breaks the rules.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use broker::Millis;
use rustls::version::{TLS12, TLS13};
use testkit::tls::certificates::{Authority, Identity};
use testkit::tls::{Client, Stream};
use testkit::wait;

use crate::config::{ClientAuth, Tls};
use crate::net::tls::{Certificates, TlsError};
use crate::net::tls_stream::HANDSHAKE_MS;
use crate::serving_tests::{LIMIT, Plan, Serving, eventually, limits, put};
use notation::address::Address;

/// A folder with an authority and the server's certificate.
struct Files {
    folder: tempfile::TempDir,
    authority: Authority,
    server: Identity,
}

impl Files {
    fn new() -> Files {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::new(folder.path(), "authority").unwrap();
        let server = authority.issue("server").unwrap();
        Files { folder, authority, server }
    }

    fn settings(&self) -> Tls {
        Tls {
            certificate: Some(self.server.certificate.clone()),
            key: Some(self.server.key.clone()),
            ..Tls::default()
        }
    }

    fn verifying(&self, client_auth: ClientAuth) -> Tls {
        Tls { client_ca: Some(self.authority.file.clone()), client_auth, ..self.settings() }
    }

    fn serve(&self, plan: Plan) -> Serving {
        Plan { tls: Some(self.settings()), ..plan }.serve()
    }

    fn client(&self, identity: Option<&Identity>) -> Client {
        Client::new(&self.authority.file, identity).unwrap()
    }

    fn connect(&self, serving: &Serving) -> Stream {
        patient(self.client(None).connect(place(serving)).unwrap())
    }

    fn write(&self, name: &str, content: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }
}

fn patient(stream: Stream) -> Stream {
    stream.sock.set_read_timeout(Some(LIMIT)).unwrap();
    stream.sock.set_nodelay(true).unwrap();
    stream
}

fn place(serving: &Serving) -> SocketAddr {
    let Address::Tcp { host, port } = &serving.address.address else { panic!("not a tcp socket") };
    SocketAddr::new(host.parse().unwrap(), *port)
}

fn expect(stream: &mut impl Read, reply: impl AsRef<[u8]>) {
    let mut got = vec![0; reply.as_ref().len()];
    stream.read_exact(&mut got).unwrap();
    assert_eq!(String::from_utf8_lossy(&got), String::from_utf8_lossy(reply.as_ref()));
}

/// Expects that the server ends the connection with a close alert.
fn expect_end(stream: &mut Stream) {
    assert_eq!(stream.read(&mut [0; 100]).unwrap(), 0);
}

fn ask(stream: &mut Stream) {
    stream.write_all(b"list-tube-used\r\n").unwrap();
    expect(stream, "USING default\r\n");
}

fn sessions(serving: &Serving) -> u64 {
    serving.broker.turn(Millis(0)).totals().sessions
}

#[test]
fn both_versions_are_spoken() {
    let files = Files::new();
    let serving = files.serve(Plan::default());
    for version in [&TLS13, &TLS12] {
        let client = Client::of_versions(&files.authority.file, None, &[version]).unwrap();
        let mut stream = patient(client.connect(place(&serving)).unwrap());
        stream.write_all(b"use a\r\nput 0 0 60 1\r\nx\r\nquit\r\n").unwrap();
        expect(&mut stream, "USING a\r\nINSERTED ");
        expect_line(&mut stream);
        expect_end(&mut stream);
        assert_eq!(stream.conn.protocol_version(), Some(version.version));
    }
}

fn expect_line(stream: &mut impl Read) {
    let mut byte = [0];
    while byte != *b"\n" {
        stream.read_exact(&mut byte).unwrap();
    }
}

#[test]
fn a_large_body_passes_in_both_directions() {
    for size in [16_384, 1 << 20, 20 << 20] {
        let files = Files::new();
        let serving = files.serve(limits(|limits| limits.beanstalk_job_bytes = size));
        let mut stream = files.connect(&serving);
        let body: Vec<u8> = (0..size).map(|index| (index % 251) as u8).collect();
        stream.write_all(&put(&body)).unwrap();
        expect(&mut stream, "INSERTED 1\r\n");
        stream.write_all(b"reserve\r\n").unwrap();
        expect(&mut stream, format!("RESERVED 1 {size}\r\n"));
        let mut got = vec![0; body.len()];
        stream.read_exact(&mut got).unwrap();
        assert!(got == body);
        expect(&mut stream, "\r\n");
    }
}

#[test]
fn records_may_come_byte_by_byte() {
    let files = Files::new();
    let serving = files.serve(Plan::default());
    let mut client = files.client(None).connection().unwrap();
    let mut socket = TcpStream::connect(place(&serving)).unwrap();
    socket.set_nodelay(true).unwrap();
    client.writer().write_all(b"list-tube-used\r\n").unwrap();
    let mut reply = Vec::new();
    while reply.len() < 15 {
        let mut bytes = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut bytes).unwrap();
        }
        for byte in bytes {
            socket.write_all(&[byte]).unwrap();
        }
        client.read_tls(&mut socket).unwrap();
        client.process_new_packets().unwrap();
        // Ignore an error, because the reply may not have arrived completely.
        let _ = client.reader().read_to_end(&mut reply);
    }
    assert_eq!(String::from_utf8_lossy(&reply), "USING default\r\n");
}

#[test]
fn a_half_closed_connection_gets_its_replies_and_then_the_end() {
    let files = Files::new();
    let serving = files.serve(Plan::default());
    for says_so in [true, false] {
        let mut stream = files.connect(&serving);
        stream.write_all(&put(b"x")).unwrap();
        if says_so {
            stream.conn.send_close_notify();
            stream.flush().unwrap();
        } else {
            stream.sock.shutdown(Shutdown::Write).unwrap();
        }
        expect(&mut stream, "INSERTED ");
        expect_line(&mut stream);
        expect_end(&mut stream);
    }
}

#[test]
fn a_half_close_ends_the_waiting() {
    let files = Files::new();
    let serving = files.serve(Plan::default());
    let mut stream = files.connect(&serving);
    stream.write_all(b"reserve\r\nlist-tube-used\r\n").unwrap();
    let waiting = || serving.broker.turn(Millis(0)).totals().waiting_sessions;
    eventually("it waits", || waiting() == 1);
    stream.conn.send_close_notify();
    stream.flush().unwrap();
    expect(&mut stream, "TIMED_OUT\r\nUSING default\r\n");
    expect_end(&mut stream);
}

#[test]
fn a_broken_connection_gives_its_job_to_the_next_waiter() {
    let files = Files::new();
    let serving = files.serve(Plan::default());
    let (mut holder, mut waiter) = (files.connect(&serving), files.connect(&serving));
    holder.write_all(&put(b"x")).unwrap();
    holder.write_all(b"reserve\r\n").unwrap();
    expect(&mut holder, "INSERTED 1\r\nRESERVED 1 1\r\nx\r\n");
    waiter.write_all(b"reserve\r\n").unwrap();
    let waiting = || serving.broker.turn(Millis(0)).totals().waiting_sessions;
    eventually("it waits", || waiting() == 1);
    drop(holder);
    expect(&mut waiter, "RESERVED 1 1\r\nx\r\n");
}

#[test]
fn plain_text_gets_an_alert_and_does_no_harm() {
    let files = Files::new();
    let serving = files.serve(Plan::default());
    let mut other = files.connect(&serving);
    ask(&mut other);
    let zeros = vec![0; 70_000];
    for garbage in [&b"list-tube-used\r\n"[..], &zeros, b"\x16\x03\x01\xff\xff\x01"] {
        let mut socket = TcpStream::connect(place(&serving)).unwrap();
        socket.set_read_timeout(Some(LIMIT)).unwrap();
        // Ignore an error, because the server may close the connection before it has received
        // everything.
        let _ = socket.write_all(garbage);
        let mut reply = Vec::new();
        let _ = socket.read_to_end(&mut reply);
        // The reply is empty, or a fatal alert.
        assert!(reply.is_empty() || (reply[0] == 21 && reply[5] == 2), "{reply:?}");
        ask(&mut other);
    }
    eventually("only the other one is left", || sessions(&serving) == 1);
}

#[test]
fn a_request_of_a_browser_ends_its_connection_and_does_nothing() {
    let files = Files::new();
    let serving = files.serve(Plan::default());
    let mut browser = files.connect(&serving);
    browser.write_all(b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nput 0 0 60 1\r\nx\r\n").unwrap();
    let mut reply = Vec::new();
    // Ignore an error. The server does not read all bytes, so the connection may be reset.
    let _ = browser.read_to_end(&mut reply);
    assert_eq!(String::from_utf8_lossy(&reply), "");
    eventually("the session ends", || sessions(&serving) == 0);
    assert_eq!(serving.broker.turn(Millis(0)).totals().puts, 0);
}

#[test]
fn half_a_handshake_counts_and_has_an_end() {
    let files = Files::new();
    let serving = files.serve(limits(|limits| limits.connections = Some(2)));
    let started = Instant::now();
    let (silent, mut half) = (
        TcpStream::connect(place(&serving)).unwrap(),
        TcpStream::connect(place(&serving)).unwrap(),
    );
    let mut hello = Vec::new();
    files.client(None).connection().unwrap().write_tls(&mut hello).unwrap();
    half.write_all(&hello[..hello.len() / 2]).unwrap();
    eventually("both are there", || serving.connections() == 2);
    let mut third = files.connect(&serving);
    ask(&mut third);
    let waited = started.elapsed();
    assert!(waited >= Duration::from_millis(HANDSHAKE_MS), "beyond the limit it waits: {waited:?}");
    assert_eq!(sessions(&serving), 1, "only a handshake that succeeded opens a session");
    for mut socket in [silent, half] {
        socket.set_read_timeout(Some(LIMIT)).unwrap();
        assert_eq!(socket.read(&mut [0; 10]).unwrap_or(0), 0);
    }
    // The time limit is only for the handshake. This client has finished its handshake, so it stays
    // connected.
    let more_than_that = Duration::from_millis(HANDSHAKE_MS + 500);
    wait::let_pass(more_than_that, "an end that does not come has no event");
    ask(&mut third);
}

#[test]
fn a_peer_that_leaves_in_the_handshake_is_forgotten() {
    let files = Files::new();
    let serving = files.serve(Plan::default());
    let mut hello = Vec::new();
    files.client(None).connection().unwrap().write_tls(&mut hello).unwrap();
    for count in [0, 1, hello.len() / 2, hello.len()] {
        let mut socket = TcpStream::connect(place(&serving)).unwrap();
        socket.write_all(&hello[..count]).unwrap();
        eventually("it is there", || serving.connections() == 1);
        assert_eq!(sessions(&serving), 0, "the handshake is not over");
        drop(socket);
        eventually("it is gone", || serving.connections() == 0);
    }
}

#[test]
fn a_peer_that_refuses_the_server_is_let_go_at_once() {
    let files = Files::new();
    let serving = files.serve(Plan::default());
    let strangers = Authority::new(files.folder.path(), "strangers").unwrap();
    let client = Client::new(&strangers.file, None).unwrap();
    let refused_before_the_limit = || {
        let started = Instant::now();
        let mut stream = patient(client.connect(place(&serving)).unwrap());
        assert_eq!(stream.write_all(b"x").unwrap_err().kind(), ErrorKind::InvalidData);
        // The client has sent an alert, and now waits until the server closes the connection.
        let mut socket = &stream.sock;
        while socket.read(&mut [0; 100]).unwrap() > 0 {}
        started.elapsed() < Duration::from_millis(HANDSHAKE_MS)
    };
    // On a busy machine, an attempt can take longer than the limit by accident. If all five
    // attempts take longer, the test fails: it assumes that the server waits for the limit.
    assert!((0..5).any(|_| refused_before_the_limit()), "it ends by the limit of the handshake");
}

#[test]
fn many_large_replies_reach_a_reader_that_comes_late() {
    let files = Files::new();
    let serving = files.serve(Plan::default());
    let mut stream = files.connect(&serving);
    let body = vec![b'b'; 60_000];
    stream.write_all(&put(&body)).unwrap();
    expect(&mut stream, "INSERTED 1\r\n");
    let count = 500;
    let commands = "peek 1\r\n".repeat(count) + "use last\r\n";
    stream.write_all(commands.as_bytes()).unwrap();
    wait::let_pass(
        Duration::from_millis(200),
        "replies fill the buffers of a reader that comes late",
    );
    for _ in 0..count {
        expect(&mut stream, "FOUND 1 60000\r\n");
        expect(&mut stream, [body.as_slice(), b"\r\n"].concat());
    }
    expect(&mut stream, "USING last\r\n");
}

#[test]
fn a_reader_that_takes_nothing_is_cut_off_and_delays_no_other_client() {
    let files = Files::new();
    let serving = files.serve(limits(|limits| limits.unsent_time = Duration::from_millis(500)));
    let (mut stuck, mut other) = (files.connect(&serving), files.connect(&serving));
    ask(&mut other);
    stuck.write_all(&put(&vec![b'b'; 60_000])).unwrap();
    expect(&mut stuck, "INSERTED 1\r\n");
    stuck.write_all("peek 1\r\n".repeat(1000).as_bytes()).unwrap();
    eventually("it is cut off", || {
        ask(&mut other);
        sessions(&serving) == 1
    });
}

#[test]
fn clients_are_verified() {
    let files = Files::new();
    let right = files.authority.issue("right").unwrap();
    let strangers = Authority::new(files.folder.path(), "strangers").unwrap();
    let wrong = strangers.issue("wrong").unwrap();
    for (asked, without, with_wrong) in [
        (ClientAuth::None, true, true),
        (ClientAuth::Optional, true, false),
        (ClientAuth::Required, false, false),
    ] {
        let serving = Plan { tls: Some(files.verifying(asked)), ..Plan::default() }.serve();
        for version in [&TLS13, &TLS12] {
            let is_let_in = |identity: Option<&Identity>| {
                let authority = &files.authority.file;
                let client = Client::of_versions(authority, identity, &[version]).unwrap();
                let mut stream = patient(client.connect(place(&serving)).unwrap());
                let mut reply = [0; 15];
                let sent = stream.write_all(b"list-tube-used\r\n");
                match sent.and_then(|()| stream.read_exact(&mut reply)) {
                    Ok(()) => true,
                    // The client must learn the reason. It is not enough that the server
                    // disconnects.
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::InvalidData, "{error}");
                        false
                    }
                }
            };
            assert!(is_let_in(Some(&right)), "{asked:?}");
            assert_eq!(is_let_in(None), without, "{asked:?} {version:?}");
            assert_eq!(is_let_in(Some(&wrong)), with_wrong, "{asked:?} {version:?}");
        }
        eventually("all are gone", || sessions(&serving) == 0);
    }
}

#[test]
fn a_client_with_a_long_chain_of_certificates_is_refused() {
    let files = Files::new();
    let tls = Some(files.verifying(ClientAuth::Required));
    let serving = Plan { tls, ..Plan::default() }.serve();
    let Identity { certificate, key } = files.authority.issue("client").unwrap();
    let own = std::fs::read_to_string(certificate).unwrap();
    let authority = std::fs::read_to_string(&files.authority.file).unwrap();
    let connect = |count: usize, version| {
        // All these chains are valid: the authority has signed the client's own certificate.
        let certificate = files.write("chain.pem", &(own.clone() + &authority.repeat(count)));
        let chain = Identity { certificate, key: key.clone() };
        let client = Client::of_versions(&files.authority.file, Some(&chain), &[version]).unwrap();
        patient(client.connect(place(&serving)).unwrap())
    };
    for version in [&TLS13, &TLS12] {
        ask(&mut connect(4, version));
        let mut refused = connect(5, version);
        let sent = refused.write_all(b"list-tube-used\r\n");
        let error = sent.and_then(|()| refused.read_exact(&mut [0])).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData, "it learns the reason: {error}");
    }
}

#[test]
fn new_connections_see_a_new_certificate_and_open_ones_stay() {
    let files = Files::new();
    let serving = files.serve(Plan::default());
    let certificates = serving.certificates.clone().unwrap();
    let mut old = files.connect(&serving);
    ask(&mut old);

    let successor = Authority::new(files.folder.path(), "successor").unwrap();
    successor.issue("server").unwrap();
    certificates.reload(&files.settings()).unwrap();
    ask(&mut old);
    let client = Client::new(&successor.file, None).unwrap();
    ask(&mut patient(client.connect(place(&serving)).unwrap()));
    let error = files.connect(&serving).write_all(b"x").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidData, "{error}");

    files.write("server.pem", "damaged");
    certificates.reload(&files.settings()).unwrap_err();
    ask(&mut patient(client.connect(place(&serving)).unwrap()));
}

#[test]
fn a_stop_says_the_end() {
    let files = Files::new();
    let mut serving = files.serve(Plan::default());
    let mut stream = files.connect(&serving);
    ask(&mut stream);
    let half = TcpStream::connect(place(&serving)).unwrap();
    eventually("both are there", || serving.connections() == 2);
    serving.stop();
    expect_end(&mut stream);
    drop(half);
}

/// A certificate as `openssl x509 -req` makes it without `-extfile`.
const VERSION_1: &str = "\
-----BEGIN CERTIFICATE-----
MIIBGDCBvwIUQrgw/HtokpA8MrxEE5xveE1yzkAwCgYIKoZIzj0EAwIwDjEMMAoG
A1UEAwwDb2xkMCAXDTI2MTEyMDEyMTIyOVoYDzIxMjYxMDI3MTIxMjI5WjAOMQww
CgYDVQQDDANvbGQwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAATy1xtEJgDQXY+T
ZxbzssGOKuIctihRqF++lqGoheGMArF0WNQdD1oMoxfP03uXfK9WuzVDf6oL/al5
cyGNg9tRMAoGCCqGSM49BAMCA0gAMEUCIFc8akQjimza3V9ZH+uXMKAHnDVpKWq+
5GVgH/jtgl3fAiEAuT2MMrmmHd2n+KftaUG4h5baYMcwhI8zw9+Yhsa5AF0=
-----END CERTIFICATE-----
";

fn refused(settings: &Tls) -> String {
    Certificates::load(settings).unwrap_err().to_string()
}

#[test]
fn a_message_about_a_bad_file_has_one_line() {
    let files = Files::new();
    let right = files.settings();
    let with_certificate =
        |path: &Path| Tls { certificate: Some(path.to_owned()), ..right.clone() };
    let with_key = |path: &Path| Tls { key: Some(path.to_owned()), ..right.clone() };
    let with_ca = |path: &Path| Tls { client_ca: Some(path.to_owned()), ..right.clone() };

    assert_eq!(refused(&Tls::default()), "TLS needs a certificate; name one");
    let no_key = Tls { key: None, ..right.clone() };
    assert_eq!(refused(&no_key), "TLS needs a key; name one");
    let no_authority = Tls { client_auth: ClientAuth::Required, ..right.clone() };
    let expected = "TLS needs a certificate of the clients' authority; name one";
    assert_eq!(refused(&no_authority), expected);
    let absent = files.folder.path().join("absent");
    let message = refused(&with_certificate(&absent));
    assert!(message.starts_with(&format!("cannot read the certificate {}: ", absent.display())));
    assert!(matches!(Certificates::load(&with_key(&absent)), Err(TlsError::Read { .. })));
    assert!(matches!(Certificates::load(&with_ca(&absent)), Err(TlsError::Read { .. })));

    let empty = files.write("empty", "");
    let message = refused(&with_certificate(&empty));
    let expected = "contains no certificate; add one in PEM format";
    assert_eq!(message, format!("{}: {expected}", empty.display()));
    let message = refused(&with_key(&files.server.certificate));
    assert!(message.ends_with("contains no key; add one in PEM format, without a passphrase"));
    let message = refused(&with_ca(&empty));
    assert!(message.contains("contains no certificate of the clients' authority"), "{message}");

    let other = files.authority.issue("other").unwrap();
    let expected = format!(
        "the key in {} does not belong to the certificate in {}",
        other.key.display(),
        files.server.certificate.display()
    );
    assert_eq!(refused(&with_key(&other.key)), expected);

    let pem = std::fs::read_to_string(&files.server.certificate).unwrap();
    let half = files.write("half", &pem[..pem.len() / 2]);
    let message = refused(&with_certificate(&half));
    assert!(message.contains("cannot use the certificate"), "{message}");
    let wrong = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n";
    let wrong = files.write("wrong", wrong);
    let message = refused(&with_certificate(&wrong));
    assert!(message.contains("cannot use the certificate"), "{message}");
    let message = refused(&with_ca(&wrong));
    assert!(message.contains("cannot use the certificate of the clients' authority"), "{message}");

    let old = files.write("old", VERSION_1);
    let message = refused(&with_certificate(&old));
    let expected = "cannot use the certificate: it has version 1, but version 3 is needed";
    assert!(message.contains(expected), "{message}");

    // Certificate and key can be in one file.
    let key = std::fs::read_to_string(&files.server.key).unwrap();
    let both = files.write("both", &(key + &pem));
    Certificates::load(&Tls { key: Some(both.clone()), ..with_certificate(&both) }).unwrap();
}

#[test]
fn the_account_includes_the_buffers_of_tls() {
    let files = Files::new();
    let serving = files.serve(Plan::default());
    let used_bytes = || serving.broker.memory_usage().used_bytes;
    let before = used_bytes();
    let mut streams: Vec<Stream> = (0..10).map(|_| files.connect(&serving)).collect();
    streams.iter_mut().for_each(ask);
    eventually("they count", || used_bytes() - before > 10 * 7_000);
    drop(streams);
    eventually("they are gone", || used_bytes() == before);
}
