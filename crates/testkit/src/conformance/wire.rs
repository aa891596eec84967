//! The interface between a case runner and a server: connections, bytes and time.
//!
//! There are two kinds of wire. One uses sockets and real time. The other uses a dialect in this
//! process, and simulated time, so an hour of waiting takes no real time.

use anyhow::Result;

/// A connection of one [`Wire`], as [`Wire::connect`] returns it. The number of a closed connection
/// is not used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConnectionId(pub usize);

/// The result of [`Wire::receive`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Received {
    /// At least one byte.
    Bytes(Vec<u8>),
    /// The server has closed the connection. Every later call returns this again.
    End,
    /// Nothing arrived within the given time.
    Nothing,
}

/// Connections from clients to one server.
pub trait Wire {
    /// Opens a connection to the port of this name. For a server with only one port, the name is
    /// `None`.
    fn connect(&mut self, port: Option<&str>) -> Result<ConnectionId>;

    /// Sends all bytes. Fails if the server has closed the connection.
    fn send(&mut self, connection: ConnectionId, bytes: &[u8]) -> Result<()>;

    /// Closes the sending direction. The server gets an end of file, and can still send replies.
    fn half_close(&mut self, connection: ConnectionId) -> Result<()>;

    /// Closes the connection. The server notices the close before it receives bytes that are sent
    /// later on another connection.
    fn close(&mut self, connection: ConnectionId);

    /// Waits at most `wait_ms_max` milliseconds of this wire's time until something arrives. With
    /// 0, only returns bytes that have already arrived.
    fn receive(&mut self, connection: ConnectionId, wait_ms_max: u64) -> Received;

    /// Lets time pass. No client acts meanwhile.
    fn advance(&mut self, ms: u64);

    /// The Unix time of this wire in milliseconds. It never decreases.
    fn now_ms(&self) -> u64;
}
