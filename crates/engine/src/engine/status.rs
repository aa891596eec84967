//! The server's status: requests that read or change it.

use super::Engine;
use crate::effects::{Effects, Record};
use crate::ids::Millis;
use crate::queues::Queue;
use crate::status::Status;
use crate::timers::TimerKey;

impl Engine {
    /// The status that was requested last.
    pub fn status(&self) -> Status {
        self.server_status.requested()
    }

    /// Whether the status in force refuses reads. If so, takes find no job.
    pub fn reads_blocked(&self) -> bool {
        self.server_status.reads_blocked()
    }

    /// Whether takes find no job in this queue because of the status. Every take calls this
    /// function.
    pub(super) fn is_blocked(&self, queue: &Queue) -> bool {
        // Normally no queue is blocked. Then `&&` stops early, and the function reads no memory of
        // the queue.
        self.server_status.blocks_some() && self.server_status.blocks(queue.age_rank())
    }

    /// Whether the status in force refuses writes.
    pub fn writes_blocked(&self) -> bool {
        self.server_status.writes_blocked()
    }

    /// Requests a new status. A stricter status comes into force after the grace period. A request
    /// during this period is ignored if it has the same or an even stricter status. A less strict
    /// status comes into force at once (spec kestrel 2).
    pub fn set_status(&mut self, status: Status, grace_ms: u64, effects: &mut Effects) {
        let before = self.server_status.requested();
        if !self.server_status.request(status) {
            return;
        }
        effects.records.push(Record::Status);
        let timer = self.server_status.timer_mut();
        self.timers.disarm(timer, TimerKey::Status);
        if status > before && grace_ms > 0 {
            let at = Millis(self.now.0.saturating_add(grace_ms));
            self.timers.arm(timer, at, TimerKey::Status);
        } else {
            self.enforce_status(effects);
        }
    }

    /// Puts the status from the log in force.
    pub fn restore_status(&mut self, status: Status) {
        self.server_status.request(status);
        self.enforce_status(&mut Effects::default());
    }

    /// Puts the requested status in force.
    pub(super) fn enforce_status(&mut self, effects: &mut Effects) {
        self.server_status.enforce();
        if self.server_status.reads_blocked() {
            self.stop_unblocking();
        } else if self.server_status.blocks_some() && !self.is_unblocking() {
            self.walk_queues(false, true, effects);
        }
    }
}
