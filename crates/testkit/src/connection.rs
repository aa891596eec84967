//! A named connection of a running case, with the bytes that have arrived on it.

use crate::text::shown;
use crate::wire::{ConnectionId, Received, Wire};

/// One connection.
pub(crate) struct Connection {
    pub(crate) id: ConnectionId,
    /// Bytes that arrived and that no step has expected yet.
    pub(crate) unread: Vec<u8>,
    /// The server closed the connection.
    pub(crate) ended: bool,
}

impl Connection {
    pub(crate) fn new(id: ConnectionId) -> Self {
        Self { id, unread: Vec::new(), ended: false }
    }

    /// Reads until `enough` is true, the connection ends, or the deadline comes.
    pub(crate) fn fill_until(
        &mut self,
        wire: &mut dyn Wire,
        deadline_ms: u64,
        enough: impl Fn(&Connection) -> bool,
    ) {
        while !self.ended && !enough(self) {
            let left_ms = deadline_ms.saturating_sub(wire.now_ms());
            match wire.receive(self.id, left_ms) {
                Received::Bytes(bytes) => self.unread.extend_from_slice(&bytes),
                Received::End => self.ended = true,
                Received::Nothing if left_ms == 0 => return,
                Received::Nothing => {}
            }
        }
    }

    /// The received bytes, as failure messages show them.
    pub(crate) fn shown(&self) -> String {
        let ending = if self.ended { " and the end of the connection" } else { "" };
        format!("{}{ending}", shown(&self.unread))
    }
}
