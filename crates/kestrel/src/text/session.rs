//! Which bytes a connection reads next: lines, and lists of items.

use std::mem;

use broker::{Body, Outbox, Position, Turn};

use super::commands::error;
use super::items::{ItemList, Progress};
use super::request::{Request, parse};
use crate::client::AT_ONCE;
use crate::line::{Line, first_line};
use crate::server::LIST_LEN_MAX;
use crate::session::{LineDialect, LineSession};

/// One connection that speaks the text dialect, without I/O.
pub type TextSession = LineSession<Text>;

/// The text dialect: what the next bytes of a connection are.
#[derive(Debug, Default)]
pub struct Text(Reading);

#[derive(Debug, Default)]
enum Reading {
    /// A line.
    #[default]
    Line,
    /// The items for a request.
    Items(Request, ItemList),
}

impl LineDialect for Text {
    const NONE: &'static [u8] = b"*\n";
    const STOPPING: &'static [u8] = b"-The server stops before it is done.\n";

    fn step(
        session: &mut TextSession,
        bytes: &[u8],
        turn: &mut Turn<'_>,
        outbox: &mut Outbox,
    ) -> usize {
        match &session.reading.0 {
            Reading::Line => session.read_line(bytes, turn, outbox),
            Reading::Items(..) => session.read_items(bytes, turn, outbox),
        }
    }

    fn buffered_bytes(&self) -> usize {
        match &self.0 {
            Reading::Items(_, items) => items.buffered_bytes(),
            Reading::Line => 0,
        }
    }

    fn is_mid_request(&self) -> bool {
        match self.0 {
            Reading::Items(..) => true,
            Reading::Line => false,
        }
    }

    fn item(outbox: &mut Outbox, after: Position, _queue: &[u8], body: &Body) {
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
            // Whatever the command is, only a put does something with them.
            Some(text) => self.reading.0 = Reading::Items(parse(text), ItemList::default()),
            None => self.execute(parse(text), &ItemList::default(), turn, outbox),
        }
        bytes
    }

    fn read_items(&mut self, bytes: &[u8], turn: &mut Turn<'_>, outbox: &mut Outbox) -> usize {
        let Reading::Items(_, items) = &mut self.reading.0 else { return 0 };
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
        if let Reading::Items(request, items) = mem::replace(&mut self.reading.0, Reading::Line) {
            self.execute(request, &items, turn, outbox);
        }
        count
    }
}
