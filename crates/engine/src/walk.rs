//! A walk over all queues, from the oldest on, in slices: what a change of the policies or of the status
//! means for each of them. It stands at a timer of its own, behind all others that are due.

use crate::effects::Effects;
use crate::engine::Engine;
use crate::ids::Millis;
use crate::limits::UNIT_COMPARISONS;
use crate::timers::TimerKey;

/// How far the walk is.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Walk {
    /// The age rank of the next queue.
    next: u64,
    /// Queues get their policies anew.
    resolves: bool,
    /// Queues that refused reads serve again.
    unblocks: bool,
    pub(crate) timer: Option<Millis>,
}

impl Engine {
    /// Begins with the oldest queue. A walk that is not over is made again from there, for both reasons.
    pub(crate) fn walk_queues(&mut self, resolves: bool, unblocks: bool, effects: &mut Effects) {
        let mut before = self.special.walk.take();
        if let Some(before) = &mut before {
            self.timers.disarm(&mut before.timer, TimerKey::Walk);
        }
        let resolves = resolves || before.is_some_and(|walk| walk.resolves);
        let unblocks = unblocks || before.is_some_and(|walk| walk.unblocks);
        self.special.walk = Some(Walk { next: 0, resolves, unblocks, timer: None });
        self.meter.begin_request();
        self.walk_slice(effects);
    }

    /// Visits as many queues as a slice of work allows.
    pub(crate) fn walk_slice(&mut self, effects: &mut Effects) {
        let Some(mut walk) = self.special.walk.take() else { return };
        let cost =
            1 + if walk.resolves { self.special.rules.0.len() / UNIT_COMPARISONS } else { 0 };
        loop {
            let Some((&rank, &id)) = self.by_age.range(walk.next..).next() else {
                if walk.unblocks {
                    self.special.standing.blocked_from = u64::MAX;
                }
                return;
            };
            if self.meter.request_is_spent() {
                walk.timer = None;
                self.timers.arm(&mut walk.timer, self.now, TimerKey::Walk);
                self.special.walk = Some(walk);
                return;
            }
            self.meter.count(cost);
            walk.next = rank + 1;
            if walk.unblocks {
                self.special.standing.blocked_from = walk.next;
            }
            if walk.resolves {
                self.resolve(id);
            }
            // What had expired under the old rules may not have under the new ones.
            let queue = self.queue(id);
            let is_awaited = !queue.waiters.is_empty() || !queue.sleepers.is_empty();
            if is_awaited && !queue.is_paused() {
                self.serve_waiters(id, effects);
            }
        }
    }

    /// Whether the walk lets queues serve again.
    pub(crate) fn is_unblocking(&self) -> bool {
        self.special.walk.is_some_and(|walk| walk.unblocks)
    }

    /// All queues refuse reads again: a walk that is not over changes nothing about that.
    pub(crate) fn stop_unblocking(&mut self) {
        if let Some(walk) = &mut self.special.walk {
            walk.unblocks = false;
        }
    }
}
