//! What every dialect offers to whoever owns its connection: bytes in, events in, replies out.

use crate::{Event, Outbox, Turn};

/// When the replies to one call of [`Dialect::input`] are this long, no further command is executed
/// in it. Small requests may have large replies, and many fit into few bytes.
pub const INPUT_REPLIES_BYTES: usize = 64 * 1024;

/// Has `step` deal with the front of `bytes` again and again, until it needs more than there is (it
/// says 0 then), or the replies have become long. Returns how many bytes were dealt with.
pub fn take_steps(
    bytes: &[u8],
    outbox: &mut Outbox,
    mut step: impl FnMut(&[u8], &mut Outbox) -> usize,
) -> usize {
    let enough = outbox.len() + INPUT_REPLIES_BYTES;
    let mut used = 0;
    while outbox.len() < enough {
        match step(&bytes[used..], outbox) {
            0 => break,
            count => used += count,
        }
    }
    used
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
    /// an event (see `wants_input`), or when the replies have become long: the owner is to send some
    /// of them first. Only in the last case there is more to do at once, and then some bytes were
    /// dealt with; so the rest is presented until none of it is.
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
