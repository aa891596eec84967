//! A small blocking client of the Gearman protocol: one connection of a client or worker.

mod packet;

pub(crate) use packet::{Assignment, Handle, News, Packet, Request};

use std::time::{Duration, Instant};

use super::stream::{self, Requests};
use notation::address::Address;

use super::error::{ClientError, PATIENCE, no_answer};

/// The receiving half of a connection.
pub(crate) type Replies = stream::Replies<Packet>;

/// The text for an echo request. The line end also makes servers of line protocols answer, so that
/// they are recognised.
const ECHO: &[u8] = b"lineshaft\r\n";

/// One connection.
#[derive(Debug)]
pub(crate) struct Client {
    requests: Requests,
    replies: Replies,
}

impl Client {
    /// Connects, within `timeout` if given, and checks that a Gearman server answers.
    pub(crate) fn connect(
        address: &Address,
        timeout: Option<Duration>,
    ) -> Result<Client, ClientError> {
        let (requests, replies) = stream::open(address, timeout)?;
        let mut client = Client { requests, replies };
        client.errors_so_far()?;
        Ok(client)
    }

    /// Returns the two halves, for a caller that pipelines.
    pub(crate) fn into_halves(self) -> (Requests, Replies) {
        (self.requests, self.replies)
    }

    /// Adds a request without a reply, or whose reply is awaited elsewhere. The next
    /// [`Client::flush`] sends it.
    pub(crate) fn add(&mut self, request: Request, arguments: &[&[u8]]) -> Result<(), ClientError> {
        self.requests.packet(request, arguments)
    }

    /// Sends everything added so far.
    pub(crate) fn flush(&mut self) -> Result<(), ClientError> {
        self.requests.flush()
    }

    /// Waits at most `timeout` for the next packet. Returns `None` on timeout.
    pub(crate) fn packet_within(
        &mut self,
        timeout: Duration,
    ) -> Result<Option<Packet>, ClientError> {
        self.replies.next_within(timeout)
    }

    /// The next packet, if it has arrived; does not wait. Fails if the server has closed the
    /// connection.
    pub(crate) fn packet_if_there(&mut self) -> Result<Option<Packet>, ClientError> {
        self.replies.next_if_there()
    }

    /// Waits until the server has handled all requests so far; it answers most of them only after
    /// an error. Returns the codes of the errors.
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
                // The worker may have been woken meanwhile.
                Packet::Noop | Packet::OptionSet => {}
                packet => return Err(unexpected("ECHO_REQ", &packet)),
            }
        }
    }
}

/// The error for an unexpected packet.
pub(crate) fn unexpected(request: &str, packet: &Packet) -> ClientError {
    ClientError::Unexpected { command: request.to_owned(), reply: packet.to_string() }
}
