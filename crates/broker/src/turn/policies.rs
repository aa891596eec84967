//! Policies and the server's status.

use engine::policy::{Policy, Rules};
use engine::{SessionId, Status};

use crate::{Answer, Event, Turn};

impl Turn<'_> {
    /// The policy of this queue name, whether the queue exists or not.
    pub fn policy(&self, queue: &[u8]) -> Policy {
        self.core.engine.policy(queue)
    }

    /// The current rules.
    pub fn policies(&self) -> &Rules {
        self.core.engine.policies()
    }

    /// Sets the rules for existing and later queues. They must have passed [`Rules::check`].
    pub fn set_policies(&mut self, rules: Rules) -> Answer<()> {
        let core = &mut *self.core;
        core.engine.set_policies(rules, &mut core.effects);
        core.apply_effects();
        Answer::new((), core.ledger.after_facts())
    }

    /// Notifies a session that its reload is done; the event leaves with this turn. Does nothing if
    /// the session is gone.
    pub fn tell_reloaded(&mut self, session: SessionId, reloaded: Answer<()>) {
        if let Some(mailbox) = self.core.engine.mailbox(session) {
            self.core.outgoing.push((mailbox, session, reloaded.map(|()| Event::Reloaded)));
        }
    }

    /// The status of the server, or the next one during a grace period.
    pub fn status(&self) -> Status {
        self.core.engine.status()
    }

    /// Changes the status. A stricter one takes effect `grace_ms` later. Meanwhile an equal or
    /// stricter one is ignored, and a looser one takes effect at once.
    pub fn set_status(&mut self, status: Status, grace_ms: u64) -> Answer<()> {
        let core = &mut *self.core;
        core.engine.set_status(status, grace_ms, &mut core.effects);
        core.apply_effects();
        Answer::new((), core.ledger.after_facts())
    }

    /// Whether the current status refuses reads.
    pub fn reads_blocked(&self) -> bool {
        self.core.engine.reads_blocked()
    }

    /// Whether the current status refuses writes.
    pub fn writes_blocked(&self) -> bool {
        self.core.engine.writes_blocked()
    }
}
