//! A walk over all queues, from the oldest on, and what for.

use super::Queues;
use crate::ids::{Millis, QueueId};

/// How far the walk is.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Walk {
    /// The age rank of the next queue.
    next: u64,
    /// Queues get their policies anew.
    pub(crate) resolves: bool,
    /// Queues that refused reads serve again.
    pub(crate) unblocks: bool,
    /// When it goes on; changed by [`crate::timers::Timers`].
    pub(crate) timer: Option<Millis>,
}

impl Walk {
    /// Begins with the oldest queue. A walk that is not over is made again from there, for both reasons.
    pub(crate) fn new(before: Option<Self>, resolves: bool, unblocks: bool) -> Self {
        let resolves = resolves || before.is_some_and(|walk| walk.resolves);
        let unblocks = unblocks || before.is_some_and(|walk| walk.unblocks);
        Self { next: 0, resolves, unblocks, timer: None }
    }

    /// The queue that is visited next; `None`: all were.
    pub(crate) fn next(&self, queues: &Queues) -> Option<QueueId> {
        queues.next_by_age(self.next).map(|(_, id)| id)
    }

    /// A queue was visited: the age rank behind it.
    pub(crate) fn pass(&mut self, age_rank: u64) -> u64 {
        self.next = age_rank + 1;
        self.next
    }
}
