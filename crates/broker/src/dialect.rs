//! What every dialect offers to whoever owns its connection: bytes in, events in, replies out.

use crate::{Event, Outbox, Turn};

/// When the replies to one call of [`Dialect::input`] are this long, no further command is executed
/// in it. Small requests may have large replies, and many fit into few bytes.
pub const INPUT_REPLIES_BYTES: usize = 64 * 1024;

/// What [`take_steps`] did.
#[derive(Copy, Clone, Debug)]
pub struct Steps {
    /// How many bytes were dealt with.
    pub used: usize,
    /// The replies have become long, or the work, so there may be more to do at once.
    pub paused: bool,
}

/// Has `step` deal with the front of `bytes` again and again, until it needs more than there is (it
/// says 0 then), or the replies have become long.
pub fn take_steps(
    bytes: &[u8],
    outbox: &mut Outbox,
    mut step: impl FnMut(&[u8], &mut Outbox) -> usize,
) -> Steps {
    let enough = outbox.len() + INPUT_REPLIES_BYTES;
    let mut used = 0;
    while outbox.len() < enough {
        match step(&bytes[used..], outbox) {
            0 => break,
            count => used += count,
        }
    }
    Steps { used, paused: outbox.len() >= enough }
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
    /// How many of so many bytes [`Dialect::input`] has dealt with, after these steps. What is left to a
    /// session that reads is, after the end, the beginning of a command that will never be complete.
    pub fn count_used(&mut self, presented: usize, steps: Steps, is_reading: bool) -> usize {
        let is_cut_short = self.has_come && is_reading && !steps.paused;
        let used = if is_cut_short { presented } else { steps.used };
        self.has_leftover = used < presented;
        used
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
    /// Executes the commands in `bytes`, and says how many bytes it has dealt with. The owner
    /// keeps the rest and presents it again, followed by what arrives later. Bytes are left when a
    /// command is incomplete (less than the dialect's longest line), when the session waits for
    /// an event (see `wants_input`), or when the replies or the work have become long: the owner is to
    /// send some of them first, or to serve others. Only in the last case there is more to do at once, and then some bytes were
    /// dealt with; so the rest is presented until none of it is, or the session is `finished`.
    fn input(&mut self, bytes: &[u8], turn: &mut Turn<'_>, outbox: &mut Outbox) -> usize;

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
