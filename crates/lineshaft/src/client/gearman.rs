//! A small blocking client of Gearman's protocol: one connection, of a client or of a worker.

mod packet;

pub(crate) use packet::{Assignment, Handle, News, Packet, Request};

use std::time::{Duration, Instant};

use super::stream::{self, Requests};
use super::{Address, ClientError, PATIENCE, no_answer};

/// The receiving half of a connection.
pub(crate) type Replies = stream::Replies<Packet>;

/// What a server is asked to echo. The line end makes a server of a protocol of lines answer as well, so that
/// it is recognised.
const ECHO: &[u8] = b"lineshaft\r\n";

/// One connection.
#[derive(Debug)]
pub(crate) struct Client {
    requests: Requests,
    replies: Replies,
}

impl Client {
    /// Connects within the time the system allows, or within `timeout`, and sees that a Gearman server
    /// is there.
    pub(crate) fn connect(
        address: &Address,
        timeout: Option<Duration>,
    ) -> Result<Client, ClientError> {
        let (requests, replies) = stream::open(address, timeout)?;
        let mut client = Client { requests, replies };
        client.errors_so_far()?;
        Ok(client)
    }

    /// Gives the two halves to a caller that sends ahead of the replies.
    pub(crate) fn into_halves(self) -> (Requests, Replies) {
        (self.requests, self.replies)
    }

    /// Adds a request that has no reply, or whose reply is awaited elsewhere. It leaves with the next
    /// [`Client::flush`].
    pub(crate) fn add(&mut self, request: Request, arguments: &[&[u8]]) -> Result<(), ClientError> {
        self.requests.packet(request, arguments)
    }

    /// Sends all jobs added so far.
    pub(crate) fn flush(&mut self) -> Result<(), ClientError> {
        self.requests.flush()
    }

    /// Waits at most `timeout` for the next packet; `None` says that the time is over.
    pub(crate) fn packet_within(
        &mut self,
        timeout: Duration,
    ) -> Result<Option<Packet>, ClientError> {
        self.replies.next_within(timeout)
    }

    /// The next packet if it is there; does not wait. Fails when the server has gone.
    pub(crate) fn packet_if_there(&mut self) -> Result<Option<Packet>, ClientError> {
        self.replies.next_if_there()
    }

    /// Waits until the server has dealt with all requests so far, most of which it answers only when
    /// something is wrong. Returns the codes of the errors that it found.
    pub(crate) fn errors_so_far(&mut self) -> Result<Vec<String>, ClientError> {
        self.add(Request::EchoReq, &[ECHO])?;
        self.flush()?;
        let patience_ends = Instant::now() + PATIENCE;
        let mut codes = Vec::new();
        loop {
            let remaining = patience_ends.saturating_duration_since(Instant::now());
            match self.packet_within(remaining)?.ok_or_else(no_answer)? {
                Packet::Echo => return Ok(codes),
                Packet::Error { code, .. } => codes.push(code),
                // A worker may have been woken meanwhile.
                Packet::Noop | Packet::OptionSet => {}
                packet => return Err(unexpected("ECHO_REQ", &packet)),
            }
        }
    }
}

/// The error for a packet that does not answer the request.
pub(crate) fn unexpected(request: &str, packet: &Packet) -> ClientError {
    ClientError::Unexpected { command: request.to_owned(), reply: packet.to_string() }
}
