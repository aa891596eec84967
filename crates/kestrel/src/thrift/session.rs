//! One thrift connection: it reads the next call, waits and ends.

use std::borrow::Cow;
use std::mem;
use std::sync::Arc;

use broker::{
    Answer, Dialect, Event, InputEnd, Need, Outbox, Progress, SessionId, Step, Turn, room_bytes,
    take_steps,
};

use super::collect::Collect;
use super::lists::ListCall;
use super::methods::{Failed, fail};
use super::open_reads::OpenReads;
use super::reader::{Broken, Head, MessageKind};
use super::receiver::{Received, Receiver};
use super::request::{Arguments, Method, Places};
use super::writer::{Failure, Reply, ReplyTo};
use crate::Server;
use crate::client::AT_ONCE;
use crate::name::is_possible;
use crate::server::Refusals;

/// One connection of the thrift dialect, without I/O.
#[derive(Debug)]
pub struct ThriftSession {
    pub(super) id: SessionId,
    pub(super) server: Arc<Server>,
    pub(super) mailbox: usize,
    pub(super) refusals: Refusals,
    pub(super) open_reads: OpenReads,
    /// True if the connection can set the server's status.
    pub(super) may_control: bool,
    receiver: Receiver,
    pub(super) waiting: Waiting,
    input_end: InputEnd,
    /// True after the session was closed in the broker. The connection then ignores all input, and
    /// sends no more replies.
    ended: bool,
}

/// The event that the session waits for. During the wait, the session reads no call.
#[derive(Debug)]
pub(super) enum Waiting {
    Nothing,
    /// An item for a `get`.
    Item(Collect),
    /// The end of a flush or a removal.
    Clearing(ReplyTo, Method),
    /// The item for the `peek` of this message, which is only in the log. The value is the message,
    /// whether it came in a frame, and where its arguments are.
    Load(Vec<u8>, bool, Result<Places, Broken>),
    /// No event: the session continues the list in this message.
    List(ListCall, Vec<u8>),
    /// Room in a full queue for the next item of the list in this message.
    Room(ListCall, Vec<u8>),
}

impl ThriftSession {
    /// Makes a new connection. The broker sends the events of its session to `mailbox`.
    pub fn new(server: Arc<Server>, turn: &mut Turn<'_>, mailbox: usize) -> Self {
        let refusals = server.enter();
        Self {
            id: turn.open_reader_session(mailbox),
            mailbox,
            refusals,
            open_reads: OpenReads::default(),
            may_control: true,
            receiver: Receiver::new(server.options.item_bytes_max as usize),
            waiting: Waiting::Nothing,
            input_end: InputEnd::default(),
            ended: false,
            server,
        }
    }

    /// Makes this connection unable to set the server's status.
    #[must_use]
    pub fn without_control(mut self) -> Self {
        self.may_control = false;
        self
    }

    /// The id of the session in the broker. Events have this id as their address.
    pub fn id(&self) -> SessionId {
        self.id
    }

    fn is_reading(&self) -> bool {
        !self.ended && matches!(self.waiting, Waiting::Nothing)
    }

    /// Handles one message or a part of it. Returns the number of bytes that it used. 0 means that
    /// more bytes must arrive first, or that the session has ended.
    fn step(&mut self, bytes: &[u8], turn: &mut Turn<'_>, outbox: &mut Outbox) -> usize {
        let received = self.receiver.receive(bytes);
        turn.count_work(self.receiver.take_units());
        match received {
            Received::Message { message, framed, places, used } => {
                self.take_message(message, framed, places, turn, outbox);
                used
            }
            Received::More(used) => used,
            Received::Broken => {
                self.end(turn);
                0
            }
        }
    }

    /// Handles a complete message.
    fn take_message(
        &mut self,
        message: Cow<'_, [u8]>,
        framed: bool,
        places: Result<Places, Broken>,
        turn: &mut Turn<'_>,
        outbox: &mut Outbox,
    ) {
        // Without a valid head, the call's number is unknown. The reply must repeat this number, so
        // no reply is possible.
        let Ok((head, _)) = Head::read(&message) else { return self.end(turn) };
        let Head { protocol, kind, name, sequence } = head;
        let to = ReplyTo { framed, protocol, sequence, oneway: kind == MessageKind::Oneway };
        let fail = |failure, message: &str, outbox: &mut Outbox| {
            Reply::failure(to, name, failure, message).send(AT_ONCE, outbox);
        };
        let shown_name = String::from_utf8_lossy(name);
        let arguments = places.and_then(|places| Arguments::read(&message, protocol, places));
        match (kind, Method::of_name(name), arguments) {
            (MessageKind::Other, _, _) => {
                fail(Failure::InvalidMessageType, "a call was expected", outbox);
            }
            (MessageKind::Call | MessageKind::Oneway, None, _) => {
                let text = format!("Invalid method name: '{shown_name}'");
                fail(Failure::UnknownMethod, &text, outbox);
            }
            (MessageKind::Call | MessageKind::Oneway, Some(_), Err(_)) => {
                let text = format!("Malformed arguments of {shown_name}");
                fail(Failure::ProtocolError, &text, outbox);
            }
            (_, Some(Method::Peek), Ok(arguments)) if !self.is_head_at_hand(&arguments, turn) => {
                self.waiting = Waiting::Load(message.into_owned(), framed, places);
            }
            (MessageKind::Call | MessageKind::Oneway, Some(method), Ok(arguments)) => {
                let call = self.execute(to, method, &arguments, message.len(), turn, outbox);
                if let Some(mut call) = call {
                    let next = self.take_from_list(&mut call, &message, turn, outbox);
                    self.keep_list(next, call, message);
                }
            }
        }
    }

    /// Whether the item that a `peek` returns is in memory. If not, the broker loads it, and
    /// [`Event::Loaded`] follows.
    fn is_head_at_hand(&self, arguments: &Arguments<'_>, turn: &mut Turn<'_>) -> bool {
        self.check_reads(turn).is_err()
            // The call fails. The name can be as long as the message, so nothing looks it up.
            || !is_possible(arguments.queue)
            || turn.caller(self.id).is_at_hand(Need::Queue(arguments.queue))
    }

    /// Ends the session if the client has closed its sending side and the session has handled all
    /// earlier calls. Thrift clients never close only one side, so this client has disconnected. A
    /// `get` that still waits gets no reply, because no client would receive the items.
    fn end_if_drained(&mut self, turn: &mut Turn<'_>) {
        let is_drained = match &self.waiting {
            Waiting::Nothing => self.input_end.is_drained(),
            Waiting::Item(collect) => collect.is_patient(),
            Waiting::Room(..) => true,
            Waiting::Clearing(..) | Waiting::Load(..) | Waiting::List(..) => false,
        };
        if self.input_end.has_come() && is_drained {
            self.end(turn);
        }
    }

    /// Closes the session in the broker, if it is still open. The broker gives back the items of a
    /// waiting `get`. The open reads of earlier calls, which have their replies, belong to the
    /// common holder, so they stay open.
    fn end(&mut self, turn: &mut Turn<'_>) {
        if self.ended {
            return;
        }
        self.ended = true;
        if let Waiting::Item(collect) = &self.waiting {
            self.server.counters().waiters_aborted.add_one();
            self.server.counters().cmd_get_open_dropped.add(collect.items_count());
        }
        self.waiting = Waiting::Nothing;
        turn.close_session(self.id);
        self.server.leave();
    }
}

impl Dialect for ThriftSession {
    fn input(&mut self, bytes: &[u8], turn: &mut Turn<'_>, outbox: &mut Outbox) -> Progress {
        let held_before = outbox.len();
        let steps = take_steps(bytes, turn, outbox, |bytes, turn, outbox| {
            if let Waiting::List(..) = self.waiting
                && let Waiting::List(call, message) =
                    mem::replace(&mut self.waiting, Waiting::Nothing)
            {
                return self.go_on_with_list(call, message, turn, outbox);
            }
            let has_more = self.is_reading() && !bytes.is_empty();
            let count = if has_more { self.step(bytes, turn, outbox) } else { 0 };
            Step::used_or_stuck(count)
        });
        let progress = self.input_end.note(bytes.len(), steps, self.is_reading());
        self.end_if_drained(turn);
        self.server.count_bytes(progress.used, outbox.len() - held_before);
        progress
    }

    fn event(&mut self, event: Answer<Event>, turn: &mut Turn<'_>, outbox: &mut Outbox) {
        if self.ended {
            return;
        }
        let held_before = outbox.len();
        let Answer { value, after } = event;
        match (value, mem::replace(&mut self.waiting, Waiting::Nothing)) {
            (Event::Granted(handout), Waiting::Item(collect)) => {
                self.granted(collect, handout, after, turn, outbox);
            }
            (Event::TimedOut, Waiting::Item(collect)) => {
                self.timed_out(collect, after, turn, outbox);
            }
            (Event::Cleared, Waiting::Clearing(to, method)) => {
                Reply::result(to, method.name().as_bytes()).send(after, outbox);
            }
            (Event::Loaded, Waiting::Load(message, framed, places)) => {
                self.take_message(message.into(), framed, places, turn, outbox);
            }
            (Event::Room, Waiting::Room(call, message)) => {
                self.go_on_with_list(call, message, turn, outbox);
            }
            (event, waiting) => {
                unreachable!("{event:?} came to a session that waits for {waiting:?}")
            }
        }
        self.server.count_bytes(0, outbox.len() - held_before);
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
        matches!(self.waiting, Waiting::List(..))
    }

    fn buffered_bytes(&self) -> usize {
        let waiting_bytes = match &self.waiting {
            Waiting::List(call, message) => call.buffered_bytes() + room_bytes(message),
            Waiting::Load(message, ..) => room_bytes(message),
            Waiting::Item(collect) => collect.buffered_bytes(),
            Waiting::Nothing | Waiting::Clearing(..) | Waiting::Room(..) => 0,
        };
        self.receiver.buffered_bytes() + waiting_bytes + self.open_reads.buffered_bytes()
    }

    fn blocked_bytes(&self) -> usize {
        match &self.waiting {
            Waiting::Room(call, message) => call.buffered_bytes() + room_bytes(message),
            _ => 0,
        }
    }

    fn is_mid_request(&self) -> bool {
        self.receiver.is_mid_message()
    }

    fn finished(&self) -> bool {
        self.ended
    }

    fn stop(&mut self, turn: &mut Turn<'_>, outbox: &mut Outbox) {
        if let Waiting::List(call, _) | Waiting::Room(call, _) = &self.waiting {
            call.stop(outbox);
            return self.end(turn);
        }
        let unfinished = match &self.waiting {
            Waiting::Clearing(to, method) => Some((*to, *method)),
            Waiting::Item(collect) => collect.fails_early().map(|to| (to, Method::Get)),
            Waiting::Nothing | Waiting::List(..) | Waiting::Room(..) | Waiting::Load(..) => None,
        };
        if let Some((to, method)) = unfinished {
            fail(to, method, Failed::Stopping, outbox);
            return self.end(turn);
        }
        // End a wait for an item.
        let waited = turn.caller(self.id).cancel_wait();
        if waited.value {
            self.event(waited.map(|_| Event::TimedOut), turn, outbox);
        }
    }

    fn close(&mut self, turn: &mut Turn<'_>) {
        self.end(turn);
    }
}
