//! The reply to `list-tubes`. It begins with its own length, so the whole text is built here, in
//! slices of work, before the first byte is sent.

use broker::{Body, Outbox, QueueCursor, Turn};

use crate::name::is_tube_name;
use crate::reply;
use crate::reply::Numbers;
use crate::yaml;

/// The text is built in chunks of about this size, so that a long text is never copied as a whole.
const STRETCH_BYTES: usize = 64 * 1024;

/// The list so far, and the position in the queues.
#[derive(Debug)]
pub(crate) struct TubeList {
    cursor: QueueCursor,
    full: Vec<Body>,
    /// The chunk being filled.
    last: Vec<u8>,
    bytes: usize,
}

impl TubeList {
    pub(crate) fn new() -> Self {
        let last = yaml::HEAD.to_vec();
        Self { cursor: QueueCursor::default(), full: Vec::new(), bytes: last.len(), last }
    }

    /// Adds the next queue, if its name is a valid tube name; this dialect cannot reach other
    /// queues. Returns false after the last queue, when the reply is sent.
    pub(crate) fn step(&mut self, turn: &mut Turn<'_>, outbox: &mut Outbox) -> bool {
        let Some(queue) = turn.next_queue(&mut self.cursor) else {
            self.send(turn, outbox);
            return false;
        };
        let name = turn.queue_name(queue);
        if is_tube_name(name) {
            let before = self.last.len();
            yaml::append_item(&mut self.last, name);
            self.bytes += self.last.len() - before;
        }
        if self.last.len() >= STRETCH_BYTES {
            self.full.push(Body::from(std::mem::take(&mut self.last)));
        }
        true
    }

    fn send(&mut self, turn: &Turn<'_>, outbox: &mut Outbox) {
        let after = turn.after_all();
        outbox.reply(after, Numbers::one(b"OK", self.bytes as u64).bytes());
        for stretch in self.full.drain(..) {
            outbox.reply_with_body(after, b"", &stretch, b"");
        }
        outbox.reply(after, &self.last);
        outbox.reply(after, reply::CR_LF);
    }

    /// Bytes of memory it uses.
    pub(crate) fn buffered_bytes(&self) -> usize {
        let full: usize = self.full.iter().map(|stretch| stretch.len()).sum();
        full + self.last.capacity()
    }
}
