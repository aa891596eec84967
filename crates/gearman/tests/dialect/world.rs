//! Sessions, a broker in memory and simulated time, put together as a server would do it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use broker::{Broker, Dialect, Event, Mailbox, Millis, Outbox, SessionId, Turn};
use lineshaft_gearman::{HttpSession, Server, ServerOptions, Session};

/// When simulated time begins.
const START: Millis = Millis(1_700_000_000_000);

/// A session of some dialect.
pub(crate) trait Speaker: Dialect {
    /// Bytes of memory held for a command that is on its way.
    fn buffered_bytes(&self) -> usize;
}

impl Speaker for Session {
    fn buffered_bytes(&self) -> usize {
        Session::buffered_bytes(self)
    }
}

impl Speaker for HttpSession {
    fn buffered_bytes(&self) -> usize {
        HttpSession::buffered_bytes(self)
    }
}

/// A server whose clients are in the same thread, and whose time passes when it is told to.
pub(crate) struct World {
    pub(crate) broker: Broker,
    pub(crate) now: Millis,
    server: Arc<Server>,
    events: Arc<Events>,
    mailbox: usize,
    connections: Vec<Connection>,
}

/// One connection, both ends of it.
struct Connection {
    id: SessionId,
    session: Box<dyn Speaker>,
    outbox: Outbox,
    /// Sent by the client and not yet dealt with.
    unread: Vec<u8>,
    /// Answered by the server and not yet looked at by the client.
    received: Vec<u8>,
    /// The server is done with the connection.
    ended: bool,
    /// The client shut its sending side, and the session was told.
    half_closed: bool,
}

/// Events that the broker left.
#[derive(Default)]
struct Events(Mutex<VecDeque<(SessionId, Event)>>);

impl Mailbox for Events {
    fn deliver(&self, session: SessionId, event: Event) {
        self.0.lock().expect("no holder panics").push_back((session, event));
    }

    fn released(&self) {}

    fn alarm(&self, _at: Millis) {}
}

/// The options of a test's server.
pub(crate) fn options() -> ServerOptions {
    ServerOptions { pid: 4711, ..ServerOptions::for_host("vm") }
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(options())
    }

    pub(crate) fn with(options: ServerOptions) -> Self {
        let broker = Broker::memory(START);
        let events = Arc::new(Events::default());
        let mailbox = broker.add_mailbox(events.clone());
        let server = Server::new(options);
        Self { broker, now: START, server, events, mailbox, connections: Vec::new() }
    }

    /// Opens a connection; its number is for the other functions.
    pub(crate) fn connect(&mut self) -> usize {
        let server = self.server.clone();
        self.connect_as(|turn, mailbox| {
            let session = Session::new(server, "127.0.0.1", turn, mailbox);
            (session.id(), Box::new(session))
        })
    }

    /// Opens a connection of a client that speaks HTTP.
    pub(crate) fn connect_http(&mut self) -> usize {
        let server = self.server.clone();
        self.connect_as(|turn, mailbox| {
            let session = HttpSession::new(server, turn, mailbox);
            (session.id(), Box::new(session))
        })
    }

    /// Opens a connection with a session of any dialect.
    pub(crate) fn connect_as(
        &mut self,
        open: impl FnOnce(&mut Turn<'_>, usize) -> (SessionId, Box<dyn Speaker>),
    ) -> usize {
        let (id, session) = open(&mut self.broker.turn(self.now), self.mailbox);
        self.connections.push(Connection {
            id,
            session,
            outbox: Outbox::default(),
            unread: Vec::new(),
            received: Vec::new(),
            ended: false,
            half_closed: false,
        });
        self.connections.len() - 1
    }

    /// The client sends, and the server does what follows from it.
    pub(crate) fn send(&mut self, index: usize, bytes: &[u8]) {
        self.send_first(index, bytes);
        self.deliver_events();
    }

    /// The client sends, and nobody else hears of what follows from it before `deliver_events`.
    pub(crate) fn send_first(&mut self, index: usize, bytes: &[u8]) {
        let connection = &mut self.connections[index];
        assert!(!connection.half_closed, "a client that ended its sending sends nothing");
        if !connection.ended {
            connection.unread.extend_from_slice(bytes);
            self.read(index);
        }
    }

    /// Sends, and returns what has come back by then.
    pub(crate) fn ask(&mut self, index: usize, bytes: &[u8]) -> Vec<u8> {
        self.send(index, bytes);
        self.take_received(index)
    }

    /// The client shuts its sending side.
    pub(crate) fn half_close(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        if connection.ended || connection.half_closed {
            return;
        }
        let mut turn = self.broker.turn(self.now);
        connection.present(&mut turn);
        connection.session.end_of_input(&mut turn, &mut connection.outbox);
        connection.half_closed = true;
        drop(turn);
        self.read(index);
        self.deliver_events();
    }

    /// The client hangs up.
    pub(crate) fn close(&mut self, index: usize) {
        self.end(index);
        self.deliver_events();
    }

    /// What the server sent since the last call.
    pub(crate) fn take_received(&mut self, index: usize) -> Vec<u8> {
        std::mem::take(&mut self.connections[index].received)
    }

    /// Whether the server ended the connection and all it sent was taken.
    pub(crate) fn has_ended(&self, index: usize) -> bool {
        self.connections[index].ended && self.connections[index].received.is_empty()
    }

    /// Bytes that the server keeps of what the client sent: unread ones and half-received packets.
    pub(crate) fn held_bytes(&self, index: usize) -> usize {
        let connection = &self.connections[index];
        connection.unread.len() + connection.session.buffered_bytes()
    }

    /// Lets time pass until something is due, or until `limit`; whether something was due.
    pub(crate) fn advance_to_next(&mut self, limit: Millis) -> bool {
        let due = self.broker.turn(self.now).next_deadline().filter(|due| *due <= limit);
        self.now = due.unwrap_or(limit).max(self.now);
        self.deliver_events();
        due.is_some()
    }

    /// Lets time pass.
    pub(crate) fn advance(&mut self, millis: u64) {
        let limit = Millis(self.now.0 + millis);
        while self.advance_to_next(limit) {}
    }

    /// Lets the session deal with what its client sent, as far as it wants to.
    fn read(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        let may_read = connection.session.wants_input() || connection.half_closed;
        if !connection.ended && may_read {
            connection.present(&mut self.broker.turn(self.now));
        }
        self.send_replies(index);
    }

    fn send_replies(&mut self, index: usize) {
        let released = self.broker.released();
        let connection = &mut self.connections[index];
        loop {
            let bytes = connection.outbox.sendable(released);
            if bytes.is_empty() {
                break;
            }
            let count = bytes.len();
            connection.received.extend_from_slice(bytes);
            connection.outbox.advance(count);
        }
        assert!(connection.outbox.is_empty(), "nothing waits for a log that is not there");
        if connection.session.finished() && !connection.ended {
            self.end(index);
        }
    }

    fn end(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        if !connection.ended {
            connection.ended = true;
            connection.unread.clear();
            connection.session.close(&mut self.broker.turn(self.now));
        }
    }

    /// Sessions hear what happened, and long operations go on.
    pub(crate) fn deliver_events(&mut self) {
        loop {
            let more_is_due = self.broker.turn(self.now).advance();
            let next = self.events.0.lock().expect("no holder panics").pop_front();
            match next {
                Some((session, event)) => self.deliver(session, event),
                None if more_is_due => {}
                None => return,
            }
        }
    }

    fn deliver(&mut self, session: SessionId, event: Event) {
        let receiver = self.connections.iter().position(|c| c.id == session);
        let index = receiver.expect("events are for sessions that were opened");
        let connection = &mut self.connections[index];
        if !connection.ended {
            let mut turn = self.broker.turn(self.now);
            connection.session.event(event, &mut turn, &mut connection.outbox);
            drop(turn);
            self.read(index);
        }
    }
}

impl Connection {
    fn present(&mut self, turn: &mut Turn<'_>) {
        let used = self.session.input(&self.unread, turn, &mut self.outbox);
        self.unread.drain(..used);
    }
}
