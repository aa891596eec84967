//! The common part of memcache and text connections: how they wait, continue and end. The line
//! dialect interprets the bytes.

use std::mem;
use std::sync::Arc;

use broker::{
    Answer, Body, Clearing, Dialect, Event, InputEnd, JobBody, Outbox, Position, Progress,
    SessionId, Step, Turn, When, take_steps,
};

use crate::client::{Client, FetchMode, Fetched, patience};
use crate::listing::Listing;
use crate::monitor::{Monitor, Next};
use crate::server::Server;

/// A dialect of lines: memcache or text. A value of this type is the meaning of the connection's
/// next bytes.
pub trait LineDialect: std::fmt::Debug + Default + Send {
    /// The reply if there is no item.
    const NONE: &'static [u8];

    /// Handles one line, one piece of data, or one slice of a long request.
    fn step(
        session: &mut LineSession<Self>,
        bytes: &[u8],
        turn: &mut Turn<'_>,
        outbox: &mut Outbox,
    ) -> Step;

    /// Number of bytes of memory for an incomplete request.
    fn buffered_bytes(&self) -> usize;

    /// True if a part of a request has arrived.
    fn is_mid_request(&self) -> bool;

    /// True if the session can continue a request without new input, unless it waits.
    fn has_more(&self) -> bool {
        false
    }

    /// Replies to a request that the server's stop ends early, because it waits or is not done.
    fn stop(&self, outbox: &mut Outbox);

    /// Adds an item that has waited for room, or waits again.
    fn add(
        session: &mut LineSession<Self>,
        item: BlockedItem,
        turn: &mut Turn<'_>,
        outbox: &mut Outbox,
    );

    /// Replies with an item.
    fn item(outbox: &mut Outbox, after: Position, queue: &[u8], body: &JobBody);
}

/// One connection of a dialect of lines, without I/O.
#[derive(Debug)]
pub struct LineSession<D> {
    pub(crate) client: Client,
    pub(crate) reading: D,
    waiting: Waiting,
    /// The running operation over many queues, if any. Later requests wait until it ends.
    listing: Option<Listing>,
    input_end: InputEnd,
}

/// The event that the session waits for. During the wait, the session reads no request.
#[derive(Debug)]
enum Waiting {
    Nothing,
    /// An item. Before the wait, the request may have closed open reads. So the reply also waits
    /// for the position `after`.
    Item {
        queue: Box<[u8]>,
        how: FetchMode,
        after: Position,
        /// True if the session waits only until expired items are removed, or until the next item is
        /// loaded. This wait is short, except while the broker pauses chores because the log has
        /// too many unwritten bytes.
        is_brief: bool,
    },
    Monitor(Monitor),
    /// The end of a flush, a removal or a reload. The value is the reply at the end.
    Work(&'static [u8]),
    /// Room for an item in a full queue.
    Room(BlockedItem),
}

/// An item that waits for room.
#[derive(Debug)]
pub struct BlockedItem {
    pub(crate) queue: Box<[u8]>,
    pub(crate) body: Body,
    pub(crate) expires: Option<When>,
}

impl<D: LineDialect> LineSession<D> {
    /// Makes a new connection. The broker sends the events of its session to `mailbox`.
    pub fn new(server: Arc<Server>, turn: &mut Turn<'_>, mailbox: usize) -> Self {
        Self {
            client: Client::new(server, turn, mailbox),
            reading: D::default(),
            waiting: Waiting::Nothing,
            listing: None,
            input_end: InputEnd::default(),
        }
    }

    /// Makes this connection unable to stop the server or set its status.
    #[must_use]
    pub fn without_control(mut self) -> Self {
        self.client.may_control = false;
        self
    }

    /// The id of the session in the broker. Events have this id as their address.
    pub fn id(&self) -> SessionId {
        self.client.id
    }

    fn is_reading(&self) -> bool {
        matches!(self.waiting, Waiting::Nothing)
            && self.listing.is_none()
            && !self.client.is_ended()
    }

    /// Starts an operation over many queues. The next steps continue it.
    pub(crate) fn list(&mut self, listing: Listing) {
        self.listing = Some(listing);
    }

    /// Fetches an item and replies with it, or waits for an item. The reply also waits for `after`.
    pub(crate) fn fetch(
        &mut self,
        queue: &[u8],
        how: FetchMode,
        timeout_ms: i32,
        after: Position,
        turn: &mut Turn<'_>,
        outbox: &mut Outbox,
    ) {
        match self.client.fetch(queue, how, patience(timeout_ms), turn) {
            Fetched::Item(body, found) => D::item(outbox, found.max(after), queue, &body),
            Fetched::Nothing(missed) => outbox.reply(missed.max(after), D::NONE),
            Fetched::Waiting => {
                let (queue, is_brief) = (queue.into(), timeout_ms <= 0);
                self.waiting = Waiting::Item { queue, how, after, is_brief };
            }
        }
    }

    /// Sends items until the monitor ends or must wait.
    pub(crate) fn monitor(
        &mut self,
        mut monitor: Monitor,
        turn: &mut Turn<'_>,
        outbox: &mut Outbox,
    ) {
        let next = monitor.next(&mut self.client, turn);
        self.go_on(monitor, next, turn, outbox);
    }

    fn go_on(
        &mut self,
        mut monitor: Monitor,
        mut next: Next,
        turn: &mut Turn<'_>,
        outbox: &mut Outbox,
    ) {
        loop {
            match next {
                Next::Item(body, after) => D::item(outbox, after, monitor.queue(), &body),
                Next::End(after) => return outbox.reply(after, D::NONE),
                Next::Waiting => {
                    self.waiting = Waiting::Monitor(monitor);
                    return;
                }
            }
            next = monitor.next(&mut self.client, turn);
        }
    }

    /// Replies with `done` when the flush, or the removal of a queue, has ended.
    pub(crate) fn answer_clearing(
        &mut self,
        clearing: Answer<Clearing>,
        done: &'static [u8],
        outbox: &mut Outbox,
    ) {
        match clearing.value {
            Clearing::Done => outbox.reply(clearing.after, done),
            Clearing::Waiting => self.wait_for_work(done),
        }
    }

    /// Waits until the queue of an item has room for it.
    pub(crate) fn wait_for_room(&mut self, item: BlockedItem) {
        self.waiting = Waiting::Room(item);
    }

    /// Waits for the event that ends a long operation. The reply is then `done`.
    pub(crate) fn wait_for_work(&mut self, done: &'static [u8]) {
        self.waiting = Waiting::Work(done);
    }

    /// Handles the event that the session waited for.
    fn resume(&mut self, event: Answer<Event>, turn: &mut Turn<'_>, outbox: &mut Outbox) {
        match mem::replace(&mut self.waiting, Waiting::Nothing) {
            Waiting::Nothing => unreachable!("a session that does not wait gets no event"),
            Waiting::Item { queue, how, after, is_brief: _ } => {
                match self.client.resume(&queue, how, event, turn) {
                    Fetched::Item(body, found) => D::item(outbox, found.max(after), &queue, &body),
                    Fetched::Nothing(missed) => outbox.reply(missed.max(after), D::NONE),
                    Fetched::Waiting => unreachable!("the wait is over"),
                }
            }
            Waiting::Monitor(mut monitor) => {
                let next = monitor.resume(event, &mut self.client, turn);
                self.go_on(monitor, next, turn, outbox);
            }
            Waiting::Room(item) => D::add(self, item, turn, outbox),
            Waiting::Work(done) => match event.value {
                Event::Cleared | Event::Reloaded => outbox.reply(event.after, done),
                other => unreachable!("{other:?} came, but the session waits for something else"),
            },
        }
    }

    /// Ends the session if the client has closed its sending side and the session has handled all
    /// earlier requests. A closed sending side counts as a disconnect. So a client that waits for
    /// an item gets no reply.
    fn end_if_drained(&mut self, turn: &mut Turn<'_>) {
        let is_drained = match self.waiting {
            Waiting::Nothing => self.input_end.is_drained(),
            Waiting::Item { is_brief, .. } => !is_brief,
            Waiting::Monitor(_) | Waiting::Room(_) => true,
            Waiting::Work(_) => false,
        };
        if self.input_end.has_come() && is_drained {
            self.client.end(turn);
        }
    }
}

impl<D: LineDialect> Dialect for LineSession<D> {
    fn input(&mut self, bytes: &[u8], turn: &mut Turn<'_>, outbox: &mut Outbox) -> Progress {
        let steps = take_steps(bytes, turn, outbox, |bytes, turn, outbox| {
            let unsent = outbox.len();
            let step = if let Some(listing) = self.listing.take() {
                self.listing = listing.step(self.client.id, &self.client.server, turn, outbox);
                Step::Used(0)
            } else if self.is_reading() {
                D::step(self, bytes, turn, outbox)
            } else {
                return Step::Stuck;
            };
            // Count the bytes after each step, so that the statistics in a reply do not depend on
            // how the bytes were split.
            let count = if let Step::Used(count) = step { count } else { 0 };
            self.client.server.count_bytes(count, outbox.len() - unsent);
            step
        });
        let progress = self.input_end.note(bytes.len(), steps, self.is_reading());
        self.end_if_drained(turn);
        progress
    }

    fn event(&mut self, event: Answer<Event>, turn: &mut Turn<'_>, outbox: &mut Outbox) {
        if self.client.is_ended() {
            return self.client.note_late(&event.value);
        }
        let unsent = outbox.len();
        self.resume(event, turn, outbox);
        self.client.server.count_bytes(0, outbox.len() - unsent);
        self.end_if_drained(turn);
    }

    fn end_of_input(&mut self, turn: &mut Turn<'_>, _outbox: &mut Outbox) {
        self.input_end.come(self.is_reading());
        self.end_if_drained(turn);
    }

    fn wants_input(&self) -> bool {
        self.is_reading() && !self.input_end.has_come()
    }

    fn has_more(&self) -> bool {
        self.is_reading() && self.reading.has_more()
    }

    fn buffered_bytes(&self) -> usize {
        let listing_bytes = self.listing.as_ref().map_or(0, Listing::buffered_bytes);
        let waiting_bytes = match &self.waiting {
            Waiting::Item { queue, .. } => queue.len(),
            Waiting::Monitor(monitor) => monitor.queue().len(),
            Waiting::Nothing | Waiting::Room(_) | Waiting::Work(_) => 0,
        };
        let open_bytes = self.client.buffered_bytes();
        let is_blocked = matches!(self.waiting, Waiting::Room(_));
        let reading_bytes = if is_blocked { 0 } else { self.reading.buffered_bytes() };
        reading_bytes + listing_bytes + waiting_bytes + open_bytes
    }

    fn blocked_bytes(&self) -> usize {
        match &self.waiting {
            // The rest of a list waits behind its item.
            Waiting::Room(item) => {
                item.body.len() + item.queue.len() + self.reading.buffered_bytes()
            }
            Waiting::Nothing | Waiting::Item { .. } | Waiting::Monitor(_) | Waiting::Work(_) => 0,
        }
    }

    fn is_mid_request(&self) -> bool {
        self.reading.is_mid_request()
    }

    fn finished(&self) -> bool {
        self.client.is_ended()
    }

    fn stop(&mut self, turn: &mut Turn<'_>, outbox: &mut Outbox) {
        // A fetch that does not wait for an item has only waited until the broker knows the next
        // item. A reply that there is no item would be wrong.
        let is_unfinished = match self.waiting {
            Waiting::Work(_) | Waiting::Room(_) => true,
            Waiting::Item { is_brief, .. } => is_brief,
            Waiting::Nothing | Waiting::Monitor(_) => {
                self.listing.take().is_some() || self.reading.has_more()
            }
        };
        if is_unfinished {
            self.reading.stop(outbox);
            return self.client.end(turn);
        }
        // End a wait for an item.
        let waited = turn.caller(self.client.id).cancel_wait();
        if waited.value {
            self.event(waited.map(|_| Event::TimedOut), turn, outbox);
        }
    }

    fn close(&mut self, turn: &mut Turn<'_>) {
        if let Waiting::Work(_) = self.waiting {
            self.client.server.controls.forget_reload(self.client.id);
        }
        self.client.end(turn);
    }
}
