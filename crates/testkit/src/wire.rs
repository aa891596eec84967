//! What a case runner needs from a server: connections, bytes and time.
//!
//! There are two kinds of server. One is reached over sockets, in real time. The other is a dialect
//! in this process, where time is a number and an hour of waiting takes no time.

use anyhow::Result;

/// A connection of one [`Wire`]; given out by [`Wire::connect`] and never used again after its close.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConnectionId(pub usize);

/// What [`Wire::receive`] saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Received {
    /// At least one byte.
    Bytes(Vec<u8>),
    /// The server ended the connection; every later call says so again.
    End,
    /// Nothing in the time given.
    Nothing,
}

/// A server as a client sees it.
pub trait Wire {
    /// Opens a connection to the port of this name; a server that has only one needs no name.
    fn connect(&mut self, port: Option<&str>) -> Result<ConnectionId>;

    /// Sends all bytes. An error means that the server had ended the connection.
    fn send(&mut self, connection: ConnectionId, bytes: &[u8]) -> Result<()>;

    /// Ends our sending direction; the server sees an end of file and can still answer.
    fn half_close(&mut self, connection: ConnectionId) -> Result<()>;

    /// Hangs up, and lets the server see it before anything later is sent on another connection.
    fn close(&mut self, connection: ConnectionId);

    /// Waits until something arrives, at most for `wait_ms_max` milliseconds of this wire's time.
    /// Zero checks only the bytes that have arrived.
    fn receive(&mut self, connection: ConnectionId, wait_ms_max: u64) -> Received;

    /// Lets time pass while no client acts.
    fn advance(&mut self, ms: u64);

    /// Milliseconds of this wire's time since some moment in the past.
    fn now_ms(&self) -> u64;
}
