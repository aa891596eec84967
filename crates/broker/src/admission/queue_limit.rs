//! The limit of queues, and whether a request can create one more.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use engine::SessionId;
use engine::limits::REGISTRATIONS_MAX;

use crate::Turn;

/// Number of existing queues that a session can watch, or register for, at the limit of memory:
/// workers make room.
const QUEUES_AT_LIMIT_MAX: usize = 64;

/// The limit of queues.
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

impl Turn<'_> {
    /// Whether a client can refer to this queue. Returns false if that would create a queue beyond
    /// the limit of queues or memory. Must be called before a queue is used, watched or created;
    /// puts check it themselves.
    pub fn admits_queue(&self, name: &[u8]) -> bool {
        let engine = &self.core.engine;
        // While there is room for more queues, no lookup is needed.
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

    /// Whether a worker can register for this queue: like `admits_queue`, with at most
    /// [`REGISTRATIONS_MAX`] per worker.
    pub fn admits_worker(&self, session: SessionId, queue: &[u8]) -> bool {
        let (count, is_known) = self.core.engine.registered(session, queue);
        is_known || (count < REGISTRATIONS_MAX && self.admits_one_more(count, queue))
    }

    /// Whether a session that watches this many queues can also watch this one.
    pub fn admits_watch(&self, session: SessionId, watched: usize, queue: &[u8]) -> bool {
        self.admits_one_more(watched, queue) || self.watches(session, queue)
    }

    /// Whether a session that refers to `count` queues can refer to one more. Above the limit of
    /// memory, only if they are few.
    fn admits_one_more(&self, count: usize, queue: &[u8]) -> bool {
        if count < QUEUES_AT_LIMIT_MAX || self.has_memory_for(0) {
            return self.admits_queue(queue);
        }
        self.shared.queue_limit.refused.fetch_add(1, Ordering::Relaxed);
        false
    }
}
