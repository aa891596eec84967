//! Open reads: their holders, and how many each connection has opened.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use broker::{LeaseId, SessionId, Turn};

/// Pruning begins at twice the number left last time, but not below this.
const PRUNED_FROM_MIN: usize = 64;

/// The broker's session that holds the open reads of all thrift connections: any connection can
/// confirm them, and they outlive the one that opened them.
#[derive(Debug, Default)]
pub(crate) struct Holder(Mutex<Option<SessionId>>);

/// The reads that a connection opened and that may still be open, by queue.
#[derive(Debug, Default)]
pub(crate) struct OpenReads {
    by_queue: BTreeMap<Box<[u8]>, Vec<LeaseId>>,
    /// Number of reads in the lists.
    count: usize,
    /// The number at which the lists are pruned.
    pruned_from: usize,
}

impl Holder {
    /// The session. It is opened when first needed, and stays open as long as the process.
    pub(crate) fn session(&self, turn: &mut Turn<'_>, mailbox: usize) -> SessionId {
        // Used only during a turn of the broker, so the lock never waits.
        let mut session = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *session.get_or_insert_with(|| turn.open_reader_session(mailbox))
    }
}

impl OpenReads {
    /// Upper bound of open reads of this queue: some may have ended since the last pruning.
    pub(crate) fn count(&self, queue: &[u8]) -> usize {
        self.by_queue.get(queue).map_or(0, Vec::len)
    }

    /// Removes reads of this queue that `holder` no longer holds.
    pub(crate) fn forget_ended(&mut self, queue: &[u8], holder: SessionId, turn: &mut Turn<'_>) {
        if let Some(leases) = self.by_queue.get_mut(queue) {
            let before = leases.len();
            turn.count_work(before);
            let caller = turn.caller(holder);
            leases.retain(|lease| caller.holds(*lease));
            self.count -= before - leases.len();
        }
    }

    /// Adds an opened read.
    pub(crate) fn add(
        &mut self,
        queue: &[u8],
        lease: LeaseId,
        holder: SessionId,
        turn: &mut Turn<'_>,
    ) {
        match self.by_queue.get_mut(queue) {
            Some(leases) => leases.push(lease),
            None => drop(self.by_queue.insert(queue.into(), vec![lease])),
        }
        self.count += 1;
        if self.count >= self.pruned_from.max(PRUNED_FROM_MIN) {
            self.prune(holder, turn);
        }
    }

    /// Removes reads that are no longer open.
    fn prune(&mut self, holder: SessionId, turn: &mut Turn<'_>) {
        turn.count_work(self.count);
        let caller = turn.caller(holder);
        self.by_queue.retain(|_, leases| {
            leases.retain(|lease| caller.holds(*lease));
            !leases.is_empty()
        });
        self.count = self.by_queue.values().map(Vec::len).sum();
        self.pruned_from = 2 * self.count;
    }
}
