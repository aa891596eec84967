//! One connection: how it interprets its next bytes, how it waits, and how it ends.

use std::sync::Arc;

use broker::{
    Answer, Body, BodyBuffer, Dialect, Event, InputEnd, NewJob, Outbox, Progress, SessionId, Step,
    Turn, take_steps,
};

use crate::command::{Malformed, recognise};
use crate::environment::{Listener, Server};
use crate::reply::{self, AT_ONCE};
use crate::tube_list::TubeList;
use crate::wire::{Excess, Line, excess, first_line};

/// One connection that speaks beanstalkd's protocol, without I/O.
#[derive(Debug)]
pub struct Session {
    pub(crate) id: SessionId,
    pub(crate) listener: Arc<Listener>,
    pub(crate) reading: Reading,
    pub(crate) waiting: Waiting,
    // Few sessions have one of these two. In a box, they take little memory of the others.
    /// The put that waits for room.
    pub(crate) blocked: Option<Box<(NewJob, Body)>>,
    /// The incomplete reply to `list-tubes`. Later commands wait until it is complete.
    pub(crate) listing: Option<Box<TubeList>>,
    /// Number of tubes that the session watches.
    pub(crate) watched_tubes: u32,
    /// Whether the session has sent a put of an acceptable size. If so, it counts as a producer.
    pub(crate) is_producer: bool,
    /// Whether the session has requested a job, or got a job by its id. If so, it counts as a
    /// worker.
    pub(crate) is_worker: bool,
    input_end: InputEnd,
    /// Whether the session is closed in the broker. If so, it ignores all input, and sends no more
    /// replies.
    ended: bool,
}

/// The meaning of the connection's next bytes.
#[derive(Debug)]
pub(crate) enum Reading {
    /// A command line.
    Line,
    /// The rest of a line that is too long. The session skips these bytes, and then replies.
    LongLine,
    /// The body of a put, then CR LF.
    Body(PendingPut),
    /// The rest of a refused body. The session skips these bytes, and then sends `answer`.
    /// `missing` is the number of bytes to skip. It is a u64, because a client can announce a body
    /// of `u32::MAX` bytes, and the session also skips the CR LF after the body.
    RefusedBody { missing: u64, answer: &'static [u8] },
}

/// A put whose body is still arriving.
#[derive(Debug)]
pub(crate) struct PendingPut {
    pub(crate) job: NewJob,
    /// The part of the body, and of the CR LF after it, that has arrived.
    pub(crate) body: BodyBuffer,
}

/// The event that the session waits for. While it waits, it reads no command.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) enum Waiting {
    Nothing,
    Job,
    Kick,
    /// The next command needs a job that is only in the log. The broker loads the job.
    Load,
    /// The put of `blocked` needs room in a full queue.
    Room,
}

impl Session {
    /// Opens the session of a new connection. `listener` accepted the connection. The broker sends
    /// the session's events to `mailbox`.
    pub fn new(listener: Arc<Listener>, turn: &mut Turn<'_>, mailbox: usize) -> Self {
        let id = turn.open_session(mailbox);
        let counters = &listener.server.counters;
        counters.connections.add_one();
        counters.connections_total.add_one();
        Self {
            id,
            listener,
            reading: Reading::Line,
            waiting: Waiting::Nothing,
            blocked: None,
            listing: None,
            watched_tubes: 1,
            is_producer: false,
            is_worker: false,
            input_end: InputEnd::default(),
            ended: false,
        }
    }

    /// The id of the session in the broker. Events have this id as their address.
    pub fn id(&self) -> SessionId {
        self.id
    }

    pub(crate) fn server(&self) -> &Server {
        &self.listener.server
    }

    fn is_reading(&self) -> bool {
        self.waiting == Waiting::Nothing && self.listing.is_none() && !self.ended
    }

    pub(crate) fn is_input_ended(&self) -> bool {
        self.input_end.has_come()
    }

    /// Handles one line or one piece of a body, and returns the number of bytes that it used. 0
    /// means that more bytes must arrive first.
    fn step(&mut self, bytes: &[u8], turn: &mut Turn<'_>, outbox: &mut Outbox) -> usize {
        match &mut self.reading {
            Reading::Line => self.read_line(bytes, turn, outbox),
            Reading::LongLine => self.discard_line(bytes, outbox),
            Reading::Body(_) => self.read_body(bytes, turn, outbox),
            Reading::RefusedBody { missing, answer } => {
                let count = usize::try_from(*missing).unwrap_or(usize::MAX).min(bytes.len());
                *missing -= count as u64;
                if *missing == 0 {
                    outbox.reply(AT_ONCE, answer);
                    self.reading = Reading::Line;
                }
                count
            }
        }
    }

    fn read_line(&mut self, bytes: &[u8], turn: &mut Turn<'_>, outbox: &mut Outbox) -> usize {
        match first_line(bytes) {
            Line::Complete(line) => {
                match recognise(line) {
                    Ok(command) if !self.is_at_hand(&command, turn) => {
                        self.waiting = Waiting::Load;
                        return 0;
                    }
                    Ok(command) => self.execute(command, turn, outbox),
                    Err(Malformed::BadFormat) => outbox.reply(AT_ONCE, reply::BAD_FORMAT),
                    Err(Malformed::UnknownCommand) => {
                        outbox.reply(AT_ONCE, reply::UNKNOWN_COMMAND);
                    }
                }
                line.len() + reply::CR_LF.len()
            }
            Line::Incomplete => 0,
            Line::TooLong => {
                self.reading = Reading::LongLine;
                self.discard_line(bytes, outbox)
            }
        }
    }

    fn discard_line(&mut self, bytes: &[u8], outbox: &mut Outbox) -> usize {
        match excess(bytes) {
            Excess::Ends(count) => {
                self.reading = Reading::Line;
                outbox.reply(AT_ONCE, reply::BAD_FORMAT);
                count
            }
            Excess::GoesOn(count) => count,
        }
    }

    fn read_body(&mut self, bytes: &[u8], turn: &mut Turn<'_>, outbox: &mut Outbox) -> usize {
        let Reading::Body(put) = &mut self.reading else { return 0 };
        let job = put.job;
        let (count, frame) = put.body.complete_frame(bytes);
        if let Some(frame) = frame {
            self.reading = Reading::Line;
            self.finish_put(job, frame, turn, outbox);
        }
        count
    }

    /// Closes the session in the broker, but only once. The broker gives back the jobs that the
    /// session holds.
    fn end(&mut self, turn: &mut Turn<'_>) {
        if self.ended {
            return;
        }
        self.ended = true;
        if let Reading::Body(_) = self.reading {
            // In the original, a put gets its job id when its line arrives, so an interrupted put
            // uses up an id. Here, a put gets its id only when its body is complete. So skip an id
            // for the interrupted put. The ids of simultaneous puts have the order in which the
            // bodies end.
            turn.skip_job_id();
            self.reading = Reading::Line;
        }
        if self.blocked.take().is_some() {
            turn.skip_job_id();
        }
        turn.close_session(self.id);
        let counters = &self.listener.server.counters;
        counters.connections.remove_one();
        if self.is_producer {
            counters.producers.remove_one();
        }
        if self.is_worker {
            counters.workers.remove_one();
        }
    }

    /// Ends the session if the client has closed its sending side and the session has handled all
    /// its commands.
    fn end_if_drained(&mut self, turn: &mut Turn<'_>) {
        if self.waiting == Waiting::Nothing && self.input_end.is_drained() {
            self.end(turn);
        }
    }

    /// Handles `quit`. The server ignores all later bytes.
    pub(crate) fn quit(&mut self, turn: &mut Turn<'_>) {
        self.end(turn);
    }
}

impl Dialect for Session {
    fn input(&mut self, bytes: &[u8], turn: &mut Turn<'_>, outbox: &mut Outbox) -> Progress {
        let steps = take_steps(bytes, turn, outbox, |bytes, turn, outbox| {
            if let Some(listing) = &mut self.listing {
                if !listing.step(turn, outbox) {
                    self.listing = None;
                }
                return Step::Used(0);
            }
            let count = if self.is_reading() { self.step(bytes, turn, outbox) } else { 0 };
            Step::used_or_stuck(count)
        });
        let progress = self.input_end.note(bytes.len(), steps, self.is_reading());
        self.end_if_drained(turn);
        progress
    }

    fn event(&mut self, event: Answer<Event>, turn: &mut Turn<'_>, outbox: &mut Outbox) {
        if self.ended {
            return;
        }
        self.waiting = Waiting::Nothing;
        let Answer { value, after } = event;
        match value {
            Event::Granted(handout) => reply::reserved(&handout, after, outbox),
            Event::TimedOut => outbox.reply(after, reply::TIMED_OUT),
            Event::DeadlineSoon => outbox.reply(after, reply::DEADLINE_SOON),
            Event::Kicked(count) => reply::kicked(count, after, outbox),
            // The owner passes the command's bytes again.
            Event::Loaded => {}
            Event::Room => {
                if let Some(blocked) = self.blocked.take() {
                    let (job, body) = *blocked;
                    self.put(job, body, turn, outbox);
                }
            }
            Event::Unreadable => self.end(turn),
            Event::WorkToDo
            | Event::News { .. }
            | Event::Peeked(_)
            | Event::Cleared
            | Event::Reloaded => {
                unreachable!("this dialect neither sleeps, nor watches jobs, nor reads items")
            }
        }
        self.end_if_drained(turn);
    }

    fn end_of_input(&mut self, turn: &mut Turn<'_>, outbox: &mut Outbox) {
        self.input_end.come(self.is_reading());
        match self.waiting {
            Waiting::Nothing | Waiting::Kick | Waiting::Load => {}
            Waiting::Room => {
                // If the event is already on its way, it answers the put.
                if turn.caller(self.id).cancel_room_wait() {
                    self.waiting = Waiting::Nothing;
                    self.blocked = None;
                    turn.skip_job_id();
                    outbox.reply(AT_ONCE, reply::DRAINING);
                }
            }
            Waiting::Job => {
                // COMPAT(beanstalkd): a half-closed connection does not wait; cases
                // half-close-while-waiting, half-close-then-empty-reserve-times-out. If the session
                // has just been granted a job, it does not wait any more, and `cancel_wait` does
                // nothing. Then the event with the job arrives later, and answers the reserve.
                let waited = turn.caller(self.id).cancel_wait();
                if waited.value {
                    self.waiting = Waiting::Nothing;
                    outbox.reply(waited.after, reply::TIMED_OUT);
                }
            }
        }
        self.end_if_drained(turn);
    }

    fn wants_input(&self) -> bool {
        self.is_reading() && !self.input_end.has_come()
    }

    fn buffered_bytes(&self) -> usize {
        let listing_bytes = self.listing.as_ref().map_or(0, |listing| listing.buffered_bytes());
        listing_bytes
            + match &self.reading {
                Reading::Body(put) => put.body.buffered_bytes(),
                Reading::Line | Reading::LongLine | Reading::RefusedBody { .. } => 0,
            }
    }

    fn blocked_bytes(&self) -> usize {
        self.blocked.as_ref().map_or(0, |blocked| blocked.1.len())
    }

    fn is_mid_request(&self) -> bool {
        match self.reading {
            Reading::LongLine | Reading::Body(_) | Reading::RefusedBody { .. } => true,
            Reading::Line => false,
        }
    }

    fn finished(&self) -> bool {
        self.ended
    }

    fn stop(&mut self, turn: &mut Turn<'_>, outbox: &mut Outbox) {
        if self.blocked.is_some() {
            // The put is not stored.
            outbox.reply(AT_ONCE, reply::DRAINING);
            return self.end(turn);
        }
        if self.waiting == Waiting::Kick || self.listing.take().is_some() {
            // The server stops before all jobs are kicked or listed. So the reply is an error.
            outbox.reply(AT_ONCE, reply::INTERNAL_ERROR);
            self.end(turn);
        }
    }

    fn close(&mut self, turn: &mut Turn<'_>) {
        self.end(turn);
    }
}
