//! One connection: which bytes it reads next, what it waits for, and how it ends.

use std::mem;
use std::sync::Arc;

use broker::{Dialect, Event, Outbox, Position, SessionId, Turn, take_steps};

use super::commands::error;
use super::items::{ItemList, Progress};
use super::request::{Request, parse};
use crate::client::{AT_ONCE, Client, How};
use crate::line::{Line, first_line};
use crate::monitor::Monitor;
use crate::server::{LIST_LEN_MAX, Server};

/// One connection that speaks the text dialect, without I/O.
#[derive(Debug)]
pub struct TextSession {
    pub(crate) client: Client,
    reading: Reading,
    pub(crate) waiting: Waiting,
}

/// What the next bytes of the connection are.
#[derive(Debug)]
enum Reading {
    /// A line.
    Line,
    /// The items for a request.
    Items(Request, ItemList),
}

/// What the session waits for; it reads no request meanwhile.
#[derive(Debug)]
pub(crate) enum Waiting {
    Nothing,
    /// An item. The reply waits for the position too: reads were closed before.
    Item {
        queue: Box<[u8]>,
        how: How,
        after: Position,
    },
    Monitor(Monitor),
    /// The end of a flush.
    Flush,
}

impl TextSession {
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

    /// Deals with one line, or one stretch of items; returns how many bytes that took. 0: more must
    /// arrive first, or the session has ended.
    fn step(&mut self, bytes: &[u8], turn: &mut Turn<'_>, outbox: &mut Outbox) -> usize {
        match &self.reading {
            Reading::Line => self.read_line(bytes, turn, outbox),
            Reading::Items(..) => self.read_items(bytes, turn, outbox),
        }
    }

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
            // Whatever the command is, only a put does something with them.
            Some(text) => self.reading = Reading::Items(parse(text), ItemList::default()),
            None => self.execute(parse(text), &ItemList::default(), turn, outbox),
        }
        bytes
    }

    fn read_items(&mut self, bytes: &[u8], turn: &mut Turn<'_>, outbox: &mut Outbox) -> usize {
        let Reading::Items(_, items) = &mut self.reading else { return 0 };
        let progress = items.gather(bytes);
        if items.count() > LIST_LEN_MAX {
            error(outbox, AT_ONCE, b"Too many items in one list.");
            self.client.end(turn);
            return 0;
        }
        if items.bytes() > self.client.server.options().item_bytes_max as usize {
            error(outbox, AT_ONCE, b"Too many bytes in one list.");
            self.client.end(turn);
            return 0;
        }
        let Progress::Ended(count) = progress else { return bytes.len() };
        if let Reading::Items(request, items) = mem::replace(&mut self.reading, Reading::Line) {
            self.execute(request, &items, turn, outbox);
        }
        count
    }
}

impl Dialect for TextSession {
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
        // A half-close is a disconnect, but what came before it is answered, unless it waits.
        self.client.end(turn);
    }

    fn wants_input(&self) -> bool {
        self.is_reading()
    }

    fn buffered_bytes(&self) -> usize {
        match &self.reading {
            Reading::Items(_, items) => items.buffered_bytes(),
            Reading::Line => 0,
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
