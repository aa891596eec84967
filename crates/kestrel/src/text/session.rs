//! Reads the bytes of a text connection: lines, and lists of items.

use std::mem;

use broker::{Body, BodyCopy, JobBody, Millis, Outbox, Position, Step, Turn, When};

use super::items::{ItemList, Progress};
use super::reply::{error, number};
use super::request::{Request, parse};
use crate::client::{AT_ONCE, Closing, FetchMode};
use crate::line::{Line, first_line};
use crate::session::{BlockedItem, LineDialect, LineSession};

/// One connection of the text dialect, without I/O.
pub type TextSession = LineSession<Text>;

/// The meaning of a text connection's next bytes.
#[derive(Debug, Default)]
pub struct Text(Reading);

#[derive(Debug, Default)]
enum Reading {
    /// A line.
    #[default]
    Line,
    /// The items of this request.
    Items(Request, ItemList),
    /// The session reads nothing, because it is storing the items of a put.
    Storing(Storing),
    /// The session reads nothing, because it is closing open reads.
    Closing(Closing, Then),
}

/// A put whose items are stored slice by slice.
#[derive(Debug)]
pub(super) struct Storing {
    pub(super) queue: Vec<u8>,
    pub(super) expires: Option<When>,
    pub(super) items: ItemList,
    /// The copy of the next item.
    pub(super) copy: BodyCopy,
    /// Number of stored items.
    pub(super) stored: u64,
    /// When the first of the items that have waited for room began to wait.
    pub(super) waits_since: Option<Millis>,
    /// The position that the reply waits for.
    pub(super) after: Position,
}

/// How a request goes on after it has closed open reads.
#[derive(Copy, Clone, Debug)]
pub(super) enum Then {
    Fetch {
        how: FetchMode,
        timeout_ms: i32,
    },
    Monitor {
        timeout_ms: i32,
    },
    /// It replies with this number of closed reads.
    Confirm {
        count: u64,
    },
}

impl LineDialect for Text {
    const NONE: &'static [u8] = b"*\n";

    fn step(
        session: &mut TextSession,
        bytes: &[u8],
        turn: &mut Turn<'_>,
        outbox: &mut Outbox,
    ) -> Step {
        Step::used_or_stuck(match &session.reading.0 {
            Reading::Line => session.read_line(bytes, turn, outbox),
            Reading::Items(..) => session.read_items(bytes, turn, outbox),
            Reading::Storing(_) => return session.store(turn, outbox),
            Reading::Closing(..) => return session.close_reads(turn, outbox),
        })
    }

    fn buffered_bytes(&self) -> usize {
        match &self.0 {
            Reading::Items(request, items) => request.text_bytes() + items.buffered_bytes(),
            Reading::Storing(storing) => {
                let items_bytes = storing.items.buffered_bytes() + storing.copy.buffered_bytes();
                storing.queue.len() + items_bytes
            }
            Reading::Closing(closing, _) => closing.queue.len(),
            Reading::Line => 0,
        }
    }

    fn is_mid_request(&self) -> bool {
        match self.0 {
            Reading::Items(..) => true,
            Reading::Line | Reading::Storing(_) | Reading::Closing(..) => false,
        }
    }

    fn has_more(&self) -> bool {
        matches!(self.0, Reading::Storing(_) | Reading::Closing(..))
    }

    /// A list gets the number of its items that are stored. The others count as refused.
    fn stop(&self, outbox: &mut Outbox) {
        match &self.0 {
            Reading::Storing(storing) => number(outbox, storing.after, storing.stored),
            Reading::Line | Reading::Items(..) | Reading::Closing(..) => {
                error(outbox, AT_ONCE, b"The server stops before it is done.");
            }
        }
    }

    fn add(session: &mut TextSession, item: BlockedItem, turn: &mut Turn<'_>, outbox: &mut Outbox) {
        if session.store_item(item.body, turn) {
            session.store(turn, outbox);
        }
    }

    fn item(outbox: &mut Outbox, after: Position, _queue: &[u8], body: &JobBody) {
        outbox.reply_with_body(after, b":", body, b"\n");
    }
}

impl TextSession {
    fn read_line(&mut self, bytes: &[u8], turn: &mut Turn<'_>, outbox: &mut Outbox) -> usize {
        let (text, bytes) = match first_line(bytes) {
            Line::Complete { text, bytes } => (text, bytes),
            Line::Incomplete => return 0,
            Line::TooLong => {
                error(outbox, AT_ONCE, b"Line too long.");
                self.client.end(turn);
                return 0;
            }
        };
        match text.strip_suffix(b":") {
            // Items can follow any command. All commands except put ignore them.
            Some(text) => self.reading.0 = Reading::Items(parse(text), ItemList::default()),
            None => self.execute(parse(text), ItemList::default(), turn, outbox),
        }
        bytes
    }

    fn read_items(&mut self, bytes: &[u8], turn: &mut Turn<'_>, outbox: &mut Outbox) -> usize {
        let Reading::Items(_, items) = &mut self.reading.0 else { return 0 };
        let bytes_max = self.client.server.options().item_bytes_max as usize;
        let progress = items.gather(bytes, bytes_max);
        if items.bytes() > bytes_max {
            error(outbox, AT_ONCE, b"Too many bytes in one list.");
            self.client.end(turn);
            return 0;
        }
        let count = match progress {
            Progress::GoesOn(count) => return count,
            Progress::Ended(count) => count,
        };
        if let Reading::Items(request, items) = mem::replace(&mut self.reading.0, Reading::Line) {
            self.execute(request, items, turn, outbox);
        }
        count
    }

    /// Makes the next steps store these items.
    pub(super) fn begin_storing(&mut self, storing: Storing) {
        self.reading.0 = Reading::Storing(storing);
    }

    /// Makes the next steps close these open reads, and then go on with their request.
    pub(super) fn begin_closing(&mut self, closing: Closing, then: Then) {
        self.reading.0 = Reading::Closing(closing, then);
    }

    /// Closes open reads until the slice of work is spent. At their end, goes on with the request.
    fn close_reads(&mut self, turn: &mut Turn<'_>, outbox: &mut Outbox) -> Step {
        let Reading::Closing(closing, then) = &mut self.reading.0 else { return Step::Stuck };
        if !self.client.close(closing, turn) {
            return Step::Unfinished;
        }
        let (queue, then, after) = (mem::take(&mut closing.queue), *then, closing.after);
        self.reading.0 = Reading::Line;
        self.execute_closed(&queue, then, after, turn, outbox);
        Step::Used(0)
    }

    /// Stores items until the slice of work is spent, or an item waits for room. If an item is
    /// refused, continues with the next item.
    fn store(&mut self, turn: &mut Turn<'_>, outbox: &mut Outbox) -> Step {
        while let Reading::Storing(storing) = &mut self.reading.0 {
            let Some(item) = storing.items.next_item() else {
                number(outbox, storing.after, storing.stored);
                self.reading.0 = Reading::Line;
                return Step::Used(0);
            };
            let Some(item) = storing.copy.body(item, turn) else { return Step::Unfinished };
            storing.items.pass_item();
            if !self.store_item(item, turn) {
                return Step::Stuck;
            }
            if turn.slice_is_spent() {
                return Step::Unfinished;
            }
        }
        Step::Stuck
    }

    /// Stores an item, unless it must wait for room. Returns false if it waits.
    fn store_item(&mut self, body: Body, turn: &mut Turn<'_>) -> bool {
        let Reading::Storing(storing) = &mut self.reading.0 else { return false };
        // An item that is refused can cost the engine nothing, but it takes time.
        turn.count_work(1);
        let mut caller = turn.caller(self.client.id);
        if caller.item_must_wait_for_room(&storing.queue, &body, &mut storing.waits_since) {
            let (queue, expires) = (storing.queue.as_slice().into(), storing.expires);
            self.wait_for_room(BlockedItem { queue, body, expires });
            return false;
        }
        let added = self.client.add(&storing.queue, body, storing.expires, turn);
        storing.stored += u64::from(added.value.is_ok());
        storing.after = added.after.max(storing.after);
        true
    }
}
