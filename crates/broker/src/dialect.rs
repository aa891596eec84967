//! What every dialect offers to whoever owns its connection: bytes in, events in, replies out.

use crate::{Event, Outbox, Turn};

/// When the replies to one call of [`Dialect::input`] are this long, no further command is executed
/// in it. Small requests may have large replies, and many fit into few bytes.
pub const INPUT_REPLIES_BYTES: usize = 64 * 1024;

/// What [`Dialect::input`] has done.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub struct Progress {
    /// How many bytes it has dealt with.
    pub used: usize,
    /// It can go on at once, and stopped only to let the owner send replies or serve others.
    pub more: bool,
}

/// What one step of a session did: see [`take_steps`].
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum Step {
    /// It dealt with so many bytes. 0: it went on with a command whose bytes were used before, like a
    /// list whose rows are a step each.
    Used(usize),
    /// It can do nothing before more bytes or an event come, or the session has ended.
    Stuck,
    /// The slice of work is spent in the middle of a command, whose bytes are used. The next step
    /// goes on with it.
    Unfinished,
}

impl Step {
    /// A step that says 0 when it needs more bytes.
    pub fn used_or_stuck(count: usize) -> Self {
        if count == 0 { Self::Stuck } else { Self::Used(count) }
    }
}

/// Has `step` deal with the front of `bytes` again and again, until it is stuck, the replies have
/// become long, or a slice of work is spent.
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

/// What a session has to know about the end of what its peer sends: all that came before it is dealt with
/// first, also what lies with the owner while the session waits, and then the session ends.
#[derive(Debug, Default)]
pub struct InputEnd {
    has_come: bool,
    /// The last input left bytes, which the owner will present again.
    has_leftover: bool,
}

impl InputEnd {
    /// What [`Dialect::input`] says after these steps over so many bytes. What is left to a session
    /// that reads is, after the end, the beginning of a command that will never be complete.
    pub fn note(&mut self, presented: usize, steps: Progress, is_reading: bool) -> Progress {
        let is_cut_short = self.has_come && is_reading && !steps.more;
        let used = if is_cut_short { presented } else { steps.used };
        self.has_leftover = used < presented || steps.more;
        Progress { used, more: steps.more }
    }

    /// To be called in [`Dialect::end_of_input`].
    pub fn come(&mut self, is_reading: bool) {
        self.has_come = true;
        // As above.
        self.has_leftover &= !is_reading;
    }

    /// Whether the peer sends no more.
    pub fn has_come(&self) -> bool {
        self.has_come
    }

    /// Whether nothing is left to be dealt with but what the session waits for.
    pub fn is_drained(&self) -> bool {
        self.has_come && !self.has_leftover
    }
}

/// One connection's side of a protocol, without I/O.
///
/// The owner (the server, a test, the simulator) reads bytes, takes a [`Turn`] of the broker, and
/// hands both over. Replies are appended to the connection's [`Outbox`]; they leave when the log
/// has released the positions they wait for.
pub trait Dialect: Send {
    /// Executes the commands in `bytes`, and says how many bytes it has dealt with. The owner keeps
    /// the rest and presents it again, followed by what arrives later. Bytes are left when a command
    /// is incomplete (less than the dialect's longest line), when the session waits for an event (see
    /// `wants_input`), or when there is [`Progress::more`] to do: replies have become long, or a slice
    /// of work is spent. Only then the owner presents the rest, which may be empty, without waiting
    /// for anything, after it has sent some replies or served others.
    fn input(&mut self, bytes: &[u8], turn: &mut Turn<'_>, outbox: &mut Outbox) -> Progress;

    /// Something happened that this session waited for. Bytes that were left before may be
    /// presented to `input` again.
    fn event(&mut self, event: Event, turn: &mut Turn<'_>, outbox: &mut Outbox);

    /// The peer sends no more (half-close). Called once, after all its bytes were presented to
    /// `input`; bytes left over because the session waits are presented again after it.
    fn end_of_input(&mut self, turn: &mut Turn<'_>, outbox: &mut Outbox);

    /// Whether the owner should read from the socket: not while a command of this session waits.
    fn wants_input(&self) -> bool;

    /// Bytes of memory held for a command that has not arrived whole, or for an answer that is not
    /// complete, beside what the owner keeps.
    fn buffered_bytes(&self) -> usize;

    /// Whether the session has dealt with a part of a request and needs the rest from its peer. Bytes that
    /// were left with the owner are not looked at.
    fn is_mid_request(&self) -> bool;

    /// Whether the connection is to be closed once its outbox is sent.
    fn finished(&self) -> bool;

    /// The server is about to stop, and all events that there were have been told: answer a command
    /// that waits for what will not come any more. Only called while the session is not `finished`.
    fn stop(&mut self, turn: &mut Turn<'_>, outbox: &mut Outbox) {
        let _ = (turn, outbox);
    }

    /// The connection is gone: give back what it holds. Called exactly once, as the last thing.
    fn close(&mut self, turn: &mut Turn<'_>);
}
