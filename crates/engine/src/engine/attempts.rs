//! Failed attempts: a holder got a job and did not finish it. All failed attempts of all dialects
//! come to [`Engine::fail_attempt`], which decides what happens to the job.
//!
//! Without the policy `retries`, each kind of failure has the behaviour of its protocol's original.
//! With it, the job is delayed for a time that grows with each failure. The failure after the last
//! retry makes it a dead letter: see `dead_letters.rs`. The policy does not apply to jobs that exist
//! only for their watchers: their clients wait, and decide themselves.

use super::Engine;
use crate::effects::{Effects, News, Record};
use crate::ids::{JobSlot, Millis};
use crate::jobs::{JobKind, State};
use crate::limits::DEAD_ERROR_BYTES_MAX;
use crate::milestones::JobEnd;
use crate::policy::Name;
use crate::sessions::{ReturnOrder, Session};
use crate::spans::LeaseEnd;

/// How an attempt failed.
#[derive(Copy, Clone, Debug)]
pub(super) enum Failure<'a> {
    /// The lease has reached its deadline.
    TimedOut,
    /// The holder gave back the item of an open read.
    Aborted,
    /// The holder has disconnected, or can no longer do the job. If its session is gone, `peer` is
    /// the address of its client. `return_order` says where its jobs return to.
    HolderLeft { return_order: ReturnOrder, peer: Option<&'a [u8]> },
    /// The holder gave the job back, with a new priority. The job becomes ready, or delayed.
    Released { priority: u32, delay_s: u32 },
    /// The holder reported that the job failed. The watchers of the job get this news.
    Reported(&'a News),
}

/// What the policy `retries` says about a failed attempt.
#[derive(Debug, Eq, PartialEq)]
enum Verdict {
    /// Nothing: the behaviour of the original applies.
    Original,
    /// The job becomes ready after this many milliseconds.
    Retry(u64),
    /// The job has failed too often.
    GiveUp(LastWords),
}

/// What a dead letter keeps of its last attempt.
#[derive(Debug, Default, Eq, PartialEq)]
pub(super) struct LastWords {
    /// The address of the worker. Empty: it is unknown.
    pub(super) worker: Name,
    /// What the worker said. Empty: nothing.
    pub(super) error: Box<[u8]>,
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
        if self.is_observed {
            self.observe_failure(slot, failure);
        }
        let verdict = self.judge(slot, failure);
        match failure {
            Failure::TimedOut => {
                self.jobs[slot].count(|counters| &mut counters.timeouts);
                self.tally.timeouts += 1;
                self.lose(slot, failure, verdict, effects);
            }
            Failure::Aborted | Failure::HolderLeft { .. } => {
                self.lose(slot, failure, verdict, effects);
            }
            Failure::Released { priority, delay_s } => {
                self.release(slot, failure, (priority, delay_s), verdict, effects);
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

    /// Whether a reported failure ends this job, if the policy `retries` does not apply to it.
    pub fn ends_when_failed(&self, slot: JobSlot) -> bool {
        let job = &self.jobs[slot];
        job.is_submitted() && job.death().is_none()
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
            Failure::HolderLeft { .. } => retries.counts_disconnect,
            Failure::Released { .. } => retries.counts_release,
        };
        // A dead letter never becomes another dead letter.
        let is_exempt = job.kind() == JobKind::Watched || job.death().is_some();
        if !retries.is_on || !counts || is_exempt {
            return Verdict::Original;
        }
        let attempts = job.count_attempt();
        if attempts > retries.limit {
            return Verdict::GiveUp(self.last_words(slot, failure));
        }
        Verdict::Retry(retries.wait_ms(job.id(), attempts))
    }

    /// The address of the client that holds a job, or held it until it left, and the exception or the
    /// warnings that it sent.
    fn last_words(&mut self, slot: JobSlot, failure: Failure<'_>) -> LastWords {
        let job = &self.jobs[slot];
        let Some(lease) = job.lease() else { return LastWords::default() };
        let holder = self.sessions.find(lease.holder).map(|session| session.peer().into());
        let worker = match failure {
            Failure::HolderLeft { peer: Some(peer), .. } => peer.into(),
            _ => holder.unwrap_or_default(),
        };
        let warnings = self.warnings.take(lease.id);
        if self.memory_is_full {
            return LastWords::default();
        }
        let error = match failure {
            Failure::Reported(News::Exception(error)) => {
                error[..error.len().min(DEAD_ERROR_BYTES_MAX)].into()
            }
            _ => warnings.into(),
        };
        LastWords { worker, error }
    }

    /// Keeps a warning for the error of a dead letter, if the job can become one, and for the history
    /// of the job.
    pub(super) fn note_warning(&mut self, slot: JobSlot, warning: &[u8]) {
        let job = &self.jobs[slot];
        if let Some(lease) = job.lease()
            && (job.death().is_none() && self.retries(slot) || self.keeps_history(slot))
        {
            self.warnings.note(lease.id, warning);
        }
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
        failure: Failure<'_>,
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
            return self.remove_job(slot, JobEnd::Abandoned, effects);
        }
        match verdict {
            Verdict::Original => {}
            Verdict::Retry(wait_ms) => {
                let due = Millis(self.now.0.saturating_add(wait_ms)).max(job.due());
                job.set_due(due);
            }
            Verdict::GiveUp(last) => return self.give_up(slot, failure, last, effects),
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
        failure: Failure<'_>,
        verdict: Verdict,
        effects: &mut Effects,
    ) {
        let return_order = match failure {
            Failure::HolderLeft { return_order, .. } => return_order,
            Failure::TimedOut
            | Failure::Aborted
            | Failure::Released { .. }
            | Failure::Reported(_) => self.return_order(slot),
        };
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
            Verdict::GiveUp(last) => self.give_up(slot, failure, last, effects),
        }
    }

    /// Returns a lost job to its queue, as the originals do. In two cases the job ends instead.
    /// Either the job has used up its attempts, or it exists only for its watchers and has no
    /// watcher left.
    fn return_lost(&mut self, slot: JobSlot, return_order: ReturnOrder, effects: &mut Effects) {
        let job = &self.jobs[slot];
        let is_limited = self.attempts_max > 0
            && job.is_submitted()
            && job.counters().failures >= self.attempts_max;
        // Nothing that fails ends a dead letter.
        if is_limited && !self.retries(slot) && job.death().is_none() {
            return self.end_job(slot, JobEnd::Failed, &News::Fail, effects);
        }
        if job.is_abandoned() {
            return self.remove_job(slot, JobEnd::Abandoned, effects);
        }
        match return_order {
            ReturnOrder::KeepPlace => self.note(Record::Count, slot, effects),
            ReturnOrder::ToTail => {
                self.move_to_tail(slot);
                self.note(Record::Moved, slot, effects);
            }
        }
        // The age of the job counts from its put again. If the age counted from now, a job that
        // crashes every worker would never expire.
        self.jobs[slot].set_due(Millis(0));
        self.change_state(slot, State::Ready);
        self.deliver_or_list(slot, effects);
    }

    /// Gives a job the last place among the jobs of its priority. During the removal of its queue, the
    /// job keeps its order number, which shows that the removal must end it.
    fn move_to_tail(&mut self, slot: JobSlot) {
        if !self.is_being_removed(self.jobs[slot].queue()) {
            self.jobs.move_to_tail(slot);
        }
    }

    /// Ends a job that its holder reports as failed, or buries a job that was put, or a dead letter: a
    /// worker of beanstalkd would also bury it. The watchers of a retried job wait for its next
    /// attempt.
    fn report_failure(
        &mut self,
        slot: JobSlot,
        news: &News,
        verdict: Verdict,
        effects: &mut Effects,
    ) {
        let outcome = match verdict {
            Verdict::Original if self.ends_when_failed(slot) => {
                return self.finish_job(slot, JobEnd::Failed, news, effects);
            }
            Verdict::Original => {
                self.send_last_news(slot, news, effects);
                let priority = self.jobs[slot].priority();
                return self.bury_held(slot, LeaseEnd::Failed, priority, effects);
            }
            Verdict::Retry(wait_ms) => Ok(wait_ms),
            Verdict::GiveUp(last) => Err(last),
        };
        let return_order = self.return_order(slot);
        self.end_lease(slot, LeaseEnd::Failed);
        let job = &mut self.jobs[slot];
        job.count(|counters| &mut counters.failures);
        job.forget_progress();
        match outcome {
            Ok(wait_ms) => self.retry(slot, return_order, wait_ms, effects),
            Err(last) => self.give_up(slot, Failure::Reported(news), last, effects),
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
            self.move_to_tail(slot);
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
}
