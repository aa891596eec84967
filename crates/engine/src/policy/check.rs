//! Checks rules. The engine cannot apply rules that send a put in a circle, or to too many queues.

use std::collections::BTreeSet;

use super::{
    DeadTarget, Name, Order, Pattern, Policy, Rule, RuleSetting, Rules, Setting, parent_name,
};
use crate::limits::QUEUE_NAME_BYTES_MAX;

/// Maximum number of queues in one `route.copy_to`.
pub const COPIES_MAX: usize = 8;
/// Maximum number of queues that one put can reach through aliases and copies. If several paths
/// reach a queue, the queue counts once for each path.
pub const DESTINATIONS_MAX: usize = 64;
/// Maximum size of the encoded rules in bytes. The log stores all rules as one fact, and a fact
/// must fit into one segment.
pub const RULES_BYTES_MAX: usize = 64 << 10;

/// An error in the rules, with the line of the wrong setting in the file. Line 0: the setting does
/// not come from a file.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum RulesError {
    /// A queue cannot have this name.
    #[error("{key}: a queue name has 1 to {QUEUE_NAME_BYTES_MAX} bytes")]
    Name {
        /// The line of the setting.
        line: u32,
        /// The key of the setting.
        key: &'static str,
    },
    /// A job that expires in this queue would come back to it.
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
    /// A put into this queue would come back to it.
    #[error("{key}: a put into `{name}` would come back to it")]
    Circle {
        /// The line of the setting.
        line: u32,
        /// The key of the setting.
        key: &'static str,
        /// A queue that is part of the circle.
        name: String,
    },
    /// The queue that a name stands for has a name that stands for another queue.
    #[error(
        "same_as: `{name}` has a `same_as` itself; name the queue that it stands for, \
         or set same_as = \"none\" in a later policy for `{name}`"
    )]
    StandsForAnother {
        /// The line of the setting.
        line: u32,
        /// The queue that the setting names.
        name: String,
    },
    /// A `route.copy_to` has too many queues.
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
        /// The key of the setting.
        key: &'static str,
    },
    /// The time before the first retry is longer than the longest time before a retry.
    #[error("retries.base: it is longer than `retries.max`")]
    RetryTimes {
        /// The line of the setting.
        line: u32,
    },
    /// A job of this queue would stay in it when it becomes a dead letter.
    #[error("dead.queue: the dead letters of `{name}` would stay in it; write \"bury\"")]
    DeadInItself {
        /// The line of the setting.
        line: u32,
        /// The queue.
        name: String,
    },
    /// A pause by a schedule lacks a part.
    #[error("pause: a pause with a schedule needs `{key}`")]
    PausePart {
        /// The line of a setting of the pause.
        line: u32,
        /// The key that is missing.
        key: &'static str,
    },
    /// A rule has several rates.
    #[error("{key}: a policy has one rate; write per_second, per_minute or per_hour")]
    SeveralRates {
        /// The line of the setting.
        line: u32,
        /// The key of the setting.
        key: &'static str,
    },
    /// A rule has several different keys for its limits.
    #[error("{key}: a queue has one key for all its limits; write the same key everywhere")]
    SeveralKeys {
        /// The line of the setting.
        line: u32,
        /// The key of the setting.
        key: &'static str,
    },
    /// A rule has a strict order without a limit of leased jobs.
    #[error(
        "concurrency.order: a strict order needs a limit; add `concurrency.limit = 1` to this policy"
    )]
    StrictWithoutLimit {
        /// The line of the setting.
        line: u32,
    },
    /// A rule has a strict order of the whole queue, and a limit for each key.
    #[error(
        "concurrency.order: without `concurrency.key`, the whole queue has one order, so no other \
         key can count; add the same key as `concurrency.key`"
    )]
    StrictWithoutKey {
        /// The line of the setting.
        line: u32,
    },
    /// All rules together are too large.
    #[error("all policies together are larger than 64KiB")]
    TooLarge,
}

impl RulesError {
    /// The line of the error in the file, counted from 1. 0: the error has no line.
    pub fn line(&self) -> u32 {
        match self {
            RulesError::Name { line, .. }
            | RulesError::ExpiresToItself { line, .. }
            | RulesError::DeadInItself { line, .. }
            | RulesError::Circle { line, .. }
            | RulesError::StandsForAnother { line, .. }
            | RulesError::TooManyCopies { line }
            | RulesError::RetryTimes { line }
            | RulesError::PausePart { line, .. }
            | RulesError::SeveralRates { line, .. }
            | RulesError::SeveralKeys { line, .. }
            | RulesError::StrictWithoutLimit { line }
            | RulesError::StrictWithoutKey { line }
            | RulesError::TooManyDestinations { line, .. } => *line,
            RulesError::TooLarge => 0,
        }
    }
}

/// The reason why the search for destinations stopped.
enum Endless<'a> {
    Circle(&'a [u8]),
    TooMany,
}

impl Rules {
    /// Returns an error for the first setting that the engine cannot apply.
    pub fn check(&self) -> Result<(), RulesError> {
        // The check of the size comes first, because it limits the work of the other checks.
        if self.encode().len() > RULES_BYTES_MAX {
            return Err(RulesError::TooLarge);
        }
        for rule in &self.0 {
            rule.check_retries()?;
            rule.check_rates()?;
            rule.check_pause()?;
            rule.check_keys()?;
            rule.check_order()?;
            rule.check_dead_queue()?;
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
                Setting::SameAs(Some(target)) if self.real_name(target).is_some() => {
                    return Err(RulesError::StandsForAnother { line, name: shown(target) });
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

    /// Follows `expire_to` from this queue to the next, and so on. If the path leads into a circle,
    /// returns a queue of the circle. `None`: the path ends.
    fn circle_of_expiry(&self, target: &Name) -> Option<Name> {
        let mut seen = BTreeSet::new();
        let mut at = self.real(target);
        while let Some(next) = self.of(&at).expire_to.map(|next| self.real(&next)) {
            if !seen.insert(std::mem::replace(&mut at, next)) {
                return Some(at);
            }
        }
        None
    }

    /// The policy of this name, as that of a child if its name has a `+`.
    pub(super) fn of(&self, name: &[u8]) -> Policy {
        self.resolve(name, parent_name(name))
    }

    /// The name of the queue that this name stands for, or the name itself.
    pub(super) fn real(&self, name: &[u8]) -> Name {
        self.real_name(name).unwrap_or_else(|| name.into())
    }
}

impl Rule {
    /// Checks the times of one rule. With times from several rules, the shorter one counts.
    fn check_retries(&self) -> Result<(), RulesError> {
        let max = self.settings.iter().find_map(|asked| match asked.setting {
            Setting::RetryMax(millis) => Some(millis),
            _ => None,
        });
        for asked in &self.settings {
            if let (Setting::RetryBase(base), Some(max)) = (&asked.setting, max)
                && *base > max
            {
                return Err(RulesError::RetryTimes { line: asked.line });
            }
        }
        Ok(())
    }

    /// Checks that a rule has at most one rate. Of several rules, the last rate counts.
    fn check_rates(&self) -> Result<(), RulesError> {
        let mut rates =
            self.settings.iter().filter(|asked| matches!(asked.setting, Setting::Rate(_)));
        match rates.nth(1) {
            Some(second) => {
                let key = second.setting.key();
                Err(RulesError::SeveralRates { line: second.line, key })
            }
            None => Ok(()),
        }
    }

    /// Checks that the limits of one rule count for the same key.
    fn check_keys(&self) -> Result<(), RulesError> {
        let keys = self.settings.iter().filter_map(|asked| match &asked.setting {
            Setting::RateKey(Some(key))
            | Setting::ConcurrencyKey(Some(key))
            | Setting::FairKey(Some(key)) => Some((asked, key)),
            _ => None,
        });
        let mut keys = keys.collect::<Vec<_>>().into_iter();
        let Some((_, first)) = keys.next() else { return Ok(()) };
        match keys.find(|(_, key)| *key != first) {
            Some((asked, _)) => {
                Err(RulesError::SeveralKeys { line: asked.line, key: asked.setting.key() })
            }
            None => Ok(()),
        }
    }

    /// Checks that no queue that the rule names gets its own dead letters. A pattern with wildcards can
    /// match the target, because many queues can have one dead queue with a similar name.
    fn check_dead_queue(&self) -> Result<(), RulesError> {
        let names = || {
            let literal = self.patterns.iter().filter_map(Pattern::literal);
            // As a target, it stands for the name of every queue.
            literal.chain([&b"{name}"[..]])
        };
        for asked in &self.settings {
            if let Setting::DeadQueue(target) = &asked.setting
                && let Some(name) = names()
                    .find(|name| target.queue_for(name).is_some_and(|queue| *queue == **name))
            {
                return Err(RulesError::DeadInItself { line: asked.line, name: shown(name) });
            }
        }
        Ok(())
    }

    /// Checks that a strict order has its limit in the same rule, and that no other key is beside it.
    fn check_order(&self) -> Result<(), RulesError> {
        let is_strict =
            |asked: &&RuleSetting| asked.setting == Setting::ConcurrencyOrder(Order::Strict);
        let Some(strict) = self.settings.iter().find(is_strict) else { return Ok(()) };
        let line = strict.line;
        let has =
            |wanted: fn(&Setting) -> bool| self.settings.iter().any(|asked| wanted(&asked.setting));
        if !has(|setting| matches!(setting, Setting::Concurrency(Some(_)))) {
            return Err(RulesError::StrictWithoutLimit { line });
        }
        let has_key = has(|setting| matches!(setting, Setting::ConcurrencyKey(Some(_))));
        let other = |setting: &Setting| {
            matches!(setting, Setting::RateKey(Some(_)) | Setting::FairKey(Some(_)))
        };
        if !has_key && has(other) {
            return Err(RulesError::StrictWithoutKey { line });
        }
        Ok(())
    }
}

impl Setting {
    /// The destinations in the value of the setting.
    fn names(&self) -> &[Name] {
        match self {
            Setting::ExpireTo(name) | Setting::SameAs(name) => name.as_slice(),
            Setting::DeadQueue(DeadTarget::Queue(name)) => std::slice::from_ref(name),
            Setting::Alias(names) | Setting::CopyTo(names) => names,
            _ => &[],
        }
    }
}

/// All queues that a rule names as the destination of an alias or a copy, with their policies. The
/// policy of a queue has the next destinations of a put. Each queue of a circle is a destination of
/// another queue of the circle. So other queues need no check.
struct Map<'a> {
    onward: Vec<Destination<'a>>,
}

struct Destination<'a> {
    /// The name in the rule.
    name: &'a Name,
    /// The name of the queue that it stands for, and the policy of this queue.
    real: Name,
    policy: Policy,
}

impl<'a> Map<'a> {
    fn of(rules: &'a Rules) -> Map<'a> {
        let settings = rules.0.iter().flat_map(|rule| &rule.settings);
        let routes = settings
            .filter(|asked| matches!(asked.setting, Setting::Alias(_) | Setting::CopyTo(_)));
        let mut names: Vec<&Name> = routes.flat_map(|asked| asked.setting.names()).collect();
        names.sort_unstable();
        names.dedup();
        let onward = names.into_iter().map(|name| {
            let real = rules.real(name);
            let policy = rules.of(&real);
            Destination { name, real, policy }
        });
        Map { onward: onward.collect() }
    }

    /// The number of queues that a put into all these queues reaches. A queue counts once for each
    /// path to it. `way` has the queues on the path to these queues.
    fn reach<'m>(
        &'m self,
        names: &'m [Name],
        way: &mut Vec<&'m [u8]>,
    ) -> Result<usize, Endless<'m>> {
        let mut count = 0;
        for name in names {
            let found = self.onward.binary_search_by_key(&name, |known| known.name);
            let Destination { real, policy, .. } =
                &self.onward[found.expect("all destinations are in the map")];
            if way.contains(&&**real) {
                return Err(Endless::Circle(name));
            }
            if way.len() == DESTINATIONS_MAX {
                return Err(Endless::TooMany);
            }
            way.push(real);
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
