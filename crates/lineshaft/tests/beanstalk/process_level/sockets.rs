//! Tests other sockets than the plain TCP listener, ends of connections, and very large bodies.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use testkit::client::Client;
use testkit::process::Program;
use testkit::process::free_port;
use testkit::{tools, wait};

use super::for_both;
use crate::programs;

/// Starts the program as systemd does: binds the socket, and passes it to the program as descriptor
/// 3.
const INHERIT: &str = "\
import os, socket, sys
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(('127.0.0.1', int(sys.argv[1])))
listener.listen()
if listener.fileno() != 3:
    os.dup2(listener.fileno(), 3)
os.set_inheritable(3, True)
os.environ['LISTEN_PID'] = str(os.getpid())
os.environ['LISTEN_FDS'] = '1'
os.environ['LISTEN_FDNAMES'] = 'any-name'
os.execv(sys.argv[2], sys.argv[2:])";

#[test]
fn an_inherited_socket_is_served() -> Result<()> {
    let Some(python) = tools::find_or_skip("python3") else { return Ok(()) };
    let port = free_port()?;
    let ignored_port = free_port()?.to_string();
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let start = |program: &[&str]| {
        let port = port.to_string();
        let arguments = [&["-c", INHERIT, &port], program].concat();
        let flags = ["-l", "127.0.0.1", "-p", &ignored_port];
        Program::like_beanstalkd(&python, &arguments).with(&flags).start_at(address)
    };
    let check = |program: &[&str]| -> Result<()> {
        let server = start(program)?;
        Client::connect(address)?.expect("list-tube-used", "USING default")?;
        let elsewhere = SocketAddr::from(([127, 0, 0, 1], ignored_port.parse()?));
        ensure!(Client::connect(elsewhere).is_err(), "it listens where -p says, too");
        ensure!(server.stderr().contains("ignor"), "no word on what is ignored");
        Ok(())
    };
    if let Some(path) = tools::find_or_skip(programs::REFERENCE) {
        check(&[path.to_str().context("a text path")?]).context("the original")?;
    }
    check(&[programs::lineshaft_path().to_str().context("a text path")?, "beanstalkd"])
}

#[test]
fn a_unix_socket_is_served_and_replaced() -> Result<()> {
    for_both(|program| {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("socket");
        let program = program.clone().with(&["-l", &format!("unix:{}", path.display())]);
        // The first server is killed, so it leaves its socket file. The second server must replace
        // the file.
        for _ in 0..2 {
            let server = program.start_unwatched()?;
            let mut stream = connect_unix(&path)?;
            stream.write_all(b"list-tube-used\r\n")?;
            let mut line = String::new();
            BufReader::new(stream).read_line(&mut line)?;
            ensure!(line == "USING default\r\n", "{line}");
            server.kill();
        }
        Ok(())
    })
}

fn connect_unix(path: &Path) -> Result<UnixStream> {
    let stream = wait::for_some(wait::LIMIT, || UnixStream::connect(path).ok())
        .with_context(|| format!("no server listens at {}", path.display()))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    Ok(stream)
}

#[test]
fn an_incomplete_command_is_dropped_and_complete_ones_are_answered() -> Result<()> {
    for_both(|program| {
        let server = program.start()?;
        let conversation = |sent: &[u8]| -> Result<String> {
            let mut client = Client::connect(server.address())?;
            client.send(sent)?;
            client.half_close()?;
            Ok(String::from_utf8_lossy(&client.read_to_end()?).into_owned())
        };
        let said = conversation(b"list-tube-us")?;
        ensure!(said.is_empty(), "to a part of a line: {said}");
        let said = conversation(b"put 0 0 60 10\r\nabc")?;
        ensure!(said.is_empty(), "to a part of a body: {said}");
        let said = conversation(b"put 0 0 60 70000\r\nabc")?;
        ensure!(said.is_empty(), "to a part of a body that is too big: {said}");
        let said = conversation(b"put 0 0 60 3\r\nabc\r\n")?;
        ensure!(said.starts_with("INSERTED "), "to a whole put: {said}");
        let stats = Client::connect(server.address())?.stats("stats")?;
        ensure!(stats["total-jobs"] == "1", "{} jobs were put", stats["total-jobs"]);
        Ok(())
    })
}

#[test]
fn a_huge_body_stuck_in_a_reader_delays_no_other_client() -> Result<()> {
    const BODY_BYTES: usize = 100_000_000;
    for_both(|program| {
        let server = program.clone().with(&["-z", "1073741824"]).start()?;
        let mut client = Client::on_tube(server.address(), "huge")?;
        let body = vec![b'h'; BODY_BYTES];
        let id = client.put(0, 0, 600, &body)?;

        let mut stuck = Client::on_tube(server.address(), "huge")?;
        stuck.send(b"reserve\r\n")?;
        wait::until_ok("the job is reserved", || {
            Ok(client.stats(&format!("stats-job {id}"))?["state"] == "reserved")
        })?;
        let other = client.put(0, 0, 60, b"small")?;
        client.expect(&format!("delete {other}"), "DELETED")?;
        client.expect("list-tube-used", "USING huge")?;

        let line = stuck.read_line()?;
        ensure!(line == format!("RESERVED {id} {BODY_BYTES}"), "{line}");
        ensure!(stuck.read_body(BODY_BYTES)? == body, "the body came out otherwise");
        stuck.expect(&format!("delete {id}"), "DELETED")
    })
}
