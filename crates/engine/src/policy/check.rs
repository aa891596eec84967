//! Checks rules: the engine cannot apply rules that send a put in a circle, or to too many queues.

use std::collections::BTreeSet;

use super::{Name, Policy, Rules, Setting, parent_name};
use crate::limits::QUEUE_NAME_BYTES_MAX;

/// Maximum number of queues that one rule can copy a put to.
pub const COPIES_MAX: usize = 8;
/// Maximum number of queues that one put can reach through aliases and copies. A queue counts once
/// for each path to it.
pub const DESTINATIONS_MAX: usize = 64;
/// Maximum size of the encoded rules. They are one fact of the log, which must fit into one
/// segment.
pub const RULES_BYTES_MAX: usize = 64 << 10;

/// An error in the rules. The line is that of the setting or rule, or 0.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum RulesError {
    /// A queue cannot have this name.
    #[error("{key}: a queue name has 1 to {QUEUE_NAME_BYTES_MAX} bytes")]
    Name {
        /// The line of the setting.
        line: u32,
        /// Its key.
        key: &'static str,
    },
    /// A job that expires in a queue would come back to it.
    #[error(
        "expire_to: jobs that expire in `{name}` would come back to it; \
         set expire_to = \"none\" in a later policy for `{name}`"
    )]
    ExpiresToItself {
        /// The line of the setting.
        line: u32,
        /// The queue.
        name: String,
    },
    /// A put would come back to a queue that it has passed.
    #[error("{key}: a put into `{name}` would come back to it")]
    Circle {
        /// The line of the setting.
        line: u32,
        /// Its key.
        key: &'static str,
        /// A queue of the circle.
        name: String,
    },
    /// The rule has too many copies.
    #[error("route.copy_to: at most {COPIES_MAX} copies")]
    TooManyCopies {
        /// The line of the setting.
        line: u32,
    },
    /// A put would reach too many queues.
    #[error("{key}: a put would reach more than {DESTINATIONS_MAX} queues")]
    TooManyDestinations {
        /// The line of the setting.
        line: u32,
        /// Its key.
        key: &'static str,
    },
    /// All rules together are too large.
    #[error("all policies together are larger than 64KiB")]
    TooLarge,
}

impl RulesError {
    /// The line of the error, from 1. 0: no line.
    pub fn line(&self) -> u32 {
        match self {
            RulesError::Name { line, .. }
            | RulesError::ExpiresToItself { line, .. }
            | RulesError::Circle { line, .. }
            | RulesError::TooManyCopies { line }
            | RulesError::TooManyDestinations { line, .. } => *line,
            RulesError::TooLarge => 0,
        }
    }
}

/// Why the queues behind a name cannot be counted.
enum Endless<'a> {
    Circle(&'a [u8]),
    TooMany,
}

impl Rules {
    /// Returns an error for the first rule that the engine cannot apply.
    pub fn check(&self) -> Result<(), RulesError> {
        // This check is the first, because it bounds the work of the others.
        if self.encode().len() > RULES_BYTES_MAX {
            return Err(RulesError::TooLarge);
        }
        let map = Map::of(self);
        for asked in self.0.iter().flat_map(|rule| &rule.settings) {
            let (line, key) = (asked.line, asked.setting.key());
            let named = asked.setting.names();
            if named.iter().any(|name| !(1..=QUEUE_NAME_BYTES_MAX).contains(&name.len())) {
                return Err(RulesError::Name { line, key });
            }
            match &asked.setting {
                Setting::ExpireTo(Some(target)) => {
                    if let Some(name) = self.circle_of_expiry(target) {
                        return Err(RulesError::ExpiresToItself { line, name: shown(&name) });
                    }
                }
                Setting::CopyTo(names) if names.len() > COPIES_MAX => {
                    return Err(RulesError::TooManyCopies { line });
                }
                Setting::Alias(names) | Setting::CopyTo(names) => {
                    map.reach(names, &mut Vec::new()).map_err(|endless| match endless {
                        Endless::Circle(name) => {
                            RulesError::Circle { line, key, name: shown(name) }
                        }
                        Endless::TooMany => RulesError::TooManyDestinations { line, key },
                    })?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// A queue to which a job returns if it expires again and again, from this queue on.
    fn circle_of_expiry(&self, target: &Name) -> Option<Name> {
        let mut seen = BTreeSet::new();
        let mut at = target.clone();
        while let Some(next) = self.of(&at).expire_to {
            if !seen.insert(std::mem::replace(&mut at, next)) {
                return Some(at);
            }
        }
        None
    }

    fn of(&self, name: &[u8]) -> Policy {
        self.resolve(name, parent_name(name))
    }
}

impl Setting {
    /// The queues that the setting names.
    fn names(&self) -> &[Name] {
        match self {
            Setting::ExpireTo(name) => name.as_slice(),
            Setting::Alias(names) | Setting::CopyTo(names) => names,
            _ => &[],
        }
    }
}

/// The policy of each queue that a rule names as a destination. It says where a put to that queue
/// goes next. A circle consists of such queues only, so no other queue needs a check.
struct Map<'a> {
    onward: Vec<(&'a Name, Policy)>,
}

impl<'a> Map<'a> {
    fn of(rules: &'a Rules) -> Map<'a> {
        let settings = rules.0.iter().flat_map(|rule| &rule.settings);
        let routes = settings
            .filter(|asked| matches!(asked.setting, Setting::Alias(_) | Setting::CopyTo(_)));
        let mut names: Vec<&Name> = routes.flat_map(|asked| asked.setting.names()).collect();
        names.sort_unstable();
        names.dedup();
        Map { onward: names.into_iter().map(|name| (name, rules.of(name))).collect() }
    }

    /// The number of queues that these names reach. A queue counts once per path to it. `way` is
    /// the path so far.
    fn reach<'m>(
        &'m self,
        names: &'m [Name],
        way: &mut Vec<&'m [u8]>,
    ) -> Result<usize, Endless<'m>> {
        let mut count = 0;
        for name in names {
            if way.contains(&&**name) {
                return Err(Endless::Circle(name));
            }
            if way.len() == DESTINATIONS_MAX {
                return Err(Endless::TooMany);
            }
            way.push(name);
            let found = self.onward.binary_search_by_key(&name, |(known, _)| known);
            let (_, policy) = &self.onward[found.expect("all destinations are in the map")];
            count += 1 + self.reach(&policy.alias, way)? + self.reach(&policy.copy_to, way)?;
            way.pop();
            if count > DESTINATIONS_MAX {
                return Err(Endless::TooMany);
            }
        }
        Ok(count)
    }
}

fn shown(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}
