//! The interface between a dialect and the owner of its connection: bytes in, events in, replies
//! out.

use crate::{Answer, Event, Outbox, Turn};

/// The maximum number of reply bytes per call of [`Dialect::input`]. When it is reached, the call
/// executes no further command. A small request can have a large reply, and a few bytes can hold
/// many requests.
pub const INPUT_REPLIES_BYTES: usize = 64 * 1024;

/// The result of [`Dialect::input`].
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub struct Progress {
    /// Number of bytes used.
    pub used: usize,
    /// True if the session can continue at once. It stopped only to let the owner send replies or
    /// serve others.
    pub more: bool,
}

/// The result of a session's step: see [`take_steps`].
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum Step {
    /// It used this many bytes. 0 means that it continued a command whose bytes were used before,
    /// such as a list with one row per step.
    Used(usize),
    /// It needs more bytes or an event, or the session has ended.
    Stuck,
    /// The slice of work is spent in the middle of a command, whose bytes are used. The next step
    /// continues it.
    Unfinished,
}

impl Step {
    /// Converts the result of a step that returns 0 if it needs more bytes.
    pub fn used_or_stuck(count: usize) -> Self {
        if count == 0 { Self::Stuck } else { Self::Used(count) }
    }
}

/// Repeats `step` on the rest of `bytes` until it is stuck, the replies are long, or a slice of
/// work is spent.
pub fn take_steps(
    bytes: &[u8],
    turn: &mut Turn<'_>,
    outbox: &mut Outbox,
    mut step: impl FnMut(&[u8], &mut Turn<'_>, &mut Outbox) -> Step,
) -> Progress {
    turn.begin_slice();
    let enough = outbox.len() + INPUT_REPLIES_BYTES;
    let mut used = 0;
    while outbox.len() < enough && !turn.slice_is_spent() {
        match step(&bytes[used..], turn, outbox) {
            Step::Used(count) => used += count,
            Step::Stuck => return Progress { used, more: false },
            Step::Unfinished => break,
        }
    }
    Progress { used, more: true }
}

/// The end of a session's input. The session first handles all bytes before it, including those
/// that the owner keeps while the session waits. Then the session ends.
#[derive(Debug, Default)]
pub struct InputEnd {
    has_come: bool,
    /// The last input left bytes, which the owner will pass again.
    has_leftover: bool,
}

impl InputEnd {
    /// Adjusts the result of [`Dialect::input`] after the end of input. If the session is reading,
    /// the rest is an incomplete command that never completes, so it counts as used.
    pub fn note(&mut self, presented: usize, steps: Progress, is_reading: bool) -> Progress {
        let is_cut_short = self.has_come && is_reading && !steps.more;
        let used = if is_cut_short { presented } else { steps.used };
        self.has_leftover = used < presented || steps.more;
        Progress { used, more: steps.more }
    }

    /// Must be called in [`Dialect::end_of_input`].
    pub fn come(&mut self, is_reading: bool) {
        self.has_come = true;
        // As in `note`.
        self.has_leftover &= !is_reading;
    }

    /// Whether the input has ended.
    pub fn has_come(&self) -> bool {
        self.has_come
    }

    /// Whether all input is handled, except what the session waits for.
    pub fn is_drained(&self) -> bool {
        self.has_come && !self.has_leftover
    }
}

/// One connection's side of a protocol, without I/O.
///
/// The owner (the server, a test, the simulator) reads bytes, takes a [`Turn`] of the broker, and
/// passes both. Replies are appended to the connection's [`Outbox`]. They are sent when the log has
/// released the positions they wait for.
pub trait Dialect: Send {
    /// Executes the commands in `bytes`, and returns how many bytes it used. The owner keeps the
    /// rest and passes it again, followed by new bytes. Bytes are left if a command is incomplete
    /// (less than the dialect's longest line), if the session waits for an event (see
    /// `wants_input`), or if there is [`Progress::more`] to do: replies are long, or a slice of
    /// work is spent. In the last case the owner does not wait for new bytes: it sends some replies
    /// or serves others, then passes the rest, which may be empty.
    fn input(&mut self, bytes: &[u8], turn: &mut Turn<'_>, outbox: &mut Outbox) -> Progress;

    /// Handles an event that this session waited for. Bytes left before can then be passed to
    /// `input` again.
    fn event(&mut self, event: Answer<Event>, turn: &mut Turn<'_>, outbox: &mut Outbox);

    /// The client has closed its sending side (half-close). Called once, after all its bytes were
    /// passed to `input`. Bytes left because the session waits are passed again after it.
    fn end_of_input(&mut self, turn: &mut Turn<'_>, outbox: &mut Outbox);

    /// Whether the owner should read from the socket: not while a command of this session waits.
    fn wants_input(&self) -> bool;

    /// Bytes of memory for an incomplete command or reply, besides the owner's buffers.
    fn buffered_bytes(&self) -> usize;

    /// Whether the session has used part of a request and needs the rest from its client. Bytes
    /// left with the owner do not count.
    fn is_mid_request(&self) -> bool;

    /// Whether to close the connection once its outbox is sent.
    fn finished(&self) -> bool;

    /// The server is stopping, and all events were delivered: answer a command if it waits for an
    /// event that will never come. Only called while the session is not `finished`.
    fn stop(&mut self, turn: &mut Turn<'_>, outbox: &mut Outbox) {
        let _ = (turn, outbox);
    }

    /// The connection is gone: give back the jobs it holds. Called exactly once, at the end.
    fn close(&mut self, turn: &mut Turn<'_>);
}
