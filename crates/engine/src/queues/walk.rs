//! A walk over all queues, oldest first, and its reasons.

use super::Queues;
use crate::ids::{Millis, QueueId};

/// The progress of the walk.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Walk {
    /// The age rank of the next queue.
    next: u64,
    /// The walk gives queues their new policies.
    pub(crate) resolves: bool,
    /// The walk lets queues that refused reads serve again.
    pub(crate) unblocks: bool,
    /// When the walk continues. [`crate::timers::Timers`] changes it.
    pub(crate) timer: Option<Millis>,
}

impl Walk {
    /// Begins with the oldest queue. If another walk is not over, it starts again from there, with
    /// both reasons.
    pub(crate) fn new(before: Option<Self>, resolves: bool, unblocks: bool) -> Self {
        let resolves = resolves || before.is_some_and(|walk| walk.resolves);
        let unblocks = unblocks || before.is_some_and(|walk| walk.unblocks);
        Self { next: 0, resolves, unblocks, timer: None }
    }

    /// The next queue to visit. `None`: the walk has visited all queues.
    pub(crate) fn next(&self, queues: &Queues) -> Option<QueueId> {
        queues.next_by_age(self.next).map(|(_, id)| id)
    }

    /// Marks a queue as visited. Returns the age rank behind it.
    pub(crate) fn pass(&mut self, age_rank: u64) -> u64 {
        self.next = age_rank + 1;
        self.next
    }
}
