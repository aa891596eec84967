//! One connection: which bytes it reads next, what it waits for, and how it ends.

use std::sync::Arc;

use broker::{Dialect, Event, Gathering, Outbox, Position, SessionId, Turn, take_steps};

use super::reply;
use super::request::{Malformed, Request};
use crate::client::{AT_ONCE, Client, How};
use crate::line::{Line, first_line};
use crate::monitor::Monitor;
use crate::server::Server;

/// The first byte of a request of memcached's binary protocol.
const BINARY_MAGIC: u8 = 0x80;

/// Bytes after the data.
// COMPAT(kestrel): they are skipped without a look at them; case mc-data-trailer-not-checked.
const TRAILER_BYTES: usize = 2;

/// One connection that speaks the memcache dialect, without I/O.
#[derive(Debug)]
pub struct MemcacheSession {
    pub(crate) client: Client,
    reading: Reading,
    pub(crate) waiting: Waiting,
}

/// What the next bytes of the connection are.
#[derive(Debug)]
enum Reading {
    /// A line.
    Line,
    /// The data of a set, and its trailer.
    Data(PendingSet),
    /// So many more bytes of data for a command that will be refused.
    Refused(usize),
}

/// A set whose data is on its way.
#[derive(Debug)]
struct PendingSet {
    queue: Vec<u8>,
    /// The expiry, or what is wrong with the line.
    verdict: Result<i32, Malformed>,
    data: Gathering,
}

/// What the session waits for; it reads no request meanwhile.
#[derive(Debug)]
pub(crate) enum Waiting {
    Nothing,
    /// An item. The reply waits for the position too: a read was closed before.
    Item {
        queue: Box<[u8]>,
        how: How,
        after: Position,
    },
    Monitor(Monitor),
    /// The end of a flush, which is answered so.
    Flush(&'static [u8]),
    /// The configuration is being read again.
    Reload {
        /// The client has sent its last byte, and only waits for this answer.
        is_last: bool,
    },
}

impl MemcacheSession {
    /// A new connection; its events go to `mailbox`.
    pub fn new(server: Arc<Server>, turn: &mut Turn<'_>, mailbox: usize) -> Self {
        let client = Client::new(server, turn, mailbox);
        Self { client, reading: Reading::Line, waiting: Waiting::Nothing }
    }

    /// Its number in the broker: the address of its events.
    pub fn id(&self) -> SessionId {
        self.client.id
    }

    fn is_reading(&self) -> bool {
        matches!(self.waiting, Waiting::Nothing) && !self.client.is_ended()
    }

    /// Deals with one line, or one stretch of data; returns how many bytes that took. 0: more must
    /// arrive first, or the session has ended.
    fn step(&mut self, bytes: &[u8], turn: &mut Turn<'_>, outbox: &mut Outbox) -> usize {
        match &mut self.reading {
            Reading::Line if bytes.first() == Some(&BINARY_MAGIC) => {
                // Such a client would wait for ever, as the original does: nothing that it
                // understands can be said.
                self.client.end(turn);
                0
            }
            Reading::Line => self.read_line(bytes, turn, outbox),
            Reading::Data(_) => self.read_data(bytes, turn, outbox),
            Reading::Refused(missing) => {
                let count = bytes.len().min(*missing);
                *missing -= count;
                if *missing == 0 {
                    self.fail(AT_ONCE, reply::CLIENT_ERROR, turn, outbox);
                }
                count
            }
        }
    }

    fn read_line(&mut self, bytes: &[u8], turn: &mut Turn<'_>, outbox: &mut Outbox) -> usize {
        let (text, bytes) = match first_line(bytes) {
            Line::Complete { text, bytes } => (text, bytes),
            Line::Incomplete => return 0,
            Line::TooLong => {
                self.fail(AT_ONCE, reply::CLIENT_ERROR, turn, outbox);
                return 0;
            }
        };
        let data_bytes_max = self.client.server.options().item_bytes_max;
        match Request::parse(text) {
            Ok(Request::Set(set)) if set.data_bytes <= data_bytes_max => {
                let data = Gathering::new(set.data_bytes as usize + TRAILER_BYTES);
                let queue = set.queue.to_vec();
                self.reading = Reading::Data(PendingSet { queue, verdict: set.verdict, data });
            }
            Ok(Request::Refused { data_bytes }) if data_bytes <= data_bytes_max => {
                self.reading = Reading::Refused(data_bytes as usize + TRAILER_BYTES);
            }
            Ok(Request::Set(_) | Request::Refused { .. }) => {
                self.fail(AT_ONCE, reply::CLIENT_ERROR, turn, outbox);
            }
            Ok(request) => self.execute(request, turn, outbox),
            Err(malformed) => self.complain(malformed, turn, outbox),
        }
        bytes
    }

    fn read_data(&mut self, bytes: &[u8], turn: &mut Turn<'_>, outbox: &mut Outbox) -> usize {
        let Reading::Data(set) = &mut self.reading else { return 0 };
        let (count, whole) = set.data.complete(bytes);
        let Some(whole) = whole else { return count };
        let data = &whole[..whole.len() - TRAILER_BYTES];
        let (queue, verdict) = (std::mem::take(&mut set.queue), set.verdict);
        self.reading = Reading::Line;
        match verdict {
            Ok(expiry_s) => self.set(&queue, expiry_s, data, turn, outbox),
            Err(malformed) => self.complain(malformed, turn, outbox),
        }
        count
    }

    fn complain(&mut self, malformed: Malformed, turn: &mut Turn<'_>, outbox: &mut Outbox) {
        match malformed {
            Malformed::Harmless => outbox.reply(AT_ONCE, reply::CLIENT_ERROR),
            Malformed::Fatal => self.fail(AT_ONCE, reply::CLIENT_ERROR, turn, outbox),
        }
    }

    /// Answers with an error that ends the connection.
    pub(crate) fn fail(
        &mut self,
        after: Position,
        error: &[u8],
        turn: &mut Turn<'_>,
        outbox: &mut Outbox,
    ) {
        outbox.reply(after, error);
        self.client.end(turn);
    }
}

impl Dialect for MemcacheSession {
    fn input(&mut self, bytes: &[u8], turn: &mut Turn<'_>, outbox: &mut Outbox) -> usize {
        let used = take_steps(bytes, outbox, |bytes, outbox| {
            if !self.is_reading() {
                return 0;
            }
            let unsent = outbox.len();
            let count = self.step(bytes, turn, outbox);
            // After each step: what statistics say must not depend on how the bytes were cut.
            self.client.count_bytes(count, outbox.len() - unsent);
            count
        });
        // Nothing after the end is looked at.
        if self.client.is_ended() { bytes.len() } else { used }
    }

    fn event(&mut self, event: Event, turn: &mut Turn<'_>, outbox: &mut Outbox) {
        if self.client.is_ended() {
            return self.client.note_late(&event);
        }
        let unsent = outbox.len();
        self.resume(event, turn, outbox);
        self.client.count_bytes(0, outbox.len() - unsent);
    }

    fn end_of_input(&mut self, turn: &mut Turn<'_>, _outbox: &mut Outbox) {
        // A half-close is a disconnect, but what came before it is answered, unless it waits: for
        // something that may never come.
        match &mut self.waiting {
            Waiting::Reload { is_last } => *is_last = true,
            Waiting::Nothing | Waiting::Item { .. } | Waiting::Monitor(_) | Waiting::Flush(_) => {
                self.client.end(turn);
            }
        }
    }

    fn wants_input(&self) -> bool {
        self.is_reading()
    }

    fn buffered_bytes(&self) -> usize {
        match &self.reading {
            Reading::Data(set) => set.data.buffered_bytes(),
            Reading::Line | Reading::Refused(_) => 0,
        }
    }

    fn finished(&self) -> bool {
        self.client.is_ended()
    }

    fn stop(&mut self, turn: &mut Turn<'_>, outbox: &mut Outbox) {
        // Who waits for an item has waited long enough.
        if let Some(after) = turn.cancel_wait(self.client.id) {
            self.event(Event::TimedOut(after), turn, outbox);
        }
    }

    fn close(&mut self, turn: &mut Turn<'_>) {
        self.client.end(turn);
    }
}
