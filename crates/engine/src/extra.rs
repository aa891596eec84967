//! What only some queues have: a policy, the mark of a queue of items, fan-out children.
//!
//! A queue gets its [`Extra`] when it first needs one, and keeps it until it vanishes. Plain queues
//! pay for all of this with one test.

use std::collections::{BTreeMap, BTreeSet};

use crate::bytes::EXTRA_BYTES;
use crate::effects::{Effects, Record};
use crate::engine::Engine;
use crate::ids::{Millis, QueueId};
use crate::limits::{CHILD_NAMES_BYTES_MAX, CHILDREN_MAX};
use crate::policy::{Name, OPEN_MAX_DEFAULT, Policy, Rules, parent_name};
use crate::status::Standing;
use crate::walk::Walk;

/// What only some queues have.
#[derive(Debug)]
pub(crate) struct Extra {
    pub(crate) policy: Policy,
    /// A client of Kestrel's made it or used it.
    pub(crate) items: bool,
    /// A fan-out child.
    pub(crate) child: bool,
    /// It has, or had, fan-out children.
    pub(crate) parent: bool,
    pub(crate) created: Millis,
    /// The timer sweeps no expired jobs before this.
    pub(crate) sweep_rests_until: Millis,
    /// When the job was put that was read last.
    pub(crate) last_read: Option<Millis>,
    pub(crate) put_bytes: u64,
    /// Reads that found an item, and those that did not.
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    pub(crate) expired: u64,
    pub(crate) discarded: u64,
    pub(crate) transactions: u64,
    pub(crate) cancelled: u64,
    pub(crate) flushes: u64,
}

/// What the engine knows of such queues.
#[derive(Debug, Default)]
pub(crate) struct Special {
    /// How many queues have an [`Extra`].
    pub(crate) extras: usize,
    pub(crate) rules: Rules,
    /// Names that a rule spells out: those with a `+` are children without a client's doing.
    named: BTreeSet<Name>,
    /// Some rule makes aliases.
    pub(crate) has_aliases: bool,
    /// What went through aliases, by their names.
    pub(crate) aliases: BTreeMap<Name, AliasCounts>,
    /// Queues that clients of Kestrel's made or used.
    pub(crate) item_queues: BTreeMap<Name, QueueId>,
    /// Children by the name of their parent, which need not exist.
    pub(crate) families: BTreeMap<Name, BTreeSet<QueueId>>,
    /// Children that are so, or are kept, without a client's doing, which the log is to know.
    unnoted: Vec<QueueId>,
    pub(crate) standing: Standing,
    /// What a change means for each queue is not done for all of them.
    pub(crate) walk: Option<Walk>,
    pub(crate) queue_creates: u64,
    pub(crate) queue_deletes: u64,
    pub(crate) queue_expires: u64,
}

/// What went through an alias.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct AliasCounts {
    pub(crate) puts: u64,
    pub(crate) put_bytes: u64,
}

/// The name of the queue whose puts a queue of this name would get as a child.
pub(crate) fn parent_of(name: &[u8]) -> Option<&[u8]> {
    parent_name(name).filter(|parent| !parent.is_empty())
}

impl Extra {
    fn new(created: Millis) -> Self {
        Self {
            policy: Policy::default(),
            items: false,
            child: false,
            parent: false,
            created,
            sweep_rests_until: Millis(0),
            last_read: None,
            put_bytes: 0,
            hits: 0,
            misses: 0,
            expired: 0,
            discarded: 0,
            transactions: 0,
            cancelled: 0,
            flushes: 0,
        }
    }

    /// A put goes here and nowhere else.
    pub(crate) fn is_single(&self) -> bool {
        !self.parent
            && !self.policy.fanout_only
            && self.policy.copy_to.is_empty()
            && self.policy.alias.is_empty()
    }
}

impl Engine {
    pub(crate) fn ensure_extra(&mut self, id: QueueId) -> &mut Extra {
        let now = self.now;
        if self.queue(id).extra.is_none() {
            self.special.extras += 1;
            self.memory_bytes += EXTRA_BYTES;
        }
        self.queue_mut(id).extra.get_or_insert_with(|| Box::new(Extra::new(now)))
    }

    /// What is asked of a queue; `None`: nothing.
    pub(crate) fn policy_of(&self, id: QueueId) -> Option<&Policy> {
        self.queue(id).extra.as_ref().map(|extra| &extra.policy)
    }

    /// A new queue gets what rules and children ask of it.
    pub(crate) fn dress(&mut self, id: QueueId) {
        let special = &self.special;
        let name = &*self.queue(id).name;
        if special.families.contains_key(name) {
            self.ensure_extra(id).parent = true;
        }
        self.resolve(id);
    }

    /// A queue gets the policy that the rules have for it.
    pub(crate) fn resolve(&mut self, id: QueueId) {
        let name = &self.queue(id).name;
        let is_child = self.queue(id).extra.as_ref().is_some_and(|extra| extra.child);
        let named =
            !is_child && parent_of(name).is_some() && self.special.named.contains(&name[..]);
        if named {
            // Comes back here.
            return self.link_child(id);
        }
        let policy = self.special.rules.resolve(name, parent_of(name).filter(|_| is_child));
        if self.queue(id).extra.is_some() || policy != Policy::default() {
            self.ensure_extra(id).policy = policy;
            self.arm_queue(id);
        }
    }

    /// Marks a queue as one of items, and keeps it.
    pub(crate) fn mark(&mut self, id: QueueId) {
        let name: Name = self.queue(id).name.as_slice().into();
        let is_child = parent_of(&name).is_some();
        self.special.item_queues.insert(name, id);
        let extra = self.ensure_extra(id);
        extra.items = true;
        let is_linked = extra.child;
        self.set_kept(id, true);
        if is_child && !is_linked {
            self.link_child(id);
            self.forget_unnoted(id);
        }
        // A queue that is kept can be idle.
        self.arm_queue(id);
    }

    /// A queue that a client of Kestrel's refers to: made, marked and kept if it is not.
    pub(crate) fn item_queue(&mut self, name: &[u8], effects: &mut Effects) -> QueueId {
        let id = self.queue_or_create(name);
        if !self.queue(id).extra.as_ref().is_some_and(|extra| extra.items) {
            self.ensure_extra(id).created = self.now;
            self.mark(id);
            self.special.queue_creates += 1;
            effects.records.push(Record::QueueFacts(id));
        }
        id
    }

    /// A queue whose name has a `+` gets its parent's puts from now on, and is kept: one that
    /// vanished whenever nobody used it would miss puts.
    pub(crate) fn link_child(&mut self, id: QueueId) {
        let name = self.queue(id).name.clone();
        let Some(parent) = parent_of(&name) else { return };
        let was_child = std::mem::replace(&mut self.ensure_extra(id).child, true);
        self.special.families.entry(parent.into()).or_default().insert(id);
        if let Some(parent) = self.queue_id(parent) {
            self.ensure_extra(parent).parent = true;
        }
        let was_kept = self.set_kept(id, true);
        if !was_kept || !was_child {
            self.special.unnoted.push(id);
        }
        self.resolve(id);
    }

    /// Whoever made this queue a child just now sees to it that the log knows.
    pub(crate) fn forget_unnoted(&mut self, id: QueueId) {
        if self.special.unnoted.last() == Some(&id) {
            self.special.unnoted.pop();
        }
    }

    /// Whether a client may refer to a queue of items of this name: not if that made one child more
    /// than its parent may have of clients.
    pub fn admits_child(&self, name: &[u8]) -> bool {
        let Some(parent) = parent_of(name) else { return true };
        let Some(family) = self.special.families.get(parent) else { return true };
        self.meter.count(1 + family.len());
        let is_child = self.queue_id(name).is_some_and(|id| family.contains(&id));
        if is_child || self.special.named.contains(name) || self.alias(name).is_some() {
            return true;
        }
        let names = family.iter().map(|child| &self.queue(*child).name[..]);
        let unnamed = names.filter(|name| !self.special.named.contains(*name));
        let (count, bytes) =
            unnamed.fold((0, name.len()), |(count, bytes), name| (count + 1, bytes + name.len()));
        count < CHILDREN_MAX && bytes <= CHILD_NAMES_BYTES_MAX
    }

    /// Records what the log is to know of queues that a request made only in passing. To be called
    /// after each request.
    pub fn note_children(&mut self, effects: &mut Effects) {
        for id in std::mem::take(&mut self.special.unnoted) {
            if self.has_queue(id) && self.queue(id).kept {
                effects.records.push(Record::QueueFacts(id));
            }
        }
    }

    /// Whether a queue has this number.
    pub fn has_queue(&self, id: QueueId) -> bool {
        self.queues.get(id.0).is_some()
    }

    /// A queue is no queue of items, and no child, any more.
    pub(crate) fn unmark(&mut self, id: QueueId) {
        let Some(extra) = &mut self.queue_mut(id).extra else { return };
        let (was_marked, was_child) = (extra.items, extra.child);
        extra.items = false;
        extra.child = false;
        let name = self.queue(id).name.clone();
        if was_marked {
            self.special.item_queues.remove(&name[..]);
        }
        if let Some(parent) = parent_of(&name)
            && was_child
            && let Some(children) = self.special.families.get_mut(parent)
        {
            children.remove(&id);
            if children.is_empty() {
                self.special.families.remove(parent);
            }
        }
    }

    /// Where puts to this name go, if it is an alias.
    pub(crate) fn alias(&self, name: &[u8]) -> Option<Box<[Name]>> {
        if !self.special.has_aliases {
            return None;
        }
        let destinations = match self.queue_id(name) {
            Some(id) => self.policy_of(id).map(|policy| policy.alias.clone()),
            None => Some(self.policy(name).alias),
        };
        destinations.filter(|destinations| !destinations.is_empty())
    }

    /// What is asked of the queue of this name, or would be if it existed.
    pub fn policy(&self, name: &[u8]) -> Policy {
        match self.queue_id(name) {
            Some(id) => self.policy_of(id).cloned().unwrap_or_default(),
            None => self.special.rules.resolve(name, parent_of(name)),
        }
    }

    /// How many reads of the queue of this name one connection may have open.
    pub fn open_max(&self, name: &[u8]) -> u32 {
        match self.queue_id(name) {
            Some(id) => self.policy_of(id).map_or(OPEN_MAX_DEFAULT, |policy| policy.open_max),
            None => self.policy(name).open_max,
        }
    }

    /// The rules in force.
    pub fn policies(&self) -> &Rules {
        &self.special.rules
    }

    /// From now on these rules are in force for queues to come; those that exist get them in slices.
    pub fn set_policies(&mut self, rules: Rules, effects: &mut Effects) {
        if rules == self.special.rules {
            return;
        }
        self.replace_rules(rules);
        effects.records.push(Record::Policies);
        self.walk_queues(true, false, effects);
    }

    /// Puts rules in force that the log has kept.
    pub fn restore_policies(&mut self, rules: Rules) {
        self.replace_rules(rules);
        let queues: Vec<QueueId> = self.queue_ids().collect();
        for id in queues {
            self.resolve(id);
        }
    }

    fn replace_rules(&mut self, rules: Rules) {
        let named: BTreeSet<Name> = rules.literal_names().map(Into::into).collect();
        let all = rules.0.iter().flat_map(|rule| &rule.settings);
        let mut aliases =
            all.filter(|asked| matches!(asked.setting, crate::policy::Setting::Alias(_)));
        self.special.has_aliases = aliases.next().is_some();
        self.special.named = named;
        self.special.rules = rules;
        let named = self.special.named.iter();
        let aliases = named.filter(|name| self.alias(name).is_some());
        let counts = |name: &Name| self.special.aliases.get(name).copied().unwrap_or_default();
        self.special.aliases = aliases.map(|name| (name.clone(), counts(name))).collect();
    }
}
