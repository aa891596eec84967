//! A small blocking client of the Gearman protocol, for clients and workers.

mod packet;

pub(crate) use packet::{Assignment, Handle, News, Packet, Request};

use std::time::{Duration, Instant};

use super::error::{ClientError, PATIENCE, no_answer};
use super::stream::{self, Requests};
use super::target::Target;

/// The half of a connection that receives.
pub(crate) type Replies = stream::Replies<Packet>;

/// The body of an echo request. It ends with a line end, so that a server of a line protocol
/// answers, too. The tool can then recognise such a server.
const ECHO: &[u8] = b"lineshaft\r\n";

/// One connection to a Gearman server.
#[derive(Debug)]
pub(crate) struct Client {
    requests: Requests,
    replies: Replies,
}

impl Client {
    /// Connects, and checks that a Gearman server answers. `timeout` limits the time to connect.
    pub(crate) fn connect(
        target: &Target,
        timeout: Option<Duration>,
    ) -> Result<Client, ClientError> {
        let (requests, replies) = stream::open(target, timeout)?;
        let mut client = Client { requests, replies };
        client.errors_so_far()?;
        Ok(client)
    }

    /// Returns the two halves, so that the caller can send requests before it has read the earlier
    /// replies.
    pub(crate) fn into_halves(self) -> (Requests, Replies) {
        (self.requests, self.replies)
    }

    /// Adds a request to the buffer, and does not wait for a reply. The next [`Client::flush`]
    /// sends it.
    pub(crate) fn add(&mut self, request: Request, arguments: &[&[u8]]) -> Result<(), ClientError> {
        self.requests.packet(request, arguments)
    }

    /// Sends all buffered requests.
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

    /// Returns the next packet if it has arrived. Does not wait. Fails if the server has closed the
    /// connection.
    pub(crate) fn packet_if_there(&mut self) -> Result<Option<Packet>, ClientError> {
        self.replies.next_if_there()
    }

    /// Waits until the server has handled all earlier requests. Returns the codes of their errors.
    /// The server answers most requests only if they fail. So this sends an echo request and waits
    /// for its answer.
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
                // A NOOP that woke the worker can come between the answers.
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
