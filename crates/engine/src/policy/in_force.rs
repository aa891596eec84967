//! The rules in force, and what follows from them by name.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use super::{Name, Policy, Rules, Setting};

/// The rules in force. See the module.
#[derive(Debug, Default)]
pub(crate) struct InForce {
    rules: Rules,
    /// Names that a rule spells out: those with a `+` are children without a client's doing.
    named: BTreeSet<Name>,
    /// Some rule makes aliases.
    has_aliases: bool,
    /// What went through aliases that a rule spells out. Those that only a pattern makes are not
    /// counted: clients could name any number of them.
    aliases: BTreeMap<Name, AliasCounts>,
}

/// What went through an alias.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct AliasCounts {
    pub(crate) puts: u64,
    pub(crate) put_bytes: u64,
}

impl InForce {
    pub(crate) fn rules(&self) -> &Rules {
        &self.rules
    }

    /// What the rules ask of a queue of this name; `parent`: of the queue whose child it is.
    pub(crate) fn resolve(&self, name: &[u8], parent: Option<&[u8]>) -> Policy {
        self.rules.resolve(name, parent)
    }

    /// Whether a rule spells this name out.
    pub(crate) fn is_named(&self, name: &[u8]) -> bool {
        self.named.contains(name)
    }

    pub(crate) fn have_aliases(&self) -> bool {
        self.has_aliases
    }

    /// Other rules are in force from now on. [`InForce::set_aliases`] has to follow.
    pub(crate) fn replace(&mut self, rules: Rules) {
        let mut all = rules.0.iter().flat_map(|rule| &rule.settings);
        self.has_aliases = all.any(|asked| matches!(asked.setting, Setting::Alias(_)));
        self.named = rules.literal_names().map(Into::into).collect();
        self.rules = rules;
    }

    /// The names that rules spell out.
    pub(crate) fn named(&self) -> impl Iterator<Item = &Name> {
        self.named.iter()
    }

    /// These of the names that rules spell out are aliases. Those that were before keep their counts.
    pub(crate) fn set_aliases(&mut self, aliases: Vec<Name>) {
        let counted = aliases.into_iter().map(|name| {
            let counts = self.alias_counts(&name);
            (name, counts)
        });
        self.aliases = counted.collect();
    }

    /// Counts what is put into an alias.
    pub(crate) fn count_alias(&mut self, name: &[u8], body_bytes: usize) {
        if let Some(counts) = self.aliases.get_mut(name) {
            counts.puts += 1;
            counts.put_bytes += body_bytes as u64;
        }
    }

    pub(crate) fn alias_counts(&self, name: &[u8]) -> AliasCounts {
        self.aliases.get(name).copied().unwrap_or_default()
    }

    /// Names of aliases, behind this one or from the first on.
    pub(crate) fn aliases_behind(&self, name: Option<&[u8]>) -> impl Iterator<Item = &[u8]> {
        let from = name.map_or(Bound::Unbounded, Bound::Excluded);
        self.aliases.range::<[u8], _>((from, Bound::Unbounded)).map(|(name, _)| &**name)
    }
}
