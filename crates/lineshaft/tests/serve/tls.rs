//! Tests TLS with operators' flags and files, with mistakes in them, with new certificates, with
//! unmodified clients, and with the original's `--ssl`.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use testkit::tls::certificates::{Authority, Identity};
use testkit::tls::{Client, Proxy};
use testkit::tools;

use super::ask;
use crate::packet::{CAN_DO, Peer, WORK_COMPLETE};
use crate::running::{Running, command, finish, handed_over, wait_for};

/// A folder for servers. It has an authority, and a certificate for the servers.
struct Place {
    folder: tempfile::TempDir,
    authority: Authority,
}

impl Place {
    fn new() -> Place {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::new(folder.path(), "authority").unwrap();
        authority.issue("server").unwrap();
        Place { folder, authority }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Starts `serve` in memory, with the certificate and these arguments.
    fn serve(&self, arguments: &[&str]) -> Running {
        let all = ["serve", "--memory", "--tls-certificate=server.pem", "--tls-key=server.key"];
        Running::spawn(command(self.path(), &[&all, arguments].concat()))
    }

    /// Starts `gearmand --ssl` and waits for its address.
    fn gearmand(&self, arguments: &[&str]) -> (Running, SocketAddr) {
        let mut server = Running::spawn(command(self.path(), &gearmand(arguments)));
        let address = tls_address(&server.gearmand_address());
        (server, address)
    }

    /// Runs a start that must fail. Returns the exit code and the error output.
    fn refused(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let finished = finish(command(self.path(), arguments));
        (finished.status.code(), String::from_utf8_lossy(&finished.stderr).into_owned())
    }

    /// Starts a proxy for clients that do not support TLS. Returns its address.
    fn way_to(&self, server: SocketAddr) -> String {
        self.way_as(server, None)
    }

    fn way_as(&self, server: SocketAddr, identity: Option<&Identity>) -> String {
        let client = Client::new(&self.authority.file, identity).unwrap();
        Proxy::start(client, server).unwrap().address.to_string()
    }
}

fn gearmand<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    let local = ["gearmand", "--ssl", "-L", "127.0.0.1", "-p", "0", "-P", "pid", "-l", "stderr"];
    [&local, arguments].concat()
}

const FILES: [&str; 2] = ["--ssl-certificate=server.pem", "--ssl-key=server.key"];

/// Parses the address that a server reports with the prefix `tls:`.
fn tls_address(said: &str) -> SocketAddr {
    said.strip_prefix("tls:").unwrap_or_else(|| panic!("{said} has no TLS")).parse().unwrap()
}

/// True if a client with this authority gets a reply. False if the server closes the connection.
fn is_served(authority: &Path, identity: Option<&Identity>, server: SocketAddr) -> bool {
    let mut stream = Client::new(authority, identity).unwrap().connect(server).unwrap();
    stream.sock.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let sent = stream.write_all(b"version\r\n");
    sent.and_then(|()| stream.read_exact(&mut [0; 3])).is_ok()
}

#[test]
fn every_protocol_has_listeners_of_both_kinds() {
    let place = Place::new();
    let mut server = place.serve(&[
        "--beanstalk=127.0.0.1:0",
        "--beanstalk=tls:127.0.0.1:0",
        "--gearman=tls:127.0.0.1:0",
        "--gearman-http=tls:127.0.0.1:0",
        "--kestrel=tls:127.0.0.1:0",
        "--http=tls:127.0.0.1:0",
    ]);
    let plain = server.address();
    let stdout = server.stdout();
    let all = stdout.lines().find(|line| line.trim().starts_with("beanstalk")).unwrap();
    let beanstalk = tls_address(all.rsplit(' ').next().unwrap());
    let gearman = tls_address(&server.address_of("gearman "));
    let jobs = tls_address(&server.address_of("gearman_http"));
    let kestrel = tls_address(&server.address_of("kestrel "));
    let health = tls_address(&server.address_of("http "));
    // The suggested command uses the address without TLS, because the tools do not support TLS.
    assert!(stdout.contains(&format!("--server {plain} hello")), "{stdout}");

    assert_eq!(ask(&plain, "put 0 0 60 1\r\nx\r\n"), "INSERTED 1\r\n");
    assert_eq!(ask(&place.way_to(beanstalk), "peek 1\r\n"), "FOUND 1 1\r\nx\r\n");
    let mut worker = Peer::connect(&place.way_to(gearman));
    worker.send(CAN_DO, &["default"]);
    let job = worker.grab();
    assert_eq!(job[1..], ["default", "x"]);
    worker.send(WORK_COMPLETE, &[&job[0], ""]);
    assert_eq!(ask(&place.way_to(kestrel), "set q 0 0 1\r\nx\r\n"), "STORED\r\n");
    assert!(get(&place.way_to(jobs), "/").starts_with("HTTP/1.0 404"));
    let healthy = get(&place.way_to(health), "/health/live");
    assert!(healthy.starts_with("HTTP/1.0 200"), "{healthy}");
}

/// The whole answer to a request.
fn get(address: &str, page: &str) -> String {
    let mut request = TcpStream::connect(address).unwrap();
    request.write_all(format!("GET {page} HTTP/1.0\r\n\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    request.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_body_of_a_mebibyte_passes_both_ways() {
    let place = Place::new();
    let mut server = place.serve(&["--max-job-size=1MiB", "--beanstalk=tls:127.0.0.1:0"]);
    let way = place.way_to(tls_address(&server.address()));
    let body = "b".repeat(1 << 20);
    let reply = ask(&way, &format!("put 0 0 60 {}\r\n{body}\r\npeek 1\r\n", 1 << 20));
    assert_eq!(reply.len(), "INSERTED 1\r\nFOUND 1 1048576\r\n".len() + (1 << 20) + 2);
}

#[test]
fn signals_during_the_start_wait_until_it_is_done() {
    let place = Place::new();
    let file = place.path().join("server.pem");
    let certificate = std::fs::read(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert!(Command::new("mkfifo").arg(&file).status().unwrap().success());
    let mut server = place.serve(&["--beanstalk=tls:127.0.0.1:0"]);
    // `open` returns when the server reads the pipe during its start. So the signals arrive during
    // the start.
    let mut pipe = std::fs::OpenOptions::new().write(true).open(&file).unwrap();
    server.signal(Signal::HUP);
    server.signal(Signal::USR1);
    std::fs::remove_file(&file).unwrap();
    std::fs::write(&file, &certificate).unwrap();
    pipe.write_all(&certificate).unwrap();
    drop(pipe);
    server.address();
    server.wait_for_stderr("draining");
    server.wait_for_stderr("configuration reloaded");
    server.signal(Signal::TERM);
    assert_eq!(server.wait().code(), Some(0));
}

const PYTHON: &str = "
import socket, ssl, sys
port, authority = int(sys.argv[1]), sys.argv[2]
context = ssl.create_default_context(cafile=authority)
for version in ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3:
    context.minimum_version = context.maximum_version = version
    raw = socket.create_connection(('127.0.0.1', port), 20)
    with context.wrap_socket(raw, server_hostname='localhost') as connection:
        body = b'b' * 60000
        connection.sendall(b'put 0 0 60 60000\\r\\n' + body + b'\\r\\nreserve\\r\\ndelete 1\\r\\nquit\\r\\n')
        received = b''
        while part := connection.recv(65536):
            received += part
        assert received.startswith(b'INSERTED ') and body in received, received[:100]
        print(connection.version())
context = ssl.create_default_context()
try:
    context.wrap_socket(socket.create_connection(('127.0.0.1', port), 20), server_hostname='localhost')
    print('trusted a stranger')
except ssl.SSLCertVerificationError:
    print('done')
";

#[test]
fn python_and_openssl_connect() {
    let place = Place::new();
    let mut server = place.serve(&["--beanstalk=tls:127.0.0.1:0"]);
    let address = tls_address(&server.address());
    if let Some(python) = tools::find_or_skip("python3") {
        let output = Command::new(python)
            .args(["-c", PYTHON, &address.port().to_string()])
            .arg(&place.authority.file)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "TLSv1.2\nTLSv1.3\ndone\n", "{said}");
    }
    if let Some(openssl) = tools::find_or_skip("openssl") {
        let mut client = Command::new(openssl)
            .args(["s_client", "-quiet", "-verify_return_error", "-connect", &address.to_string()])
            .arg("-CAfile")
            .arg(&place.authority.file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut stdin = client.stdin.take().unwrap();
        stdin.write_all(b"list-tube-used\r\nquit\r\n").unwrap();
        let output = client.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "USING default\r\n");
    }
}

#[test]
fn mistakes_stop_the_start_with_one_line() {
    let place = Place::new();
    place.authority.issue("other").unwrap();
    let listen = ["serve", "--memory", "--only", "--gearman=tls:127.0.0.1:0"];
    for (arguments, said) in [
        (
            &[][..],
            "--gearman: listen.gearman: an address with `tls:` also needs tls.certificate and tls.key",
        ),
        (
            &["--tls-certificate=absent", "--tls-key=server.key"],
            "cannot read the certificate absent: ",
        ),
        (
            &["--tls-certificate=server.key", "--tls-key=server.key"],
            "server.key: contains no certificate;",
        ),
        (
            &["--tls-certificate=server.pem", "--tls-key=other.key"],
            "the key in other.key does not belong to the certificate in server.pem",
        ),
        (
            &["--tls-certificate=server.pem", "--tls-key=server.key", "--tls-client-ca=server.key"],
            "server.key: contains no certificate of the clients' authority",
        ),
    ] {
        let (code, stderr) = place.refused(&[&listen, arguments].concat());
        assert_eq!((code, stderr.lines().count()), (Some(78), 1), "{stderr}");
        assert!(stderr.contains(said), "{stderr}");
    }
}

#[test]
fn clients_need_a_certificate_if_there_is_an_authority_for_them() {
    let place = Place::new();
    let client = place.authority.issue("client").unwrap();
    let mut server =
        place.serve(&["--tls-client-ca=authority.pem", "--only", "--gearman=tls:127.0.0.1:0"]);
    let address = tls_address(&server.address_of("gearman"));
    assert!(is_served(&place.authority.file, Some(&client), address));
    assert!(!is_served(&place.authority.file, None, address));
}

#[test]
fn sighup_takes_new_certificates_but_no_bad_ones() {
    let place = Place::new();
    let mut server = place.serve(&["--beanstalk=tls:127.0.0.1:0"]);
    let address = tls_address(&server.address());
    let successor = Authority::new(place.path(), "successor").unwrap();
    successor.issue("server").unwrap();
    assert!(is_served(&place.authority.file, None, address), "no reload was requested");
    server.signal(Signal::HUP);
    server.wait_for_stderr("configuration reloaded");
    assert!(is_served(&successor.file, None, address));
    assert!(!is_served(&place.authority.file, None, address));

    std::fs::write(place.path().join("server.key"), "damaged").unwrap();
    server.signal(Signal::HUP);
    server.wait_for_stderr("nothing changed: server.key: contains no key");
    assert!(is_served(&successor.file, None, address));
}

#[test]
fn a_socket_that_was_handed_over_speaks_tls_by_its_name() {
    let place = Place::new();
    let arguments = ["serve", "--memory", "--only", "--gearman=tls:127.0.0.1:1"];
    let files = ["--tls-certificate=server.pem", "--tls-key=server.key"];
    let arguments = [&arguments[..], &files].concat();
    let (mut server, address) = handed_over(place.path(), Some("gearman-tls"), &arguments);
    assert_eq!(server.address_of("gearman"), format!("tls:{address}"));
    assert!(is_served(&place.authority.file, None, address));
    let (mut server, _) = handed_over(place.path(), Some("gearman"), &arguments);
    assert_eq!(server.wait().code(), Some(78));
    assert!(server.stderr().contains("name the socket gearman-tls"), "{}", server.stderr());
    let (mut server, _) = handed_over(place.path(), Some("gearman_tls"), &arguments);
    assert_eq!(server.wait().code(), Some(78));
    assert!(server.stderr().contains("`gearman_tls`"), "{}", server.stderr());
}

#[test]
fn gearmand_speaks_tls_on_its_port_and_not_for_http() {
    let place = Place::new();
    let (server, address) =
        place.gearmand(&[&FILES[..], &["-r", "http", "--http-port=0"]].concat());
    let mut peer = Peer::connect(&place.way_to(address));
    assert_eq!(peer.ask("verbose"), "OK ERROR\n");
    let stderr = server.stderr();
    let (_, http) = stderr.split_once("http://").unwrap();
    assert!(get(http.split(',').next().unwrap(), "/").starts_with("HTTP/1.0 404"));

    // The server sends no readable reply to a client without TLS.
    let mut plain = TcpStream::connect(address).unwrap();
    plain.write_all(b"version\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.windows(2).any(|part| part == b"OK"), "{answer:?}");
}

#[test]
fn gearmand_takes_the_files_of_the_environment_and_new_ones_at_sighup() {
    let place = Place::new();
    let mut starting = command(place.path(), &gearmand(&["--ssl-certificate=absent"]));
    starting.env("GEARMAND_SERVER_PEM", "server.pem").env("GEARMAND_SERVER_KEY", "server.key");
    let mut server = Running::spawn(starting);
    let address = tls_address(&server.gearmand_address());
    assert!(is_served(&place.authority.file, None, address));
    let successor = Authority::new(place.path(), "successor").unwrap();
    successor.issue("server").unwrap();
    server.signal(Signal::HUP);
    wait_for("the new certificate", || is_served(&successor.file, None, address).then_some(()));
}

#[test]
fn gearmand_verifies_clients_only_if_configured() {
    let place = Place::new();
    let client = place.authority.issue("client").unwrap();
    let ca = [&FILES[..], &["--ssl-ca-file=authority.pem"]].concat();
    let (_server, address) = place.gearmand(&ca);
    assert!(is_served(&place.authority.file, None, address));
    let (_server, address) = place.gearmand(&[&ca[..], &["--ssl-client-auth=required"]].concat());
    assert!(!is_served(&place.authority.file, None, address));
    let mut peer = Peer::connect(&place.way_as(address, Some(&client)));
    assert_eq!(peer.ask("verbose"), "OK ERROR\n");
}

#[test]
fn gearmand_does_not_start_without_its_files_and_says_when_they_are_for_nothing() {
    let place = Place::new();
    for (arguments, said) in [
        (&["--ssl-certificate=absent"][..], "cannot read the certificate absent: "),
        (&[FILES[0], "--ssl-key=absent"], "cannot read the key absent: "),
        (&[FILES[0], FILES[1], "--ssl-ca-file=absent"], "authority absent: "),
        (&[FILES[0], FILES[1], "--ssl-client-auth=perhaps"], "--ssl-client-auth: `perhaps` is not"),
    ] {
        let (code, stderr) = place.refused(&gearmand(arguments));
        assert_eq!(code, Some(1), "{stderr}");
        assert!(stderr.contains(said), "{stderr}");
        assert!(!place.path().join("pid").exists());
    }
    let arguments = ["gearmand", "-L", "127.0.0.1", "-p", "0", "-P", "pid", "-l", "log", FILES[0]];
    let mut server = Running::spawn(command(place.path(), &arguments));
    server.gearmand_address();
    assert!(server.stderr().contains("without --ssl nothing is encrypted"), "{}", server.stderr());
}

#[test]
fn config_check_reads_the_files_as_the_start_does() {
    let place = Place::new();
    let check = |key: &str, listen: &str| {
        let tls = format!("[tls]\ncertificate = \"server.pem\"\nkey = \"{key}\"\n");
        let text = format!("[listen]\nbeanstalk = \"{listen}127.0.0.1:0\"\n{tls}");
        std::fs::write(place.path().join("lineshaft.toml"), text).unwrap();
        place.refused(&["config", "check"])
    };
    assert_eq!(check("server.key", "tls:"), (Some(0), String::new()));
    let (code, said) = check("absent", "tls:");
    assert_eq!(code, Some(78));
    assert!(said.starts_with("cannot read the key absent: "), "{said}");
    place.authority.issue("other").unwrap();
    let (code, said) = check("other.key", "tls:");
    assert_eq!(code, Some(78));
    assert!(said.contains("the key in other.key does not belong to the certificate"), "{said}");
    // The server reads the files only if an address uses TLS.
    assert_eq!(check("absent", ""), (Some(0), String::new()));
}
