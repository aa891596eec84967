//! The open reads of a connection: a list for each queue, and the memory of the lists.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

use broker::LeaseId;

/// The memory of a list besides its room: its place in the map, which can be half full, and what the
/// allocator adds.
const LIST_BYTES: usize = 192;

/// The limit of queues of which a connection can have open reads at once. When the connection ends,
/// it frees the lists of all these queues at once. 10,000 lists take up to 2 milliseconds.
const QUEUES_MAX: usize = 10_000;

/// The lists of a connection's open reads.
#[derive(Debug, Default)]
pub(crate) struct OpenLists {
    /// The reads of each queue, oldest first. No list is empty.
    lists: BTreeMap<Box<[u8]>, VecDeque<LeaseId>>,
    /// An estimate of the memory of `lists`, in bytes.
    bytes: usize,
}

impl OpenLists {
    /// The memory of the lists, in bytes.
    pub(crate) fn buffered_bytes(&self) -> usize {
        self.bytes
    }

    /// Number of reads in the list of this queue.
    pub(crate) fn count(&self, queue: &[u8]) -> usize {
        self.lists.get(queue).map_or(0, VecDeque::len)
    }

    /// True if the connection can have no open read of a further queue.
    pub(crate) fn is_full_of_queues(&self) -> bool {
        self.lists.len() >= QUEUES_MAX
    }

    /// The queue whose list is next in the order of the names, and the number of its reads. The first
    /// list follows the last one.
    pub(crate) fn next_behind(&self, queue: &[u8]) -> Option<(&[u8], usize)> {
        let behind = (Bound::Excluded(queue), Bound::Unbounded);
        let next = self.lists.range::<[u8], _>(behind).next();
        let (queue, open) = next.or_else(|| self.lists.first_key_value())?;
        Some((&queue[..], open.len()))
    }

    /// Adds a read as the newest of its queue.
    pub(crate) fn add(&mut self, queue: &[u8], lease: LeaseId) {
        if self.change(queue, |open| open.push_back(lease)).is_none() {
            let open = VecDeque::from([lease]);
            self.bytes += list_bytes(queue, &open);
            self.lists.insert(queue.into(), open);
        }
    }

    /// Removes the oldest read of a queue.
    pub(crate) fn remove_oldest(&mut self, queue: &[u8]) -> Option<LeaseId> {
        self.change(queue, VecDeque::pop_front).flatten()
    }

    /// Changes the list of a queue, and counts its memory again. If the list is empty then, removes
    /// it. Returns the result of the change, or `None` if the queue has no list.
    pub(crate) fn change<T>(
        &mut self,
        queue: &[u8],
        change: impl FnOnce(&mut VecDeque<LeaseId>) -> T,
    ) -> Option<T> {
        let open = self.lists.get_mut(queue)?;
        self.bytes -= list_bytes(queue, open);
        let changed = change(open);
        if open.is_empty() {
            self.lists.remove(queue);
        } else {
            give_room_back(open);
            self.bytes += list_bytes(queue, open);
        }
        Some(changed)
    }
}

fn list_bytes(queue: &[u8], open: &VecDeque<LeaseId>) -> usize {
    queue.len() + LIST_BYTES + open.capacity() * size_of::<LeaseId>()
}

/// Makes a list smaller, if most of its room is empty. The list moves to another place. It moves only
/// after at least half of its reads have left it, because very many of them take long to move.
fn give_room_back(open: &mut VecDeque<LeaseId>) {
    if open.capacity() > 4 * open.len() {
        open.shrink_to(2 * open.len());
    }
}
