//! Policies, the status, and settings of the engine.

use engine::Status;
use engine::crons::{CronTable, CronView};
use engine::policy::{Policy, Rules};

use crate::{Answer, Turn};

/// # Policies, status and settings
impl Turn<'_> {
    /// The policy of this queue name, whether the queue exists or not.
    pub fn policy(&self, queue: &[u8]) -> Policy {
        self.core.engine.policy(queue)
    }

    /// The current rules.
    pub fn policies(&self) -> &Rules {
        self.core.engine.policies()
    }

    /// How often the rules have changed. Since a change, a name can stand for another queue.
    pub(crate) fn policy_changes(&self) -> u64 {
        self.core.engine.policy_changes()
    }

    /// Sets the rules for existing and later queues. The rules must have passed [`Rules::check`].
    pub fn set_policies(&mut self, rules: Rules) -> Answer<()> {
        let core = &mut *self.core;
        core.engine.set_policies(rules, &mut core.effects);
        core.apply_effects();
        Answer::new((), core.ledger.after_facts())
    }

    /// Sets the entries that put jobs by schedules. They must have passed [`CronTable::check`]. Must be
    /// called at each start and takeover, because no entry puts a job before.
    pub fn set_crons(&mut self, table: CronTable) -> Answer<()> {
        let core = &mut *self.core;
        core.engine.set_crons(table, &mut core.effects);
        core.apply_effects();
        Answer::new((), core.ledger.after_facts())
    }

    /// The entries that put jobs by schedules.
    pub fn cron_table(&self) -> &CronTable {
        self.core.engine.cron_table()
    }

    /// The entries that put jobs by schedules, and what they do.
    pub fn crons(&self) -> impl ExactSizeIterator<Item = CronView<'_>> {
        self.core.engine.crons()
    }

    /// The limit of open reads of this queue per connection.
    pub fn open_max(&self, queue: &[u8]) -> u32 {
        self.core.engine.open_max(queue)
    }

    /// The status of the server. During a grace period, this is already the next status.
    pub fn status(&self) -> Status {
        self.core.engine.status()
    }

    /// Changes the status. A stricter status takes effect after a grace period of `grace_ms`.
    /// During that period, an equally strict or stricter status is ignored. A less strict status
    /// takes effect at once.
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

    /// Sets the number of sleeping workers that one job wakes. 0, the default, means all.
    pub fn set_wake_max(&mut self, wake_max: u32) {
        self.core.engine.set_wake_max(wake_max);
    }

    /// Sets the number of lost attempts after which a submitted job fails. 0, the default, means no
    /// limit.
    pub fn set_attempts_max(&mut self, attempts_max: u32) {
        self.core.engine.set_attempts_max(attempts_max);
    }
}
