//! The interface between a dialect and the owner of its connection. The owner passes bytes and
//! events to the dialect, and the dialect appends replies.

use crate::{Answer, Event, Outbox, Turn};

/// After this many reply bytes, a call of [`Dialect::input`] executes no further command. Input can
/// contain many small requests, and each of them can have a large reply. Without this limit, one
/// call could need any amount of memory.
pub const INPUT_REPLIES_BYTES: usize = 64 * 1024;

/// After this many used bytes, a call of [`Dialect::input`] executes no further command. There are
/// small requests without a reply that count no work. 32 KiB of the shortest take about a fifth of
/// a millisecond. The server's usual pieces are shorter, but after the end of input, a piece can
/// have megabytes.
const INPUT_BYTES_MAX: usize = 32 * 1024;

/// The result of [`Dialect::input`].
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub struct Progress {
    /// Number of input bytes used.
    pub used: usize,
    /// True if the session can continue without new input. It stopped only so that the owner can
    /// send replies or serve other sessions.
    pub more: bool,
}

/// The result of a session's step: see [`take_steps`].
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum Step {
    /// The step used this many bytes. 0 means that this step continued a command whose bytes an
    /// earlier step used. An example is a list with one row per step.
    Used(usize),
    /// The step needs more bytes or an event, or the session has ended.
    Stuck,
    /// The slice of work is used up in the middle of a command. The step has used the command's
    /// bytes, and the next step continues the command.
    Unfinished,
}

impl Step {
    /// Converts the result of a step that returns 0 if it needs more bytes.
    pub fn used_or_stuck(count: usize) -> Self {
        if count == 0 { Self::Stuck } else { Self::Used(count) }
    }
}

/// Calls `step` with the unused part of `bytes` repeatedly. Stops when a step is stuck, the replies
/// reach [`INPUT_REPLIES_BYTES`], the used bytes reach `INPUT_BYTES_MAX`, or the slice of work is
/// used up. Makes no step while a reply waits for its body and sessions wait for too many bodies:
/// replies behind it would take memory, and no reader could free it.
pub fn take_steps(
    bytes: &[u8],
    turn: &mut Turn<'_>,
    outbox: &mut Outbox,
    mut step: impl FnMut(&[u8], &mut Turn<'_>, &mut Outbox) -> Step,
) -> Progress {
    turn.begin_slice();
    let enough = outbox.len() + INPUT_REPLIES_BYTES;
    let mut used = 0;
    while used < INPUT_BYTES_MAX && outbox.len() < enough && !turn.slice_is_spent() {
        if outbox.waits_for_body() && turn.has_many_loads() {
            break;
        }
        match step(&bytes[used..], turn, outbox) {
            Step::Used(count) => used += count,
            Step::Stuck => return Progress { used, more: false },
            Step::Unfinished => break,
        }
    }
    Progress { used, more: true }
}

/// Stores whether the client has closed its sending side, and whether unused input is left. After
/// the close, the session ends as soon as it has used all input. It cannot use input while it waits
/// for an event.
#[derive(Debug, Default)]
pub struct InputEnd {
    has_come: bool,
    /// The last input left bytes, which the owner will pass again.
    has_leftover: bool,
}

impl InputEnd {
    /// Adjusts the result of each call of [`Dialect::input`]. After the end of input, if the
    /// session does not wait, its unused bytes are an incomplete command. The command will never be
    /// complete, so its bytes count as used.
    pub fn note(&mut self, presented: usize, steps: Progress, is_reading: bool) -> Progress {
        let is_cut_short = self.has_come && is_reading && !steps.more;
        let used = if is_cut_short { presented } else { steps.used };
        self.has_leftover = used < presented || steps.more;
        Progress { used, more: steps.more }
    }

    /// Must be called in [`Dialect::end_of_input`].
    pub fn come(&mut self, is_reading: bool) {
        self.has_come = true;
        // If the session does not wait, the leftover bytes are an incomplete command, as in `note`.
        self.has_leftover &= !is_reading;
    }

    /// Whether the input has ended.
    pub fn has_come(&self) -> bool {
        self.has_come
    }

    /// Whether the input has ended and all its bytes are used. The session can still wait for an
    /// event.
    pub fn is_drained(&self) -> bool {
        self.has_come && !self.has_leftover
    }
}

/// One connection's side of a protocol, without I/O.
///
/// The owner is the server, a test or the simulator. It reads bytes, takes a [`Turn`] of the
/// broker, and passes both to the dialect. The dialect appends replies to the connection's
/// [`Outbox`]. The owner sends each reply when the log has released the reply's position.
pub trait Dialect: Send {
    /// Executes the commands in `bytes`, and returns how many bytes it used. The owner keeps the
    /// other bytes and passes them again, followed by new bytes. There are three reasons to leave
    /// bytes unused:
    ///
    /// - The last command is incomplete. The bytes of such a command are fewer than those of the
    ///   dialect's longest line.
    /// - The session waits for an event: see `wants_input`.
    /// - [`Progress::more`] is true: the replies are long, or wait for a body, or many bytes are
    ///   used, or the slice of work is used up. Then the owner does not wait for new bytes. It
    ///   sends some replies or serves other sessions. Then it calls `input` again with the bytes
    ///   that it keeps, even if it keeps none.
    fn input(&mut self, bytes: &[u8], turn: &mut Turn<'_>, outbox: &mut Outbox) -> Progress;

    /// Handles an event that this session waited for. After this, the owner can pass the kept bytes
    /// to `input` again. If [`Dialect::has_more`] is true, it must do so, even if it keeps none.
    fn event(&mut self, event: Answer<Event>, turn: &mut Turn<'_>, outbox: &mut Outbox);

    /// Handles a half-close: the client has closed its sending side. Called once, after the owner
    /// has passed all of the client's bytes to `input`. If the session waits, the owner keeps
    /// unused bytes and passes them again later.
    fn end_of_input(&mut self, turn: &mut Turn<'_>, outbox: &mut Outbox);

    /// Whether the owner should read from the socket. False while a command of this session waits.
    fn wants_input(&self) -> bool;

    /// Whether the session can continue a command without new input, after an event.
    fn has_more(&self) -> bool {
        false
    }

    /// Bytes of memory that the session uses for an incomplete command or reply. The owner's
    /// buffers do not count.
    fn buffered_bytes(&self) -> usize;

    /// Bytes of memory of a complete put that waits for room. They are not in `buffered_bytes`,
    /// because the limit of memory has admitted the put, and its client has nothing to finish.
    fn blocked_bytes(&self) -> usize {
        0
    }

    /// Whether the session has used the beginning of a request, and needs more bytes from the
    /// client to complete the request. Bytes that the owner keeps do not count.
    fn is_mid_request(&self) -> bool;

    /// Whether to close the connection when its outbox is sent.
    fn finished(&self) -> bool;

    /// Replies to the command that waits for an event, if any. The server calls this when it stops.
    /// It has then delivered all events, so the event will never come. Only called while the
    /// session is not `finished`.
    fn stop(&mut self, turn: &mut Turn<'_>, outbox: &mut Outbox) {
        let _ = (turn, outbox);
    }

    /// Ends the session and gives back its jobs, because the connection is closed. Called exactly
    /// once, as the last call.
    fn close(&mut self, turn: &mut Turn<'_>);
}
