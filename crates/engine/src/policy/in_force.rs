//! The rules in force, and the names that are aliases by these rules.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use super::rules_with::RulesWith;
use super::same_as::{real_name_by, same_as_of};
use super::{Name, Pattern, Policy, Rule, Rules, Setting, parent_name};
use crate::limits::UNIT_PATTERN_STEPS;

/// The rules in force: see the module.
#[derive(Debug, Default)]
pub(crate) struct InForce {
    rules: Rules,
    /// How often the rules were replaced.
    changes: u64,
    /// The steps of a match with all patterns: for every name, and per byte of the name.
    pattern_steps: (usize, usize),
    /// The names of patterns without wildcards. If such a name has a `+`, the queue of this name is
    /// always a child.
    named: BTreeSet<Name>,
    /// Whether any rule makes an alias.
    has_aliases: bool,
    /// Whether any rule makes a name stand for another queue.
    has_same_as: bool,
    /// Whether any rule limits the memory of a queue.
    limits_memory: bool,
    /// Whether jobs can expire because of any rule.
    expires_jobs: bool,
    /// Whether any rule pauses queues by a schedule.
    pauses_by_schedule: bool,
    /// Whether any rule lets puts wait for room.
    blocks_puts: bool,
    /// Whether any rule lets puts replace the bodies of jobs.
    replaces_bodies: bool,
    /// Whether any rule makes the leases of a queue durable.
    has_durable_leases: bool,
    /// Whether any rule keeps a history of jobs.
    keeps_history: bool,
    /// Whether any rule keeps the outcomes of jobs.
    keeps_results: bool,
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

    /// How often the rules were replaced.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// The units of work of a search for the rules of a name. Clients choose the name and its length, so
    /// the number of rules alone does not say how long the search takes.
    pub(crate) fn search_units(&self, name: &[u8]) -> usize {
        let (fixed, per_byte) = self.pattern_steps;
        // The search for a `+` reads the name, too.
        let steps = fixed + (per_byte + 1) * name.len();
        // For a child, the search also compares its parent, up to twice.
        let names = if parent_name(name).is_some() { 3 } else { 1 };
        names * steps / UNIT_PATTERN_STEPS
    }

    /// The policy of the queue of this name, and the units of work of the search. `parent`: the parent of
    /// the queue, if the queue is a child.
    pub(crate) fn resolve(&self, name: &[u8], parent: Option<&[u8]>) -> (Policy, usize) {
        let mut units = self.search_units(name);
        if !self.has_same_as {
            return (self.rules.resolve_own(name, parent), units);
        }
        let policy = match self.rules.real_name(name) {
            Some(target) => {
                let count = |name: &[u8]| units += self.search_units(name);
                let (receiver, of_receiver) = self.rules.receiver(&target, count);
                Policy::moving_to(target, receiver, of_receiver)
            }
            None => Policy { same_as: None, ..self.rules.resolve_own(name, parent) },
        };
        (policy, units)
    }

    /// Whether any name stands for another queue.
    pub(crate) fn have_same_as(&self) -> bool {
        self.has_same_as
    }

    /// The name of the queue that this name stands for.
    pub(crate) fn real_name<'a>(&self, name: &'a [u8]) -> Cow<'a, [u8]> {
        let real = if self.has_same_as { self.rules.real_name(name) } else { None };
        real.map_or(Cow::Borrowed(name), |real| Cow::Owned(real.into()))
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

    /// Whether jobs can expire because of any rule: by their age, or because the name of their queue
    /// stands for another queue.
    pub(crate) fn expire_jobs(&self) -> bool {
        self.expires_jobs
    }

    /// Whether any rule pauses queues by a schedule.
    pub(crate) fn pause_by_schedule(&self) -> bool {
        self.pauses_by_schedule
    }

    /// Whether puts into any queue can wait for room.
    pub(crate) fn block_puts(&self) -> bool {
        self.blocks_puts
    }

    /// Whether puts into any queue can replace the bodies of jobs.
    pub(crate) fn replace_bodies(&self) -> bool {
        self.replaces_bodies
    }

    /// Whether any rule makes the leases of a queue durable.
    #[inline]
    pub(crate) fn have_durable_leases(&self) -> bool {
        self.has_durable_leases
    }

    /// Whether any rule keeps a history of jobs.
    pub(crate) fn keep_history(&self) -> bool {
        self.keeps_history
    }

    /// Whether any rule keeps the outcomes of jobs.
    pub(crate) fn keep_results(&self) -> bool {
        self.keeps_results
    }

    /// Replaces the rules. A name that was an alias before keeps its counts.
    pub(crate) fn replace(&mut self, rules: Rules) {
        let mut all = rules.0.iter().flat_map(|rule| &rule.settings);
        self.has_aliases = all.any(|asked| matches!(asked.setting, Setting::Alias(_)));
        self.has_same_as = rules.have_same_as();
        self.limits_memory = rules.limit_memory();
        self.expires_jobs = self.has_same_as || rules.limit_ages();
        self.pauses_by_schedule = rules.pause_by_schedule();
        self.blocks_puts = rules.block_puts();
        self.replaces_bodies = rules.replace_bodies();
        self.has_durable_leases = rules.have_durable_leases();
        self.keeps_history = rules.keep_history();
        self.keeps_results = rules.keep_results();
        let steps = rules.0.iter().flat_map(|rule| &rule.patterns).map(Pattern::steps);
        self.pattern_steps = steps.fold((0, 0), |sum, own| (sum.0 + own.0, sum.1 + own.1));
        self.named = rules.literal_names().map(Into::into).collect();
        self.rules = rules;
        self.changes += 1;
        let aliases = self.named_aliases().into_iter().map(|name| {
            let counts = self.alias_counts(&name);
            (name, counts)
        });
        let aliases: BTreeMap<Name, AliasCounts> = aliases.collect();
        self.aliases = aliases;
    }

    /// The names in `named` that are aliases.
    fn named_aliases(&self) -> Vec<Name> {
        let aliases = RulesWith::of(&self.rules, |rule| makes_alias(rule).is_some());
        let others = RulesWith::of(&self.rules, |rule| same_as_of(rule).is_some());
        let is_alias = |name: &&Name| {
            let parent = parent_name(name).filter(|parent| !parent.is_empty());
            // As with other settings, a rule that matches the parent, too, is no rule for the child.
            let last = aliases.last(name, parent);
            let same_as =
                |name: &[u8], except: Option<&[u8]>| others.last(name, except).and_then(same_as_of);
            last.and_then(makes_alias) == Some(true) && real_name_by(name, same_as).is_none()
        };
        self.named.iter().filter(is_alias).cloned().collect()
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

/// Whether a rule makes its names aliases. `None`: it does not say.
fn makes_alias(rule: &Rule) -> Option<bool> {
    rule.settings.iter().rev().find_map(|asked| match &asked.setting {
        Setting::Alias(destinations) => Some(!destinations.is_empty()),
        _ => None,
    })
}
