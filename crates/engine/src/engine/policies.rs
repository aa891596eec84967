//! The policies and marks of queues. The rules give each queue its policy. A mark says that a queue
//! is a queue of items, or a child.

use std::borrow::Cow;

use super::Engine;
use crate::effects::{Effects, Record};
use crate::ids::{Millis, QueueId};
use crate::limits::{CHILD_NAMES_BYTES_MAX, CHILDREN_MAX};
use crate::policy::{Name, OPEN_MAX_DEFAULT, Policy, Rules};
use crate::queues::{Extension, Queue, parent_of};
use crate::wall::When;

impl Engine {
    pub(super) fn ensure_extension(&mut self, id: QueueId) -> &mut Extension {
        self.queues.ensure_extension(id, self.now)
    }

    /// The policy of a queue. `None`: the queue has no extension, and so it has the default policy.
    pub(super) fn policy_of(&self, id: QueueId) -> Option<&Policy> {
        self.queues[id].extension().map(Extension::policy)
    }

    /// Gives a queue its policy, as the rules in force say. If puts can end the oldest jobs by this
    /// policy, and some jobs are not in memory, the old bounds apply until they are loaded.
    pub(super) fn resolve(&mut self, id: QueueId) {
        let queue = &self.queues[id];
        let (name, parent) = (queue.name(), parent_of(queue.name()));
        let is_child = queue.extension().is_some_and(Extension::child);
        if !is_child && parent.is_some() && self.rules.is_named(name) {
            // The queue becomes a child now. `link_child` calls this function again.
            return self.link_child(id);
        }
        let (policy, units) = self.rules.resolve(name, parent.filter(|_| is_child));
        self.meter.count(units);
        if queue.extension().is_some() || policy != Policy::default() {
            // The oldest job in memory is not the oldest one of the queue. Only these bounds wait: all
            // else must not, for example a pause, because a load of many jobs takes seconds.
            let before = queue.extension().filter(|_| queue.cold().is_some());
            let before = before.filter(|_| policy.drops_oldest()).map(Extension::policy);
            let waits = before.is_some();
            let policy = match before {
                Some(before) => policy.with_bounds_of(before),
                None => policy,
            };
            self.ensure_extension(id).bounds_wait = waits;
            self.jobs.let_keys_outlast(id, policy.unique.outlasts_jobs());
            let first_lease = self.sessions.next_lease();
            self.queues.set_policy(id, policy, self.now, first_lease);
            self.note_room(id);
            self.sort_lanes(id);
            self.look_at_window(id);
            self.load_if_needed(id);
            self.arm_queue(id);
        }
    }

    /// Before the jobs of a queue move on, because its name stands for another queue: if new rules are in
    /// force, and the walk has not come to this queue yet, gives it its new policy. By the new rules, the
    /// other name can stand for this queue, or for an alias. Then the jobs would be dropped, or hidden.
    pub(super) fn renew_same_as(&mut self, id: QueueId) {
        if self.policy_of(id).is_some_and(|policy| policy.same_as.is_some()) {
            self.renew_policy(id);
        }
    }

    /// Before a session begins to watch, to work for or to read a queue of this name: if new rules are in
    /// force, and the walk has not come to the queue that has the name itself, gives it its new policy.
    /// Otherwise, if the name stands for another queue now, the session would get no jobs after the walk.
    pub(super) fn renew_named(&mut self, name: &[u8]) {
        if self.walk.is_some()
            && self.rules.have_same_as()
            && let Some(id) = self.own_queue_id(name)
        {
            self.renew_policy(id);
        }
    }

    fn renew_policy(&mut self, id: QueueId) {
        let rank = self.queues[id].age_rank();
        if self.walk.is_some_and(|walk| walk.resolves && !walk.has_passed(rank)) {
            self.resolve(id);
        }
    }

    /// Looks whether the policy of a queue pauses it at this time of the wall clock. Returns whether
    /// the queue can hand out jobs that it held back before.
    pub(super) fn look_at_window(&mut self, id: QueueId) -> bool {
        let wall = self.wall.at(self.now);
        let Some(extension) = self.queues[id].extension_mut() else { return false };
        if extension.policy().pause.has_windows() {
            // A search in the calendar takes about as long as two jobs.
            self.meter.count(2);
        }
        extension.look_at_window(wall)
    }

    /// Whether the policy of a queue pauses it.
    pub(super) fn is_paused_by_policy(&self, queue: &Queue) -> bool {
        let wall = || self.wall.at(self.now);
        queue.extension().is_some_and(|extension| extension.is_paused(wall))
    }

    /// Whether an alias hides a queue of its name. The queue had jobs before its policy made the alias.
    pub(super) fn is_hidden(queue: &Queue) -> bool {
        queue.extension().is_some_and(|extension| !extension.policy().alias.is_empty())
    }

    /// The moment at which a pause by policy begins or ends.
    pub(super) fn pause_turns(&self, extension: &Extension) -> Option<Millis> {
        let turns = extension.pause_turns()?;
        Some(self.wall.moment_of(When::Wall(turns)).max(self.now))
    }

    /// Gives a queue the bounds that have waited for its cold jobs, if all of them are loaded.
    pub(super) fn end_wait_of_bounds(&mut self, id: QueueId) {
        let Some(extension) = self.queues[id].extension() else { return };
        if extension.bounds_wait && self.queues[id].cold().is_none() {
            self.resolve(id);
        }
    }

    /// Marks a queue as a queue of items, and keeps it in existence.
    pub(super) fn mark(&mut self, id: QueueId) {
        self.queues.mark_items(id, self.now);
        let queue = &self.queues[id];
        if parent_of(queue.name()).is_some() && !queue.extension().is_some_and(Extension::child) {
            self.link_child(id);
            self.queues.forget_unlogged_child(id);
        }
        // The queue can be removed as idle, so it may need a timer.
        self.arm_queue(id);
    }

    /// The queue of items of this name. If necessary, makes the queue, marks it as a queue of items
    /// and keeps it in existence.
    pub(super) fn item_queue(&mut self, name: &[u8], effects: &mut Effects) -> QueueId {
        let id = self.queue_or_create(name);
        if !self.queues[id].extension().is_some_and(Extension::items) {
            self.ensure_extension(id).created = self.now;
            self.mark(id);
            self.tally.item_queue_creates += 1;
            effects.records.push(Record::QueueFacts(id));
        }
        id
    }

    /// Makes a queue a child if its name has a `+`.
    pub(super) fn link_child(&mut self, id: QueueId) {
        if self.queues.link_child(id, self.now) {
            self.resolve(id);
        }
    }

    /// Whether a client may use a queue of items of this name. False if the queue would be one
    /// child too many for its parent: see [`CHILDREN_MAX`].
    pub fn admits_child(&self, name: &[u8]) -> bool {
        let name = &*self.real_name(name);
        let Some(parent) = parent_of(name) else { return true };
        let Some(family) = self.queues.children(parent) else { return true };
        self.meter.count(1 + family.len());
        let is_child = self.queue_id(name).is_some_and(|id| family.contains(&id));
        if is_child || self.rules.is_named(name) || self.alias(name).is_some() {
            return true;
        }
        let names = family.iter().map(|child| self.queues[*child].name());
        let unnamed = names.filter(|name| !self.rules.is_named(name));
        let (count, bytes) =
            unnamed.fold((0, name.len()), |(count, bytes), name| (count + 1, bytes + name.len()));
        count < CHILDREN_MAX && bytes <= CHILD_NAMES_BYTES_MAX
    }

    /// Pushes the records of queues that became children, or that now stay in existence, as a side
    /// effect of a request. The caller must call this function after each request.
    pub fn note_children(&mut self, effects: &mut Effects) {
        for id in self.queues.take_unlogged_children() {
            if self.has_queue(id) && self.queues[id].is_kept() {
                effects.records.push(Record::QueueFacts(id));
            }
        }
    }

    /// Whether there is a queue with this number.
    pub fn has_queue(&self, id: QueueId) -> bool {
        self.queues.get(id).is_some()
    }

    /// The destinations of an alias. `None`: the name is not an alias.
    pub(super) fn alias(&self, name: &[u8]) -> Option<Box<[Name]>> {
        if !self.rules.have_aliases() {
            return None;
        }
        let destinations = match self.queue_id(name) {
            Some(id) => self.policy_of(id).map(|policy| policy.alias.clone()),
            None => Some(self.policy(name).alias),
        };
        destinations.filter(|destinations| !destinations.is_empty())
    }

    /// The policy of the queue of this name. If the queue does not exist, returns the policy that a
    /// new queue of this name would get.
    pub fn policy(&self, name: &[u8]) -> Policy {
        self.look_up_policy(name).into_owned()
    }

    /// Like [`Engine::policy`], but does not copy the policy of a queue.
    pub(super) fn look_up_policy(&self, name: &[u8]) -> Cow<'_, Policy> {
        if let Some(id) = self.queue_id(name) {
            return self.policy_of(id).map_or_else(Cow::default, Cow::Borrowed);
        }
        let name = &*self.real_name(name);
        let (policy, units) = self.rules.resolve(name, parent_of(name));
        self.meter.count(units);
        Cow::Owned(policy)
    }

    /// The maximum number of open reads of one connection on the queue of this name.
    pub fn open_max(&self, name: &[u8]) -> u32 {
        match self.queue_id(name) {
            Some(id) => self.policy_of(id).map_or(OPEN_MAX_DEFAULT, |policy| policy.open_max),
            None => self.policy(name).open_max,
        }
    }

    /// The rules in force.
    pub fn policies(&self) -> &Rules {
        self.rules.rules()
    }

    /// How often the rules in force have changed. Since a change, a name can stand for another queue.
    pub fn policy_changes(&self) -> u64 {
        self.rules.changes()
    }

    /// Puts these rules in force. New queues get their policies at once. Existing queues get their
    /// policies in slices.
    pub fn set_policies(&mut self, rules: Rules, effects: &mut Effects) {
        if rules == *self.rules.rules() {
            return;
        }
        self.replace_rules(rules);
        effects.records.push(Record::Policies);
        self.walk_queues(true, false, effects);
    }

    /// Puts the rules from the log in force for all queues at once. Only the start of the server
    /// uses this function.
    pub fn restore_policies(&mut self, rules: Rules) {
        self.replace_rules(rules);
        let queues: Vec<QueueId> = self.queue_ids().collect();
        for id in queues {
            self.resolve(id);
        }
    }

    pub(super) fn replace_rules(&mut self, rules: Rules) {
        self.rules.replace(rules);
        self.look_for_observers();
    }
}
