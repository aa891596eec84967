//! A walk over all queues, in slices. It applies a change of the policies or of the status to each
//! queue. The walk has a timer of its own, which runs after all other due timers.

use crate::effects::Effects;
use crate::engine::Engine;
use crate::queues::Walk;
use crate::timers::TimerKey;

impl Engine {
    /// Begins a walk. With `resolves`, the walk gives queues their new policies. With `unblocks`,
    /// the walk lets queues hand out jobs again. If an older walk is in progress, the new walk
    /// replaces the older walk, and also does what the older walk does at each queue.
    pub(in crate::engine) fn walk_queues(
        &mut self,
        resolves: bool,
        unblocks: bool,
        effects: &mut Effects,
    ) {
        let walk = self.replace_walk(resolves, unblocks);
        self.walk = Some(walk);
        self.meter.begin_request();
        self.walk_slice(effects);
    }

    /// Lets the timer of the walk begin a walk that gives queues their policies again.
    pub(in crate::engine) fn walk_by_timer(&mut self) {
        let mut walk = self.replace_walk(true, false);
        self.timers.arm(&mut walk.timer, self.now, TimerKey::Walk);
        self.walk = Some(walk);
    }

    fn replace_walk(&mut self, resolves: bool, unblocks: bool) -> Walk {
        let mut before = self.walk.take();
        if let Some(before) = &mut before {
            self.timers.disarm(&mut before.timer, TimerKey::Walk);
        }
        Walk::new(before, resolves, unblocks)
    }

    /// Visits queues, as many as one slice of work allows.
    pub(in crate::engine) fn walk_slice(&mut self, effects: &mut Effects) {
        let Some(mut walk) = self.walk.take() else { return };
        walk.timer = None;
        loop {
            let Some(id) = walk.next(&self.queues) else {
                if walk.unblocks {
                    self.server_status.unblock(None);
                }
                return;
            };
            if self.meter.request_is_spent() {
                self.timers.arm(&mut walk.timer, self.now, TimerKey::Walk);
                self.walk = Some(walk);
                return;
            }
            self.meter.count(1);
            let behind = walk.pass(self.queues[id].age_rank());
            if walk.unblocks {
                self.server_status.unblock(Some(behind));
            }
            if walk.resolves {
                self.resolve(id);
            }
            // A waiter may get a job now, for one of two reasons. The first reason: the queue no
            // longer refuses reads. The second reason: a job that had expired by the old rules has
            // not expired by the new rules.
            let queue = &self.queues[id];
            let is_awaited = !queue.waiters().is_empty() || !queue.sleepers().is_empty();
            if is_awaited {
                self.serve_waiters(id, effects);
            }
        }
    }

    /// Whether a walk in progress lets queues hand out jobs again.
    pub(in crate::engine) fn is_unblocking(&self) -> bool {
        self.walk.is_some_and(|walk| walk.unblocks)
    }

    /// From now on, a walk in progress no longer lets queues hand out jobs, because all queues must
    /// refuse reads again.
    pub(in crate::engine) fn stop_unblocking(&mut self) {
        if let Some(walk) = &mut self.walk {
            walk.unblocks = false;
        }
    }
}
