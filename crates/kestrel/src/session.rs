//! One connection of memcache or text: what it waits for, how it goes on, and how it ends. What its bytes
//! mean is the dialect's business.

use std::mem;
use std::sync::Arc;

use broker::{
    Body, Clearing, Dialect, Event, InputEnd, Outbox, Position, Progress, SessionId, Step, Turn,
    take_steps,
};

use crate::client::{Client, Fetched, How, patience};
use crate::listing::Listing;
use crate::monitor::{Monitor, Next};
use crate::server::Server;

/// What a dialect of lines makes of its bytes. A value says what the next bytes of a connection are.
pub trait LineDialect: std::fmt::Debug + Default + Send {
    /// The answer that there is no item.
    const NONE: &'static [u8];

    /// The answer that something long will not be done: the server stops.
    const STOPPING: &'static [u8];

    /// Deals with one line, one stretch of data, or one slice of a list.
    fn step(
        session: &mut LineSession<Self>,
        bytes: &[u8],
        turn: &mut Turn<'_>,
        outbox: &mut Outbox,
    ) -> Step;

    /// Bytes of memory held for a request that has not arrived whole.
    fn buffered_bytes(&self) -> usize;

    /// Whether a request has begun and its rest must come.
    fn is_mid_request(&self) -> bool;

    /// Answers with an item.
    fn item(outbox: &mut Outbox, after: Position, queue: &[u8], body: &Body);
}

/// One connection that speaks a dialect of lines, without I/O.
#[derive(Debug)]
pub struct LineSession<D> {
    pub(crate) client: Client,
    pub(crate) reading: D,
    waiting: Waiting,
    /// Something that goes over queues, row by row; what comes next has to wait.
    listing: Option<Listing>,
    input_end: InputEnd,
}

/// What the session waits for; it reads no request meanwhile.
#[derive(Debug)]
enum Waiting {
    Nothing,
    /// An item. The reply waits for the position too: reads were closed before.
    Item {
        queue: Box<[u8]>,
        how: How,
        after: Position,
        /// Only until what has expired is gone: at once, but for as long as the broker has enough to
        /// write.
        is_brief: bool,
    },
    Monitor(Monitor),
    /// The end of a flush or a removal, or of reading the configuration again, which is answered so.
    Work(&'static [u8]),
}

impl<D: LineDialect> LineSession<D> {
    /// A new connection; its events go to `mailbox`.
    pub fn new(server: Arc<Server>, turn: &mut Turn<'_>, mailbox: usize) -> Self {
        Self {
            client: Client::new(server, turn, mailbox),
            reading: D::default(),
            waiting: Waiting::Nothing,
            listing: None,
            input_end: InputEnd::default(),
        }
    }

    /// The same, but it may not stop the server nor set its status.
    #[must_use]
    pub fn without_control(mut self) -> Self {
        self.client.may_control = false;
        self
    }

    /// Its number in the broker: the address of its events.
    pub fn id(&self) -> SessionId {
        self.client.id
    }

    fn is_reading(&self) -> bool {
        matches!(self.waiting, Waiting::Nothing)
            && self.listing.is_none()
            && !self.client.is_ended()
    }

    /// Goes over queues, from the next step on.
    pub(crate) fn list(&mut self, listing: Listing) {
        self.listing = Some(listing);
    }

    /// Fetches an item and answers, or waits for one; the answer also waits for `after`.
    pub(crate) fn fetch(
        &mut self,
        queue: &[u8],
        how: How,
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

    /// Sends items until there is something to wait for.
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

    /// Answers a flush, or the removal of a queue, with `done` when it is done.
    pub(crate) fn answer_clearing(
        &mut self,
        clearing: Clearing,
        done: &'static [u8],
        outbox: &mut Outbox,
    ) {
        match clearing {
            Clearing::Done(after) => outbox.reply(after, done),
            Clearing::Waiting => self.wait_for_work(done),
        }
    }

    /// An event will tell of the end of something long, which is answered so.
    pub(crate) fn wait_for_work(&mut self, done: &'static [u8]) {
        self.waiting = Waiting::Work(done);
    }

    /// What the session waited for has happened.
    fn resume(&mut self, event: Event, turn: &mut Turn<'_>, outbox: &mut Outbox) {
        match mem::replace(&mut self.waiting, Waiting::Nothing) {
            Waiting::Nothing => unreachable!("nothing is told to who does not wait"),
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
            Waiting::Work(done) => match event {
                Event::Cleared(after) | Event::Reloaded(after) => outbox.reply(after, done),
                other => unreachable!("{other:?} came to who waits for something else"),
            },
        }
    }

    /// After the peer ended its sending: closes as soon as all that it sent is dealt with. That is a
    /// disconnect, so who waits for an item, which may never come, is not answered.
    fn end_if_drained(&mut self, turn: &mut Turn<'_>) {
        let is_drained = match self.waiting {
            Waiting::Nothing => self.input_end.is_drained(),
            Waiting::Item { is_brief, .. } => !is_brief,
            Waiting::Monitor(_) => true,
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
                self.listing = listing.step(&self.client.server, turn, outbox);
                Step::Used(0)
            } else if self.is_reading() {
                D::step(self, bytes, turn, outbox)
            } else {
                return Step::Stuck;
            };
            // After each step: what statistics say must not depend on how the bytes were cut.
            let count = if let Step::Used(count) = step { count } else { 0 };
            self.client.server.count_bytes(count, outbox.len() - unsent);
            step
        });
        let progress = self.input_end.note(bytes.len(), steps, self.is_reading());
        self.end_if_drained(turn);
        progress
    }

    fn event(&mut self, event: Event, turn: &mut Turn<'_>, outbox: &mut Outbox) {
        if self.client.is_ended() {
            return self.client.note_late(&event);
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

    fn buffered_bytes(&self) -> usize {
        let listing_bytes = self.listing.as_ref().map_or(0, Listing::buffered_bytes);
        self.reading.buffered_bytes() + listing_bytes
    }

    fn is_mid_request(&self) -> bool {
        self.reading.is_mid_request()
    }

    fn finished(&self) -> bool {
        self.client.is_ended()
    }

    fn stop(&mut self, turn: &mut Turn<'_>, outbox: &mut Outbox) {
        if self.listing.take().is_some() || matches!(self.waiting, Waiting::Work(_)) {
            outbox.reply(Position::NONE, D::STOPPING);
            return self.client.end(turn);
        }
        // Who waits for an item has waited long enough.
        if let Some(after) = turn.cancel_wait(self.client.id) {
            self.event(Event::TimedOut(after), turn, outbox);
        }
    }

    fn close(&mut self, turn: &mut Turn<'_>) {
        self.client.end(turn);
    }
}
