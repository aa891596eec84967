//! What another policy would mean for the jobs that a queue has now.

use api::types::QueueRow;
use broker::policy::{Policy, WhenFull};
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

    /// Ready jobs are older than the new age.
    pub(super) fn expires(jobs: u64, at_least: bool, policy: &Policy) -> Effect {
        let begin = if at_least { "at least " } else { "" };
        let end = match &policy.expire_to {
            Some(queue) => format!("move to {}", api::shown_name(queue)),
            None => "end".to_owned(),
        };
        let jobs_text = counted(jobs, "ready job");
        let text = format!("{begin}{jobs_text} would expire, by the time since the put, and {end}");
        Effect { code: "expires", jobs, at_least, text }
    }
}

/// What would happen to a queue whose policy changes from `old` to `new`, without expiry.
pub(super) fn effects(old: &Policy, new: &Policy, row: &QueueRow) -> Vec<Effect> {
    let mut effects = Vec::new();
    effects.extend(full(old, new, row));
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
    let limit = new.concurrency.map(|limit| u64::from(limit.get()));
    if old.concurrency != new.concurrency
        && let Some(limit) = limit.filter(|limit| row.leased >= *limit)
    {
        let (held, limit) = (counted(row.leased, "job"), counted(limit, "slot"));
        let text =
            format!("workers hold {held} and keep them: no hand-out before one of {limit} is free");
        effects.push(Effect::new("slots", row.leased, text));
    }
    if old.rate.is_none() && new.rate.is_some() && row.ready > 0 {
        let text = format!("{} would wait for tokens: the bucket begins empty", ready());
        effects.push(Effect::new("tokens", row.ready, text));
    }
    let jobs = row.ready + row.leased + row.delayed + row.buried;
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

/// The queue has more than a limit that changes.
fn full(old: &Policy, new: &Policy, row: &QueueRow) -> Option<Effect> {
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
        WhenFull::DropOldest => {
            let text = format!(
                "each put would end up to two of the {ready}, until the queue is within its limits"
            );
            Effect::new("drops", over, text)
        }
    })
}
