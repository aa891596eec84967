//! The answer to `list-tubes`. It begins with the number of its bytes, so its text gathers here, over as many
//! slices of work as it takes, before the first byte can leave.

use broker::{Body, Outbox, QueueCursor, Turn};

use crate::name::is_tube_name;
use crate::reply;
use crate::reply::Numbers;
use crate::yaml;

/// The text gathers in stretches of about this size, so that a long one is never copied as a whole.
const STRETCH_BYTES: usize = 64 * 1024;

/// What there is of the list, and how far it has come.
#[derive(Debug)]
pub(crate) struct TubeList {
    cursor: QueueCursor,
    full: Vec<Body>,
    /// The stretch that grows.
    last: Vec<u8>,
    bytes: usize,
}

impl TubeList {
    pub(crate) fn new() -> Self {
        let last = yaml::HEAD.to_vec();
        Self { cursor: QueueCursor::default(), full: Vec::new(), bytes: last.len(), last }
    }

    /// Adds the next queue, if it has the name of a tube; those that other dialects named otherwise cannot
    /// be reached through this one. False: that was the last one, and the answer is sent.
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

    /// Bytes of memory that it holds.
    pub(crate) fn buffered_bytes(&self) -> usize {
        let full: usize = self.full.iter().map(|stretch| stretch.len()).sum();
        full + self.last.capacity()
    }
}
