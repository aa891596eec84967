//! Policies, queues of items, parents and children, and the status in the model.

use std::rc::Rc;

use broker::policy::{Name as Bytes, Policy, QueueSync, Rules, Setting};

use super::record::Record;
use super::{Facts, JobKind, Model, Name, Need, Place};

/// The server's statuses, least strict first (spec kestrel 2).
pub(crate) const UP: u8 = 1;
pub(crate) const READ_ONLY: u8 = 3;
pub(crate) const QUIESCENT: u8 = 4;

/// The name of the parent, if this is the name of a child.
pub(super) fn parent_of(name: &str) -> Option<&str> {
    name.split_once('+').map(|(parent, _)| parent).filter(|parent| !parent.is_empty())
}

pub(super) fn text(name: &Bytes) -> String {
    String::from_utf8_lossy(name).into_owned()
}

/// True if this is the name of a child, and a rule contains exactly this name. Such a queue is a
/// child even before a client uses it.
pub(super) fn is_named_child(rules: &Rules, name: &str) -> bool {
    parent_of(name).is_some() && rules.literal_names().any(|literal| literal == name.as_bytes())
}

impl Model {
    /// Applies the rules to a queue.
    pub(super) fn resolve(&mut self, name: &Name) {
        if !self.queues[name].facts.is_child && is_named_child(&self.rules, name) {
            // `link_child` calls `resolve` again.
            return self.link_child(name);
        }
        let is_child = self.queues[name].facts.is_child;
        let parent = parent_of(name).filter(|_| is_child).map(str::as_bytes);
        let policy = self.rules.resolve(name.as_bytes(), parent);
        if self.queues[name].extra_since.is_some() || policy != Policy::default() {
            self.ensure_extra(name);
        }
        self.change_gates(name, Rc::new(policy));
        self.look_at_pause(name);
    }

    /// Sets `extra_since` to the current time, if it has no value yet.
    pub(super) fn ensure_extra(&mut self, name: &Name) {
        let now = self.now;
        self.queue_mut(name).extra_since.get_or_insert(now);
    }

    /// The queue that a Kestrel client names. If the queue does not exist, the model creates it.
    /// The queue becomes a queue of items, and stays in existence.
    pub(super) fn item_queue(&mut self, name: &str) -> Name {
        let name = self.create_queue(name);
        if self.queues[&name].facts.is_items {
            return name;
        }
        let created = self.now;
        let queue = self.queue_mut(&name);
        queue.extra_since = Some(created);
        queue.facts = Facts { is_items: true, created, kept: &*name != "default", ..queue.facts };
        if parent_of(&name).is_some() && !self.queues[&name].facts.is_child {
            self.link_child(&name);
            self.unnoted.retain(|unnoted| *unnoted != name);
        }
        self.note_facts(&name);
        name
    }

    pub(super) fn link_child(&mut self, name: &Name) {
        self.ensure_extra(name);
        let facts = &mut self.queue_mut(name).facts;
        let was_child = std::mem::replace(&mut facts.is_child, true);
        // The log must store that the child stays in existence. Without this fact, the child would
        // not exist after a restart, and would miss puts.
        if !std::mem::replace(&mut facts.kept, true) || !was_child {
            self.unnoted.push(name.clone());
        }
        let parent: Option<Name> = parent_of(name).map(Into::into);
        if let Some(parent) = parent.filter(|parent| self.queues.contains_key(parent)) {
            self.ensure_extra(&parent);
        }
        self.resolve(name);
    }

    /// Records the queues that became children in this turn.
    pub(crate) fn note_children(&mut self) {
        for name in std::mem::take(&mut self.unnoted) {
            if self.queues.get(&name).is_some_and(|queue| queue.facts.kept) {
                self.note_facts(&name);
            }
        }
    }

    /// The children of a queue, by place. The queue itself may not exist.
    pub(super) fn children_of(&self, name: &str) -> Vec<Name> {
        let is_child =
            |child: &Name| self.queues[child].facts.is_child && parent_of(child) == Some(name);
        self.queues_by_place().into_iter().filter(is_child).collect()
    }

    /// The policy for a queue of this name, even if the queue does not exist.
    pub(super) fn policy(&self, name: &str) -> Rc<Policy> {
        let name = &*self.real_name(name);
        if let Some(queue) = self.queues.get(name) {
            return queue.policy.clone();
        }
        let parent = parent_of(name).map(str::as_bytes);
        Rc::new(self.rules.resolve(name.as_bytes(), parent))
    }

    /// The destinations of puts to this name, if it is an alias.
    pub(super) fn alias(&self, name: &str) -> Option<Vec<String>> {
        let destinations = &self.policy(name).alias;
        (!destinations.is_empty()).then(|| destinations.iter().map(text).collect())
    }

    /// True if a put to this name can reach other queues.
    pub(super) fn feeds_others(&self, name: &str) -> bool {
        !self.rules.0.is_empty() || !self.children_of(name).is_empty()
    }

    pub(super) fn has_aliases(&self) -> bool {
        let settings = self.rules.0.iter().flat_map(|rule| &rule.settings);
        settings.into_iter().any(|rule| matches!(rule.setting, Setting::Alias(_)))
    }

    /// The kind of new jobs in this queue.
    pub(super) fn kind_in(&self, name: &Name) -> JobKind {
        match self.queues[name].policy.sync {
            Some(QueueSync::Memory) => JobKind::Memory,
            _ => JobKind::Logged,
        }
    }

    /// True if the log syncs a change in this queue before a reply about it is sent.
    pub(super) fn is_strict(&self, name: &Name) -> bool {
        match self.queues[name].policy.sync {
            None => self.setting.is_strict,
            Some(sync) => sync == QueueSync::Always,
        }
    }

    pub(crate) fn set_policies(&mut self, rules: &Rc<Rules>) {
        if self.rules == *rules {
            return;
        }
        self.rules = rules.clone();
        self.drop_results();
        for name in self.queues_by_age() {
            self.resolve(&name);
        }
        let is_strict = self.setting.is_strict;
        self.history.note(Record::Policies(rules.clone()), is_strict);
        // If the new rules allow a greater age, items that were expired can be handed out again. As
        // in the engine, this also wakes sleeping workers.
        self.serve_all();
    }

    fn serve_all(&mut self) {
        for name in self.queues_by_age() {
            if !self.is_paused(&name) {
                self.serve_waiters(&name);
            }
        }
    }

    pub(super) fn reads_blocked(&self) -> bool {
        self.status == QUIESCENT
    }

    pub(super) fn writes_blocked(&self) -> bool {
        self.status >= READ_ONLY
    }

    /// Changes the status. Returns the record that the reply depends on.
    pub(crate) fn set_status(&mut self, status: u8) -> Need {
        if status == self.status {
            return self.history.status_need();
        }
        let was_blocked = self.reads_blocked();
        self.status = status;
        let is_strict = self.setting.is_strict;
        let need = self.history.note(Record::Status(status), is_strict);
        if was_blocked && !self.reads_blocked() {
            self.serve_all();
        }
        need
    }

    /// The connections that wait only for an item of this queue, in the order in which they began
    /// to wait.
    pub(super) fn readers_of(&self, name: &Name) -> Vec<Place> {
        let waits = |conn: &super::Conn| {
            let wait = conn.waiting.as_ref()?;
            wait.item.as_ref().filter(|item| item.queue == *name).map(|_| wait.ticket)
        };
        let mut readers: Vec<_> =
            self.conns.iter().filter_map(|(place, conn)| Some((waits(conn)?, *place))).collect();
        readers.sort_unstable();
        readers.into_iter().map(|(_, place)| place).collect()
    }
}
