//! One of the two servers: its connections, its handles, and its messages.

use anyhow::{Result, bail};
use testkit::conformance::gearman::packet::Packet;
use testkit::conformance::socket::SocketWire;
use testkit::conformance::wire::{ConnectionId, Received, Wire};
use testkit::process::Server;

use super::message::{Handles, Heard, Message, kind, take};
use super::steps::CONNECTIONS;

/// The maximum delay of one server's reply after the other server's reply.
const PATIENCE_MS: u64 = 5_000;

/// A server, and the state that the harness keeps about it.
pub(crate) struct Side {
    wire: SocketWire,
    connections: Vec<Connection>,
    /// The connection that shows when the server has noticed the end of another connection.
    probe: Connection,
    pub(crate) handles: Handles,
    /// The number of echoes so far. It makes the text of each echo unique.
    echoes: u64,
    _server: Server,
}

struct Connection {
    id: ConnectionId,
    unread: Vec<u8>,
    /// How often this connection was opened again. The connection's name in the server's lists
    /// contains this number.
    generation: u32,
}

impl Side {
    pub(crate) fn new(server: Server) -> Result<Side> {
        let mut wire = SocketWire::new(server.address());
        let mut open = || -> Result<Connection> {
            Ok(Connection { id: wire.connect(None)?, unread: Vec::new(), generation: 0 })
        };
        let connections = (0..CONNECTIONS).map(|_| open()).collect::<Result<_>>()?;
        let probe = open()?;
        let handles = Handles::default();
        let mut side = Side { wire, connections, probe, handles, echoes: 0, _server: server };
        for connection in 0..CONNECTIONS {
            side.introduce(connection)?;
        }
        Ok(side)
    }

    /// Sends bytes. Returns all messages that come on this connection until the server has handled
    /// the bytes.
    pub(crate) fn exchange(&mut self, connection: usize, bytes: &[u8]) -> Result<Vec<Message>> {
        self.echoes += 1;
        let echo = format!("echo {}", self.echoes);
        let mut bytes = bytes.to_vec();
        bytes.extend(Packet::request(kind::ECHO_REQ, &[echo.as_bytes()]).bytes());
        let Side { wire, connections, handles, .. } = self;
        let connection = &mut connections[connection];
        wire.send(connection.id, &bytes)?;
        let (mut packets, mut lines) = (Vec::new(), Vec::new());
        loop {
            match connection.next(wire)? {
                Heard::Packet(packet) if is_echo(&packet, &echo) => break,
                Heard::Packet(packet) => packets.push(handles.message(&packet)),
                Heard::Line(line) => lines.extend(handles.line(&line)),
            }
        }
        // The lines of a listing have no order.
        lines.sort_by(|a: &Message, b| a.text.cmp(&b.text));
        packets.extend(lines);
        Ok(packets)
    }

    /// Closes the connection and connects again. Returns when the server has noticed the close and
    /// the new connection.
    pub(crate) fn reconnect(&mut self, connection: usize) -> Result<()> {
        let gone = name(connection, self.connections[connection].generation);
        self.wire.close(self.connections[connection].id);
        self.wait_until_unlisted(&gone)?;
        let generation = self.connections[connection].generation + 1;
        let id = self.wire.connect(None)?;
        self.connections[connection] = Connection { id, unread: Vec::new(), generation };
        self.introduce(connection)
    }

    /// Sends the connection's name to the server.
    fn introduce(&mut self, connection: usize) -> Result<()> {
        let name = name(connection, self.connections[connection].generation);
        let packet = Packet::request(kind::SET_CLIENT_ID, &[name.as_bytes()]);
        self.exchange(connection, &packet.bytes()).map(drop)
    }

    fn wait_until_unlisted(&mut self, name: &str) -> Result<()> {
        let deadline_ms = self.wire.now_ms() + PATIENCE_MS;
        let listed = format!(" {name} :");
        while self.wire.now_ms() < deadline_ms {
            self.wire.send(self.probe.id, b"workers\n")?;
            let mut found = false;
            loop {
                match self.probe.next(&mut self.wire)? {
                    Heard::Line(line) if line == "." => break,
                    Heard::Line(line) => found |= line.contains(&listed),
                    Heard::Packet(packet) => bail!("the probe heard {packet:?}"),
                }
            }
            if !found {
                return Ok(());
            }
            self.wire.advance(1);
        }
        bail!("the server still lists {name}")
    }
}

impl Connection {
    /// The next whole message.
    fn next(&mut self, wire: &mut SocketWire) -> Result<Heard> {
        let deadline_ms = wire.now_ms() + PATIENCE_MS;
        loop {
            if let Some(heard) = take(&mut self.unread) {
                return Ok(heard);
            }
            let left_ms = deadline_ms.saturating_sub(wire.now_ms());
            match wire.receive(self.id, left_ms) {
                Received::Bytes(bytes) => self.unread.extend(bytes),
                Received::End => bail!("the server ended a connection"),
                Received::Nothing if left_ms == 0 => bail!("no answer; unread {:?}", self.unread),
                Received::Nothing => {}
            }
        }
    }
}

fn is_echo(packet: &Packet, echo: &str) -> bool {
    packet.kind == kind::ECHO_RES && packet.body == echo.as_bytes()
}

fn name(connection: usize, generation: u32) -> String {
    format!("c{connection}-{generation}")
}
