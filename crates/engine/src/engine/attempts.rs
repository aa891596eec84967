//! Failed attempts: a holder got a job and did not finish it. All failed attempts of all dialects
//! come to [`Engine::fail_attempt`], which decides what happens to the job.
//!
//! Without the policy `retries`, each kind of failure has the behaviour of its protocol's original.
//! With it, the job is delayed for a time that grows with each failure. The failure after the last
//! retry buries the job. The policy does not apply to jobs that exist only for their watchers: their
//! clients wait, and decide themselves.

use super::Engine;
use crate::effects::{Effects, News, Record};
use crate::ids::{JobId, JobSlot, Millis};
use crate::jobs::{JobKind, State};
use crate::sessions::{ReturnOrder, Session};
use crate::spans::LeaseEnd;

/// How an attempt failed.
#[derive(Copy, Clone, Debug)]
pub(super) enum Failure<'a> {
    /// The lease has reached its deadline.
    TimedOut,
    /// The holder gave back the item of an open read.
    Aborted,
    /// The holder has disconnected, or can no longer do the job. The value says where its jobs
    /// return to, because the session may be gone.
    HolderLeft(ReturnOrder),
    /// The holder gave the job back, with a new priority. The job becomes ready, or delayed.
    Released { priority: u32, delay_s: u32 },
    /// The holder reported that the job failed. The watchers of the job get this news.
    Reported(&'a News),
}

/// What the policy `retries` says about a failed attempt.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
enum Verdict {
    /// Nothing: the behaviour of the original applies.
    Original,
    /// The job becomes ready after this many milliseconds.
    Retry(u64),
    /// The job has failed too often.
    GiveUp,
}

impl Engine {
    /// Ends the lease of a job that its holder did not finish. The job returns to its queue, is
    /// buried, or ends.
    pub(super) fn fail_attempt(
        &mut self,
        slot: JobSlot,
        failure: Failure<'_>,
        effects: &mut Effects,
    ) {
        let verdict = self.judge(slot, failure);
        match failure {
            Failure::TimedOut => {
                self.jobs[slot].count(|counters| &mut counters.timeouts);
                self.tally.timeouts += 1;
                self.lose(slot, self.return_order(slot), verdict, effects);
            }
            Failure::Aborted => self.lose(slot, self.return_order(slot), verdict, effects),
            Failure::HolderLeft(return_order) => self.lose(slot, return_order, verdict, effects),
            Failure::Released { priority, delay_s } => {
                self.release(slot, (priority, delay_s), verdict, effects);
            }
            Failure::Reported(news) => self.report_failure(slot, news, verdict, effects),
        }
    }

    /// Whether the policy `retries` applies to this job.
    fn retries(&self, slot: JobSlot) -> bool {
        let job = &self.jobs[slot];
        let extension = self.queues[job.queue()].extension();
        job.kind() != JobKind::Watched
            && extension.is_some_and(|extension| extension.policy().retries.is_on)
    }

    /// Counts a failed attempt, and decides whether the job is retried.
    fn judge(&mut self, slot: JobSlot, failure: Failure<'_>) -> Verdict {
        let job = &mut self.jobs[slot];
        let Some(extension) = self.queues[job.queue()].extension() else {
            return Verdict::Original;
        };
        let retries = &extension.policy().retries;
        let counts = match failure {
            Failure::TimedOut | Failure::Aborted | Failure::Reported(_) => true,
            Failure::HolderLeft(_) => retries.counts_disconnect,
            Failure::Released { .. } => retries.counts_release,
        };
        if !retries.is_on || !counts || job.kind() == JobKind::Watched {
            return Verdict::Original;
        }
        let attempts = job.count_attempt();
        if attempts > retries.limit {
            return Verdict::GiveUp;
        }
        Verdict::Retry(retries.wait_ms(job.id(), attempts))
    }

    /// Where the jobs of this job's holder return to.
    fn return_order(&self, slot: JobSlot) -> ReturnOrder {
        let holder = self.jobs[slot].lease().and_then(|lease| self.sessions.find(lease.holder));
        holder.map(Session::return_order).unwrap_or_default()
    }

    /// Gives back a job on its holder's request. If the job is retried, the longer delay wins.
    fn release(
        &mut self,
        slot: JobSlot,
        (priority, delay_s): (u32, u32),
        verdict: Verdict,
        effects: &mut Effects,
    ) {
        self.tally.releases += 1;
        self.end_lease(slot, LeaseEnd::GivenBack);
        let job = &mut self.jobs[slot];
        job.set_priority(priority);
        job.set_due(self.now.plus_seconds(delay_s));
        job.set_delay_s(delay_s);
        job.count(|counters| &mut counters.releases);
        if job.is_abandoned() {
            return self.remove_job(slot, effects);
        }
        match verdict {
            Verdict::Original => {}
            Verdict::Retry(wait_ms) => {
                let due = Millis(self.now.0.saturating_add(wait_ms)).max(job.due());
                job.set_due(due);
            }
            Verdict::GiveUp => return self.give_up(slot, &News::Fail, Record::Update, effects),
        }
        let next = if job.due() > self.now { State::Delayed } else { State::Ready };
        self.change_state(slot, next);
        self.note(Record::Update, slot, effects);
        self.enlist(slot, effects);
    }

    /// Returns a job that its holder has lost.
    fn lose(
        &mut self,
        slot: JobSlot,
        return_order: ReturnOrder,
        verdict: Verdict,
        effects: &mut Effects,
    ) {
        self.end_lease(slot, LeaseEnd::Lost);
        if let Some(extension) = self.queues[self.jobs[slot].queue()].extension_mut() {
            extension.cancelled += 1;
        }
        let job = &mut self.jobs[slot];
        job.count(|counters| &mut counters.failures);
        job.forget_progress();
        match verdict {
            Verdict::Original => self.return_lost(slot, return_order, effects),
            Verdict::Retry(wait_ms) => self.retry(slot, return_order, wait_ms, effects),
            Verdict::GiveUp => self.give_up(slot, &News::Fail, Record::Moved, effects),
        }
    }

    /// Returns a lost job to its queue, as the originals do. In two cases the job ends instead.
    /// Either the job has used up its attempts, or it exists only for its watchers and has no
    /// watcher left.
    fn return_lost(&mut self, slot: JobSlot, return_order: ReturnOrder, effects: &mut Effects) {
        let job = &self.jobs[slot];
        let is_limited = self.attempts_max > 0 && job.is_submitted() && !self.retries(slot);
        if is_limited && job.counters().failures >= self.attempts_max {
            return self.end_job(slot, &News::Fail, effects);
        }
        if job.is_abandoned() {
            return self.remove_job(slot, effects);
        }
        match return_order {
            ReturnOrder::KeepPlace => self.note(Record::Count, slot, effects),
            ReturnOrder::ToTail => {
                self.jobs.move_to_tail(slot);
                self.note(Record::Moved, slot, effects);
            }
        }
        // The age of the job counts from its put again. If the age counted from now, a job that
        // crashes every worker would never expire.
        self.jobs[slot].set_due(Millis(0));
        self.change_state(slot, State::Ready);
        self.deliver_or_list(slot, effects);
    }

    /// Ends a job that its holder reports as failed, or buries a job that was put: a worker of
    /// beanstalkd would also bury it. The watchers of a retried job wait for its next attempt.
    fn report_failure(
        &mut self,
        slot: JobSlot,
        news: &News,
        verdict: Verdict,
        effects: &mut Effects,
    ) {
        let wait_ms = match verdict {
            Verdict::Original if self.jobs[slot].is_submitted() => {
                return self.finish_job(slot, news, effects);
            }
            Verdict::Original => {
                self.send_last_news(slot, news, effects);
                return self.bury_held(slot, self.jobs[slot].priority(), effects);
            }
            Verdict::Retry(wait_ms) => Some(wait_ms),
            Verdict::GiveUp => None,
        };
        let return_order = self.return_order(slot);
        self.end_lease(slot, LeaseEnd::Failed);
        let job = &mut self.jobs[slot];
        job.count(|counters| &mut counters.failures);
        job.forget_progress();
        match wait_ms {
            Some(wait_ms) => self.retry(slot, return_order, wait_ms, effects),
            None => self.give_up(slot, news, Record::Moved, effects),
        }
    }

    /// Delays a job without a lease before its next attempt.
    fn retry(
        &mut self,
        slot: JobSlot,
        return_order: ReturnOrder,
        wait_ms: u64,
        effects: &mut Effects,
    ) {
        if return_order == ReturnOrder::ToTail {
            self.jobs.move_to_tail(slot);
        }
        let (due, next) = match wait_ms {
            0 => (Millis(0), State::Ready),
            _ => (Millis(self.now.0.saturating_add(wait_ms)), State::Delayed),
        };
        self.jobs[slot].set_due(due);
        self.change_state(slot, next);
        self.note(Record::Moved, slot, effects);
        self.enlist(slot, effects);
    }

    /// Buries a job without a lease that has failed too often. Its watchers get the last news.
    fn give_up(
        &mut self,
        slot: JobSlot,
        news: &News,
        record: fn(JobSlot, JobId) -> Record,
        effects: &mut Effects,
    ) {
        self.send_last_news(slot, news, effects);
        self.jobs.deal_buried_order(slot);
        self.change_state(slot, State::Buried);
        self.note(record, slot, effects);
        self.add_to_list(slot);
    }
}
