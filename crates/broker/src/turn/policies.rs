//! Policies and the server's status.

use engine::policy::{Policy, Rules};
use engine::{SessionId, Status};

use crate::{Event, Position, Turn};

impl Turn<'_> {
    /// What is asked of the queue of this name, or would be if it existed.
    pub fn policy(&self, queue: &[u8]) -> Policy {
        self.core.engine.policy(queue)
    }

    /// The rules in force.
    pub fn policies(&self) -> &Rules {
        self.core.engine.policies()
    }

    /// From now on these rules are in force, for queues that exist and for those to come. They must
    /// have passed [`Rules::check`].
    pub fn set_policies(&mut self, rules: Rules) -> Position {
        let core = &mut *self.core;
        core.engine.set_policies(rules, &mut core.effects);
        core.apply_effects();
        core.ledger.after_facts()
    }

    /// Tells a session that waits for it that the configuration was read again: its event leaves with
    /// this turn. Nothing happens if the session is gone.
    pub fn tell_reloaded(&mut self, session: SessionId, after: Position) {
        if let Some(mailbox) = self.core.engine.mailbox(session) {
            self.core.outgoing.push((mailbox, session, Event::Reloaded(after)));
        }
    }

    /// What the server lets its clients do, or will when the grace is over.
    pub fn status(&self) -> Status {
        self.core.engine.status()
    }

    /// Changes the status. A stricter one comes into force `grace_ms` later; meanwhile one that is
    /// as strict or stricter is ignored, and a looser one acts at once.
    pub fn set_status(&mut self, status: Status, grace_ms: u64) -> Position {
        let core = &mut *self.core;
        core.engine.set_status(status, grace_ms, &mut core.effects);
        core.apply_effects();
        core.ledger.after_facts()
    }

    /// Whether the status in force refuses reads.
    pub fn reads_blocked(&self) -> bool {
        self.core.engine.reads_blocked()
    }

    /// Whether the status in force refuses writes.
    pub fn writes_blocked(&self) -> bool {
        self.core.engine.writes_blocked()
    }
}
