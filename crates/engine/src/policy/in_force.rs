//! The rules in force, and the names that are aliases by these rules.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use super::{Name, Policy, Rules, Setting};

/// The rules in force: see the module.
#[derive(Debug, Default)]
pub(crate) struct InForce {
    rules: Rules,
    /// The names of patterns without wildcards. If such a name has a `+`, the queue of this name is
    /// always a child.
    named: BTreeSet<Name>,
    /// Whether any rule makes an alias.
    has_aliases: bool,
    /// Whether any rule limits the memory of a queue.
    limits_memory: bool,
    /// Whether any rule pauses queues by a schedule.
    pauses_by_schedule: bool,
    /// Counts of the aliases in `named`. An alias that matches only a pattern with wildcards has no
    /// counts, because clients could use any number of such names.
    aliases: BTreeMap<Name, AliasCounts>,
}

/// The number of puts into an alias, and the bytes of the bodies of these puts.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct AliasCounts {
    pub(crate) puts: u64,
    pub(crate) put_bytes: u64,
}

impl InForce {
    pub(crate) fn rules(&self) -> &Rules {
        &self.rules
    }

    /// The policy of the queue of this name. `parent`: the parent of the queue, if the queue is a
    /// child.
    pub(crate) fn resolve(&self, name: &[u8], parent: Option<&[u8]>) -> Policy {
        self.rules.resolve(name, parent)
    }

    /// Whether this name is one of the patterns without wildcards.
    pub(crate) fn is_named(&self, name: &[u8]) -> bool {
        self.named.contains(name)
    }

    pub(crate) fn have_aliases(&self) -> bool {
        self.has_aliases
    }

    /// Whether any rule limits the memory of a queue.
    pub(crate) fn limit_memory(&self) -> bool {
        self.limits_memory
    }

    /// Whether any rule pauses queues by a schedule.
    pub(crate) fn pause_by_schedule(&self) -> bool {
        self.pauses_by_schedule
    }

    /// Replaces the rules. The caller must call [`InForce::set_aliases`] next.
    pub(crate) fn replace(&mut self, rules: Rules) {
        let mut all = rules.0.iter().flat_map(|rule| &rule.settings);
        self.has_aliases = all.any(|asked| matches!(asked.setting, Setting::Alias(_)));
        self.limits_memory = rules.limit_memory();
        self.pauses_by_schedule = rules.pause_by_schedule();
        self.named = rules.literal_names().map(Into::into).collect();
        self.rules = rules;
    }

    /// The names of patterns without wildcards.
    pub(crate) fn named(&self) -> impl Iterator<Item = &Name> {
        self.named.iter()
    }

    /// Sets the list of names that are aliases. A name that was an alias before keeps its counts.
    pub(crate) fn set_aliases(&mut self, aliases: Vec<Name>) {
        let counted = aliases.into_iter().map(|name| {
            let counts = self.alias_counts(&name);
            (name, counts)
        });
        self.aliases = counted.collect();
    }

    /// Counts a put into an alias.
    pub(crate) fn count_alias(&mut self, name: &[u8], body_bytes: usize) {
        if let Some(counts) = self.aliases.get_mut(name) {
            counts.puts += 1;
            counts.put_bytes += body_bytes as u64;
        }
    }

    pub(crate) fn alias_counts(&self, name: &[u8]) -> AliasCounts {
        self.aliases.get(name).copied().unwrap_or_default()
    }

    /// The names of the aliases that have counts, in order, beginning after `name`. `None`: all
    /// these names.
    pub(crate) fn aliases_behind(&self, name: Option<&[u8]>) -> impl Iterator<Item = &[u8]> {
        let from = name.map_or(Bound::Unbounded, Bound::Excluded);
        self.aliases.range::<[u8], _>((from, Bound::Unbounded)).map(|(name, _)| &**name)
    }
}
