//! Applies the changes of another server, which leads. This server follows.
//!
//! The leader decides what happens, and writes it as records. A follower changes the same jobs in
//! the same way, one record after the other. [`Engine::restore`] applies a new job. Afterwards, the
//! follower has what the leader would have after a restart: no leases, no sessions, no pauses.
//!
//! A follower never calls [`Engine::advance`]. A due time or an expiry is the leader's decision. So
//! a follower can still have a job as delayed that is ready on the leader.
//!
//! The functions push records for the caller's own tables, such as [`Record::QueueGone`]. The log
//! of a follower gets the leader's changes, and not these records.
//!
//! [`Record::QueueGone`]: crate::Record::QueueGone

use super::Engine;
use super::replay::{RestoreError, check_name};
use crate::claims::{Claim, ClaimKey};
use crate::effects::Effects;
use crate::ids::JobSlot;
use crate::jobs::{Counters, JobFacts, Tags};
use crate::milestones::JobEnd;
use crate::policy::Rules;
use crate::queues::{DEFAULT_QUEUE, QueueFacts};
use crate::timers::TimerKey;

impl Engine {
    /// Replaces the facts and the queue of a job. Returns its new slot. If the facts are impossible,
    /// the job is forgotten.
    pub fn apply_update(
        &mut self,
        slot: JobSlot,
        queue: &[u8],
        facts: &JobFacts,
        tags: Option<Tags<'_>>,
        effects: &mut Effects,
    ) -> Result<JobSlot, RestoreError> {
        let (body, before) = (self.jobs[slot].body(), self.jobs[slot].queue());
        self.remove_from_list(slot);
        self.forget_restored(slot);
        let applied = self.restore(queue, facts, tags, body);
        self.drop_if_unwanted(before, effects);
        applied
    }

    /// Replaces the counters of a job.
    pub fn apply_counters(&mut self, slot: JobSlot, counters: Counters) {
        // The place of a job in its lane can depend on a counter.
        let has_lanes = self.lanes(&self.queues[self.jobs[slot].queue()]).is_some();
        if has_lanes {
            self.leave_lane(slot);
        }
        self.jobs.set_counters(slot, counters);
        if has_lanes {
            self.enter_lane(slot);
        }
    }

    /// Ends a job.
    pub fn apply_finish(&mut self, slot: JobSlot, effects: &mut Effects) {
        self.meter.begin_request();
        self.remove_job(slot, JobEnd::Followed, effects);
    }

    /// Begins or ends the claim on a key. Also restores a claim from the log, at a start.
    pub fn apply_claim(&mut self, key: ClaimKey, claim: Option<Claim>) {
        match claim {
            Some(claim) => self.claims.insert(key, claim, &mut self.timers),
            None => self.claims.remove(key),
        }
    }

    /// Replaces the facts of a queue. The default facts keep no queue in existence.
    pub fn apply_queue(
        &mut self,
        name: &[u8],
        facts: QueueFacts,
        effects: &mut Effects,
    ) -> Result<(), RestoreError> {
        check_name(name)?;
        if facts == QueueFacts::default() && self.own_queue_id(name).is_none() {
            return Ok(());
        }
        let id = self.own_queue_or_create(name);
        self.queues.unmark(id);
        self.queues.set_kept(id, name == DEFAULT_QUEUE || facts.kept);
        self.queues[id].set_limits(facts.limits);
        if self.queues[id].is_wanted() {
            // As at the end of a removal on the leader.
            self.resolve(id);
        }
        if facts != QueueFacts::default() {
            self.set_queue_facts(name, facts);
        }
        self.drop_if_unwanted(id, effects);
        Ok(())
    }

    /// Puts these rules in force. Existing queues get their policies in slices:
    /// [`Engine::apply_more`].
    pub fn apply_rules(&mut self, rules: Rules, effects: &mut Effects) {
        if rules != *self.policies() {
            self.replace_rules(rules);
            self.walk_queues(true, false, effects);
        }
    }

    /// Does a slice of the work that [`Engine::apply_rules`] has left. Returns whether there is more
    /// of it.
    pub fn apply_more(&mut self, effects: &mut Effects) -> bool {
        if let Some(walk) = &mut self.walk {
            self.timers.disarm(&mut walk.timer, TimerKey::Walk);
        }
        self.meter.begin_request();
        self.walk_slice(effects);
        self.walk.is_some()
    }
}
