//! A world: sessions of any dialects, a broker and simulated time, connected as in a server.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use anyhow::{Result, ensure};
use broker::{
    Answer, Broker, Dialect, EngineSetup, Event, Mailbox, Millis, Options, Outbox, Progress,
    SessionId, Turn,
};

use crate::conformance::wire::{ConnectionId, Received, Wire};

/// The size of a segment in [`World::sealing`].
const SEGMENT_BYTES: u64 = 64 << 10;

/// The start of simulated time.
pub const START: Millis = Millis(1_700_000_000_000);

/// A server in one thread, with its clients. Its time changes only when a test advances it.
#[derive(Debug)]
pub struct World {
    /// The broker that the sessions share.
    pub broker: Broker,
    /// The current simulated time.
    pub now: Millis,
    events: Arc<Events>,
    mailbox: usize,
    connections: Vec<Connection>,
    /// If true, the log is written after each step. If false, only `commit` writes it.
    writes_always: bool,
    /// If true, the log begins a segment after each step: see [`World::sealing`].
    seals: bool,
    /// See [`World::hold_loads`].
    holds_loads: bool,
    /// See [`World::cooled`].
    cooled: u64,
}

/// Both ends of one connection.
struct Connection {
    id: SessionId,
    session: Box<dyn Dialect>,
    outbox: Outbox,
    /// Bytes from the client that the server has not handled yet.
    unread: Vec<u8>,
    /// Bytes from the server that the client has not read yet.
    received: Vec<u8>,
    /// True if the server has finished with the connection.
    ended: bool,
    /// True if the client has closed its sending direction and the session was informed.
    half_closed: bool,
    /// The longest reply of the session to one piece of input, in bytes.
    longest_answer: usize,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("id", &self.id).finish_non_exhaustive()
    }
}

/// The events that the broker has sent to sessions and that are not handled yet.
#[derive(Debug, Default)]
struct Events(Mutex<VecDeque<(SessionId, Answer<Event>)>>);

impl Mailbox for Events {
    fn deliver(&self, session: SessionId, event: Answer<Event>) {
        self.0.lock().expect("no holder panics").push_back((session, event));
    }

    fn released(&self) {}

    fn alarm(&self, _at: Millis) {}
}

impl World {
    /// A world whose jobs are only in memory.
    pub fn memory() -> Self {
        Self::over(Broker::memory(EngineSetup::default(), START))
    }

    /// A world in memory with small slices of work, so that long replies take many slices.
    pub fn with_slices(units: u32) -> Self {
        let mut setup = EngineSetup::default();
        setup.limits.slice_units = units;
        Self::over(Broker::memory(setup, START))
    }

    /// A world over a broker that was opened without threads. The log is written after every step.
    pub fn over(broker: Broker) -> Self {
        let events = Arc::new(Events::default());
        let mailbox = broker.add_mailbox(events.clone());
        let now = START.max(broker.last_time());
        Self {
            broker,
            now,
            events,
            mailbox,
            connections: Vec::new(),
            writes_always: true,
            seals: false,
            holds_loads: false,
            cooled: 0,
        }
    }

    /// A world whose jobs are in memory only during a step. After each step, all jobs that can be
    /// cold leave the memory, with their bodies. If a session needs some of them, they are loaded
    /// before other sessions act. So the replies must be the same as those of [`World::sealing`].
    pub fn cold(options: Options) -> Self {
        Self::sealing(Options { jobs_bytes_max: Some(0), head_jobs: 0, ..options })
    }

    /// A world with a log. All its jobs stay in memory, but their bodies leave the memory. The log
    /// begins a segment after each step.
    pub fn sealing(mut options: Options) -> Self {
        options.bodies_bytes_max = Some(0);
        options.log.segment_bytes = SEGMENT_BYTES;
        let (broker, _) = Broker::open(options, START).expect("the log can be opened");
        Self { seals: true, ..Self::over(broker) }
    }

    /// A world like [`World::over`], but only `commit` writes the log.
    pub fn over_unwritten(broker: Broker) -> Self {
        Self { writes_always: false, ..Self::over(broker) }
    }

    /// From now on, jobs and bodies are loaded only by [`World::load`].
    pub fn hold_loads(&mut self) {
        self.holds_loads = true;
    }

    /// Loads the jobs and bodies that sessions need, until no session needs more of them.
    pub fn load(&mut self) {
        while self.broker.load_step(self.now) {
            self.deliver_events();
            (0..self.connections.len()).for_each(|index| self.send_replies(index));
        }
    }

    /// Writes the log, and sends the replies that waited for the log.
    pub fn commit(&mut self) {
        self.broker.commit_step(self.now).expect("the disk works");
        (0..self.connections.len()).for_each(|index| self.send_replies(index));
    }

    /// Opens a connection. Returns its number for the other functions.
    pub fn connect_as<D: Dialect + 'static>(
        &mut self,
        open: impl FnOnce(&mut Turn<'_>, usize) -> (SessionId, D),
    ) -> usize {
        let (id, session) = open(&mut self.broker.turn(self.now), self.mailbox);
        self.connections.push(Connection {
            id,
            session: Box::new(session),
            outbox: Outbox::default(),
            unread: Vec::new(),
            received: Vec::new(),
            ended: false,
            half_closed: false,
            longest_answer: 0,
        });
        self.connections.len() - 1
    }

    /// Sends bytes from the client. The server handles them, and delivers all events.
    pub fn send(&mut self, index: usize, bytes: &[u8]) {
        self.send_first(index, bytes);
        self.deliver_events();
    }

    /// Sends bytes from the client. Other clients get no events before `deliver_events`.
    pub fn send_first(&mut self, index: usize, bytes: &[u8]) {
        let connection = &mut self.connections[index];
        assert!(!connection.half_closed, "a client that ended its sending sends nothing");
        if !connection.ended {
            connection.unread.extend_from_slice(bytes);
            self.read(index);
        }
    }

    /// Sends bytes from the client, possibly none. The server does one slice of work for this
    /// client. Returns whether the session has more work, and the received bytes.
    pub fn ask_for_slice(&mut self, index: usize, bytes: &[u8]) -> (bool, Vec<u8>) {
        let connection = &mut self.connections[index];
        connection.unread.extend_from_slice(bytes);
        let Progress { used, more } = connection.present_once(0, &mut self.broker.turn(self.now));
        connection.unread.drain(..used);
        self.send_replies(index);
        self.deliver_events();
        (more, self.take_received(index))
    }

    /// Sends bytes from the client, and does slices of work for it until the session has no more
    /// work. Returns the number of slices, and the received bytes.
    pub fn ask_in_slices(&mut self, index: usize, bytes: &[u8]) -> (usize, Vec<u8>) {
        let (mut more, mut received) = self.ask_for_slice(index, bytes);
        let mut slices = 1;
        while more {
            let (goes_on, bytes) = self.ask_for_slice(index, b"");
            received.extend(bytes);
            more = goes_on;
            slices += 1;
        }
        (slices, received)
    }

    /// Sends bytes, and returns the bytes that the client has received.
    pub fn ask(&mut self, index: usize, bytes: &[u8]) -> Vec<u8> {
        self.send(index, bytes);
        self.take_received(index)
    }

    /// Sends text, and returns the text that the client has received.
    pub fn say(&mut self, index: usize, text: &str) -> String {
        self.send(index, text.as_bytes());
        self.take_text(index)
    }

    /// The text that the client has received since the last call.
    pub fn take_text(&mut self, index: usize) -> String {
        String::from_utf8_lossy(&self.take_received(index)).into_owned()
    }

    /// Closes the client's sending direction.
    pub fn half_close(&mut self, index: usize) {
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

    /// Informs the session that the server is about to stop. If the protocol requires a reply to a
    /// waiting command, the session sends the reply.
    pub fn stop(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        connection.session.stop(&mut self.broker.turn(self.now), &mut connection.outbox);
        self.send_replies(index);
    }

    /// Closes the connection from the client's side.
    pub fn close(&mut self, index: usize) {
        self.end(index);
        self.deliver_events();
    }

    /// The bytes that the client has received since the last call.
    pub fn take_received(&mut self, index: usize) -> Vec<u8> {
        std::mem::take(&mut self.connections[index].received)
    }

    /// True if the server has closed the connection and the test has taken all received bytes.
    pub fn has_ended(&self, index: usize) -> bool {
        self.connections[index].ended && self.connections[index].received.is_empty()
    }

    /// True if a command of the connection waits.
    pub fn waits(&self, index: usize) -> bool {
        let connection = &self.connections[index];
        !connection.ended && !connection.session.wants_input()
    }

    /// The number of times that a job became cold.
    pub fn cooled(&self) -> u64 {
        self.cooled
    }

    /// The number of the client's bytes that the server keeps: unread bytes, incomplete commands,
    /// and puts that wait for room.
    pub fn held_bytes(&self, index: usize) -> usize {
        let connection = &self.connections[index];
        let session = &connection.session;
        connection.unread.len() + session.buffered_bytes() + session.blocked_bytes()
    }

    /// The longest reply of the session to one piece of input, in bytes.
    pub fn longest_answer(&self, index: usize) -> usize {
        self.connections[index].longest_answer
    }

    /// Lets time pass until the broker has work to do, or until `limit`. Returns true if the broker
    /// had work.
    pub fn advance_to_next(&mut self, limit: Millis) -> bool {
        let due = self.broker.turn(self.now).next_deadline().filter(|due| *due <= limit);
        self.now = due.unwrap_or(limit).max(self.now);
        self.deliver_events();
        due.is_some()
    }

    /// Lets time pass.
    pub fn advance(&mut self, millis: u64) {
        let limit = Millis(self.now.0 + millis);
        while self.advance_to_next(limit) {}
    }

    /// Lets the session handle the client's bytes, until the session waits or has handled all
    /// bytes.
    fn read(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        if connection.may_read() {
            connection.present(&mut self.broker.turn(self.now));
        }
        loop {
            let known = self.waiting_events().len();
            if !self.load_at_once() {
                break;
            }
            self.pass_on_loaded(index, known);
        }
        self.send_replies(index);
    }

    fn waiting_events(&self) -> MutexGuard<'_, VecDeque<(SessionId, Answer<Event>)>> {
        self.events.0.lock().expect("no holder panics")
    }

    /// Loads the jobs and bodies that sessions need. Returns whether there were any.
    fn load_at_once(&self) -> bool {
        self.seals && !self.holds_loads && self.broker.load_step(self.now)
    }

    /// After a load, lets the session continue before others act. The load caused all events except
    /// the `known` first ones.
    fn pass_on_loaded(&mut self, index: usize, known: usize) {
        while self.broker.turn(self.now).advance() {}
        let id = self.connections[index].id;
        let mut events = self.waiting_events();
        let caused = events.split_off(known);
        let (own, others): (VecDeque<_>, VecDeque<_>) =
            caused.into_iter().partition(|(session, _)| *session == id);
        events.extend(others);
        drop(events);
        let connection = &mut self.connections[index];
        for (_, event) in own {
            if !connection.ended {
                let mut turn = self.broker.turn(self.now);
                connection.session.event(event, &mut turn, &mut connection.outbox);
                if connection.may_read() {
                    connection.present(&mut turn);
                }
            }
        }
    }

    /// Begins a segment of the log, and makes all jobs cold that can be cold.
    fn seal(&mut self) {
        let broker = &self.broker;
        if broker.seal_step(self.now) {
            broker.commit_step(self.now).expect("the disk works");
            broker.prepare_step().expect("the disk works");
            while broker.index_step().expect("the disk works") {}
        }
        let before = broker.cold_jobs();
        while broker.cool_step(self.now) {}
        self.cooled += broker.cold_jobs() - before;
    }

    fn send_replies(&mut self, index: usize) {
        if self.writes_always {
            self.broker.commit_step(self.now).expect("the disk works");
        }
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
        let can_wait = !self.writes_always || self.holds_loads;
        assert!(
            can_wait || connection.outbox.is_empty(),
            "nothing waits for more than the log has by now"
        );
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

    /// Delivers events to their sessions, and continues long operations.
    pub fn deliver_events(&mut self) {
        loop {
            let more_is_due = self.broker.turn(self.now).advance();
            let next = self.waiting_events().pop_front();
            match next {
                Some((session, event)) => self.deliver(session, event),
                None if more_is_due => {}
                None if self.load_at_once() => {}
                None => break,
            }
        }
        if self.seals {
            self.seal();
        }
    }

    fn deliver(&mut self, session: SessionId, event: Answer<Event>) {
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
    fn may_read(&self) -> bool {
        let continues = self.session.wants_input() || self.session.has_more();
        !self.ended && (continues || self.half_closed)
    }

    fn present(&mut self, turn: &mut Turn<'_>) {
        // The used bytes are removed only at the end, because each removal moves the others.
        let mut start = 0;
        loop {
            let Progress { used, more } = self.present_once(start, turn);
            start += used;
            if !more && (used == 0 || start == self.unread.len()) {
                break;
            }
        }
        self.unread.drain(..start);
    }

    /// Passes the client's bytes from the index `start` on to the session.
    fn present_once(&mut self, start: usize, turn: &mut Turn<'_>) -> Progress {
        let unsent = self.outbox.len();
        let progress = self.session.input(&self.unread[start..], turn, &mut self.outbox);
        self.longest_answer = self.longest_answer.max(self.outbox.len() - unsent);
        progress
    }
}

/// A world in which conformance cases are played in simulated time.
#[derive(Debug)]
pub struct InProcess<C> {
    /// The world.
    pub world: World,
    /// A function that opens a connection. Its second argument is the name of the port to connect
    /// to, as in [`Wire::connect`]. The port decides the dialect.
    pub connect: C,
}

impl<C: FnMut(&mut World, Option<&str>) -> usize> Wire for InProcess<C> {
    fn connect(&mut self, port: Option<&str>) -> Result<ConnectionId> {
        Ok(ConnectionId((self.connect)(&mut self.world, port)))
    }

    fn send(&mut self, connection: ConnectionId, bytes: &[u8]) -> Result<()> {
        ensure!(!self.world.has_ended(connection.0), "the server has ended the connection");
        self.world.send(connection.0, bytes);
        Ok(())
    }

    fn half_close(&mut self, connection: ConnectionId) -> Result<()> {
        self.world.half_close(connection.0);
        Ok(())
    }

    fn close(&mut self, connection: ConnectionId) {
        self.world.close(connection.0);
    }

    fn receive(&mut self, connection: ConnectionId, wait_ms_max: u64) -> Received {
        let limit = Millis(self.world.now.0 + wait_ms_max);
        loop {
            if self.world.has_ended(connection.0) {
                return Received::End;
            }
            let bytes = self.world.take_received(connection.0);
            if !bytes.is_empty() {
                return Received::Bytes(bytes);
            }
            if self.world.now >= limit {
                return Received::Nothing;
            }
            self.world.advance_to_next(limit);
        }
    }

    fn advance(&mut self, ms: u64) {
        self.world.advance(ms);
    }

    fn now_ms(&self) -> u64 {
        self.world.now.0
    }
}
