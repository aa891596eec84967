//! One of the two servers: its connections, its ids, and its replies. The replies are changed so
//! that they can be compared.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use testkit::conformance::socket::SocketWire;
use testkit::conformance::wire::{ConnectionId, Received, Wire};
use testkit::process::Server;

use super::steps::CONNECTIONS;

/// The maximum delay of one server's reply after the other server's reply.
pub(crate) const PATIENCE_MS: u64 = 3_000;

/// Statistics whose values always differ between two correct servers.
const NOT_COMPARED: [&str; 18] = [
    "pid",
    "version",
    "rusage-utime",
    "rusage-stime",
    "uptime",
    "binlog-oldest-index",
    "binlog-current-index",
    "binlog-records-migrated",
    "binlog-records-written",
    "binlog-max-size",
    "id",
    "hostname",
    "os",
    "platform",
    "file",
    // These statistics count requests of the harness, too. The harness repeats its requests until a
    // server runs, and until it has noticed a closed connection.
    "total-connections",
    "cmd-stats",
    "cmd-list-tube-used",
];

/// Statistics in seconds. The comparison rounds them down to tens of seconds, so that a difference
/// of a second does not matter. A sequence is short: an age stays below 10 seconds, and a remaining
/// time does not fall below the next multiple of ten.
const SECONDS: [&str; 3] = ["time-left", "pause-time-left", "age"];

/// A server, and the state that the harness keeps about it.
pub(crate) struct Side {
    wire: SocketWire,
    connections: Vec<ConnectionId>,
    unread: Vec<Vec<u8>>,
    /// The connection that shows when the server has handled all earlier requests.
    probe: ConnectionId,
    /// The job ids, in the order in which the server assigned them.
    ids: Vec<u64>,
    _server: Server,
}

/// A reply with order numbers instead of ids, and without the values that cannot be compared.
pub(crate) type Reply = String;

impl Side {
    pub(crate) fn new(server: Server) -> Result<Side> {
        let mut wire = SocketWire::new(server.address());
        let connections = (0..CONNECTIONS).map(|_| wire.connect(None)).collect::<Result<_>>()?;
        let probe = wire.connect(None)?;
        let unread = vec![Vec::new(); CONNECTIONS];
        let mut side = Side { wire, connections, unread, probe, ids: Vec::new(), _server: server };
        side.wait_until_connected()?;
        Ok(side)
    }

    pub(crate) fn send(&mut self, connection: usize, bytes: &[u8]) -> Result<()> {
        self.wire.send(self.connections[connection], bytes)
    }

    /// Waits until the server has handled all earlier requests.
    pub(crate) fn settle(&mut self) -> Result<()> {
        self.probe_command("list-tube-used").map(drop)
    }

    /// The next reply on a connection. `None` if no reply comes within the time limit.
    pub(crate) fn reply(&mut self, connection: usize, wait_ms_max: u64) -> Result<Option<Reply>> {
        let deadline_ms = self.wire.now_ms() + wait_ms_max;
        loop {
            if let Some(length) = reply_length(&self.unread[connection])? {
                let reply: Vec<u8> = self.unread[connection].drain(..length).collect();
                return self.comparable(&reply).map(Some);
            }
            let left_ms = deadline_ms.saturating_sub(self.wire.now_ms());
            match self.wire.receive(self.connections[connection], left_ms) {
                Received::Bytes(bytes) => self.unread[connection].extend(bytes),
                Received::End => bail!("the server ended connection {connection}"),
                Received::Nothing if self.wire.now_ms() >= deadline_ms => return Ok(None),
                Received::Nothing => {}
            }
        }
    }

    /// True if a whole reply has arrived.
    pub(crate) fn has_reply(&mut self, connection: usize) -> Result<bool> {
        if let Received::Bytes(bytes) = self.wire.receive(self.connections[connection], 0) {
            self.unread[connection].extend(bytes);
        }
        Ok(reply_length(&self.unread[connection])?.is_some())
    }

    /// Closes the connection and connects again. Returns when the server has noticed the close and
    /// the new connection.
    pub(crate) fn reconnect(&mut self, connection: usize) -> Result<()> {
        self.wire.close(self.connections[connection]);
        self.unread[connection].clear();
        self.wait_for_connections(CONNECTIONS as u64)?;
        self.connections[connection] = self.wire.connect(None)?;
        self.wait_until_connected()
    }

    /// The id of the n-th job that got an id on this server.
    pub(crate) fn id(&self, order_number: usize) -> u64 {
        self.ids[order_number]
    }

    pub(crate) fn jobs_put(&self) -> usize {
        self.ids.len()
    }

    fn wait_until_connected(&mut self) -> Result<()> {
        // The probe also counts as a connection.
        self.wait_for_connections(CONNECTIONS as u64 + 1)
    }

    fn wait_for_connections(&mut self, wanted: u64) -> Result<()> {
        let deadline_ms = self.wire.now_ms() + PATIENCE_MS;
        let wanted = format!("current-connections: {wanted}\n");
        while self.wire.now_ms() < deadline_ms {
            let stats = self.probe_command("stats")?;
            if String::from_utf8_lossy(&stats).contains(&wanted) {
                return Ok(());
            }
            self.wire.advance(1);
        }
        bail!("the server never showed {wanted}")
    }

    fn probe_command(&mut self, line: &str) -> Result<Vec<u8>> {
        self.wire.send(self.probe, format!("{line}\r\n").as_bytes())?;
        let mut reply = Vec::new();
        while reply_length(&reply)?.is_none() {
            match self.wire.receive(self.probe, PATIENCE_MS) {
                Received::Bytes(bytes) => reply.extend(bytes),
                Received::End | Received::Nothing => bail!("no reply to {line} on the probe"),
            }
        }
        Ok(reply)
    }

    fn comparable(&mut self, reply: &[u8]) -> Result<Reply> {
        let text = String::from_utf8_lossy(reply).into_owned();
        let (line, rest) = text.split_once("\r\n").context("a reply has a line")?;
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["INSERTED", id] => {
                self.ids.push(id.parse()?);
                Ok(format!("INSERTED #{}", self.ids.len() - 1))
            }
            [verb @ ("RESERVED" | "FOUND"), id, length] => {
                Ok(format!("{verb} {} {length} {}", self.order_number(id), rest.trim_end()))
            }
            ["OK", _] => Ok(self.comparable_block(rest)),
            _ => Ok(line.to_owned()),
        }
    }

    fn comparable_block(&self, block: &str) -> Reply {
        let of_a_job = block.contains("\nreserves: ");
        let comparable_line = |line: &str| {
            let line = line.replace('"', "");
            match line.split_once(": ") {
                Some(("id", id)) if of_a_job => format!("id: {}", self.order_number(id)),
                Some((key, _)) if NOT_COMPARED.contains(&key) => String::new(),
                Some((key, value)) if SECONDS.contains(&key) => in_tens(key, value),
                _ => line,
            }
        };
        let mut lines: Vec<String> = block.lines().map(comparable_line).collect();
        lines.retain(|line| !line.is_empty());
        // The order of a list is not defined. The order of keys has conformance cases of its own.
        lines.sort();
        lines.join(", ")
    }

    fn order_number(&self, id: &str) -> String {
        let found = self.ids.iter().position(|known| known.to_string() == id);
        found.map_or_else(|| format!("unknown id {id}"), |number| format!("#{number}"))
    }
}

fn in_tens(key: &str, value: &str) -> String {
    // A new ttr of 1,000 s becomes 990, because the server already shows 999.
    value.parse::<i64>().map_or_else(|_| value.to_owned(), |s| format!("{key}: {}0", s / 10))
}

/// The length of the reply at the front of `bytes`. `None` if the reply is incomplete.
fn reply_length(bytes: &[u8]) -> Result<Option<usize>> {
    let Some(end) = bytes.windows(2).position(|pair| pair == b"\r\n") else { return Ok(None) };
    let line = std::str::from_utf8(&bytes[..end])?;
    let words: Vec<&str> = line.split(' ').collect();
    let length = match words.as_slice() {
        ["RESERVED" | "FOUND", _, body_bytes] | ["OK", body_bytes] => {
            end + 2 + body_bytes.parse::<usize>()? + 2
        }
        _ => end + 2,
    };
    Ok((bytes.len() >= length).then_some(length))
}

/// The jobs that each connection holds. The harness finds them in the replies, and steps refer to
/// them.
#[derive(Debug, Default)]
pub(crate) struct Holders(BTreeMap<usize, Vec<usize>>);

impl Holders {
    /// Adds the job of a `RESERVED` reply to the connection's jobs.
    pub(crate) fn learn(&mut self, connection: usize, reply: &str) {
        if let Some(number) = reply.strip_prefix("RESERVED #") {
            let number: Option<usize> =
                number.split(' ').next().and_then(|number| number.parse().ok());
            self.0.entry(connection).or_default().extend(number);
        }
    }

    /// Removes a job that this connection no longer holds.
    pub(crate) fn forget(&mut self, connection: usize, order_number: usize) {
        self.0.entry(connection).or_default().retain(|held| *held != order_number);
    }

    /// Removes all jobs of a connection.
    pub(crate) fn forget_all(&mut self, connection: usize) {
        self.0.remove(&connection);
    }

    /// One of the jobs that the connection holds.
    pub(crate) fn held(&self, connection: usize, choice: usize) -> Option<usize> {
        let held = self.0.get(&connection)?;
        held.get(choice % held.len().max(1)).copied()
    }
}
