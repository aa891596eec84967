//! The memory that queues take.

use std::mem::size_of;

use super::extension::Extension;
use super::queue::Queue;
use crate::bytes::allocated_bytes;

/// A queue's entries in the tables of names and of ages, and the first run of its list.
const QUEUE_INDEX_BYTES: u64 = 160;
/// A name up to this length is stored in the queue itself.
const NAME_INSIDE_BYTES: usize = 24;
/// The extension of a queue, and its entry in the table of queues of items.
pub(super) const EXTRA_BYTES: u64 = size_of::<Extension>() as u64 + 124;
/// The facts that the log keeps of a queue that exists without jobs or users.
pub(super) const KEPT_BYTES: u64 = 84;

/// The bytes that an empty queue of this name takes.
pub(super) fn queue_bytes(name: &[u8]) -> u64 {
    let outside = if name.len() > NAME_INSIDE_BYTES { allocated_bytes(name.len()) } else { 0 };
    size_of::<Queue>() as u64 + QUEUE_INDEX_BYTES + outside
}

/// All bytes that the account has for a queue.
pub(super) fn of_queue(queue: &Queue) -> u64 {
    let kept_bytes = if queue.is_kept() { KEPT_BYTES } else { 0 };
    let extra_bytes = if queue.extension().is_some() { EXTRA_BYTES } else { 0 };
    queue_bytes(queue.name()) + kept_bytes + extra_bytes
}
