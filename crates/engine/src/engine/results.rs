//! Results: sessions that wait for the outcomes of jobs, and the news that these sessions get.
//!
//! Gearman's foreground jobs have *watchers*: sessions that wait for the outcome. A foreground job
//! ends when it has lost its last watcher. If the job is leased at this moment, it stays leased.
//! Then the job ends when the holder loses, gives back or buries the job. Every other job can
//! outlive its client. If a background submit joins a foreground job, the job can outlive its
//! clients from then on.

use std::collections::BTreeMap;

use super::{Engine, NotFound};
use crate::effects::{Effects, News};
use crate::ids::{JobId, JobSlot, SessionId};
use crate::jobs::{Body, State};
use crate::limits::UNIT_COMPARISONS;
use crate::milestones::JobEnd;

/// The progress of a job towards its outcome.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub struct WorkProgress {
    /// Whether the job is leased.
    pub running: bool,
    /// The last progress that the worker reported: the part that is done.
    pub numerator: u32,
    /// The last progress that the worker reported: the whole work.
    pub denominator: u32,
    /// The number of watchers. A session with two attachments counts twice.
    pub watchers: usize,
}

impl Engine {
    /// Adds an *attachment* of a session to a job: the session gets all news of the job once per
    /// attachment.
    pub(super) fn attach(&mut self, slot: JobSlot, watcher: SessionId) {
        self.meter.count(1);
        let id = self.jobs[slot].id();
        self.jobs[slot].add_watcher(watcher);
        self.jobs.recharge(slot);
        self.sessions.join(watcher, id);
    }

    /// Removes a closed session from the watchers of as many of these jobs as one slice of work
    /// allows. Returns true if jobs are left. Until the next slice, the engine can still send news
    /// of the remaining jobs to the closed session.
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
            // If the job has lost its last watcher, it ends. But a leased job stays with its
            // worker.
            let job = &self.jobs[slot];
            if job.is_abandoned() && job.state() != State::Leased {
                self.remove_job(slot, JobEnd::Abandoned, effects);
            }
        }
        false
    }

    /// Sends data or a warning from the worker to all watchers of a job.
    pub fn report(
        &mut self,
        session: SessionId,
        id: JobId,
        news: &News,
        effects: &mut Effects,
    ) -> Result<(), NotFound> {
        let slot = self.held(session, id)?;
        if let News::Warning(warning) = news {
            self.note_warning(slot, warning);
        }
        self.send_news(slot, news, effects);
        self.extend(slot);
        Ok(())
    }

    /// Stores the progress of a job, and sends the worker's text about the progress to all
    /// watchers.
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

    /// Restarts the ttr of a job, because its worker has reported. Only a job from a put can have a
    /// ttr, so the deadline of a submitted job does not change.
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

    /// Sets the number of failed attempts after which a submitted job ends. 0 for no limit.
    pub fn set_attempts_max(&mut self, attempts_max: u32) {
        self.attempts_max = attempts_max;
    }
}
