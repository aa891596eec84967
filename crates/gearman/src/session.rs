//! One connection: how it interprets its next bytes, how it handles events, and how it ends.

use std::collections::VecDeque;
use std::sync::Arc;

use broker::{
    Answer, Body, BodyBuffer, Dialect, Event, Frame, InputEnd, JobId, News, Outbox, Position,
    Progress, PutRefusal, SessionId, Step, Turn, allocated_bytes, take_steps,
};

use crate::environment::Server;
use crate::listings::Listing;
use crate::packet::{
    ARGUMENT_AREA_BYTES_MAX, HEADER_BYTES, Header, LastArgument, LastArgumentStart, PacketType,
    split,
};
use crate::reply::{self, AT_ONCE, DROP_INTERRUPTED, not_submitted};

/// Length of the longest line of text in bytes, with its line feed (spec gearman 1.2).
const LINE_BYTES_MAX: usize = 8192;

/// The limit of events that wait behind a list. A client that reads its list gets there only if its
/// jobs report tens of thousands of times per second. At its end, a session frees all these events
/// at once, which takes about a quarter of a millisecond.
const LATE_EVENTS_MAX: usize = 4096;

/// One connection that speaks Gearman's protocol, without I/O. The session replies to each command
/// at once. There are two exceptions, which can take several slices of work: lists, and the drop of
/// a function with many jobs. News of the client's jobs arrives as events, between the replies.
#[derive(Debug)]
pub struct Session {
    pub(crate) id: SessionId,
    pub(crate) server: Arc<Server>,
    /// The number of the connection among the connections of the server.
    pub(crate) number: u64,
    /// Whether the client wants exceptions, which say why a job failed.
    pub(crate) wants_exceptions: bool,
    reading: Reading,
    /// Whether the session is dropping a function with many jobs. Later commands wait for the end
    /// of the drop.
    pub(crate) is_dropping: bool,
    /// The request that the session executes when its job is in memory. Later commands wait.
    pub(crate) postponed: Option<Postponed>,
    /// Whether the postponed request is a submit that waits for room in a full queue.
    pub(crate) waits_for_room: bool,
    /// Whether the session has skipped the workload of the submit that it executes, because of the
    /// memory limit.
    pub(crate) lacks_workload: bool,
    /// The list that the session sends. Later commands wait for the end of the list.
    listing: Option<Listing>,
    /// Events that arrived while the session was sending a list. They wait, because they must not
    /// interrupt the list. There are at most [`LATE_EVENTS_MAX`].
    late: VecDeque<Answer<Event>>,
    /// The memory of the events in `late`, in bytes.
    late_bytes: usize,
    /// Whether the session is removing its many registrations, slice by slice.
    pub(crate) is_resetting: bool,
    /// Whether news from this session is still on its way to many clients. The session continues
    /// the delivery before it reads its next command.
    is_telling: bool,
    input_end: InputEnd,
    /// Whether the session is closed in the broker. If so, it ignores all input, and sends no more
    /// replies.
    ended: bool,
}

/// The meaning of the connection's next bytes.
#[derive(Debug)]
enum Reading {
    /// A packet or a line of text. The first byte of a packet is 0.
    Message,
    /// The rest of a long packet.
    LongPacket(LongPacket),
    /// A body of a packet type without arguments. The session skips this number of bytes, because
    /// they have no meaning. Then it handles the packet.
    NoBody(Header, usize),
    /// The workload of a submit that exceeds the memory limit. The session skips it, and then refuses
    /// the submit.
    Refused(RefusedSubmit),
}

/// A request that needs a job that is only in the log. The broker loads the job, and the session
/// then executes the request.
#[derive(Debug)]
pub(crate) enum Postponed {
    /// The worker requested a job.
    Grab(PacketType),
    /// The worker wants to sleep if there is no job for it.
    Sleep,
    /// A client requested the status of the job with this handle.
    Status(Box<[u8]>),
    /// An administrator cancels the job with this handle.
    Cancel(Box<[u8]>),
    /// A packet with a key: a submit, or a request for the status of the job with this key. Also a
    /// submit that waits for room. With its workload, if it is large.
    Keyed(Header, Box<[u8]>, Option<Body>),
}

/// A packet that is too long for the connection's input buffer.
#[derive(Debug)]
struct LongPacket {
    header: Header,
    body: BodyBuffer,
    last_argument: LastArgument,
    /// Whether there is memory for it, or it needs none.
    is_admitted: bool,
}

/// A submit without its workload.
#[derive(Debug)]
struct RefusedSubmit {
    kind: PacketType,
    /// The arguments before the workload, each with its end.
    arguments: Box<[u8]>,
    /// The bytes of the workload that the session has not skipped yet.
    missing: usize,
}

impl LongPacket {
    /// Notes where the last argument begins. If the server passes it on, the buffer must know, so that
    /// the job, the news or the reply keeps its memory if it is large.
    fn note_last_argument(&mut self, start: usize) {
        if self.header.passes_data_on() && self.body.lacks_beginning() {
            self.body.set_beginning(start);
        }
    }

    /// What is left of a submit if the server does not keep its workload, which begins at `start`.
    fn without_workload(&self, start: usize) -> RefusedSubmit {
        let received = self.body.received();
        let missing = self.header.body_bytes as usize - received.len();
        RefusedSubmit { kind: self.header.kind, arguments: received[..start].into(), missing }
    }
}

impl Session {
    /// Opens the session of a new connection. The broker sends the session's events to `mailbox`.
    /// `address` is the client's address without a port, as the list of workers shows it. It must
    /// not contain spaces.
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
            postponed: None,
            waits_for_room: false,
            lacks_workload: false,
            listing: None,
            late: VecDeque::new(),
            late_bytes: 0,
            is_resetting: false,
            is_telling: false,
            input_end: InputEnd::default(),
            ended: false,
        }
    }

    /// The id of the session in the broker. Events have this id as their address.
    pub fn id(&self) -> SessionId {
        self.id
    }

    fn is_reading(&self) -> bool {
        !self.ended && !self.is_dropping && !self.is_listing() && self.postponed.is_none()
    }

    fn is_listing(&self) -> bool {
        self.listing.is_some() || !self.late.is_empty()
    }

    /// Starts a list. The next calls of `input` send it.
    pub(crate) fn list(&mut self, listing: Listing) {
        self.listing = Some(listing);
    }

    /// Continues the list. After the list, handles events that arrived during the list.
    fn step_of_listing(&mut self, turn: &mut Turn<'_>, outbox: &mut Outbox) {
        if let Some(listing) = &mut self.listing {
            if !listing.step(&self.server, turn, outbox) {
                self.listing = None;
            }
        } else if let Some(event) = self.late.pop_front() {
            self.late_bytes -= event_bytes(&event.value);
            if self.late.is_empty() {
                // An idle connection keeps no room for events.
                self.late = VecDeque::new();
            }
            turn.count_work(1);
            self.handle_event(event, turn, outbox);
        }
    }

    /// Handles one message or a piece of it, and returns the number of bytes that it used. 0 means
    /// that more bytes must arrive first, or that the session has ended.
    fn step(&mut self, bytes: &[u8], turn: &mut Turn<'_>, outbox: &mut Outbox) -> usize {
        match (&mut self.reading, bytes.first()) {
            (_, None) => 0,
            (Reading::Message, Some(0)) => self.read_packet(bytes, turn, outbox),
            (Reading::Message, Some(_)) => self.read_line(bytes, turn, outbox),
            (Reading::LongPacket(_), Some(_)) => self.gather(bytes, turn, outbox),
            (Reading::NoBody(..), Some(_)) => self.discard(bytes, turn, outbox),
            (Reading::Refused(_), Some(_)) => self.refuse(bytes, turn, outbox),
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
            self.take_packet(header, body, None, turn, outbox);
            return packet_bytes;
        }
        if header.kind.has_no_arguments() {
            self.reading = Reading::NoBody(header, header.body_bytes as usize);
        } else if packet_bytes > ARGUMENT_AREA_BYTES_MAX {
            let body = BodyBuffer::new(header.body_bytes as usize);
            let last_argument = LastArgument::of(header.kind);
            let is_admitted = !header.is_submit();
            self.reading =
                Reading::LongPacket(LongPacket { header, body, last_argument, is_admitted });
        } else {
            return 0;
        }
        HEADER_BYTES
    }

    fn gather(&mut self, bytes: &[u8], turn: &mut Turn<'_>, outbox: &mut Outbox) -> usize {
        let Reading::LongPacket(packet) = &mut self.reading else { return 0 };
        let header = packet.header;
        let (count, frame) = packet.body.complete_frame(bytes);
        match frame {
            Some(Frame::Whole(body)) => {
                self.reading = Reading::Message;
                self.take_packet(header, &body, None, turn, outbox);
            }
            Some(Frame::Parts { around, body }) => {
                self.reading = Reading::Message;
                self.take_packet(header, &around, Some(body), turn, outbox);
            }
            // The arguments come first, so that the reply to a wrong submit is about its mistake, and
            // not about the memory limit.
            None => match packet.last_argument.search(packet.body.received()) {
                LastArgumentStart::At(start) => {
                    let bytes = header.body_bytes as usize;
                    packet.is_admitted = packet.is_admitted || turn.admits_body(bytes);
                    if packet.is_admitted {
                        packet.note_last_argument(start);
                    } else {
                        self.reading = Reading::Refused(packet.without_workload(start));
                    }
                }
                LastArgumentStart::Later => {}
                LastArgumentStart::Never => self.end(turn),
            },
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
            self.take_packet(header, &[], None, turn, outbox);
        }
        count
    }

    /// Skips the workload of a submit that exceeds the memory limit. Refuses the submit after its last
    /// byte.
    fn refuse(&mut self, bytes: &[u8], turn: &mut Turn<'_>, outbox: &mut Outbox) -> usize {
        let Reading::Refused(submit) = &mut self.reading else { return 0 };
        let count = bytes.len().min(submit.missing);
        submit.missing -= count;
        if submit.missing == 0
            && let Reading::Refused(submit) = std::mem::replace(&mut self.reading, Reading::Message)
        {
            let RefusedSubmit { kind, arguments, .. } = submit;
            if let Some(arguments) = split(kind, &arguments) {
                self.lacks_workload = true;
                self.execute(kind, &arguments, None, turn, outbox);
                self.lacks_workload = false;
            } else {
                self.end(turn);
            }
        }
        count
    }

    /// Handles a complete packet. `workload`: a large last argument, which is not in `body`.
    fn take_packet(
        &mut self,
        header: Header,
        body: &[u8],
        workload: Option<Body>,
        turn: &mut Turn<'_>,
        outbox: &mut Outbox,
    ) {
        match split(header.kind, body) {
            Some(_) if !header.is_request => reply::fail(outbox, AT_ONCE, reply::INVALID_MAGIC),
            Some(arguments) if !self.is_key_at_hand(header, &arguments, turn) => {
                self.postponed = Some(Postponed::Keyed(header, body.into(), workload));
            }
            Some(arguments) => {
                self.execute(header.kind, &arguments, workload.clone(), turn, outbox);
                if self.waits_for_room {
                    self.postponed = Some(Postponed::Keyed(header, body.into(), workload));
                }
                self.is_telling = header.is_news() && turn.has_pending_news();
            }
            // Arguments are missing, so end the session. The original would read the missing
            // arguments from the next packet.
            None => self.end(turn),
        }
    }

    /// Sends news of a job to the client. The client waits for the outcome of the job.
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
        reply::send_data(outbox, after, kind, &[handle], &data.into());
    }

    /// Handles an event of the session.
    fn handle_event(&mut self, event: Answer<Event>, turn: &mut Turn<'_>, outbox: &mut Outbox) {
        let Answer { value, after } = event;
        match value {
            Event::WorkToDo => reply::send(outbox, after, PacketType::Noop, &[]),
            Event::News { id, news } => self.send_news(id, news, after, outbox),
            Event::Loaded | Event::Room => {
                self.waits_for_room = false;
                match self.postponed.take() {
                    Some(Postponed::Grab(kind)) => self.grab(kind, turn, outbox),
                    Some(Postponed::Sleep) => self.pre_sleep(turn, outbox),
                    Some(Postponed::Status(handle)) => self.get_status(&handle, turn, outbox),
                    Some(Postponed::Cancel(handle)) => self.cancel(&handle, turn, outbox),
                    Some(Postponed::Keyed(header, body, workload)) => {
                        self.take_packet(header, &body, workload, turn, outbox);
                    }
                    None => {}
                }
                self.end_if_drained(turn);
            }
            Event::Unreadable => self.end(turn),
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

    /// Bytes of memory of the postponed request.
    fn postponed_bytes(&self) -> usize {
        match &self.postponed {
            Some(Postponed::Keyed(_, body, workload)) => {
                body.len() + workload.as_ref().map_or(0, |workload| workload.len())
            }
            _ => 0,
        }
    }

    /// Ends the session if the client has closed its sending side and the session has handled all
    /// its commands. In Gearman, a closed sending side counts as a disconnect.
    fn end_if_drained(&mut self, turn: &mut Turn<'_>) {
        let has_work = self.is_dropping || self.postponed.is_some() && !self.waits_for_room;
        if !has_work && self.input_end.is_drained() {
            self.end(turn);
        }
    }

    /// Closes the session in the broker, but only once. The broker gives back the jobs that the
    /// session holds. A foreground job ends if only this client waits for it.
    pub(crate) fn end(&mut self, turn: &mut Turn<'_>) {
        if !self.ended {
            self.ended = true;
            self.reading = Reading::Message;
            self.listing = None;
            self.late.clear();
            self.late_bytes = 0;
            self.postponed = None;
            self.waits_for_room = false;
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
        if self.late.len() >= LATE_EVENTS_MAX {
            // The client reads its list too slowly, or not at all.
            self.end(turn);
        } else if self.is_listing() {
            self.late_bytes += event_bytes(&event.value);
            self.late.push_back(event);
        } else if !self.ended {
            self.handle_event(event, turn, outbox);
        }
    }

    fn end_of_input(&mut self, turn: &mut Turn<'_>, _outbox: &mut Outbox) {
        self.input_end.come(self.is_reading());
        if self.waits_for_room {
            // A client that has closed its sending side has disconnected.
            return self.end(turn);
        }
        self.end_if_drained(turn);
    }

    fn wants_input(&self) -> bool {
        self.is_reading() && !self.input_end.has_come()
    }

    fn buffered_bytes(&self) -> usize {
        let packet_bytes = match &self.reading {
            Reading::LongPacket(packet) => packet.body.buffered_bytes(),
            Reading::Refused(submit) => submit.arguments.len(),
            Reading::Message | Reading::NoBody(..) => 0,
        };
        let postponed_bytes = if self.waits_for_room { 0 } else { self.postponed_bytes() };
        self.late_bytes + packet_bytes + postponed_bytes
    }

    fn blocked_bytes(&self) -> usize {
        if self.waits_for_room { self.postponed_bytes() } else { 0 }
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
            // The client sees that the list is incomplete, because the last line is missing.
            return self.end(turn);
        }
        if self.waits_for_room {
            // The job is not stored.
            reply::fail(outbox, AT_ONCE, not_submitted(PutRefusal::QueueFull));
            return self.end(turn);
        }
        if self.is_dropping {
            // The server stops before all jobs of the function have ended. So the reply is an
            // error.
            outbox.reply(AT_ONCE, DROP_INTERRUPTED);
            self.end(turn);
        }
    }

    fn close(&mut self, turn: &mut Turn<'_>) {
        self.end(turn);
    }
}

/// The memory of an event in `late`, in bytes. The list of events can have twice the room that it
/// needs.
fn event_bytes(event: &Event) -> usize {
    2 * size_of::<Answer<Event>>()
        + match event {
            Event::News {
                news:
                    News::Data(bytes)
                    | News::Warning(bytes)
                    | News::Progress(bytes)
                    | News::Complete(bytes)
                    | News::Exception(bytes),
                ..
            } => allocated_bytes(bytes.len() + size_of::<usize>()) as usize,
            _ => 0,
        }
}
