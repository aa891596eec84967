//! Calls with a list: items to put, or ids of open reads. A list can be long, so the session
//! handles it in slices of work.

use broker::{Answer, Body, LeaseId, Millis, Outbox, Position, SessionId, Step, Turn, When};

use super::methods::{Failed, answer_i32, check_name};
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
    pub(super) to: ReplyTo,
    pub(super) method: Method,
    act: Act,
    protocol: Protocol,
    /// Offset of the next value in the message.
    next: usize,
    /// Number of values that are not handled yet.
    left: usize,
    /// Number of items that were stored, confirmed or given back.
    done: i32,
    /// The position that the reply waits for.
    after: Position,
}

/// The operation for each value.
#[derive(Debug)]
enum Act {
    Put { queue: Box<[u8]>, expires: Option<When> },
    Confirm(SessionId),
    GiveBack(SessionId),
}

impl ListCall {
    /// Starts a call. `values` is a part of a message of `message_bytes` bytes.
    fn new(
        to: ReplyTo,
        method: Method,
        act: Act,
        values: Option<Values<'_>>,
        (kind, message_bytes): (Type, usize),
    ) -> Result<Self, Failed> {
        let values = values.map(|values| values.of(kind)).transpose();
        let (protocol, next, left) = match values.map_err(|_| Failed::MalformedList)? {
            Some((reader, left)) => (reader.protocol(), message_bytes - reader.rest().len(), left),
            None => (Protocol::Binary, 0, 0),
        };
        Ok(Self { to, method, act, protocol, next, left, done: 0, after: AT_ONCE })
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
        let expires = match i64::from(arguments.time_ms) {
            0 => None,
            millis => Some(When::At(Millis(turn.now().0.saturating_add_signed(millis)))),
        };
        let act = Act::Put { queue: arguments.queue.into(), expires };
        let list = (Type::Bytes, message_bytes);
        let call = ListCall::new(to, Method::Put, act, arguments.list, list)?;
        self.check_writes(turn)?;
        check_name(arguments.queue, turn)?;
        Ok(call)
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
        ListCall::new(to, method, act, arguments.set, (Type::I64, message_bytes))
    }

    /// Continues a list in this message. Returns true if the list has more values.
    pub(super) fn take_from_list(
        &self,
        call: &mut ListCall,
        message: &[u8],
        turn: &mut Turn<'_>,
        outbox: &mut Outbox,
    ) -> bool {
        let mut reader = Reader::new(call.protocol, &message[call.next..]);
        while call.left > 0 {
            call.left -= 1;
            if self.deal_with_next(call, &mut reader, turn).is_none() {
                call.left = 0;
            }
            call.next = message.len() - reader.rest().len();
            if turn.slice_is_spent() && call.left > 0 {
                return true;
            }
        }
        answer_i32(call.to, call.method, Answer::new(call.done, call.after), outbox);
        false
    }

    /// Handles the next value. Returns `None` if the value is invalid, or if a put was refused.
    fn deal_with_next(
        &self,
        call: &mut ListCall,
        reader: &mut Reader<'_>,
        turn: &mut Turn<'_>,
    ) -> Option<()> {
        let Answer { value, after } = match &call.act {
            Act::Put { queue, expires } => {
                let item = reader.bytes().ok()?;
                self.server.counters().cmd_set.add_one();
                let watch = self.server.begin(turn.now());
                let added = turn.caller(self.id).add(queue, Body::from(item), *expires);
                if added.value.is_err() {
                    call.after = call.after.max(added.after);
                    return None;
                }
                self.server.note(watch, Measure::Set);
                Answer::new(Ok(()), added.after)
            }
            Act::Confirm(holder) => {
                turn.caller(*holder).confirm(LeaseId(reader.i64().ok()? as u64))
            }
            Act::GiveBack(holder) => {
                turn.caller(*holder).give_back_item(LeaseId(reader.i64().ok()? as u64))
            }
        };
        call.done += i32::from(value.is_ok());
        call.after = call.after.max(after);
        Some(())
    }

    /// Handles the next slice of the list.
    pub(super) fn go_on_with_list(
        &mut self,
        mut call: ListCall,
        message: Vec<u8>,
        turn: &mut Turn<'_>,
        outbox: &mut Outbox,
    ) -> Step {
        if self.take_from_list(&mut call, &message, turn, outbox) {
            self.waiting = Waiting::List(call, message);
            Step::Unfinished
        } else {
            Step::Used(0)
        }
    }
}
