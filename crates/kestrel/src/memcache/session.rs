//! Reads the bytes of a memcache connection: lines, and the data of sets.

use broker::{BodyBuffer, JobBody, Outbox, Position, Step, Turn};

use super::reply;
use super::request::{Malformed, Request, Set};
use crate::client::{AT_ONCE, Closing};
use crate::line::{Line, first_line};
use crate::name::{is_possible, is_usable};
use crate::session::{BlockedItem, LineDialect, LineSession};

/// The first byte of a request of memcached's binary protocol.
const BINARY_MAGIC: u8 = 0x80;

/// Number of bytes after the data.
// COMPAT(kestrel): the session skips these bytes without a check; case mc-data-trailer-not-checked.
const TRAILER_BYTES: usize = 2;

/// One connection of the memcache dialect, without I/O.
pub type MemcacheSession = LineSession<Memcache>;

/// The meaning of a memcache connection's next bytes.
#[derive(Debug, Default)]
pub struct Memcache(Reading);

#[derive(Debug, Default)]
enum Reading {
    /// A line.
    #[default]
    Line,
    /// The data of a set, and the bytes after it.
    Data(PendingSet),
    /// The data of an unsupported command. The session skips this number of bytes, and then refuses
    /// the command.
    Refused(usize),
    /// The data of a set that exceeds the memory limit. The session skips this number of bytes, and
    /// then replies that the set was not stored.
    NotStored(usize),
    /// The session reads nothing, because it is closing the open reads of a `CONFIRM`.
    Closing(Closing),
}

/// A set whose data has not arrived completely.
#[derive(Debug)]
struct PendingSet {
    /// The name of the queue. Empty if no queue can have a name of this length.
    queue: Vec<u8>,
    /// The expiry, or the mistake in the line.
    verdict: Result<i32, Malformed>,
    data: BodyBuffer,
}

impl LineDialect for Memcache {
    const NONE: &'static [u8] = reply::END;

    fn step(
        session: &mut MemcacheSession,
        bytes: &[u8],
        turn: &mut Turn<'_>,
        outbox: &mut Outbox,
    ) -> Step {
        Step::used_or_stuck(match &mut session.reading.0 {
            Reading::Line if bytes.first() == Some(&BINARY_MAGIC) => {
                // A client of the binary protocol could not understand any reply, so close the
                // connection. In the original, such a client waits for ever.
                session.client.end(turn);
                0
            }
            Reading::Line => session.read_line(bytes, turn, outbox),
            Reading::Data(_) => session.read_data(bytes, turn, outbox),
            Reading::Closing(_) => return session.close_reads(turn, outbox),
            Reading::Refused(missing) => {
                let count = bytes.len().min(*missing);
                *missing -= count;
                if *missing == 0 {
                    session.fail(AT_ONCE, reply::CLIENT_ERROR, turn, outbox);
                }
                count
            }
            Reading::NotStored(missing) => {
                let count = bytes.len().min(*missing);
                *missing -= count;
                if *missing == 0 {
                    session.reading.0 = Reading::Line;
                    outbox.reply(AT_ONCE, reply::NOT_STORED);
                }
                count
            }
        })
    }

    fn buffered_bytes(&self) -> usize {
        match &self.0 {
            Reading::Data(set) => set.queue.len() + set.data.buffered_bytes(),
            Reading::Closing(closing) => closing.queue.len(),
            Reading::Line | Reading::Refused(_) | Reading::NotStored(_) => 0,
        }
    }

    fn is_mid_request(&self) -> bool {
        match self.0 {
            Reading::Data(_) | Reading::Refused(_) | Reading::NotStored(_) => true,
            Reading::Line | Reading::Closing(_) => false,
        }
    }

    fn has_more(&self) -> bool {
        matches!(self.0, Reading::Closing(_))
    }

    fn stop(&self, outbox: &mut Outbox) {
        outbox.reply(AT_ONCE, reply::SERVER_ERROR);
    }

    fn add(
        session: &mut MemcacheSession,
        item: BlockedItem,
        turn: &mut Turn<'_>,
        outbox: &mut Outbox,
    ) {
        let BlockedItem { queue, body, expires } = item;
        session.store(&queue, body, expires, turn, outbox);
    }

    fn item(outbox: &mut Outbox, after: Position, queue: &[u8], body: &JobBody) {
        reply::item(outbox, after, queue, body);
    }
}

impl MemcacheSession {
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
                self.begin_set(&set, turn);
            }
            Ok(Request::Refused { data_bytes }) if data_bytes <= data_bytes_max => {
                self.reading.0 = Reading::Refused(data_bytes as usize + TRAILER_BYTES);
            }
            Ok(Request::Set(_) | Request::Refused { .. }) => {
                self.fail(AT_ONCE, reply::CLIENT_ERROR, turn, outbox);
            }
            Ok(request) => self.execute(request, turn, outbox),
            Err(malformed) => self.complain(malformed, turn, outbox),
        }
        bytes
    }

    /// Handles the line of a set. Then the session collects the data, or skips the data if it
    /// exceeds the memory limit. If the line also has a mistake, the reply is about the mistake,
    /// and not about the memory limit.
    fn begin_set(&mut self, set: &Set<'_>, turn: &mut Turn<'_>) {
        let data_bytes = set.data_bytes as usize;
        let is_usable = set.verdict.is_ok()
            && is_usable(set.queue, turn)
            && !self.client.is_refused_writes(turn);
        self.reading.0 = if is_usable && !turn.admits_body(data_bytes) {
            self.client.counters().cmd_set.add_one();
            Reading::NotStored(data_bytes + TRAILER_BYTES)
        } else {
            let data = BodyBuffer::with_end(data_bytes, TRAILER_BYTES);
            // A name can be as long as a line. The reply is the same for each one that is too long.
            let queue = if is_possible(set.queue) { set.queue.to_vec() } else { Vec::new() };
            Reading::Data(PendingSet { queue, verdict: set.verdict, data })
        };
    }

    fn read_data(&mut self, bytes: &[u8], turn: &mut Turn<'_>, outbox: &mut Outbox) -> usize {
        let Reading::Data(set) = &mut self.reading.0 else { return 0 };
        let (count, frame) = set.data.complete_frame(bytes);
        let Some(frame) = frame else { return count };
        let (data, _) = frame.split_end::<TRAILER_BYTES>();
        let (queue, verdict) = (std::mem::take(&mut set.queue), set.verdict);
        self.reading.0 = Reading::Line;
        match verdict {
            Ok(expiry_s) => self.set(&queue, expiry_s, data, turn, outbox),
            Err(malformed) => self.complain(malformed, turn, outbox),
        }
        count
    }

    /// Makes the next steps close these open reads.
    pub(super) fn begin_closing(&mut self, closing: Closing) {
        self.reading.0 = Reading::Closing(closing);
    }

    /// Closes open reads until the slice of work is spent, and replies at their end.
    fn close_reads(&mut self, turn: &mut Turn<'_>, outbox: &mut Outbox) -> Step {
        let Reading::Closing(closing) = &mut self.reading.0 else { return Step::Stuck };
        if !self.client.close(closing, turn) {
            return Step::Unfinished;
        }
        outbox.reply(closing.after, reply::END);
        self.reading.0 = Reading::Line;
        Step::Used(0)
    }

    fn complain(&mut self, malformed: Malformed, turn: &mut Turn<'_>, outbox: &mut Outbox) {
        match malformed {
            Malformed::Harmless => outbox.reply(AT_ONCE, reply::CLIENT_ERROR),
            Malformed::Fatal => self.fail(AT_ONCE, reply::CLIENT_ERROR, turn, outbox),
        }
    }

    /// Replies with an error, and closes the connection.
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
