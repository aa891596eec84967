//! The memory account: how many bytes jobs, queues and sessions take, as the allocator gives them out.
//!
//! It is kept by adding and subtracting, so asking costs nothing. What things take is estimated from their
//! sizes; a test of the whole program holds the sum against the memory that the process really has.
//! Copies of a body that a put left in several queues count in full: after a restart each has its own.

use std::mem::size_of;

use crate::extra::Extra;
use crate::queue::Queue;
use crate::session::Session;

/// An entry of [`crate::collections::Ordered`]: a key of 16 bytes, a place, and the share of what is unused.
pub(crate) const LIST_ENTRY_BYTES: u64 = 26;
/// A queue's entries in the tables of names and of ages, and the first run of its list.
const QUEUE_INDEX_BYTES: u64 = 160;
/// A name up to this length lies in the queue itself.
const NAME_INSIDE_BYTES: usize = 24;
/// A watched queue: an entry in the session's list, and in the queue's line while it waits. Both grow by doubling, so this is
/// off by up to a fifth.
pub(crate) const WATCH_BYTES: u64 = 26;
/// A join: the job knows the session and the session the job.
pub(crate) const JOIN_BYTES: u64 = 48;
/// A registration of a worker: the session lists it by rank and by queue, and the queue the worker.
pub(crate) const REGISTRATION_BYTES: u64 = 112;
/// What only some queues have, and their entry in the table of queues of items.
pub(crate) const EXTRA_BYTES: u64 = size_of::<Extra>() as u64 + 124;
/// What the log keeps of a queue that exists when nobody uses it.
pub(crate) const KEPT_BYTES: u64 = 84;
/// What a session takes.
pub(crate) const SESSION_BYTES: u64 = size_of::<Session>() as u64;

/// How many bytes the allocator gives out for this many: its sizes are 16 bytes apart up to 128, then four
/// to each doubling.
pub fn allocated_bytes(bytes: usize) -> u64 {
    // The distance of its neighbours from the next power of two below.
    let doubling = bytes.saturating_sub(1).checked_ilog2().unwrap_or(0);
    let step = 1 << doubling.saturating_sub(2).max(4);
    bytes.next_multiple_of(step) as u64
}

/// How many bytes a queue of this name takes while it is empty.
pub(crate) fn queue_bytes(name: &[u8]) -> u64 {
    let outside = if name.len() > NAME_INSIDE_BYTES { allocated_bytes(name.len()) } else { 0 };
    size_of::<Queue>() as u64 + QUEUE_INDEX_BYTES + outside
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_allocator() {
        let sizes = [
            (0, 0),
            (1, 16),
            (16, 16),
            (17, 32),
            (108, 112),
            (128, 128),
            (129, 160),
            (161, 192),
            (256, 256),
            (257, 320),
            (1025, 1280),
            (4097, 5120),
            (65_537, 81_920),
            (1 << 20, 1 << 20),
        ];
        for (bytes, wanted) in sizes {
            assert_eq!(allocated_bytes(bytes), wanted, "{bytes}");
        }
    }
}
