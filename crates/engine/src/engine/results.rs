//! Results: sessions that wait for the outcome of jobs, progress, and the end.
//!
//! Gearman's foreground jobs have *watchers*. Every other job (every put, every background submit)
//! was promised to outlive its client. A watched job can become such a job, but not the other way
//! round. A job that was promised to no client and has lost its last watcher ends: at once if it is
//! not leased, otherwise when its holder loses it, gives it back or buries it.

use std::collections::BTreeMap;

use super::{Engine, NotFound};
use crate::effects::{Effects, News};
use crate::ids::{JobId, JobSlot, SessionId};
use crate::jobs::{Body, State};
use crate::limits::UNIT_COMPARISONS;

/// The progress of a job towards its outcome.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub struct WorkProgress {
    /// The job is leased.
    pub running: bool,
    /// The last progress that the worker reported.
    pub numerator: u32,
    /// The whole, of which `numerator` is a part.
    pub denominator: u32,
    /// The number of watchers. A session that attached twice counts twice.
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

    /// Removes a session that has ended from the watchers of some of these jobs. Returns true if
    /// others are left: until their turn comes, those jobs send news to a session that no longer
    /// exists.
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
            // No watcher is left, so the job ends. A leased job stays with its worker.
            let job = &self.jobs[slot];
            if job.is_abandoned() && job.state() != State::Leased {
                self.remove_job(slot, effects);
            }
        }
        false
    }

    /// Sends data or a warning of the worker to all watchers.
    pub fn report(
        &mut self,
        session: SessionId,
        id: JobId,
        news: &News,
        effects: &mut Effects,
    ) -> Result<(), NotFound> {
        let slot = self.held(session, id)?;
        self.send_news(slot, news, effects);
        self.extend(slot);
        Ok(())
    }

    /// Records progress, and sends the worker's own words to all watchers.
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
        self.send_news(slot, &News::Progress(words.clone()), effects);
        self.extend(slot);
        Ok(())
    }

    /// Restarts the ttr when the worker reports, if the ttr came with the put.
    fn extend(&mut self, slot: JobSlot) {
        if self.jobs[slot].ttr_s() > 0 {
            self.renew_deadline(slot);
        }
    }

    /// The progress of a job.
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

    /// Submitted jobs end after this many failed attempts. 0 for no limit.
    pub fn set_attempts_max(&mut self, attempts_max: u32) {
        self.attempts_max = attempts_max;
    }
}
