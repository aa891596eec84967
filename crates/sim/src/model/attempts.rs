//! Failed attempts, with and without the policy `retries`.

use broker::policy::Retries;
use broker::{DeathCause, FailureCause, JobId};

use super::outcome::News;
use super::record::Record;
use super::{JobKind, Model, ReturnOrder, State};

/// What the policy says about a failed attempt.
pub(super) enum Verdict {
    /// Nothing: the behaviour of the original applies.
    Original,
    /// The job becomes ready after this many milliseconds.
    Retry(u64),
    /// The job has failed too often.
    GiveUp,
}

impl Model {
    fn retries_of(&self, id: u64) -> Retries {
        self.queues[&self.jobs[&id].queue].policy.retries.clone()
    }

    /// True if the policy `retries` applies to a job that its worker reports as failed.
    pub(super) fn retries(&self, id: u64) -> bool {
        let job = &self.jobs[&id];
        self.retries_of(id).is_on && job.kind != JobKind::Watched && job.death.is_none()
    }

    /// Counts a failed attempt. `counts` says whether this kind of failure counts.
    pub(super) fn judge(&mut self, id: u64, counts: impl Fn(&Retries) -> bool) -> Verdict {
        let retries = self.retries_of(id);
        if !self.retries(id) || !counts(&retries) {
            return Verdict::Original;
        }
        let job = self.job_mut(id);
        job.attempts += 1;
        if job.attempts > retries.limit {
            Verdict::GiveUp
        } else {
            Verdict::Retry(retries.wait_ms(JobId(id), job.attempts))
        }
    }

    /// Ends the lease of a job, because the holder loses the job. This counts as a lost attempt.
    pub(super) fn lose(&mut self, id: u64, cause: FailureCause) {
        let has_left = cause == FailureCause::HolderLeft;
        let verdict = self.judge(id, |retries| !has_left || retries.counts_disconnect);
        self.end_attempt(id, verdict, &News::Fail, cause);
    }

    /// A worker reports a failure, and the policy `retries` applies.
    pub(super) fn fail_reported(&mut self, id: u64, news: &News) {
        let verdict = self.judge(id, |_| true);
        self.end_attempt(id, verdict, news, FailureCause::Reported);
    }

    fn end_attempt(&mut self, id: u64, verdict: Verdict, news: &News, cause: FailureCause) {
        // Gearman's own limit is for jobs without the policy, and not for dead letters.
        let is_unlimited = self.retries(id) || self.jobs[&id].death.is_some();
        let attempts_max = if is_unlimited { 0 } else { self.setting.attempts_max };
        let queue = self.jobs[&id].queue.clone();
        let job = self.job_mut(id);
        let State::Leased(lease) = job.state else { panic!("no session holds job {id}") };
        job.counts.failures += 1;
        job.progress = (0, 0);
        let is_original = matches!(verdict, Verdict::Original);
        let wait = match verdict {
            Verdict::Original => 0,
            Verdict::Retry(wait) => wait,
            Verdict::GiveUp => {
                self.give_up(id, news, DeathCause::Failed(cause), lease.place);
                return;
            }
        };
        let is_exhausted = is_original
            && attempts_max > 0
            && job.tags.is_some()
            && job.counts.failures >= attempts_max;
        if is_exhausted {
            self.end_job(id, &News::Fail);
            return;
        }
        if self.is_abandoned(id) {
            self.remove_job(id);
            return;
        }
        if lease.loss == ReturnOrder::ToTail {
            let order = self.next_id;
            self.next_id += 1;
            self.job_mut(id).order = order;
        }
        if wait > 0 {
            let due = self.now + wait;
            let job = self.job_mut(id);
            (job.since, job.state) = (0, State::Delayed { due });
            self.record(id, Record::Moved);
            self.keep_slot(&queue, id);
            return;
        }
        if is_original && lease.loss == ReturnOrder::KeepPlace {
            self.record_counts(id);
        } else {
            // Recorded as ready, from the put on.
            self.job_mut(id).since = 0;
            self.record(id, Record::Moved);
        }
        self.offer(id);
    }
}
