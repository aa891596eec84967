//! The common holder of all open reads, and the number of reads that each connection has opened.

use std::collections::{BTreeMap, VecDeque};
use std::mem;
use std::ops::Bound;
use std::sync::{Mutex, PoisonError};

use broker::{LeaseId, SessionId, Turn};

use crate::client::{OPEN_QUEUES_MAX, give_room_back, open_list_bytes};

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
    /// No list is empty. There are at most [`OPEN_QUEUES_MAX`] lists.
    by_queue: BTreeMap<Box<[u8]>, VecDeque<LeaseId>>,
    /// Number of reads in the lists.
    count: usize,
    /// An estimate of the memory of `by_queue`, in bytes.
    bytes: usize,
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
        self.by_queue.get(queue).map_or(0, VecDeque::len)
    }

    /// True if the connection can have no open read of a further queue.
    pub(crate) fn is_full_of_queues(&self) -> bool {
        self.by_queue.len() >= OPEN_QUEUES_MAX
    }

    /// The memory of the lists, in bytes.
    pub(crate) fn buffered_bytes(&self) -> usize {
        self.bytes
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
        if let Some(leases) = self.by_queue.get_mut(queue) {
            let before = open_list_bytes(queue, leases);
            leases.push_back(lease);
            self.bytes += open_list_bytes(queue, leases) - before;
        } else {
            let leases = VecDeque::from([lease]);
            self.bytes += open_list_bytes(queue, &leases);
            self.by_queue.insert(queue.into(), leases);
        }
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
        let behind = (Bound::Excluded(&self.pruned[..]), Bound::Unbounded);
        let next = self.by_queue.range::<[u8], _>(behind).next();
        if let Some((queue, leases)) = next.or_else(|| self.by_queue.first_key_value()) {
            self.unchecked = leases.len();
            self.pruned = queue.clone();
        }
    }

    /// Checks this many of the oldest reads of a queue, and removes those that `holder` does not
    /// hold any more, because they have ended. The others become the newest of the list, whose
    /// order does not matter otherwise.
    fn check_oldest(&mut self, queue: &[u8], count: usize, holder: SessionId, turn: &mut Turn<'_>) {
        let Some(leases) = self.by_queue.get_mut(queue) else { return };
        self.bytes -= open_list_bytes(queue, leases);
        let before = leases.len();
        let count = count.min(before);
        turn.count_work(count);
        let caller = turn.caller(holder);
        for _ in 0..count {
            let oldest = leases.pop_front();
            leases.extend(oldest.filter(|lease| caller.holds(*lease)));
        }
        self.count -= before - leases.len();
        if leases.is_empty() {
            self.by_queue.remove(queue);
        } else {
            give_room_back(leases);
            self.bytes += open_list_bytes(queue, leases);
        }
    }
}
