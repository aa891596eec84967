//! Executes each request. The connection continues after any error (spec kestrel 6).

use broker::{BodyCopy, Millis, Outbox, Position, Turn};

use super::items::ItemList;
use super::reply::{error, number};
use super::request::Request;
use super::session::{Storing, TextSession, Then};
use crate::client::{AT_ONCE, Closing, FetchMode};
use crate::monitor::Monitor;
use crate::name::{is_possible, is_usable};
use crate::status::NoStatus;
use crate::{expiry, status};

/// The reply to a command that has no result.
const DONE: &[u8] = b"+0\n";
/// The reply to an invalid queue name. The original closes the connection without a reply.
const ILLEGAL_NAME: &[u8] = b"Illegal queue name.";
const NOT_ALLOWED: &[u8] = b"Not allowed here; see kestrel.control.";
const TOO_FEW_OPEN: &[u8] = b"Not that many transactions open.";
/// The error at the limit of queues with open reads, which the original does not have.
const TOO_MANY_OPEN: &[u8] = b"Too many queues with open transactions.";

impl TextSession {
    pub(crate) fn execute(
        &mut self,
        request: Request,
        items: ItemList,
        turn: &mut Turn<'_>,
        outbox: &mut Outbox,
    ) {
        match request {
            Request::Put { queue, expiry_ms } => self.put(queue, expiry_ms, items, turn, outbox),
            Request::Get { queue, timeout_ms } => {
                self.close_all(queue, Then::Fetch { how: FetchMode::Open, timeout_ms });
            }
            Request::Peek { queue, timeout_ms } => {
                self.close_all(queue, Then::Fetch { how: FetchMode::Peek, timeout_ms });
            }
            Request::Monitor { queue, timeout_ms } => {
                self.close_all(queue, Then::Monitor { timeout_ms });
            }
            Request::Confirm { queue, count } => self.confirm(queue, count, outbox),
            Request::Flush(queue) => self.flush(&queue, turn, outbox),
            Request::Delete(queue) => self.delete(&queue, turn, outbox),
            Request::Shutdown | Request::Status(Some(_)) if !self.client.may_control => {
                error(outbox, AT_ONCE, NOT_ALLOWED);
            }
            Request::Status(word) => self.status(word.as_deref(), turn, outbox),
            Request::Version => {
                string(outbox, AT_ONCE, self.client.server.options().version.as_bytes());
            }
            Request::Shutdown => {
                self.client.server.controls.shut_down();
                outbox.reply(AT_ONCE, DONE);
            }
            Request::Quit => self.client.end(turn),
            Request::Wrong(text) => error(outbox, AT_ONCE, &text),
        }
    }

    fn put(
        &mut self,
        queue: Vec<u8>,
        expiry_ms: Option<i32>,
        items: ItemList,
        turn: &mut Turn<'_>,
        outbox: &mut Outbox,
    ) {
        if self.client.is_refused_writes(turn) {
            return unavailable(outbox, AT_ONCE, "setItem");
        }
        if !is_usable(&queue, turn) {
            return error(outbox, AT_ONCE, ILLEGAL_NAME);
        }
        let expires = expiry_ms.map(|millis| expiry::of_millis(millis, turn.now()));
        let (stored, waits_since, after) = (0, None, AT_ONCE);
        self.begin_storing(Storing {
            queue,
            expires,
            items,
            copy: BodyCopy::default(),
            stored,
            waits_since,
            after,
        });
    }

    /// Makes the next steps close all open reads of a queue, and then go on with the request.
    fn close_all(&mut self, queue: Vec<u8>, then: Then) {
        let count = self.client.open_count(&queue);
        self.begin_closing(Closing::new(queue, count), then);
    }

    /// Goes on with a request after its open reads are closed. Its reply waits for the position
    /// `after`, too.
    pub(super) fn execute_closed(
        &mut self,
        queue: &[u8],
        then: Then,
        after: Position,
        turn: &mut Turn<'_>,
        outbox: &mut Outbox,
    ) {
        match then {
            Then::Fetch { how, timeout_ms } => {
                self.fetch_named(queue, how, timeout_ms, after, turn, outbox);
            }
            Then::Monitor { timeout_ms } => {
                self.begin_monitor(queue, timeout_ms, after, turn, outbox);
            }
            Then::Confirm { count } => number(outbox, after, count),
        }
    }

    fn fetch_named(
        &mut self,
        queue: &[u8],
        how: FetchMode,
        timeout_ms: i32,
        after: Position,
        turn: &mut Turn<'_>,
        outbox: &mut Outbox,
    ) {
        if self.client.is_refused_reads(turn) {
            return unavailable(outbox, after, "getItem");
        }
        if how == FetchMode::Open && self.client.is_open_full(queue, turn) {
            return error(outbox, after, TOO_MANY_OPEN);
        }
        let counters = self.client.counters();
        let counter = if how == FetchMode::Peek { &counters.cmd_peek } else { &counters.cmd_get };
        counter.add_one();
        if !is_usable(queue, turn) {
            return error(outbox, after, ILLEGAL_NAME);
        }
        self.fetch(queue, how, timeout_ms, after, turn, outbox);
    }

    fn begin_monitor(
        &mut self,
        queue: &[u8],
        timeout_ms: i32,
        after: Position,
        turn: &mut Turn<'_>,
        outbox: &mut Outbox,
    ) {
        if self.client.is_refused_reads(turn) {
            return unavailable(outbox, after, "monitorUntil");
        }
        if !is_usable(queue, turn) {
            return error(outbox, after, ILLEGAL_NAME);
        }
        self.client.counters().cmd_monitor.add_one();
        let deadline = Millis(turn.now().0.saturating_add_signed(i64::from(timeout_ms)));
        self.monitor(Monitor::new(queue, deadline, None, after), turn, outbox);
    }

    fn confirm(&mut self, queue: Vec<u8>, count: i32, outbox: &mut Outbox) {
        match usize::try_from(count) {
            Ok(wanted @ 1..) if wanted <= self.client.open_count(&queue) => {
                let then = Then::Confirm { count: wanted as u64 };
                self.begin_closing(Closing::new(queue, wanted), then);
            }
            _ => error(outbox, AT_ONCE, TOO_FEW_OPEN),
        }
    }

    fn flush(&mut self, queue: &[u8], turn: &mut Turn<'_>, outbox: &mut Outbox) {
        if self.client.is_refused_writes(turn) {
            return unavailable(outbox, AT_ONCE, "flush");
        }
        if !is_possible(queue) {
            return outbox.reply(AT_ONCE, DONE);
        }
        let flush = turn.caller(self.client.id).flush(queue);
        self.answer_clearing(flush, DONE, outbox);
    }

    fn delete(&mut self, queue: &[u8], turn: &mut Turn<'_>, outbox: &mut Outbox) {
        if self.client.is_refused_writes(turn) {
            return unavailable(outbox, AT_ONCE, "delete");
        }
        if !is_possible(queue) {
            return outbox.reply(AT_ONCE, DONE);
        }
        let removal = turn.caller(self.client.id).remove_queue(queue);
        self.answer_clearing(removal, DONE, outbox);
    }

    fn status(&mut self, word: Option<&[u8]>, turn: &mut Turn<'_>, outbox: &mut Outbox) {
        let Some(word) = word else {
            return string(outbox, turn.after_facts(), status::name(turn.status()).as_bytes());
        };
        match status::parse(word) {
            Ok(status) => {
                let grace_ms = self.client.server.options().status_grace_ms;
                let set = turn.set_status(status, grace_ms);
                outbox.reply(set.after, DONE);
            }
            Err(NoStatus::Unknown) => error(outbox, AT_ONCE, b"Unknown status."),
            Err(NoStatus::Forbidden) => error(outbox, AT_ONCE, b"Status forbidden."),
        }
    }
}

fn string(outbox: &mut Outbox, after: Position, text: &[u8]) {
    outbox.reply(after, &[b":", text, b"\n"].concat());
}

fn unavailable(outbox: &mut Outbox, after: Position, operation: &str) {
    let text = format!("Server not available for operation {operation}");
    error(outbox, after, text.as_bytes());
}
