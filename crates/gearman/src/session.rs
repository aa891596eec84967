//! One connection: which bytes it reads next, which events it gets, and how it ends.

use std::collections::VecDeque;
use std::sync::Arc;

use broker::{
    Answer, BodyBuffer, Dialect, Event, InputEnd, JobId, News, Outbox, Position, Progress,
    PutRefusal, SessionId, Step, Turn, take_steps,
};

use crate::environment::Server;
use crate::listings::Listing;
use crate::packet::{
    ARGUMENT_AREA_BYTES_MAX, HEADER_BYTES, Header, PacketType, is_hopeless, split,
};
use crate::reply::{self, AT_ONCE, DROP_INTERRUPTED, not_submitted};

/// Longest line of text, line feed included (spec gearman 1.2).
const LINE_BYTES_MAX: usize = 8192;

/// One connection that speaks Gearman's protocol, without I/O. Commands are answered at once,
/// except the drop of a function with many jobs. News of its jobs arrive as events in between.
#[derive(Debug)]
pub struct Session {
    pub(crate) id: SessionId,
    pub(crate) server: Arc<Server>,
    /// Its number among the connections of the server.
    pub(crate) number: u64,
    /// The client wants exceptions: the reason why a job failed.
    pub(crate) wants_exceptions: bool,
    reading: Reading,
    /// A function with many jobs is being dropped. Later commands wait.
    pub(crate) is_dropping: bool,
    /// A list is being sent. Later commands wait.
    listing: Option<Listing>,
    /// Events that arrived during a list. They wait, so that they do not interrupt it.
    late: VecDeque<Answer<Event>>,
    /// Their size in memory.
    late_bytes: usize,
    /// The session resets its many registrations, slice by slice.
    pub(crate) is_resetting: bool,
    /// The session reported news to many clients, and helps to deliver them before it continues.
    is_telling: bool,
    input_end: InputEnd,
    /// The broker's session is closed. Nothing more is read or answered.
    ended: bool,
}

/// What the next bytes of the connection are.
#[derive(Debug)]
enum Reading {
    /// A packet or a line of text; the first byte says which.
    Message,
    /// The rest of a long packet.
    LongPacket(LongPacket),
    /// Skips this many more bytes of a body without meaning, then handles the packet.
    NoBody(Header, usize),
    /// Skips this many more bytes of a submit that exceeds the memory limit, then refuses it.
    Refused(usize),
}

/// A packet that is too long for the connection's input buffer.
#[derive(Debug)]
struct LongPacket {
    header: Header,
    body: BodyBuffer,
}

impl Session {
    /// A new connection. Its events go to `mailbox`. `address` is the client's address without a
    /// port, as the list of workers shows it. It must not contain spaces.
    pub fn new(server: Arc<Server>, address: &str, turn: &mut Turn<'_>, mailbox: usize) -> Self {
        let id = turn.open_worker_session(mailbox);
        let number = server.enter(id, address);
        let wants_exceptions = server.options.exceptions;
        Self {
            id,
            server,
            number,
            wants_exceptions,
            reading: Reading::Message,
            is_dropping: false,
            listing: None,
            late: VecDeque::new(),
            late_bytes: 0,
            is_resetting: false,
            is_telling: false,
            input_end: InputEnd::default(),
            ended: false,
        }
    }

    /// Its id in the broker, to which events are addressed.
    pub fn id(&self) -> SessionId {
        self.id
    }

    fn is_reading(&self) -> bool {
        !self.ended && !self.is_dropping && !self.is_listing()
    }

    fn is_listing(&self) -> bool {
        self.listing.is_some() || !self.late.is_empty()
    }

    /// Starts a list, which the next steps send.
    pub(crate) fn list(&mut self, listing: Listing) {
        self.listing = Some(listing);
    }

    /// Continues a list, or handles events that arrived during it.
    fn step_of_listing(&mut self, turn: &mut Turn<'_>, outbox: &mut Outbox) {
        if let Some(listing) = &mut self.listing {
            if !listing.step(&self.server, turn, outbox) {
                self.listing = None;
            }
        } else if let Some(event) = self.late.pop_front() {
            self.late_bytes -= event_bytes(&event.value);
            turn.count_work(1);
            self.handle_event(event, turn, outbox);
        }
    }

    /// Handles one message or a piece of it, and returns the number of bytes used. 0 means that
    /// more bytes must arrive first, or that the session has ended.
    fn step(&mut self, bytes: &[u8], turn: &mut Turn<'_>, outbox: &mut Outbox) -> usize {
        match (&mut self.reading, bytes.first()) {
            (_, None) => 0,
            (Reading::Message, Some(0)) => self.read_packet(bytes, turn, outbox),
            (Reading::Message, Some(_)) => self.read_line(bytes, turn, outbox),
            (Reading::LongPacket(_), Some(_)) => self.gather(bytes, turn, outbox),
            (Reading::NoBody(..), Some(_)) => self.discard(bytes, turn, outbox),
            (Reading::Refused(_), Some(_)) => self.refuse(bytes, outbox),
        }
    }

    fn read_line(&mut self, bytes: &[u8], turn: &mut Turn<'_>, outbox: &mut Outbox) -> usize {
        let window = &bytes[..bytes.len().min(LINE_BYTES_MAX)];
        let Some(end) = memchr::memchr(b'\n', window) else {
            if window.len() == LINE_BYTES_MAX {
                self.end(turn);
            }
            return 0;
        };
        let line = &window[..end];
        self.execute_line(line.strip_suffix(b"\r").unwrap_or(line), turn, outbox);
        end + 1
    }

    fn read_packet(&mut self, bytes: &[u8], turn: &mut Turn<'_>, outbox: &mut Outbox) -> usize {
        let Some((header, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() else { return 0 };
        let packet_bytes_max = self.server.options.packet_bytes_max;
        let header = Header::parse(*header);
        let Some(header) = header.filter(|header| header.is_acceptable(packet_bytes_max)) else {
            self.end(turn);
            return 0;
        };
        let packet_bytes = header.packet_bytes();
        if let Some(body) = rest.get(..header.body_bytes as usize) {
            self.take_packet(header, body, turn, outbox);
            return packet_bytes;
        }
        if header.kind.has_no_arguments() {
            self.reading = Reading::NoBody(header, header.body_bytes as usize);
        } else if packet_bytes > ARGUMENT_AREA_BYTES_MAX {
            if header.is_submit() && !turn.admits_body(header.body_bytes as usize) {
                self.reading = Reading::Refused(header.body_bytes as usize);
                return HEADER_BYTES;
            }
            let body = BodyBuffer::new(header.body_bytes as usize);
            self.reading = Reading::LongPacket(LongPacket { header, body });
        } else {
            return 0;
        }
        HEADER_BYTES
    }

    fn gather(&mut self, bytes: &[u8], turn: &mut Turn<'_>, outbox: &mut Outbox) -> usize {
        let Reading::LongPacket(packet) = &mut self.reading else { return 0 };
        let header = packet.header;
        let (count, body) = packet.body.complete(bytes);
        if let Some(body) = body {
            self.reading = Reading::Message;
            self.take_packet(header, &body, turn, outbox);
        } else if is_hopeless(header.kind, packet.body.received()) {
            self.end(turn);
        }
        count
    }

    fn discard(&mut self, bytes: &[u8], turn: &mut Turn<'_>, outbox: &mut Outbox) -> usize {
        let Reading::NoBody(header, missing) = &mut self.reading else { return 0 };
        let header = *header;
        let count = bytes.len().min(*missing);
        *missing -= count;
        if *missing == 0 {
            self.reading = Reading::Message;
            self.take_packet(header, &[], turn, outbox);
        }
        count
    }

    /// Skips a submit that exceeds the memory limit, and refuses it at its end.
    fn refuse(&mut self, bytes: &[u8], outbox: &mut Outbox) -> usize {
        let Reading::Refused(missing) = &mut self.reading else { return 0 };
        let count = bytes.len().min(*missing);
        *missing -= count;
        if *missing == 0 {
            self.reading = Reading::Message;
            reply::fail(outbox, AT_ONCE, not_submitted(PutRefusal::MemoryFull));
        }
        count
    }

    /// Handles a complete packet.
    fn take_packet(
        &mut self,
        header: Header,
        body: &[u8],
        turn: &mut Turn<'_>,
        outbox: &mut Outbox,
    ) {
        match split(header.kind, body) {
            Some(arguments) if header.is_request => {
                self.execute(header.kind, &arguments, turn, outbox);
                self.is_telling = header.is_news() && turn.has_pending_news();
            }
            Some(_) => reply::fail(outbox, AT_ONCE, reply::INVALID_MAGIC),
            // The original reads the missing arguments from the next packet.
            None => self.end(turn),
        }
    }

    /// Sends the client news of a job it waits for.
    fn send_news(&self, id: JobId, news: News, after: Position, outbox: &mut Outbox) {
        let handle = &self.server.prefix.handle(id)[..];
        let (kind, data) = match news {
            News::Data(data) => (PacketType::WorkData, data),
            News::Warning(data) => (PacketType::WorkWarning, data),
            News::Progress(words) => (PacketType::WorkStatus, words),
            News::Complete(result) => (PacketType::WorkComplete, result),
            News::Exception(data) if self.wants_exceptions => (PacketType::WorkException, data),
            News::Exception(_) | News::Fail => {
                return reply::send(outbox, after, PacketType::WorkFail, &[handle]);
            }
        };
        reply::send_data(outbox, after, kind, &[handle], &data);
    }

    /// Handles an event for the client.
    fn handle_event(&mut self, event: Answer<Event>, turn: &mut Turn<'_>, outbox: &mut Outbox) {
        let Answer { value, after } = event;
        match value {
            Event::WorkToDo => reply::send(outbox, after, PacketType::Noop, &[]),
            Event::News { id, news } => self.send_news(id, news, after, outbox),
            Event::Cleared => {
                self.dropped(after, outbox);
                self.end_if_drained(turn);
            }
            Event::Granted(_)
            | Event::TimedOut
            | Event::DeadlineSoon
            | Event::Kicked(_)
            | Event::Peeked(_)
            | Event::Reloaded => {
                unreachable!("this dialect neither waits for jobs nor kicks them")
            }
        }
    }

    /// The client closed its sending side, which counts as a disconnect: ends the session once
    /// everything before is answered.
    fn end_if_drained(&mut self, turn: &mut Turn<'_>) {
        if !self.is_dropping && self.input_end.is_drained() {
            self.end(turn);
        }
    }

    /// Closes the session in the broker, once. Running jobs go back to their queues. Jobs that no
    /// other client waits for end.
    pub(crate) fn end(&mut self, turn: &mut Turn<'_>) {
        if !self.ended {
            self.ended = true;
            self.reading = Reading::Message;
            self.listing = None;
            self.late.clear();
            self.late_bytes = 0;
            self.server.leave(self.number);
            turn.close_session(self.id);
        }
    }
}

impl Dialect for Session {
    fn input(&mut self, bytes: &[u8], turn: &mut Turn<'_>, outbox: &mut Outbox) -> Progress {
        let steps = take_steps(bytes, turn, outbox, |bytes, turn, outbox| {
            if self.is_listing() {
                self.step_of_listing(turn, outbox);
                return Step::Used(0);
            }
            if !self.is_reading() {
                return Step::Stuck;
            }
            if self.is_resetting {
                self.is_resetting = turn.caller(self.id).unregister_all();
                return if self.is_resetting { Step::Unfinished } else { Step::Used(0) };
            }
            if self.is_telling {
                self.is_telling = turn.send_more_news();
                return if self.is_telling { Step::Unfinished } else { Step::Used(0) };
            }
            Step::used_or_stuck(self.step(bytes, turn, outbox))
        });
        let progress = self.input_end.note(bytes.len(), steps, self.is_reading());
        self.end_if_drained(turn);
        progress
    }

    fn event(&mut self, event: Answer<Event>, turn: &mut Turn<'_>, outbox: &mut Outbox) {
        if self.is_listing() {
            self.late_bytes += event_bytes(&event.value);
            self.late.push_back(event);
        } else if !self.ended {
            self.handle_event(event, turn, outbox);
        }
    }

    fn end_of_input(&mut self, turn: &mut Turn<'_>, _outbox: &mut Outbox) {
        self.input_end.come(self.is_reading());
        self.end_if_drained(turn);
    }

    fn wants_input(&self) -> bool {
        self.is_reading() && !self.input_end.has_come()
    }

    fn buffered_bytes(&self) -> usize {
        self.late_bytes
            + match &self.reading {
                Reading::LongPacket(packet) => packet.body.buffered_bytes(),
                Reading::Message | Reading::NoBody(..) | Reading::Refused(_) => 0,
            }
    }

    fn is_mid_request(&self) -> bool {
        match self.reading {
            Reading::LongPacket(_) | Reading::NoBody(..) | Reading::Refused(_) => true,
            Reading::Message => false,
        }
    }

    fn finished(&self) -> bool {
        self.ended
    }

    fn stop(&mut self, turn: &mut Turn<'_>, outbox: &mut Outbox) {
        if self.is_listing() {
            // Without the last line, the client sees that the list is incomplete.
            return self.end(turn);
        }
        if self.is_dropping {
            // Some of its jobs are gone, and the server stops before the rest.
            outbox.reply(AT_ONCE, DROP_INTERRUPTED);
            self.end(turn);
        }
    }

    fn close(&mut self, turn: &mut Turn<'_>) {
        self.end(turn);
    }
}

/// Bytes of memory that an event uses.
fn event_bytes(event: &Event) -> usize {
    size_of::<Answer<Event>>()
        + match event {
            Event::News {
                news:
                    News::Data(bytes)
                    | News::Warning(bytes)
                    | News::Progress(bytes)
                    | News::Complete(bytes)
                    | News::Exception(bytes),
                ..
            } => bytes.len(),
            _ => 0,
        }
}
