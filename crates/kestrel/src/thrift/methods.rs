//! Executes each method (spec kestrel 8). `get` is in `collect`. Methods with lists are in `lists`.

use broker::{Answer, Blocked, Clearing, Outbox, Patience, Position, ReadMode, Status, Take, Turn};

use super::lists::ListCall;
use super::request::{Arguments, Method};
use super::session::{ThriftSession, Waiting};
use super::types::Written;
use super::writer::{Failure, Reply, ReplyTo};
use crate::client::AT_ONCE;
use crate::name;
use crate::stats::journal_bytes;

/// Why a call fails.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(super) enum Failed {
    StatusForbids,
    IllegalName,
    InvalidStatus,
    NotAllowed,
    MalformedList,
    Stopping,
}

impl ThriftSession {
    /// Executes a call. If the call has a list, only begins the call and returns it.
    pub(super) fn execute(
        &mut self,
        to: ReplyTo,
        method: Method,
        arguments: &Arguments<'_>,
        message_bytes: usize,
        turn: &mut Turn<'_>,
        outbox: &mut Outbox,
    ) -> Option<ListCall> {
        let queue = arguments.queue;
        let done = match method {
            Method::Put => match self.put(to, arguments, message_bytes, turn) {
                Ok(call) => return Some(call),
                Err(failed) => Err(failed),
            },
            Method::Get => self.get(to, arguments, turn, outbox),
            Method::Confirm | Method::Abort => {
                match self.close_reads(to, method, arguments, message_bytes, turn) {
                    Ok(call) => return Some(call),
                    Err(failed) => Err(failed),
                }
            }
            Method::Peek => self.peek(to, queue, turn, outbox),
            Method::FlushQueue | Method::DeleteQueue => self.clear(to, method, queue, turn, outbox),
            Method::FlushAllQueues => self.check_writes(turn).map(|()| {
                let flush = turn.caller(self.id).flush_all();
                self.answer_clearing(to, method, flush, outbox);
            }),
            Method::CurrentStatus => {
                let status = status_number(turn.status());
                answer_i32(to, method, Answer::new(status, turn.after_facts()), outbox);
                Ok(())
            }
            Method::SetStatus => self.set_status(to, arguments.status, turn, outbox),
            Method::GetVersion => {
                let mut reply = Reply::result(to, method.name().as_bytes());
                reply.field(0, Written::Bytes);
                reply.bytes(self.server.options.version.as_bytes());
                reply.send(AT_ONCE, outbox);
                Ok(())
            }
        };
        if let Err(failed) = done {
            fail(to, method, failed, outbox);
        }
        None
    }

    /// Fails if this connection cannot write now.
    pub(super) fn check_writes(&self, turn: &Turn<'_>) -> Result<(), Failed> {
        if self.refusals.writes(turn) { Err(Failed::StatusForbids) } else { Ok(()) }
    }

    /// Fails if this connection cannot read now.
    pub(super) fn check_reads(&self, turn: &Turn<'_>) -> Result<(), Failed> {
        if self.refusals.reads(turn) { Err(Failed::StatusForbids) } else { Ok(()) }
    }

    fn peek(
        &self,
        to: ReplyTo,
        queue: &[u8],
        turn: &mut Turn<'_>,
        outbox: &mut Outbox,
    ) -> Result<(), Failed> {
        self.check_reads(turn)?;
        check_name(queue, turn)?;
        let counters = self.server.counters();
        counters.cmd_peek.add_one();
        let Answer { value, after } =
            turn.caller(self.id).read(queue, ReadMode::Peek, Patience::None);
        let head = value.map(Take::item).map_err(|Blocked| Failed::StatusForbids)?;
        match head {
            Some(_) => counters.get_hits.add_one(),
            None => self.server.count_miss(queue, turn),
        }
        // If an alias has the same name as a queue, requests reach only the alias.
        let is_alias = turn.alias_stats(queue).is_some();
        // The numbers are those of the queue that the read has looked at.
        let read = turn.real_queue_id(queue).filter(|_| !is_alias);
        let stats = read.map(|queue| turn.item_stats_of(queue)).unwrap_or_default();
        let after = after.max(turn.after_named(queue));
        let mut reply = Reply::result(to, Method::Peek.name().as_bytes());
        reply.field(0, Written::Struct);
        reply.structure(|reply| {
            if let Some((_, head)) = head {
                reply.field(1, Written::Bytes);
                reply.body(head);
            }
            let numbers = [stats.items, stats.bytes, journal_bytes(&stats), stats.age_ms];
            for (number, field) in numbers.into_iter().zip(2..) {
                reply.field(field, Written::I64);
                reply.i64(number as i64);
            }
            for (number, field) in [stats.waiters, stats.open].into_iter().zip(6..) {
                reply.field(field, Written::I32);
                reply.i32(i32::try_from(number).unwrap_or(i32::MAX));
            }
        });
        reply.send(after, outbox);
        Ok(())
    }

    fn answer_clearing(
        &mut self,
        to: ReplyTo,
        method: Method,
        clearing: Answer<Clearing>,
        outbox: &mut Outbox,
    ) {
        match clearing.value {
            Clearing::Done => answer(to, method, clearing.after, outbox),
            Clearing::Waiting => self.waiting = Waiting::Clearing(to, method),
        }
    }

    /// Flushes or removes a queue.
    fn clear(
        &mut self,
        to: ReplyTo,
        method: Method,
        queue: &[u8],
        turn: &mut Turn<'_>,
        outbox: &mut Outbox,
    ) -> Result<(), Failed> {
        self.check_writes(turn)?;
        let mut caller = turn.caller(self.id);
        let cleared = match method {
            // A name can be as long as the message. No queue has such a name, so nothing looks it up.
            _ if !name::is_possible(queue) => Answer::at_once(Clearing::Done),
            Method::FlushQueue => caller.flush(queue),
            _ => caller.remove_queue(queue),
        };
        self.answer_clearing(to, method, cleared, outbox);
        Ok(())
    }

    fn set_status(
        &self,
        to: ReplyTo,
        number: i32,
        turn: &mut Turn<'_>,
        outbox: &mut Outbox,
    ) -> Result<(), Failed> {
        if !self.may_control {
            return Err(Failed::NotAllowed);
        }
        let status = match number {
            1 => Status::Quiescent,
            2 => Status::ReadOnly,
            3 => Status::Up,
            _ => return Err(Failed::InvalidStatus),
        };
        let set = turn.set_status(status, self.server.options.status_grace_ms);
        answer(to, Method::SetStatus, set.after, outbox);
        Ok(())
    }
}

/// Checks the queue name of a call that can create the queue.
pub(super) fn check_name(queue: &[u8], turn: &Turn<'_>) -> Result<(), Failed> {
    if name::is_usable(queue, turn) { Ok(()) } else { Err(Failed::IllegalName) }
}

/// The number of a status in the service's description.
fn status_number(status: Status) -> i32 {
    match status {
        Status::WriteAvoid => 0,
        Status::Quiescent => 1,
        Status::ReadOnly => 2,
        Status::Up => 3,
    }
}

/// Replies to a call that has no result.
fn answer(to: ReplyTo, method: Method, after: Position, outbox: &mut Outbox) {
    Reply::result(to, method.name().as_bytes()).send(after, outbox);
}

/// Replies with a number.
pub(super) fn answer_i32(to: ReplyTo, method: Method, number: Answer<i32>, outbox: &mut Outbox) {
    let mut reply = Reply::result(to, method.name().as_bytes());
    reply.field(0, Written::I32);
    reply.i32(number.value);
    reply.send(number.after, outbox);
}

/// Replies that a call has failed.
pub(super) fn fail(to: ReplyTo, method: Method, failed: Failed, outbox: &mut Outbox) {
    let name = method.name();
    let exception = match failed {
        Failed::StatusForbids => "server status forbids it",
        Failed::IllegalName => "illegal queue name",
        Failed::InvalidStatus => "invalid status",
        Failed::NotAllowed => "not allowed here; see kestrel.control",
        Failed::Stopping => "the server stops before it is done",
        Failed::MalformedList => {
            let message = format!("Malformed arguments of {name}");
            let failure = Failure::ProtocolError;
            return Reply::failure(to, name.as_bytes(), failure, &message).send(AT_ONCE, outbox);
        }
    };
    let message = format!("Internal error processing {name}: '{exception}'");
    Reply::failure(to, name.as_bytes(), Failure::InternalError, &message).send(AT_ONCE, outbox);
}
