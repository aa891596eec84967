//! The progress of a walk over all queues, and the work of the walk at each queue. A walk begins
//! with the oldest queue.

use super::Queues;
use crate::ids::{Millis, QueueId};

/// A walk in progress.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Walk {
    /// The age rank of the next queue.
    next: u64,
    /// The walk gives each queue its new policy.
    pub(crate) resolves: bool,
    /// The walk lets queues that refused reads hand out jobs again.
    pub(crate) unblocks: bool,
    /// When the walk continues. Only [`crate::timers::Timers`] changes this moment.
    pub(crate) timer: Option<Millis>,
}

impl Walk {
    /// Makes a walk that begins with the oldest queue. `before` is an older walk that is still in
    /// progress. The new walk replaces the older walk, and also does what the older walk does at
    /// each queue.
    pub(crate) fn new(before: Option<Self>, resolves: bool, unblocks: bool) -> Self {
        let resolves = resolves || before.is_some_and(|walk| walk.resolves);
        let unblocks = unblocks || before.is_some_and(|walk| walk.unblocks);
        Self { next: 0, resolves, unblocks, timer: None }
    }

    /// The next queue to visit. `None`: the walk has visited all queues.
    pub(crate) fn next(&self, queues: &Queues) -> Option<QueueId> {
        queues.next_by_age(self.next).map(|(_, id)| id)
    }

    /// Marks the queue of this age rank as visited. Returns the next age rank.
    pub(crate) fn pass(&mut self, age_rank: u64) -> u64 {
        self.next = age_rank + 1;
        self.next
    }

    /// Whether the walk has visited the queue of this age rank.
    pub(crate) fn has_passed(&self, age_rank: u64) -> bool {
        age_rank < self.next
    }
}
