//! The interface between a case runner and a server: connections, bytes and time.
//!
//! There are two kinds of server. One is reached over sockets, in real time. The other is a dialect
//! in this process. Its time is a number, so an hour of waiting takes no real time.

use anyhow::Result;

/// A connection of one [`Wire`]. [`Wire::connect`] returns it, and a closed one is never used
/// again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConnectionId(pub usize);

/// The result of [`Wire::receive`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Received {
    /// At least one byte.
    Bytes(Vec<u8>),
    /// The server closed the connection. Every later call returns this again.
    End,
    /// Nothing arrived in the given time.
    Nothing,
}

/// A server as a client sees it.
pub trait Wire {
    /// Opens a connection to the port of this name. A server with only one port needs no name.
    fn connect(&mut self, port: Option<&str>) -> Result<ConnectionId>;

    /// Sends all bytes. An error means that the server had closed the connection.
    fn send(&mut self, connection: ConnectionId, bytes: &[u8]) -> Result<()>;

    /// Closes the sending direction. The server sees an end of file and can still answer.
    fn half_close(&mut self, connection: ConnectionId) -> Result<()>;

    /// Closes the connection. The server sees it before any bytes that are sent later on another
    /// connection.
    fn close(&mut self, connection: ConnectionId);

    /// Waits until something arrives, at most for `wait_ms_max` milliseconds of this wire's time.
    /// Zero checks only the bytes that have arrived.
    fn receive(&mut self, connection: ConnectionId, wait_ms_max: u64) -> Received;

    /// Lets time pass while no client acts.
    fn advance(&mut self, ms: u64);

    /// The Unix time of this wire in milliseconds. It is never set back.
    fn now_ms(&self) -> u64;
}
