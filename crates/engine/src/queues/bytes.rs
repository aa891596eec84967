//! The memory of queues.

use std::mem::size_of;

use super::extension::Extension;
use super::lanes::Lanes;
use super::queue::Queue;
use crate::bytes::allocated_bytes;

/// The bytes of a queue's entries in the tables of names and of ages, plus the first run of a list.
const QUEUE_INDEX_BYTES: u64 = 160;
/// A queue stores a name of up to this length in itself. A longer name has an allocation of its
/// own.
const NAME_INSIDE_BYTES: usize = 24;
/// The bytes of a queue's extension, and of its entry in the table of queues of items.
pub(super) const EXTRA_BYTES: u64 = size_of::<Extension>() as u64 + 124;
/// The bytes that the log needs in memory for the facts of a queue that stays in existence without
/// jobs. A long name needs more, because the key of the fact contains the name.
const KEPT_BYTES: u64 = 84;
/// The bytes of the key of a fact besides the name: its kind, and the counts of its references.
const KEY_HEAD_BYTES: usize = 24;

/// The bytes of an empty queue with this name.
pub(super) fn queue_bytes(name: &[u8]) -> u64 {
    let outside = if name.len() > NAME_INSIDE_BYTES { allocated_bytes(name.len()) } else { 0 };
    size_of::<Queue>() as u64 + QUEUE_INDEX_BYTES + outside
}

/// The bytes that the log needs in memory for a queue of this name that is kept.
pub(super) fn kept_bytes(name: &[u8]) -> u64 {
    let key_bytes = if name.len() > NAME_INSIDE_BYTES {
        allocated_bytes(KEY_HEAD_BYTES + name.len())
    } else {
        0
    };
    KEPT_BYTES + key_bytes
}

/// The bytes of a queue in the memory account, without its jobs.
pub(super) fn of_queue(queue: &Queue) -> u64 {
    let kept_bytes = if queue.is_kept() { kept_bytes(queue.name()) } else { 0 };
    let extra_bytes = if queue.extension().is_some() { EXTRA_BYTES } else { 0 };
    queue_bytes(queue.name()) + kept_bytes + extra_bytes
}

/// The bytes of a queue's lanes.
pub(super) fn of_lanes(queue: &Queue) -> u64 {
    queue.extension().and_then(Extension::lanes).map_or(0, Lanes::bytes)
}
