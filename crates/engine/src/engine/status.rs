//! Changing the server's status.

use super::Engine;
use crate::effects::{Effects, Record};
use crate::ids::Millis;
use crate::queues::Queue;
use crate::status::Status;
use crate::timers::TimerKey;

impl Engine {
    /// The status that was asked for last.
    pub fn status(&self) -> Status {
        self.standing.requested()
    }

    /// Whether the status in force refuses reads. Takes find nothing then.
    pub fn reads_blocked(&self) -> bool {
        self.standing.reads_blocked()
    }

    /// Whether takes find nothing in this queue because of the status. Asked at every take.
    pub(super) fn is_blocked(&self, queue: &Queue) -> bool {
        // Plain queues are not read for it.
        self.standing.blocks_some() && self.standing.blocks(queue.age_rank())
    }

    /// Whether the status in force refuses writes.
    pub fn writes_blocked(&self) -> bool {
        self.standing.writes_blocked()
    }

    /// Changes the status. A stricter one comes into force after the grace, and until then one that
    /// is as strict or stricter is ignored; a looser one acts at once (spec kestrel 2).
    pub fn set_status(&mut self, status: Status, grace_ms: u64, effects: &mut Effects) {
        let told = self.standing.requested();
        if !self.standing.tell(status) {
            return;
        }
        effects.records.push(Record::Status);
        let timer = self.standing.timer_mut();
        self.timers.disarm(timer, TimerKey::Status);
        if status > told && grace_ms > 0 {
            let at = Millis(self.now.0.saturating_add(grace_ms));
            self.timers.arm(timer, at, TimerKey::Status);
        } else {
            self.enforce_status(effects);
        }
    }

    /// Puts a status in force that the log has kept.
    pub fn restore_status(&mut self, status: Status) {
        self.standing.tell(status);
        self.enforce_status(&mut Effects::default());
    }

    /// The status that was asked for comes into force.
    pub(super) fn enforce_status(&mut self, effects: &mut Effects) {
        self.standing.enforce();
        if self.standing.reads_blocked() {
            self.stop_unblocking();
        } else if self.standing.blocks_some() && !self.is_unblocking() {
            self.walk_queues(false, true, effects);
        }
    }
}
