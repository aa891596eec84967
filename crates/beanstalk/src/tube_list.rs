//! The reply to `list-tubes`. The reply begins with its own length. So this module builds the whole
//! text, in slices of work, before the server sends the first byte.

use broker::{Body, Outbox, QueueCursor, Turn};

use crate::name::is_tube_name;
use crate::reply;
use crate::reply::Numbers;
use crate::yaml;

/// Size of a chunk of the text. The text consists of chunks, because a single long buffer would be
/// copied each time it grows.
const STRETCH_BYTES: usize = 64 * 1024;

/// The part of the list that is built so far, and a cursor to the next queue.
#[derive(Debug)]
pub(crate) struct TubeList {
    cursor: QueueCursor,
    full: Vec<Body>,
    /// The chunk that is being filled.
    last: Vec<u8>,
    bytes: usize,
}

impl TubeList {
    pub(crate) fn new() -> Self {
        let last = yaml::HEAD.to_vec();
        Self { cursor: QueueCursor::default(), full: Vec::new(), bytes: last.len(), last }
    }

    /// Adds the name of the next queue. Skips a name that is no valid tube name, because clients of
    /// this dialect cannot use such a queue. After the last queue, sends the reply and returns
    /// false.
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
            outbox.reply_with_body(after, b"", &stretch.into(), b"");
        }
        outbox.reply(after, &self.last);
        outbox.reply(after, reply::CR_LF);
    }

    /// The memory of the list in bytes.
    pub(crate) fn buffered_bytes(&self) -> usize {
        let full: usize = self.full.iter().map(|stretch| stretch.len()).sum();
        full + self.last.capacity()
    }
}
