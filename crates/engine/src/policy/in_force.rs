//! The rules in force, and the policies and aliases that names get from them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use super::{Name, Policy, Rules, Setting};

/// The rules in force. See the module.
#[derive(Debug, Default)]
pub(crate) struct InForce {
    rules: Rules,
    /// Names that a rule spells out. Those with a `+` are children even if no client refers to
    /// them.
    named: BTreeSet<Name>,
    /// Some rule makes aliases.
    has_aliases: bool,
    /// Counts of the aliases that a rule spells out. Aliases that only a pattern makes have no
    /// counts, because clients could name any number of them.
    aliases: BTreeMap<Name, AliasCounts>,
}

/// The number of puts into an alias, and their bytes.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct AliasCounts {
    pub(crate) puts: u64,
    pub(crate) put_bytes: u64,
}

impl InForce {
    pub(crate) fn rules(&self) -> &Rules {
        &self.rules
    }

    /// The policy of a queue of this name. `parent` is the queue whose child it is.
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

    /// Replaces the rules. The caller must call [`InForce::set_aliases`] next.
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

    /// Sets which of the names that rules spell out are aliases. Those that were aliases before
    /// keep their counts.
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

    /// The names of aliases behind this name, or from the first one on.
    pub(crate) fn aliases_behind(&self, name: Option<&[u8]>) -> impl Iterator<Item = &[u8]> {
        let from = name.map_or(Bound::Unbounded, Bound::Excluded);
        self.aliases.range::<[u8], _>((from, Bound::Unbounded)).map(|(name, _)| &**name)
    }
}
