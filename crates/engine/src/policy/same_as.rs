//! Names that stand for another queue: puts and takes of such a name are puts and takes of that queue.

use super::{DESTINATIONS_MAX, Name, Policy, Rule, RuleSetting, Rules, Setting, parent_name};
use crate::limits::QUEUE_NAME_BYTES_MAX;
use crate::queues::DEFAULT_QUEUE;

impl Rules {
    /// The name of the queue that this name stands for. `None`: the name stands for a queue of its
    /// own.
    ///
    /// If `a` stands for `b`, then `a+x` stands for `b+x`, unless a rule says otherwise. So a child
    /// that a client names by another name of its parent gets the parent's puts. Sessions begin with
    /// the queue `default`, so this name always stands for its own queue.
    pub fn real_name(&self, name: &[u8]) -> Option<Name> {
        real_name_by(name, |name, except| self.last_same_as(name, except))
    }

    /// The queue that gets the jobs of a queue whose name now stands for this name, and its policy. An
    /// alias stores no jobs. A job is one job, so its first destination alone gets it. Calls `search` with
    /// each name, before it searches the rules for this name.
    pub(super) fn receiver(&self, name: &[u8], mut search: impl FnMut(&[u8])) -> (Name, Policy) {
        search(name);
        let mut receiver: Name = name.into();
        let mut policy = self.of(&receiver);
        // The bound is only a safeguard: the check of rules has followed all destinations of aliases.
        for _ in 0..DESTINATIONS_MAX {
            let Some(first) = policy.alias.first() else { break };
            search(first);
            receiver = self.real(first);
            search(&receiver);
            policy = self.of(&receiver);
        }
        (receiver, policy)
    }

    /// The line of the setting that makes this name stand for another queue.
    pub(super) fn line_of_same_as(&self, name: &[u8]) -> Option<u32> {
        let parent = parent_name(name);
        let of_parent = || self.last_same_as(parent?, None);
        self.last_same_as(name, parent).or_else(of_parent).map(|asked| asked.line)
    }

    /// The last setting for a name, in a rule that does not match `except`.
    fn last_same_as(&self, name: &[u8], except: Option<&[u8]>) -> Option<&RuleSetting> {
        let is_for_both = |rule: &&Rule| except.is_some_and(|except| rule.matches(except));
        let rules = self.0.iter().filter(|rule| rule.matches(name) && !is_for_both(rule));
        rules.rev().find_map(same_as_of)
    }

    /// Whether any name stands for another queue.
    pub(super) fn have_same_as(&self) -> bool {
        let mut all = self.0.iter().flat_map(|rule| &rule.settings);
        all.any(|asked| matches!(asked.setting, Setting::SameAs(Some(_))))
    }
}

/// See [`Rules::real_name`]. `last_same_as` finds the last setting for a name, in a rule that does not match
/// another name.
pub(super) fn real_name_by<'a>(
    name: &[u8],
    last_same_as: impl Fn(&[u8], Option<&[u8]>) -> Option<&'a RuleSetting>,
) -> Option<Name> {
    let parent = parent_name(name).filter(|parent| !parent.is_empty());
    // As with other settings, a rule that matches the parent, too, is no rule for the child.
    if let Some(asked) = last_same_as(name, parent) {
        return target(asked).filter(|_| name != DEFAULT_QUEUE);
    }
    let parent = parent?;
    let real = target(last_same_as(parent, None)?).filter(|_| parent != DEFAULT_QUEUE)?;
    let child: Name = [&*real, &name[parent.len()..]].concat().into();
    if child.len() > QUEUE_NAME_BYTES_MAX {
        return None;
    }
    Some(last_same_as(&child, Some(&real)).and_then(target).unwrap_or(child))
}

/// The last setting of a rule that makes its names stand for another queue.
pub(super) fn same_as_of(rule: &Rule) -> Option<&RuleSetting> {
    rule.settings.iter().rfind(|asked| matches!(asked.setting, Setting::SameAs(_)))
}

fn target(asked: &RuleSetting) -> Option<Name> {
    match &asked.setting {
        Setting::SameAs(target) => target.clone(),
        _ => None,
    }
}

impl Policy {
    /// The policy of a queue whose name now stands for `target`. Its ready jobs move at once to
    /// `receiver`, which has this policy, and it vanishes when it is empty and unused. Until its leased
    /// jobs come back or end, what `receiver` does with such jobs applies to them.
    pub(super) fn moving_to(target: Name, receiver: Name, of_receiver: Policy) -> Policy {
        let Policy { retries, dead, history, result_keep_ms, sync, durable_leases, .. } =
            of_receiver;
        Policy {
            same_as: Some(target),
            expire_to: Some(receiver),
            age_max_ms: Some(0),
            idle_ms: Some(0),
            retries,
            dead,
            history,
            result_keep_ms,
            sync,
            durable_leases,
            ..Policy::default()
        }
    }
}
