//! The common holder of all open reads, and the number of reads that each connection has opened.

use std::mem;
use std::sync::{Mutex, PoisonError};

use broker::{LeaseId, SessionId, Turn};

use crate::open_lists::OpenLists;

/// To prune the lists means to remove reads that have ended. A connection with fewer reads than
/// this does not prune.
const PRUNED_FROM: usize = 64;

/// For each new read, pruning checks this many other reads. So the lists have at most about twice
/// as many reads as are open, and a call never checks all of them at once.
const PRUNED_PER_READ: usize = 2;

/// A connection that has reached a queue's limit of open reads checks at most this many of them,
/// the oldest first. The limit is rarely higher.
const CHECKED_AT_LIMIT: usize = 4096;

/// A connection that has reached the limit of queues with open reads prunes at most this many reads
/// at once. Each of them can be of another queue, so it costs more than a read in
/// [`CHECKED_AT_LIMIT`].
const PRUNED_AT_LIMIT: usize = 256;

/// The session of the broker that holds the open reads of all thrift connections. So any connection
/// can confirm a read, and a read stays open after its connection ends.
#[derive(Debug, Default)]
pub(crate) struct Holder(Mutex<Option<SessionId>>);

/// For each queue, the reads that a connection has opened. Some of these reads may have ended.
#[derive(Debug, Default)]
pub(crate) struct OpenReads {
    lists: OpenLists,
    /// Number of reads in the lists.
    count: usize,
    /// The queue whose list is pruned. The list may be gone.
    pruned: Box<[u8]>,
    /// Number of reads in this list that pruning has not checked yet.
    unchecked: usize,
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
    /// they were checked.
    pub(crate) fn count(&self, queue: &[u8]) -> usize {
        self.lists.count(queue)
    }

    /// True if the connection can have no open read of a further queue.
    pub(crate) fn is_full_of_queues(&self) -> bool {
        self.lists.is_full_of_queues()
    }

    /// The memory of the lists, in bytes.
    pub(crate) fn buffered_bytes(&self) -> usize {
        self.lists.buffered_bytes() + self.pruned.len()
    }

    /// Removes reads that have ended, because the connection has reached this queue's limit, or the
    /// limit of queues. If there are too many reads to check, the next calls check the others.
    pub(crate) fn forget_ended(&mut self, queue: &[u8], holder: SessionId, turn: &mut Turn<'_>) {
        if self.count(queue) > 0 {
            self.check_oldest(queue, CHECKED_AT_LIMIT, holder, turn);
        } else if self.is_full_of_queues() {
            self.prune(PRUNED_AT_LIMIT, holder, turn);
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
        if self.count >= PRUNED_FROM {
            self.prune(PRUNED_PER_READ, holder, turn);
        }
        self.lists.add(queue, lease);
        self.count += 1;
    }

    /// Checks this many reads, and continues where the last call has stopped.
    fn prune(&mut self, mut left: usize, holder: SessionId, turn: &mut Turn<'_>) {
        while left > 0 {
            if self.unchecked == 0 {
                self.begin_next_list();
            }
            let count = left.min(self.unchecked).max(1);
            let queue = mem::take(&mut self.pruned);
            self.check_oldest(&queue, count, holder, turn);
            self.pruned = queue;
            self.unchecked = self.unchecked.saturating_sub(count);
            left -= count;
        }
    }

    /// Lets pruning continue with the next list in the order of the names, and with the first one
    /// after the last one.
    fn begin_next_list(&mut self) {
        if let Some((queue, count)) = self.lists.next_behind(&self.pruned) {
            self.unchecked = count;
            self.pruned = queue.into();
        }
    }

    /// Checks this many of the oldest reads of a queue, and removes those that `holder` does not
    /// hold any more, because they have ended. The others become the newest of the list, whose
    /// order does not matter otherwise.
    fn check_oldest(&mut self, queue: &[u8], count: usize, holder: SessionId, turn: &mut Turn<'_>) {
        let removed = self.lists.change(queue, |open| {
            let before = open.len();
            let count = count.min(before);
            turn.count_work(count);
            let caller = turn.caller(holder);
            for _ in 0..count {
                let oldest = open.pop_front();
                open.extend(oldest.filter(|lease| caller.holds(*lease)));
            }
            before - open.len()
        });
        self.count -= removed.unwrap_or(0);
    }
}
