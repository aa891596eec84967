//! Tests that a server with many clients has enough file descriptors for its log.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::process::Command;

use rustix::process::Signal;

use crate::running::{Running, command};

/// The limit of the server's file descriptors: only a few more than its I/O threads and its files need.
const DESCRIPTORS: usize = 404;

#[test]
fn clients_leave_a_server_with_many_threads_enough_for_its_log() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["serve", "--io-threads=64", "--beanstalk=127.0.0.1:0"];
    let plain = command(folder.path(), &arguments);
    let mut limited = Command::new("/bin/sh");
    let script = format!("ulimit -n {DESCRIPTORS}; exec \"$0\" \"$@\"");
    limited.args(["-c", &script]).arg(plain.get_program()).args(plain.get_args());
    limited.current_dir(folder.path()).env("LINESHAFT_DATA_SEGMENT_SIZE", "256KiB");
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    let mut server = Running::spawn(limited);
    let address = server.address();
    let mut client = BufReader::new(TcpStream::connect(&address).unwrap());
    let mut put = |bytes: usize| {
        let command = format!("put 0 0 60 {bytes}\r\n{}\r\n", "b".repeat(bytes));
        client.get_mut().write_all(command.as_bytes()).unwrap();
        let mut reply = String::new();
        client.read_line(&mut reply).unwrap();
        assert!(reply.starts_with("INSERTED "), "{reply}");
    };
    put(1);
    let crowd: Vec<TcpStream> =
        (0..DESCRIPTORS).map(|_| TcpStream::connect(&address).unwrap()).collect();
    server.wait_for_stderr("new clients must wait");
    // These jobs fill several files of the log.
    for _ in 0..20 {
        put(60_000);
    }
    drop(crowd);
    server.signal(Signal::TERM);
    assert_eq!(server.wait().code(), Some(0), "{}", server.stderr());
}
