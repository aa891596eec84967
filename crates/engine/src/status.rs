//! The server's status: whether clients may read and write.

use crate::effects::{Effects, Record};
use crate::engine::Engine;
use crate::ids::Millis;
use crate::queue::Queue;
use crate::timers::TimerKey;

/// What the server lets its clients do. The later, the stricter.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq, Ord, PartialOrd)]
#[repr(u8)]
pub enum Status {
    /// Everything.
    #[default]
    Up = 1,
    /// Everything, but whoever chooses among servers should write to another one.
    WriteAvoid = 2,
    /// No writes.
    ReadOnly = 3,
    /// Neither reads nor writes.
    Quiescent = 4,
}

impl Status {
    /// The status of a number, as `status as u8` gives it.
    pub fn from_number(number: u8) -> Option<Self> {
        [Self::Up, Self::WriteAvoid, Self::ReadOnly, Self::Quiescent]
            .into_iter()
            .find(|status| *status as u8 == number)
    }
}

/// The status, and how far it has come into force.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Standing {
    /// What was asked for last.
    told: Status,
    in_force: Status,
    /// When `told` comes into force, if it is not.
    pub(crate) changes_at: Option<Millis>,
    /// Queues of this age rank and younger ones refuse reads: none, all, or those that the walk has still to
    /// come to since reads are allowed again.
    pub(crate) blocked_from: u64,
}

impl Default for Standing {
    fn default() -> Self {
        let (told, in_force) = (Status::default(), Status::default());
        Self { told, in_force, changes_at: None, blocked_from: u64::MAX }
    }
}

impl Engine {
    /// The status that was asked for last.
    pub fn status(&self) -> Status {
        self.special.standing.told
    }

    /// Whether the status in force refuses reads. Takes find nothing then.
    pub fn reads_blocked(&self) -> bool {
        self.special.standing.in_force == Status::Quiescent
    }

    /// Whether takes find nothing in this queue because of the status. Asked at every take.
    pub(crate) fn is_blocked(&self, queue: &Queue) -> bool {
        let blocked_from = self.special.standing.blocked_from;
        // Plain queues are not read for it.
        blocked_from != u64::MAX && queue.age_rank >= blocked_from
    }

    /// Whether the status in force refuses writes.
    pub fn writes_blocked(&self) -> bool {
        self.special.standing.in_force >= Status::ReadOnly
    }

    /// Changes the status. A stricter one comes into force after the grace, and until then one that
    /// is as strict or stricter is ignored; a looser one acts at once (spec kestrel 2).
    pub fn set_status(&mut self, status: Status, grace_ms: u64, effects: &mut Effects) {
        let standing = &mut self.special.standing;
        let told = standing.told;
        if status == told || standing.changes_at.is_some() && status > told {
            return;
        }
        standing.told = status;
        effects.records.push(Record::Status);
        self.timers.disarm(&mut standing.changes_at, TimerKey::Status);
        if status > told && grace_ms > 0 {
            let at = Millis(self.now.0.saturating_add(grace_ms));
            self.timers.arm(&mut standing.changes_at, at, TimerKey::Status);
        } else {
            self.enforce_status(effects);
        }
    }

    /// Puts a status in force that the log has kept.
    pub fn restore_status(&mut self, status: Status) {
        self.special.standing.told = status;
        self.enforce_status(&mut Effects::default());
    }

    /// The status that was asked for comes into force.
    pub(crate) fn enforce_status(&mut self, effects: &mut Effects) {
        let standing = &mut self.special.standing;
        standing.in_force = standing.told;
        standing.changes_at = None;
        if standing.in_force == Status::Quiescent {
            standing.blocked_from = 0;
            self.stop_unblocking();
        } else if standing.blocked_from != u64::MAX && !self.is_unblocking() {
            self.walk_queues(false, true, effects);
        }
    }
}
