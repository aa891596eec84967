//! Tests the features for service managers such as systemd: passed sockets, readiness, watchdog
//! messages.

use std::io::Write as _;
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use rustix::process::Signal;

use super::ask;
use crate::running::{Running, command, handed_over, wait_for};

#[test]
fn readiness_watchdog_and_stop_are_notified() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut starting = command(
        folder.path(),
        &["serve", "--memory", "--beanstalk", "127.0.0.1:0", "--io-threads", "3"],
    );
    starting.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "100000");
    let mut server = Running::spawn(starting);
    let told = || {
        let mut message = [0; 1000];
        let len = manager.recv(&mut message).unwrap();
        String::from_utf8_lossy(&message[..len]).trim().to_owned()
    };
    assert_eq!(told(), "READY=1");
    assert_eq!(told(), "WATCHDOG=1");
    assert_eq!(told(), "WATCHDOG=1");
    server.signal(Signal::TERM);
    wait_for("the end", || (told() == "STOPPING=1").then_some(()));
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn a_second_signal_ends_a_stop_that_lasts() {
    let folder = tempfile::tempdir().unwrap();
    let serve = ["serve", "--memory", "--beanstalk", "127.0.0.1:0"];
    let mut server = Running::start(folder.path(), &serve);
    let address = server.address();
    // The client reads nothing, and its replies do not fit into the socket's buffers. So a clean
    // stop waits for this client.
    let mut stuck = TcpStream::connect(&address).unwrap();
    stuck.write_all(format!("put 0 0 60 60000\r\n{}\r\n", "b".repeat(60_000)).as_bytes()).unwrap();
    stuck.write_all("peek 1\r\n".repeat(500).as_bytes()).unwrap();
    // The buffers are full when the server handles no more of this client's commands.
    let (mut done, mut looks) = (String::new(), 0);
    wait_for("full buffers", || {
        let stats = ask(&address, "stats\r\n");
        let now = stats.lines().find(|line| line.starts_with("cmd-peek: ")).unwrap().to_owned();
        let has_stopped = now == done && now != "cmd-peek: 0";
        looks = if has_stopped { looks + 1 } else { 0 };
        done = now;
        (looks == 20).then_some(())
    });
    assert_ne!(done, "cmd-peek: 500", "everything has found room");
    server.signal(Signal::TERM);
    wait_for("the first signal's effect", || TcpStream::connect(&address).err());
    server.signal(Signal::INT);
    assert_eq!(server.wait().code(), Some(130), "{}", server.stderr());
    drop(stuck);
}

#[test]
fn a_socket_that_was_handed_over_takes_the_place_of_the_configured_ones() {
    let folder = tempfile::tempdir().unwrap();
    let (mut server, address) = handed_over(folder.path(), None, &["serve", "--memory"]);
    let address = address.to_string();
    assert_eq!(server.address(), address);
    assert_eq!(ask(&address, "list-tube-used\r\n"), "USING default\r\n");
}
