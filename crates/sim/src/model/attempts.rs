//! Failed attempts, with and without the policy `retries`.

use broker::JobId;
use broker::policy::Retries;

use super::outcome::News;
use super::record::Record;
use super::{JobKind, Model, ReturnOrder, State, StoredJob};

/// What the policy says about a failed attempt.
pub(super) enum Verdict {
    /// Nothing: the behaviour of the original applies.
    Original,
    /// The job becomes ready after this many milliseconds.
    Retry(u64),
    /// The job has failed too often.
    GiveUp,
}

/// Why a holder loses a job.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(super) enum Loss {
    /// Its lease has ended, or it gave an item back.
    Failed,
    /// It has disconnected, or can no longer do the job.
    Left,
}

impl Model {
    fn retries_of(&self, id: u64) -> Retries {
        self.queues[&self.jobs[&id].queue].policy.retries.clone()
    }

    /// True if the policy `retries` applies to a job that its worker reports as failed.
    pub(super) fn retries(&self, id: u64) -> bool {
        self.retries_of(id).is_on && self.jobs[&id].kind != JobKind::Watched
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
    pub(super) fn lose(&mut self, id: u64, loss: Loss) {
        let verdict = self.judge(id, |retries| loss == Loss::Failed || retries.counts_disconnect);
        self.end_attempt(id, verdict, &News::Fail);
    }

    /// A worker reports a failure, and the policy `retries` applies.
    pub(super) fn fail_reported(&mut self, id: u64, news: &News) {
        let verdict = self.judge(id, |_| true);
        self.end_attempt(id, verdict, news);
    }

    fn end_attempt(&mut self, id: u64, verdict: Verdict, news: &News) {
        // Gearman's own limit is for jobs without the policy.
        let attempts_max = if self.retries(id) { 0 } else { self.setting.attempts_max };
        let job = self.job_mut(id);
        let State::Leased(lease) = job.state else { panic!("no session holds job {id}") };
        job.counts.failures += 1;
        job.progress = (0, 0);
        let is_original = matches!(verdict, Verdict::Original);
        let wait = match verdict {
            Verdict::Original => 0,
            Verdict::Retry(wait) => wait,
            Verdict::GiveUp => return self.give_up(id, news, Record::Moved),
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

    /// Buries a job that has failed too often.
    pub(super) fn give_up(&mut self, id: u64, news: &News, record: fn(u64, StoredJob) -> Record) {
        let order = self.next_buried;
        self.next_buried += 1;
        let job = self.job_mut(id);
        job.state = State::Buried { order };
        let watchers = std::mem::take(&mut job.watchers);
        self.record(id, record);
        let need = self.jobs[&id].need;
        self.send_last_news(watchers, id, news, need);
    }
}
