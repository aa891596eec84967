//! The limit of queues, and whether a request can create another queue.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use engine::limits::REGISTRATIONS_MAX;

use crate::Caller;
use crate::broker::Shared;
use crate::core::Core;

/// At the limit of memory, a session can still watch or register for this many existing queues. So
/// workers can still finish jobs, which frees memory.
const QUEUES_AT_LIMIT_MAX: usize = 64;

/// The limit of queues, and the number of requests that it refused.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct QueueUsage {
    /// `None` means no limit.
    pub most: Option<usize>,
    /// Refused requests that would have created a queue, since the start.
    pub refused: u64,
}

#[derive(Debug)]
pub(crate) struct QueueLimit {
    /// `usize::MAX`: no limit.
    most: AtomicUsize,
    refused: AtomicU64,
}

impl Default for QueueLimit {
    fn default() -> Self {
        Self { most: AtomicUsize::new(usize::MAX), refused: AtomicU64::new(0) }
    }
}

impl QueueLimit {
    pub(crate) fn set(&self, most: Option<usize>) {
        self.most.store(most.unwrap_or(usize::MAX), Ordering::Relaxed);
    }

    pub(crate) fn usage(&self) -> QueueUsage {
        let most = self.most.load(Ordering::Relaxed);
        QueueUsage {
            most: (most < usize::MAX).then_some(most),
            refused: self.refused.load(Ordering::Relaxed),
        }
    }
}

impl Shared {
    /// See [`crate::Turn::admits_queue`].
    pub(crate) fn admits_queue(&self, core: &Core, name: &[u8]) -> bool {
        let admits = self.has_room_for_queue(core, name);
        if !admits {
            self.queue_limit.refused.fetch_add(1, Ordering::Relaxed);
        }
        admits
    }

    /// Like [`Shared::admits_queue`], but counts nothing.
    #[inline]
    pub(crate) fn has_room_for_queue(&self, core: &Core, name: &[u8]) -> bool {
        // While there is room for more queues, no lookup is needed.
        let most = self.queue_limit.most.load(Ordering::Relaxed);
        core.engine.queue_count() < most && self.has_memory_for(core, 0)
            || !core.engine.would_make_queue(name)
    }

    /// Whether a session that refers to `count` queues can also refer to this queue. Above the
    /// limit of memory, only a session that refers to few queues can refer to another queue.
    fn admits_one_more(&self, core: &Core, count: usize, queue: &[u8]) -> bool {
        if count < QUEUES_AT_LIMIT_MAX || self.has_memory_for(core, 0) {
            return self.admits_queue(core, queue);
        }
        self.queue_limit.refused.fetch_add(1, Ordering::Relaxed);
        false
    }
}

/// # Admission, before a request
impl Caller<'_> {
    /// Whether a worker can register for this queue. The limits are those of
    /// [`crate::Turn::admits_queue`], and [`REGISTRATIONS_MAX`] per worker.
    pub fn admits_worker(&self, queue: &[u8]) -> bool {
        let (count, is_known) = self.core.engine.registered(self.session, queue);
        is_known || (count < REGISTRATIONS_MAX && self.admits_one_more(count, queue))
    }

    /// Whether this session can also watch this queue. `watched` is the number of queues that it
    /// watches now.
    pub fn admits_watch(&self, watched: usize, queue: &[u8]) -> bool {
        self.admits_one_more(watched, queue) || self.watches(queue)
    }

    fn admits_one_more(&self, count: usize, queue: &[u8]) -> bool {
        self.shared.admits_one_more(self.core, count, queue)
    }
}
