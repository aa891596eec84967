//! Failed attempts: a holder got a job and did not finish it. All failed attempts of all dialects
//! come to [`Engine::fail_attempt`], which decides what happens to the job.

use super::Engine;
use crate::effects::{Effects, News, Record};
use crate::ids::{JobSlot, Millis};
use crate::jobs::State;
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

impl Engine {
    /// Ends the lease of a job that its holder did not finish. The job returns to its queue, is
    /// buried, or ends.
    pub(super) fn fail_attempt(
        &mut self,
        slot: JobSlot,
        failure: Failure<'_>,
        effects: &mut Effects,
    ) {
        match failure {
            Failure::TimedOut => {
                self.jobs[slot].count(|counters| &mut counters.timeouts);
                self.tally.timeouts += 1;
                self.lose(slot, self.return_order(slot), effects);
            }
            Failure::Aborted => self.lose(slot, self.return_order(slot), effects),
            Failure::HolderLeft(return_order) => self.lose(slot, return_order, effects),
            Failure::Released { priority, delay_s } => {
                self.release(slot, priority, delay_s, effects);
            }
            // A worker of beanstalkd would also bury a failed job.
            Failure::Reported(news) if !self.jobs[slot].is_submitted() => {
                self.send_last_news(slot, news, effects);
                self.bury_held(slot, self.jobs[slot].priority(), effects);
            }
            Failure::Reported(news) => self.finish_job(slot, news, effects),
        }
    }

    /// Where the jobs of this job's holder return to.
    fn return_order(&self, slot: JobSlot) -> ReturnOrder {
        let holder = self.jobs[slot].lease().and_then(|lease| self.sessions.find(lease.holder));
        holder.map(Session::return_order).unwrap_or_default()
    }

    /// Gives back a job on its holder's request.
    fn release(&mut self, slot: JobSlot, priority: u32, delay_s: u32, effects: &mut Effects) {
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
        let next = if delay_s > 0 { State::Delayed } else { State::Ready };
        self.change_state(slot, next);
        self.note(Record::Update, slot, effects);
        self.enlist(slot, effects);
    }

    /// Returns a job that its holder has lost. In two cases the job ends instead. Either the job has
    /// used up its attempts, or it exists only for its watchers and has no watcher left.
    fn lose(&mut self, slot: JobSlot, return_order: ReturnOrder, effects: &mut Effects) {
        self.end_lease(slot, LeaseEnd::Lost);
        let attempts_max = self.attempts_max;
        if let Some(extension) = self.queues[self.jobs[slot].queue()].extension_mut() {
            extension.cancelled += 1;
        }
        let job = &mut self.jobs[slot];
        job.count(|counters| &mut counters.failures);
        let exhausted =
            attempts_max > 0 && job.is_submitted() && job.counters().failures >= attempts_max;
        job.forget_progress();
        if exhausted {
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
}
