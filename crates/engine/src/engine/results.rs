//! Results: sessions that wait for the outcome of jobs, progress on the way, and the end.
//!
//! Gearman's foreground jobs have *watchers*. Every other job was promised to outlive them (every
//! put, a background submit); a watched job can become such a one, never the other way. A job that
//! was not promised to anybody, and has no watcher any more, ends when it is abandoned, given back
//! or set aside.

use std::collections::BTreeMap;

use super::{Engine, NotFound};
use crate::effects::{Effects, News};
use crate::ids::{JobId, JobSlot, SessionId};
use crate::jobs::{Body, State};
use crate::limits::UNIT_COMPARISONS;

/// What is known of a job's outcome so far.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub struct WorkProgress {
    /// It is in somebody's hands.
    pub running: bool,
    /// Progress as the worker told it last.
    pub numerator: u32,
    /// Of how much.
    pub denominator: u32,
    /// How many watchers it has; one that attached twice counts twice.
    pub watchers: usize,
}

impl Engine {
    /// Attaches a watcher to a job.
    pub(super) fn attach(&mut self, slot: JobSlot, watcher: SessionId) {
        self.meter.count(1);
        let id = self.jobs[slot].id();
        self.jobs[slot].add_watcher(watcher);
        self.jobs.recharge(slot);
        self.sessions.join(watcher, id);
    }

    /// A session that has ended watches some of these jobs no more; true if others are left, which
    /// tell it things in vain until then.
    pub(super) fn detach_slice(
        &mut self,
        watcher: SessionId,
        watching: &mut BTreeMap<JobId, u32>,
        effects: &mut Effects,
    ) -> bool {
        let mut jobs_left = self.meter.step_jobs();
        while !watching.is_empty() {
            if jobs_left == 0 || self.meter.request_is_spent() {
                return true;
            }
            jobs_left -= 1;
            let Some((id, _)) = watching.pop_first() else { break };
            self.meter.count(1);
            let Ok(slot) = self.slot(id) else { continue };
            let compared = self.jobs[slot].remove_watcher(watcher);
            self.meter.count(compared / UNIT_COMPARISONS);
            // Nobody will ever hear of it. What already runs is not taken from its worker.
            let job = &self.jobs[slot];
            if job.is_abandoned() && job.state() != State::Leased {
                self.remove_job(slot, effects);
            }
        }
        false
    }

    /// Passes data or a warning of the worker on to all watchers.
    pub fn report(
        &mut self,
        session: SessionId,
        id: JobId,
        news: &News,
        effects: &mut Effects,
    ) -> Result<(), NotFound> {
        let slot = self.held(session, id)?;
        self.tell(slot, news, effects);
        self.extend(slot);
        Ok(())
    }

    /// Notes progress, and passes the worker's own words on to all watchers.
    pub fn progress(
        &mut self,
        session: SessionId,
        id: JobId,
        (numerator, denominator): (u32, u32),
        words: &Body,
        effects: &mut Effects,
    ) -> Result<(), NotFound> {
        let slot = self.held(session, id)?;
        self.jobs[slot].set_progress(numerator, denominator);
        self.jobs.recharge(slot);
        self.tell(slot, &News::Progress(words.clone()), effects);
        self.extend(slot);
        Ok(())
    }

    /// A worker that is heard of keeps a job whose ttr came with the put.
    fn extend(&mut self, slot: JobSlot) {
        if self.jobs[slot].ttr_s() > 0 {
            self.renew_deadline(slot);
        }
    }

    /// What is known of a job.
    pub fn work_progress(&self, slot: JobSlot) -> WorkProgress {
        let job = &self.jobs[slot];
        let (numerator, denominator) = job.progress();
        WorkProgress {
            running: job.state() == State::Leased,
            numerator,
            denominator,
            watchers: job.watchers().len(),
        }
    }

    /// Submitted jobs end after so many failed attempts; 0 for no limit.
    pub fn set_attempts_max(&mut self, attempts_max: u32) {
        self.attempts_max = attempts_max;
    }
}
