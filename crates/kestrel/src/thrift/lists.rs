//! Calls with a list: items to put, or ids of open reads. A list can be long, so the session
//! handles it in slices of work.

use std::borrow::Cow;

use broker::{
    Answer, Body, BodyCopy, LeaseId, Millis, Outbox, Position, SessionId, Step, Turn, When,
};

use super::methods::{Failed, answer_i32, check_name, fail};
use super::reader::{Reader, Values};
use super::request::{Arguments, Method};
use super::session::{ThriftSession, Waiting};
use super::types::{Protocol, Type};
use super::writer::ReplyTo;
use crate::client::AT_ONCE;
use crate::latency::Measure;

/// A call with a list, and its progress. [`Waiting::List`] has the message with the list.
#[derive(Debug)]
pub(super) struct ListCall {
    to: ReplyTo,
    method: Method,
    act: Act,
    protocol: Protocol,
    /// Offset of the next value in the message.
    next: usize,
    /// Number of values that are not handled yet.
    left: usize,
    /// The copy of the next item to put.
    copy: BodyCopy,
    /// The next item to put, which has waited for room.
    blocked: Option<Body>,
    /// Number of items that were stored, confirmed or given back.
    done: i32,
    /// When the first of the items that have waited for room began to wait.
    waits_since: Option<Millis>,
    /// The position that the reply waits for.
    after: Position,
}

/// What comes after a value, or after a slice of a list.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(super) enum Next {
    /// The next value.
    Value,
    /// The same value again: the slice was spent in the middle of its copy.
    Again,
    /// The same value again, when the queue has room for it.
    Room,
    /// Nothing: the call is done.
    End,
}

/// The operation for each value.
#[derive(Debug)]
enum Act {
    Put { queue: Box<[u8]>, expires: Option<When> },
    Confirm(SessionId),
    GiveBack(SessionId),
}

impl ListCall {
    /// Starts a call. Its values, which [`values_of`] has returned, are a part of a message of
    /// `message_bytes` bytes.
    fn new(
        to: ReplyTo,
        method: Method,
        act: Act,
        values: Option<(Reader<'_>, usize)>,
        message_bytes: usize,
    ) -> Self {
        let (protocol, next, left) = match values {
            Some((reader, left)) => (reader.protocol(), message_bytes - reader.rest().len(), left),
            None => (Protocol::Binary, 0, 0),
        };
        Self {
            to,
            method,
            act,
            protocol,
            next,
            left,
            copy: BodyCopy::default(),
            blocked: None,
            done: 0,
            waits_since: None,
            after: AT_ONCE,
        }
    }

    /// The memory of the call beside its message.
    pub(super) fn buffered_bytes(&self) -> usize {
        let queue_bytes = match &self.act {
            Act::Put { queue, .. } => queue.len(),
            Act::Confirm(_) | Act::GiveBack(_) => 0,
        };
        let blocked_bytes = self.blocked.as_ref().map_or(0, |item| item.len());
        self.copy.buffered_bytes() + queue_bytes + blocked_bytes
    }

    /// Replies to the call, which the server's stop ends early. A put gets the number of its items that
    /// are stored, as if the next one was refused.
    pub(super) fn stop(&self, outbox: &mut Outbox) {
        match self.act {
            Act::Put { .. } => {
                answer_i32(self.to, self.method, Answer::new(self.done, self.after), outbox);
            }
            // A number would say that the other reads are not open any more.
            Act::Confirm(_) | Act::GiveBack(_) => {
                fail(self.to, self.method, Failed::Stopping, outbox);
            }
        }
    }
}

impl ThriftSession {
    /// Begins a call that stores items. It stops when an item is refused. The reply is the number
    /// of stored items.
    pub(super) fn put(
        &self,
        to: ReplyTo,
        arguments: &Arguments<'_>,
        message_bytes: usize,
        turn: &Turn<'_>,
    ) -> Result<ListCall, Failed> {
        let values = values_of(arguments.list, Type::Bytes)?;
        self.check_writes(turn)?;
        // A name can be as long as the message. So the call copies only a valid one.
        check_name(arguments.queue, turn)?;
        let expires = match i64::from(arguments.time_ms) {
            0 => None,
            millis => Some(When::At(Millis(turn.now().0.saturating_add_signed(millis)))),
        };
        let act = Act::Put { queue: arguments.queue.into(), expires };
        Ok(ListCall::new(to, Method::Put, act, values, message_bytes))
    }

    /// Begins a call that confirms open reads, or gives their items back. Any connection may have
    /// opened these reads. The reply is the number of reads that were still open.
    pub(super) fn close_reads(
        &self,
        to: ReplyTo,
        method: Method,
        arguments: &Arguments<'_>,
        message_bytes: usize,
        turn: &mut Turn<'_>,
    ) -> Result<ListCall, Failed> {
        let holder = self.holder(turn);
        let act =
            if method == Method::Confirm { Act::Confirm(holder) } else { Act::GiveBack(holder) };
        let values = values_of(arguments.set, Type::I64)?;
        Ok(ListCall::new(to, method, act, values, message_bytes))
    }

    /// Handles the values of a list in this message, until the list or the slice of work ends, or an
    /// item must wait for room.
    pub(super) fn take_from_list(
        &self,
        call: &mut ListCall,
        message: &[u8],
        turn: &mut Turn<'_>,
        outbox: &mut Outbox,
    ) -> Next {
        let mut reader = Reader::new(call.protocol, &message[call.next..]);
        while call.left > 0 {
            match self.deal_with_next(call, &mut reader, turn) {
                Next::Value => {
                    call.left -= 1;
                    // The id of a read that is not open costs the engine nothing, but it takes time.
                    turn.count_work(1);
                }
                Next::Again => return Next::Again,
                Next::Room => return Next::Room,
                Next::End => call.left = 0,
            }
            call.next = message.len() - reader.rest().len();
            if turn.slice_is_spent() && call.left > 0 {
                return Next::Value;
            }
        }
        answer_i32(call.to, call.method, Answer::new(call.done, call.after), outbox);
        Next::End
    }

    /// Handles the next value. The list ends if the value is invalid, or if a put was refused.
    fn deal_with_next(
        &self,
        call: &mut ListCall,
        reader: &mut Reader<'_>,
        turn: &mut Turn<'_>,
    ) -> Next {
        let Answer { value, after } = match &call.act {
            Act::Put { queue, expires } => {
                let Ok(item) = reader.bytes() else { return Next::End };
                let blocked = call.blocked.take();
                let Some(item) = blocked.or_else(|| call.copy.body(item, turn)) else {
                    return Next::Again;
                };
                let mut caller = turn.caller(self.id);
                if caller.item_must_wait_for_room(queue, &item, &mut call.waits_since) {
                    call.blocked = Some(item);
                    return Next::Room;
                }
                self.server.counters().cmd_set.add_one();
                let watch = self.server.begin(turn.now());
                let added = turn.caller(self.id).add(queue, item, *expires);
                if added.value.is_err() {
                    call.after = call.after.max(added.after);
                    return Next::End;
                }
                self.server.note(watch, Measure::Set);
                Answer::new(Ok(()), added.after)
            }
            Act::Confirm(holder) => {
                let Ok(lease) = reader.i64() else { return Next::End };
                turn.caller(*holder).confirm(LeaseId(lease as u64))
            }
            Act::GiveBack(holder) => {
                let Ok(lease) = reader.i64() else { return Next::End };
                turn.caller(*holder).give_back_item(LeaseId(lease as u64))
            }
        };
        call.done += i32::from(value.is_ok());
        call.after = call.after.max(after);
        Next::Value
    }

    /// Handles the next slice of the list, or the item that has waited for room.
    pub(super) fn go_on_with_list(
        &mut self,
        mut call: ListCall,
        message: Vec<u8>,
        turn: &mut Turn<'_>,
        outbox: &mut Outbox,
    ) -> Step {
        let next = self.take_from_list(&mut call, &message, turn, outbox);
        self.keep_list(next, call, message.into());
        match next {
            Next::Value | Next::Again => Step::Unfinished,
            Next::Room => Step::Stuck,
            Next::End => Step::Used(0),
        }
    }

    /// Keeps the rest of a list.
    pub(super) fn keep_list(&mut self, next: Next, call: ListCall, message: Cow<'_, [u8]>) {
        match next {
            Next::Value | Next::Again => {
                self.waiting = Waiting::List(call, message.into_owned());
            }
            Next::Room => self.waiting = Waiting::Room(call, message.into_owned()),
            Next::End => {}
        }
    }
}

/// A reader at the first value of a list, and the number of values. Fails if the values have another
/// type.
fn values_of(list: Option<Values<'_>>, kind: Type) -> Result<Option<(Reader<'_>, usize)>, Failed> {
    list.map(|values| values.of(kind)).transpose().map_err(|_| Failed::MalformedList)
}
