//! A search for the rules of many names. Clients wait meanwhile, and there can be thousands of names and
//! patterns. So it finds patterns without wildcards by their text, and compares only the others.

use std::collections::BTreeMap;

use super::{Pattern, Rule, Rules};

/// The rules that have a certain setting, by their patterns.
pub(super) struct RulesWith<'a> {
    rules: &'a Rules,
    /// The patterns without wildcards, and the places of the rules with this pattern, in order.
    literal: BTreeMap<&'a [u8], Vec<usize>>,
    /// The patterns with wildcards, and the place of the rule of each.
    wild: Vec<(usize, &'a Pattern)>,
}

impl<'a> RulesWith<'a> {
    pub(super) fn of(rules: &'a Rules, has_setting: impl Fn(&Rule) -> bool) -> Self {
        let mut literal = BTreeMap::<&[u8], Vec<usize>>::new();
        let mut wild = Vec::new();
        for (place, rule) in rules.0.iter().enumerate().filter(|(_, rule)| has_setting(rule)) {
            for pattern in &rule.patterns {
                match pattern.literal() {
                    Some(name) => literal.entry(name).or_default().push(place),
                    None => wild.push((place, pattern)),
                }
            }
        }
        Self { rules, literal, wild }
    }

    /// The last of these rules that matches a name, but not the name `except`.
    pub(super) fn last(&self, name: &[u8], except: Option<&[u8]>) -> Option<&'a Rule> {
        let literal = self.literal.get(name).into_iter().flatten().copied();
        let wild = self.wild.iter().filter(|(_, pattern)| pattern.matches(name));
        let places = literal.chain(wild.map(|(place, _)| *place));
        let is_own = |place: &usize| except.is_none_or(|except| !self.matches(*place, except));
        places.filter(is_own).max().map(|place| &self.rules.0[place])
    }

    /// Whether the rule at this place matches a name.
    fn matches(&self, place: usize, name: &[u8]) -> bool {
        let literal = self.literal.get(name);
        let mut wild = self.wild.iter().filter(|(of, _)| *of == place);
        literal.is_some_and(|places| places.binary_search(&place).is_ok())
            || wild.any(|(_, pattern)| pattern.matches(name))
    }
}
