//! A wire over real sockets, in real time.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};

use super::wire::{ConnectionId, Received, Wire};
use crate::wait;

/// Within this time, the server notices that a client has closed its connection.
const CLOSE_GRACE_MS: u64 = 20;

/// Connections to one server.
#[derive(Debug)]
pub struct SocketWire {
    server: SocketAddr,
    /// Further ports of the server, by name.
    others: Vec<(&'static str, SocketAddr)>,
    started: Instant,
    started_unix_ms: u64,
    /// The sockets, by [`ConnectionId`]. `None` after the test has closed the connection.
    streams: Vec<Option<TcpStream>>,
}

impl SocketWire {
    /// A wire to the server at this address. It has no connections yet.
    pub fn new(server: SocketAddr) -> SocketWire {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is set");
        SocketWire {
            server,
            others: Vec::new(),
            started: Instant::now(),
            started_unix_ms: unix.as_millis() as u64,
            streams: Vec::new(),
        }
    }

    /// The same wire with further ports.
    #[must_use]
    pub fn with_ports(mut self, others: &[(&'static str, SocketAddr)]) -> SocketWire {
        self.others.extend_from_slice(others);
        self
    }

    fn stream(&mut self, connection: ConnectionId) -> &mut TcpStream {
        self.streams[connection.0].as_mut().expect("a closed connection is not used again")
    }
}

impl Wire for SocketWire {
    fn connect(&mut self, port: Option<&str>) -> Result<ConnectionId> {
        let other = self.others.iter().find(|(name, _)| Some(*name) == port);
        let address = other.map_or(self.server, |(_, address)| *address);
        let stream = TcpStream::connect_timeout(&address, Duration::from_secs(5))
            .with_context(|| format!("connecting to {address}"))?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(Duration::from_secs(10)))?;
        self.streams.push(Some(stream));
        Ok(ConnectionId(self.streams.len() - 1))
    }

    fn send(&mut self, connection: ConnectionId, bytes: &[u8]) -> Result<()> {
        self.stream(connection).write_all(bytes).context("sending")
    }

    fn half_close(&mut self, connection: ConnectionId) -> Result<()> {
        self.stream(connection).shutdown(Shutdown::Write).context("ending our direction")
    }

    fn close(&mut self, connection: ConnectionId) {
        self.streams[connection.0] = None;
        self.advance(CLOSE_GRACE_MS);
    }

    fn receive(&mut self, connection: ConnectionId, wait_ms_max: u64) -> Received {
        let mut buffer = vec![0; 1 << 16];
        let stream = self.stream(connection);
        // If `wait_ms_max` is 0, this call must not wait. Even with the shortest timeout, the
        // kernel would wait for some milliseconds. So make the socket non-blocking instead.
        let only_look = wait_ms_max == 0;
        let wait = (!only_look).then(|| Duration::from_millis(wait_ms_max));
        stream.set_read_timeout(wait).expect("the timeout is not zero");
        stream.set_nonblocking(only_look).expect("a socket can be made non-blocking");
        let read = loop {
            match stream.read(&mut buffer) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        stream.set_nonblocking(false).expect("a socket can be made blocking");
        match read {
            Ok(0) => Received::End,
            Ok(count) => {
                buffer.truncate(count);
                Received::Bytes(buffer)
            }
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut => Received::Nothing,
                _ => Received::End,
            },
        }
    }

    fn advance(&mut self, ms: u64) {
        wait::let_pass(Duration::from_millis(ms), "the case says that time passes");
    }

    fn now_ms(&self) -> u64 {
        self.started_unix_ms + self.started.elapsed().as_millis() as u64
    }
}
