//! The common holder of all open reads, and the number of reads that each connection has opened.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use broker::{LeaseId, SessionId, Turn};

/// To prune the lists means to remove reads that have ended. The next pruning begins at twice the
/// number of reads that remained after the last pruning, but not below this number.
const PRUNED_FROM_MIN: usize = 64;

/// The session of the broker that holds the open reads of all thrift connections. So any connection
/// can confirm a read, and a read stays open after its connection ends.
#[derive(Debug, Default)]
pub(crate) struct Holder(Mutex<Option<SessionId>>);

/// For each queue, the reads that a connection has opened. Some of these reads may have ended.
#[derive(Debug, Default)]
pub(crate) struct OpenReads {
    by_queue: BTreeMap<Box<[u8]>, Vec<LeaseId>>,
    /// Number of reads in the lists.
    count: usize,
    /// The number of reads at which the lists are pruned next.
    pruned_from: usize,
}

impl Holder {
    /// Returns the session. The first call opens it. It stays open until the process ends.
    pub(crate) fn session(&self, turn: &mut Turn<'_>, mailbox: usize) -> SessionId {
        // Sessions take this lock only during a turn of the broker, and only one thread has a turn.
        // So no thread ever waits for this lock.
        let mut session = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *session.get_or_insert_with(|| turn.open_reader_session(mailbox))
    }
}

impl OpenReads {
    /// An upper bound of the number of open reads of this queue. Some reads may have ended since
    /// the last pruning.
    pub(crate) fn count(&self, queue: &[u8]) -> usize {
        self.by_queue.get(queue).map_or(0, Vec::len)
    }

    /// Removes the reads of this queue that have ended. `holder` does not hold such reads any more.
    pub(crate) fn forget_ended(&mut self, queue: &[u8], holder: SessionId, turn: &mut Turn<'_>) {
        if let Some(leases) = self.by_queue.get_mut(queue) {
            let before = leases.len();
            turn.count_work(before);
            let caller = turn.caller(holder);
            leases.retain(|lease| caller.holds(*lease));
            self.count -= before - leases.len();
        }
    }

    /// Adds a read that was just opened.
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

    /// Removes all reads that have ended.
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
