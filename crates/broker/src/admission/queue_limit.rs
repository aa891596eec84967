//! The limit of queues, and whether a request may make one more.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use engine::SessionId;
use engine::limits::REGISTRATIONS_MAX;

use crate::Turn;

/// So many existing queues a session may watch, or be registered for, when there is no memory left: whoever comes to work
/// on jobs makes room.
const QUEUES_AT_LIMIT_MAX: usize = 64;

/// How many queues there may be.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct QueueUsage {
    /// `None`: any number.
    pub most: Option<usize>,
    /// Requests that would have made a queue, and were refused, since the start.
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

impl Turn<'_> {
    /// Whether a client may refer to this queue: not if that made a queue for which there is no room, by the
    /// limit of queues or of memory. To be asked before a queue is used, watched or created; puts ask
    /// themselves.
    pub fn admits_queue(&self, name: &[u8]) -> bool {
        let engine = &self.core.engine;
        // The table of names need not be asked while there is room for more.
        let most = self.shared.queue_limit.most.load(Ordering::Relaxed);
        if engine.queue_count() < most && self.has_memory_for(0) {
            return true;
        }
        let admits = !engine.would_make_queue(name);
        if !admits {
            self.shared.queue_limit.refused.fetch_add(1, Ordering::Relaxed);
        }
        admits
    }

    /// Whether a worker may register for this queue: the same, and a worker has at most
    /// [`REGISTRATIONS_MAX`].
    pub fn admits_worker(&self, session: SessionId, queue: &[u8]) -> bool {
        let (count, is_known) = self.core.engine.registered(session, queue);
        is_known || (count < REGISTRATIONS_MAX && self.admits_one_more(count, queue))
    }

    /// Whether a session that watches so many queues may watch this one, too.
    pub fn admits_watch(&self, session: SessionId, watched: usize, queue: &[u8]) -> bool {
        self.admits_one_more(watched, queue) || self.watches(session, queue)
    }

    /// A session may refer to one queue more, if it does so to `count`. Beyond the limit of memory only if these are few.
    fn admits_one_more(&self, count: usize, queue: &[u8]) -> bool {
        if count < QUEUES_AT_LIMIT_MAX || self.has_memory_for(0) {
            return self.admits_queue(queue);
        }
        self.shared.queue_limit.refused.fetch_add(1, Ordering::Relaxed);
        false
    }
}
