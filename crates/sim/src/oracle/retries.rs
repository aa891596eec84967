//! The record of attempts. Checks that no job is handed out again after more failures than the policy of
//! its queue allows. A job that is handed out again has failed since its last hand-out: its worker gave it
//! back, was gone, or took too long. If somebody kicked or moved the job, the count begins anew. The oracle
//! sees only some hand-outs, so it counts too few failures, and never too many.

use std::collections::{BTreeMap, BTreeSet};

use broker::policy::Rules;

use super::rules::{QueueRules, resolve_for_certain};
use crate::Checked;

#[derive(Debug, Default)]
pub(super) struct Retries {
    /// The rules in force.
    rules: Rules,
    /// True if the earlier rules can still apply to some queues.
    is_changing: bool,
    attempts: BTreeMap<JobRef, Attempts>,
    /// Jobs that a client took by their number. Each can be a dead letter that was buried in its queue,
    /// which never dies again.
    exempt: BTreeSet<u64>,
    pub(super) judged: u64,
}

/// A job by its number, or an item by the oracle's number for it.
#[derive(Copy, Clone, Debug, Eq, PartialEq, Ord, PartialOrd)]
pub(super) enum JobRef {
    Job(u64),
    Item(usize),
}

/// The hand-outs of a job in one queue since the rules are in force.
#[derive(Debug)]
struct Attempts {
    queue: String,
    count: u32,
}

impl Retries {
    /// Notes other rules. If `in_slices`, the earlier rules can apply to some queues until
    /// [`Retries::settled`] is called.
    pub(super) fn changed(&mut self, rules: &Rules, in_slices: bool) {
        self.rules = rules.clone();
        self.is_changing = in_slices;
        self.attempts.clear();
    }

    pub(super) fn settled(&mut self) {
        self.is_changing = false;
    }

    /// Notes another process with these rules. An attempt during which the server ended has not failed.
    pub(super) fn began(&mut self, rules: &Rules) {
        self.changed(rules, false);
    }

    /// Somebody kicked or moved this job.
    pub(super) fn forget(&mut self, id: u64) {
        self.attempts.remove(&JobRef::Job(id));
    }

    /// A client took this job by its number.
    pub(super) fn exempt(&mut self, id: u64) {
        self.exempt.insert(id);
    }

    /// A client kicked some jobs of this queue.
    pub(super) fn forget_all(&mut self, queue: &str) {
        self.attempts.retain(|_, attempts| attempts.queue != queue);
    }

    /// The number of failures after which the queue certainly hands a job out no more. `None`: the oracle
    /// does not know, or there is no limit.
    fn limit(&self, queue: &str) -> Option<u32> {
        let rules = resolve_for_certain(&self.rules, queue).filter(|_| !self.is_changing);
        rules.as_ref().and_then(QueueRules::retry_limit)
    }

    /// A worker that takes jobs only from this queue got the job.
    pub(super) fn handed_out(&mut self, job: JobRef, queue: &str) -> Checked {
        if matches!(job, JobRef::Job(id) if self.exempt.contains(&id)) {
            return Ok(());
        }
        let Some(limit) = self.limit(queue) else { return Ok(()) };
        let new = || Attempts { queue: queue.to_owned(), count: 0 };
        let attempts = self.attempts.entry(job).or_insert_with(new);
        if attempts.queue != queue {
            *attempts = new();
        }
        let failures = attempts.count;
        attempts.count += 1;
        self.judged += u64::from(failures > 0);
        if failures > limit {
            return Err(format!(
                "{job:?} of {queue} failed {failures} times, the limit is {limit}"
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use broker::policy::{Rule, Setting};

    use super::*;

    const JOB: JobRef = JobRef::Job(7);

    fn retries(limit: u32) -> Rules {
        Rules(vec![Rule::new(["q"], [Setting::Retries(true), Setting::RetryLimit(limit)])])
    }

    #[test]
    fn a_failure_too_many_is_noticed() {
        let mut record = Retries::default();
        record.changed(&retries(1), false);
        record.handed_out(JOB, "q").expect("the first");
        record.handed_out(JOB, "q").expect("one retry");
        record.handed_out(JobRef::Item(7), "q").expect("another");
        let error = record.handed_out(JOB, "q").expect_err("two failures");
        assert!(error.contains("failed 2 times"), "{error}");
        record.forget(7);
        record.handed_out(JOB, "q").expect("it was kicked");
        for _ in 0..3 {
            record.handed_out(JOB, "other").expect("another queue has no limit");
        }
        record.exempt(7);
        for _ in 0..3 {
            record.handed_out(JOB, "q").expect("it can be a dead letter");
        }
    }

    #[test]
    fn releases_that_do_not_count_have_no_limit() {
        let mut record = Retries::default();
        let mut rules = retries(0);
        rules.0.push(Rule::new(["q"], [Setting::RetryRelease(false)]));
        record.changed(&rules, false);
        for _ in 0..3 {
            record.handed_out(JOB, "q").expect("its worker can have released it");
        }
    }

    #[test]
    fn nothing_is_certain_after_a_change() {
        let mut record = Retries::default();
        for act in [
            |record: &mut Retries| record.changed(&retries(0), false),
            |record: &mut Retries| record.began(&retries(0)),
            |record: &mut Retries| record.forget_all("q"),
        ] {
            record.changed(&retries(0), true);
            record.handed_out(JOB, "q").expect("the rules are changing");
            record.settled();
            record.handed_out(JOB, "q").expect("the first that counts");
            act(&mut record);
            record.handed_out(JOB, "q").expect("the first again");
        }
    }
}
