//! What another policy would mean for the jobs that a queue has now.

use api::types::QueueRow;
use broker::limits::QUEUE_NAME_BYTES_MAX;
use broker::policy::{DeadTarget, Policy, Rules, WhenFull, parent_name};
use serde::Serialize;

use crate::text::counted;

/// One thing that would happen.
#[derive(Debug, Eq, PartialEq, Serialize)]
pub(super) struct Effect {
    /// What it is, for programs.
    code: &'static str,
    /// How many jobs it concerns.
    jobs: u64,
    /// Whether there can be more such jobs.
    at_least: bool,
    /// What it is, for people.
    pub(super) text: String,
}

impl Effect {
    fn new(code: &'static str, jobs: u64, text: String) -> Effect {
        Effect { code, jobs, at_least: false, text }
    }

    /// Ready jobs of a queue are older than the new age.
    pub(super) fn expires(jobs: u64, at_least: bool, policy: &Policy, letters: &Letters) -> Effect {
        let begin = if at_least { "at least " } else { "" };
        let end = match (&policy.expire_to, letters) {
            (Some(queue), _) => format!("move to {}", api::shown_name(queue)),
            (None, Letters::Moved(queue)) if policy.dead.expired => {
                format!("become dead letters in {queue}")
            }
            (None, Letters::Buried) if policy.dead.expired => {
                "be buried as dead letters".to_owned()
            }
            (None, _) => "end".to_owned(),
        };
        let jobs_text = counted(jobs, "ready job");
        let text = format!("{begin}{jobs_text} would expire, by the time since the put, and {end}");
        Effect { code: "expires", jobs, at_least, text }
    }
}

/// Where the dead letters of a queue go.
#[derive(Debug)]
pub(super) enum Letters {
    /// To the queue with this shown name.
    Moved(String),
    /// They are buried in the queue.
    Buried,
    /// Nowhere: the jobs end.
    None,
}

impl Letters {
    /// Where the dead letters of the queue `name` would go, with this policy of these rules.
    pub(super) fn of(rules: &Rules, policy: &Policy, name: &[u8]) -> Letters {
        if policy.dead.target == DeadTarget::Drop || policy.dead.jobs_max == 0 {
            return Letters::None;
        }
        match policy.dead.target.queue_for(name).filter(|target| takes_letters(rules, target, name))
        {
            Some(target) => Letters::Moved(api::shown_name(&target)),
            None => Letters::Buried,
        }
    }
}

/// The parent of a queue by these rules, if the queue is a child. A name of a policy with a `+` is a child.
/// Other names with a `+` are so after a fan-out: `is_child`.
pub(super) fn parent_in<'a>(rules: &Rules, name: &'a [u8], is_child: bool) -> Option<&'a [u8]> {
    let is_child = is_child || rules.literal_names().any(|known| known == name);
    parent_name(name).filter(|_| is_child)
}

/// Whether the queue `target` can store the dead letters of the queue `name`. A queue that gets its own
/// dead letters buries them.
fn takes_letters(rules: &Rules, target: &[u8], name: &[u8]) -> bool {
    let real = rules.real_name(target).unwrap_or_else(|| target.into());
    let policy = rules.resolve(&real, parent_in(rules, &real, false));
    let has_length = (1..=QUEUE_NAME_BYTES_MAX).contains(&target.len());
    let is_other = !name.is_empty() && *real != *name;
    is_other && has_length && policy.alias.is_empty() && !policy.fanout_only
}

/// What would happen to a queue whose policy changes from `old` to `new`, without expiry. `letters`: where
/// its dead letters would go.
pub(super) fn effects(
    old: &Policy,
    new: &Policy,
    row: &QueueRow,
    letters: &Letters,
) -> Vec<Effect> {
    let mut effects = Vec::new();
    let jobs = row.ready + row.leased + row.delayed + row.buried;
    if old.same_as != new.same_as {
        effects.push(if let Some(target) = &new.same_as {
            let (target, jobs_text) = (api::shown_name(target), counted(jobs, "job"));
            let text = format!(
                "the name would stand for {target}: the {jobs_text} here would move there as \
                 soon as they are ready"
            );
            Effect::new("moves", jobs, text)
        } else {
            let text = "the name would stand for a queue of its own".to_owned();
            Effect::new("moves", 0, text)
        });
        return effects;
    }
    effects.extend(full(old, new, row, letters));
    let ready = || counted(row.ready, "ready job");
    match (old.pause.is_on, new.pause.is_on) {
        (false, true) => {
            let text = format!("{} would wait: the queue hands out no job", ready());
            effects.push(Effect::new("pauses", row.ready, text));
        }
        (true, false) => {
            let text = format!("the queue would hand out jobs again: it has {}", ready());
            effects.push(Effect::new("resumes", row.ready, text));
        }
        (false, false) | (true, true) => {}
    }
    effects.extend(slots(old, new, row));
    let of_queue = |policy: &Policy| policy.rate.filter(|_| policy.rate_key.is_none());
    let begins_empty =
        if new.rate_key.is_some() { new.sorts_after(old) } else { of_queue(old).is_none() };
    if new.rate.is_some() && begins_empty && row.ready > 0 {
        let buckets = if new.rate_key.is_some() {
            "the buckets of all keys begin"
        } else {
            "the bucket begins"
        };
        let text = format!("{} would wait for tokens: {buckets} empty", ready());
        effects.push(Effect::new("tokens", row.ready, text));
    }
    effects.extend(order(old, new, row));
    if old.alias != new.alias && !new.alias.is_empty() {
        let names: Vec<String> = new.alias.iter().map(|name| api::shown_name(name)).collect();
        let text = format!(
            "puts would go to {}: clients of Kestrel no longer get the {} here",
            names.join(", "),
            counted(jobs, "job")
        );
        effects.push(Effect::new("alias", jobs, text));
    }
    if old.unique.by != new.unique.by && jobs > 0 {
        let keep =
            if old.unique.by.is_some() { "keep the keys that they have" } else { "have no keys" };
        let text = format!("{} would {keep}: no put is a duplicate of them", counted(jobs, "job"));
        effects.push(Effect::new("keys", jobs, text));
    }
    effects
}

/// Workers hold as many jobs as a new limit allows, or more.
fn slots(old: &Policy, new: &Policy, row: &QueueRow) -> Option<Effect> {
    if row.leased == 0 {
        return None;
    }
    let held = counted(row.leased, "job");
    if new.forgets_leases_of(old) {
        let text = format!(
            "workers hold {held}, which would not count for the new limit: until these are done, \
             more jobs can be under way"
        );
        return Some(Effect::new("leases", row.leased, text));
    }
    let of_queue =
        |policy: &Policy| policy.concurrency.filter(|_| policy.concurrency_key.is_none());
    let limit = u64::from(of_queue(new)?.get());
    if of_queue(old) == of_queue(new) || row.leased < limit {
        return None;
    }
    let limit = counted(limit, "slot");
    let text =
        format!("workers hold {held} and keep them: no hand-out before one of {limit} is free");
    Some(Effect::new("slots", row.leased, text))
}

/// The queue hands out its jobs in another order.
fn order(old: &Policy, new: &Policy, row: &QueueRow) -> Vec<Effect> {
    let mut effects = Vec::new();
    let jobs = row.ready + row.leased + row.delayed + row.buried;
    if jobs > 0 && new.group_key().is_some() && old.group_key() != new.group_key() {
        let keys = if old.group_key().is_some() {
            "keep the keys that they have for limits, orders and shares"
        } else {
            "share the limits and the turns of the empty key"
        };
        effects.push(Effect::new("groups", jobs, format!("{} would {keys}", counted(jobs, "job"))));
    }
    if row.delayed > 0 && old.is_strict() != new.is_strict() {
        let delayed = counted(row.delayed, "delayed job");
        let text = if new.is_strict() {
            format!("of {delayed}, those that were handed out before would hold back others")
        } else {
            format!("jobs could pass {delayed}")
        };
        effects.push(Effect::new("order", row.delayed, text));
    }
    if row.ready == 0 {
        return effects;
    }
    let ready = counted(row.ready, "ready job");
    if old.fair != new.fair {
        let text = match (&old.fair.key, &new.fair.key) {
            (_, None) => format!("the keys would no longer share: {ready} by priority and order"),
            (None, Some(_)) => format!("the keys would share: {ready} in turns"),
            (Some(_), Some(_)) => format!("the keys would share anew: {ready} in other turns"),
        };
        effects.push(Effect::new("fair", row.ready, text));
    }
    if old.aging != new.aging {
        let by = if new.aging.is_some() { "and the time that they have waited" } else { "alone" };
        let text = format!("{ready} would be ordered by their priority {by}");
        effects.push(Effect::new("aging", row.ready, text));
    }
    if new.sorts_after(old) {
        let text =
            format!("no hand-out while the queue sorts {ready}: about a second for a million");
        effects.push(Effect::new("sorts", row.ready, text));
    }
    effects
}

/// The queue has more than a limit that changes.
fn full(old: &Policy, new: &Policy, row: &QueueRow, letters: &Letters) -> Option<Effect> {
    let limits = |policy: &Policy| (policy.jobs_max, policy.bytes_max, policy.when_full);
    if limits(old) == limits(new) {
        return None;
    }
    let has_jobs = new.jobs_max.is_some_and(|most| row.ready >= most);
    let has_bytes = new.bytes_max.is_some_and(|most| row.ready_bytes >= most);
    if !has_jobs && !has_bytes {
        return None;
    }
    let over = new.jobs_max.map_or(0, |most| row.ready.saturating_sub(most));
    let ready = counted(row.ready, "ready job");
    Some(match new.when_full {
        WhenFull::Refuse => {
            let text = format!("puts would be refused: the queue would be full with its {ready}");
            Effect::new("full", over, text)
        }
        WhenFull::Block => {
            let text =
                format!("puts would wait for room: the queue would be full with its {ready}");
            Effect::new("full", over, text)
        }
        WhenFull::DropOldest => {
            let drops = match letters {
                Letters::Moved(queue) if new.dead.dropped => {
                    format!("move up to two of the {ready} to {queue} as dead letters")
                }
                Letters::Buried if new.dead.dropped => {
                    format!("bury up to two of the {ready} as dead letters")
                }
                _ => format!("end up to two of the {ready}"),
            };
            let text = format!("each put would {drops}, until the queue is within its limits");
            Effect::new("drops", over, text)
        }
    })
}
