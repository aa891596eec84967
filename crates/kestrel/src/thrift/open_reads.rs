//! Open reads: who holds them, and how many of them a connection has opened.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use broker::{LeaseId, SessionId, Turn};

/// Forgetting begins at twice what was left the last time, and not below this.
const PRUNED_FROM_MIN: usize = 64;

/// The session of the broker that holds the open reads of all thrift connections, because they may
/// be confirmed on any, and outlive the one that opened them.
#[derive(Debug, Default)]
pub(crate) struct Holder(Mutex<Option<SessionId>>);

/// The reads that a connection has opened and that may still be open, by queue.
#[derive(Debug, Default)]
pub(crate) struct OpenReads {
    by_queue: BTreeMap<Box<[u8]>, Vec<LeaseId>>,
    /// How many are in the lists.
    count: usize,
    /// At how many the lists are looked through.
    pruned_from: usize,
}

impl Holder {
    /// The session; it is opened when it is needed first, and stays open as long as the process.
    pub(crate) fn session(&self, turn: &mut Turn<'_>, mailbox: usize) -> SessionId {
        // Only touched by who holds a turn of the broker, so nobody ever waits for it.
        let mut session = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *session.get_or_insert_with(|| turn.open_reader_session(mailbox))
    }
}

impl OpenReads {
    /// How many reads of this queue are open, at most: some may have ended and not be forgotten.
    pub(crate) fn count(&self, queue: &[u8]) -> usize {
        self.by_queue.get(queue).map_or(0, Vec::len)
    }

    /// Forgets reads of this queue that `holder` does not hold any more.
    pub(crate) fn forget_ended(&mut self, queue: &[u8], holder: SessionId, turn: &mut Turn<'_>) {
        if let Some(leases) = self.by_queue.get_mut(queue) {
            let before = leases.len();
            turn.count_work(before);
            leases.retain(|lease| turn.holds(holder, *lease));
            self.count -= before - leases.len();
        }
    }

    /// One was opened.
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

    /// Forgets those that are not open any more.
    fn prune(&mut self, holder: SessionId, turn: &mut Turn<'_>) {
        turn.count_work(self.count);
        self.by_queue.retain(|_, leases| {
            leases.retain(|lease| turn.holds(holder, *lease));
            !leases.is_empty()
        });
        self.count = self.by_queue.values().map(Vec::len).sum();
        self.pruned_from = 2 * self.count;
    }
}
