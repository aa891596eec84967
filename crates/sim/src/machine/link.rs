//! One simulated connection: a client, bytes in flight in both directions, and the server's side
//! with its session and outbox.

use std::collections::VecDeque;

use broker::{Body, Dialect, JobBody, Outbox, Position, SessionId};

use crate::model::{Need, Place};
use crate::protocol::Protocol;
use crate::workload::Client;

/// Number of bytes that the server's socket can buffer until the client reads.
const SOCKET_BYTES_MAX: usize = 8 * 1024;

/// The outbox shares the body of a reply of at least this length, instead of a copy.
const SHARED_BYTES_MIN: usize = 17 * 1024;

pub(crate) struct Link {
    pub(crate) number: u64,
    pub(crate) client: Client,
    pub(crate) protocol: Protocol,
    pub(crate) session: Box<dyn Dialect>,
    pub(crate) id: SessionId,
    /// True if the session is open in the broker and in the model.
    pub(crate) is_open: bool,
    /// Bytes that the session got and did not use.
    pub(crate) inbox: Vec<u8>,
    /// True if the session must try again to use the bytes in the inbox, because it got an event or
    /// stopped after a slice.
    pub(crate) inbox_is_due: bool,
    pub(crate) to_server: VecDeque<u8>,
    pub(crate) client_ended: bool,
    pub(crate) end_was_seen: bool,
    pub(crate) outbox: Outbox,
    /// The bytes in the outbox, in the order in which they must be sent. `rests` has the beginning
    /// of each reply, and the part of the history that the reply depends on.
    expected: VecDeque<u8>,
    rests: VecDeque<(u64, Need)>,
    entered: u64,
    left: u64,
    to_client: VecDeque<u8>,
}

/// A session's replies to one call, and the positions that the replies wait for.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pieces: Vec<(Position, Vec<u8>)>,
    pub(crate) bytes: Vec<u8>,
}

impl Answer {
    /// Takes the replies from an outbox that a session used for one call only.
    pub(crate) fn from(mut outbox: Outbox) -> Self {
        let mut answer = Self::default();
        let mut after = Position::default();
        loop {
            let piece = outbox.sendable(after).to_vec();
            if piece.is_empty() {
                match outbox.waits_for(after) {
                    Some(later) => after = later,
                    None => break,
                }
            } else {
                outbox.advance(piece.len());
                answer.bytes.extend_from_slice(&piece);
                answer.pieces.push((after, piece));
            }
        }
        assert!(outbox.is_empty(), "bytes that wait for nothing can leave");
        answer
    }
}

impl Link {
    pub(crate) fn new(
        number: u64,
        client: Client,
        (id, session): (SessionId, Box<dyn Dialect>),
    ) -> Self {
        Self {
            protocol: client.protocol(),
            number,
            client,
            session,
            id,
            is_open: true,
            inbox: Vec::new(),
            inbox_is_due: false,
            to_server: VecDeque::new(),
            client_ended: false,
            end_was_seen: false,
            outbox: Outbox::default(),
            expected: VecDeque::new(),
            rests: VecDeque::new(),
            entered: 0,
            left: 0,
            to_client: VecDeque::new(),
        }
    }

    /// The session's place in the engine's table: the low half of the session's number.
    pub(crate) fn place(&self) -> Place {
        self.id.0 as Place
    }

    /// Adds the answer to the connection's outbox. `replies` has the length of each reply, and the
    /// part of the history that the reply depends on.
    pub(crate) fn accept(&mut self, answer: &Answer, replies: &[(usize, Need)]) {
        for (after, bytes) in &answer.pieces {
            if bytes.len() >= SHARED_BYTES_MIN {
                let (head, rest) = bytes.split_at(7);
                let (body, tail) = rest.split_at(rest.len() - 2);
                let body = JobBody::Resident(Body::from(body));
                self.outbox.reply_with_body(*after, head, &body, tail);
            } else {
                self.outbox.reply(*after, bytes);
            }
            self.expected.extend(bytes);
        }
        for (len, need) in replies {
            self.rests.push_back((self.entered, *need));
            self.entered += *len as u64;
        }
    }

    /// Moves up to `max` bytes from the outbox to the socket. Returns these bytes. Also returns the
    /// longest part of the history that one of the replies depends on.
    pub(crate) fn send(
        &mut self,
        released: Position,
        max: usize,
    ) -> Result<(Vec<u8>, Need), String> {
        let room = SOCKET_BYTES_MAX.saturating_sub(self.to_client.len()).min(max);
        let free = self.outbox.sendable(released);
        let bytes = free[..free.len().min(room)].to_vec();
        self.outbox.advance(bytes.len());
        if !self.expected.drain(..bytes.len()).eq(bytes.iter().copied()) {
            return Err(format!("connection {}: the outbox changed its bytes", self.number));
        }
        self.left += bytes.len() as u64;
        self.to_client.extend(&bytes);
        let mut need = 0;
        while let Some((start, rests_on)) = self.rests.front()
            && *start < self.left
        {
            need = need.max(*rests_on);
            self.rests.pop_front();
        }
        Ok((bytes, need))
    }

    /// Lets the client read at most `max` bytes from its socket.
    pub(crate) fn receive(&mut self, max: usize) -> Vec<u8> {
        let count = self.to_client.len().min(max);
        self.to_client.drain(..count).collect()
    }

    /// True if the client has got all bytes from the server.
    pub(crate) fn is_quiet(&self) -> bool {
        self.outbox.is_empty() && self.to_client.is_empty()
    }
}
