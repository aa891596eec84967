//! Ports for servers that start later, or again at the same address.

use std::fs;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Mutex;

/// Smaller ports often belong to servers of the machine.
const LOWEST: u16 = 12_000;
/// Linux gives ports from this one on to clients, unless it is configured otherwise.
const USUAL_CLIENT_PORTS: u16 = 32_768;

/// Each port of this process is kept from other tests by a socket with the port in its name. Linux
/// removes the name with the process.
static KEPT: Mutex<Vec<UnixDatagram>> = Mutex::new(Vec::new());

/// A free port. No client gets it from the system, and no other test gets it while this process
/// lives.
///
/// # Errors
///
/// No port is free.
pub fn free_port() -> io::Result<u16> {
    let ports = LOWEST..first_client_port();
    let count = usize::from(ports.end - ports.start);
    // Tests that begin at different places rarely meet.
    let first = RandomState::new().hash_one(std::process::id()) as usize % count;
    ports
        .clone()
        .cycle()
        .skip(first)
        .take(count)
        .find(|port| keep(*port) && TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
        .ok_or_else(|| io::Error::new(io::ErrorKind::AddrNotAvailable, "no port is free"))
}

/// Keeps other tests from a port. False: another test has it.
fn keep(port: u16) -> bool {
    let name = format!("lineshaft-test-port-{port}");
    let bound =
        SocketAddr::from_abstract_name(name).and_then(|name| UnixDatagram::bind_addr(&name));
    let Ok(socket) = bound else { return false };
    KEPT.lock().expect("no test panics while it holds this lock").push(socket);
    true
}

/// The first port that the system gives to clients.
fn first_client_port() -> u16 {
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let first = range.split_whitespace().next().and_then(|first| first.parse().ok());
    first.unwrap_or(USUAL_CLIENT_PORTS).max(LOWEST + 1_000)
}
