//! The connections of a running case, by name. Each connection has the bytes that have arrived and
//! that no step has used yet.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};

use super::text::{Variables, shown};
use super::wire::{ConnectionId, Received, Wire};

/// A running case.
pub(crate) struct Run<'a> {
    pub(crate) wire: &'a mut dyn Wire,
    pub(crate) variables: Variables,
    pub(crate) connections: BTreeMap<String, Connection>,
}

impl<'a> Run<'a> {
    pub(crate) fn new(wire: &'a mut dyn Wire, variables: Variables) -> Self {
        Self { wire, variables, connections: BTreeMap::new() }
    }

    /// Plays the steps in order. An error names the failed step.
    pub(crate) fn play<S>(
        &mut self,
        steps: &[S],
        summary: impl Fn(&S) -> String,
        mut play: impl FnMut(&mut Self, &S) -> Result<()>,
    ) -> Result<()> {
        for (index, step) in steps.iter().enumerate() {
            play(self, step).with_context(|| format!("step {} {}", index + 1, summary(step)))?;
        }
        Ok(())
    }

    /// Calls `act` with the connection of this name. Opens the connection if the case has no
    /// connection of this name. Closes the connection if `close` is set and `act` succeeds.
    pub(crate) fn on(
        &mut self,
        name: &str,
        port: Option<&str>,
        close: bool,
        act: impl FnOnce(&mut Self, &mut Connection) -> Result<()>,
    ) -> Result<()> {
        // The connection is not in the map while `act` runs, so that `act` can change `self`.
        let mut connection = match self.connections.remove(name) {
            Some(connection) => connection,
            None => Connection::new(self.wire.connect(port)?),
        };
        let outcome = act(self, &mut connection);
        if close && outcome.is_ok() {
            self.wire.close(connection.id);
        } else {
            self.connections.insert(name.to_owned(), connection);
        }
        outcome
    }

    /// Closes all connections.
    pub(crate) fn close(&mut self) {
        for connection in std::mem::take(&mut self.connections).into_values() {
            self.wire.close(connection.id);
        }
    }
}

/// One connection.
pub(crate) struct Connection {
    pub(crate) id: ConnectionId,
    /// Bytes that arrived, but that no step has used yet.
    pub(crate) unread: Vec<u8>,
    /// True if the server has closed the connection.
    pub(crate) ended: bool,
}

impl Connection {
    pub(crate) fn new(id: ConnectionId) -> Self {
        Self { id, unread: Vec::new(), ended: false }
    }

    /// Reads until `enough` returns true, the connection ends, or the deadline is over.
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

    /// Fails if a byte or the end of the connection arrives within this time.
    pub(crate) fn expect_silence(&mut self, wire: &mut dyn Wire, ms: u64) -> Result<()> {
        let quiet_until_ms = wire.now_ms() + ms;
        self.fill_until(wire, quiet_until_ms, |c| !c.unread.is_empty());
        ensure!(self.unread.is_empty(), "wanted silence, got {}", self.shown());
        ensure!(!self.ended, "wanted silence, but the server hung up");
        Ok(())
    }

    /// Fails if the server does not close the connection in time. Also fails if a byte comes first,
    /// except if `discard` is set.
    pub(crate) fn expect_end(
        &mut self,
        wire: &mut dyn Wire,
        deadline_ms: u64,
        discard: bool,
    ) -> Result<()> {
        self.fill_until(wire, deadline_ms, |c| !discard && !c.unread.is_empty());
        let no_bytes = discard || self.unread.is_empty();
        ensure!(no_bytes, "wanted the server to hang up, got {}", self.shown());
        ensure!(self.ended, "wanted the server to hang up, it did not");
        Ok(())
    }

    /// The unread bytes for failure messages.
    pub(crate) fn shown(&self) -> String {
        let ending = if self.ended { " and the end of the connection" } else { "" };
        format!("{}{ending}", shown(&self.unread))
    }
}
