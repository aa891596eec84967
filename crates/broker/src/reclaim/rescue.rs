//! If a segment cannot be read as a whole, a *rescue* writes its live jobs to the log again. Their
//! bodies come from memory, or from the parts of the segment that can still be read. So a bad
//! sector affects only the jobs whose bodies are in this sector: the rescue *leaves* these jobs. If
//! it leaves no job, reclaim can free the segment after the rescue. Otherwise the rescue reports
//! the jobs that it left, and begins again later.

use std::mem::take;

use engine::{JobId, JobSlot, Millis};
use log::{Log, ReclaimError};

use crate::broker::{Shared, lock};
use crate::core::{Core, Mover};
use crate::reclaim::written::{JobToWrite, JobsToWrite};

/// The time from the end of a rescue that left jobs to its next attempt. Meanwhile, these jobs may
/// end, or the disk may work again.
const AGAIN_MS: u64 = 60_000;

/// The progress of a rescue.
#[derive(Debug, Default)]
pub(crate) struct Rescue {
    segment: u32,
    /// The page of the table of locations that the next step reads.
    page: usize,
    /// The next step skips the jobs of this page up to this slot.
    done: Option<JobSlot>,
    /// The number of jobs that the rescue left, because their bodies cannot be read. `first_left`
    /// is the first of these jobs.
    left: u64,
    first_left: Option<JobId>,
}

impl Shared {
    /// Writes some jobs of this segment again. Returns false if the log has no room now, or if the
    /// segment cannot be opened for want of descriptors. Does not hold the broker's lock while it
    /// reads.
    pub(crate) fn rescue_step(
        &self,
        log: &Log,
        segment: u32,
        now: Millis,
    ) -> Result<bool, ReclaimError> {
        let Some(mut jobs) = self.turn(now).core.endangered(segment) else {
            let stops = log.end_rescue();
            let (Rescue { left, first_left, .. }, lost) = {
                let core = &mut self.turn(now).core;
                (take(&mut core.rescue), core.cold.damage.lost_jobs_of(segment))
            };
            // Jobs of lost blocks can come back while the rescue goes over the jobs, so that it misses them.
            if stops || left + lost > 0 {
                *lock(&self.rescue_again_at) = Some(Millis(now.0 + AGAIN_MS));
            }
            if left + lost == 0 {
                return Ok(true);
            }
            let id = first_left.map(|id| id.0);
            return Err(ReclaimError::left(segment, left + lost, id));
        };
        if !jobs.read_bodies(log) {
            return Ok(false);
        }
        let mut turn = self.turn(now);
        turn.core.rescue(log, &jobs.0)
    }

    /// Begins the rescue again, if it has left jobs and the time has come.
    pub(crate) fn rescue_again_if_due(&self, log: &Log, now: Millis) {
        if lock(&self.rescue_again_at).take_if(|at| *at <= now).is_some() {
            log.rescue_again();
        }
    }
}

impl Core {
    /// Moves the progress of the rescue, and returns the next jobs of this segment. Returns `None`
    /// at the end.
    fn endangered(&mut self, segment: u32) -> Option<JobsToWrite> {
        if self.rescue.segment != segment {
            self.rescue = Rescue { segment, ..Rescue::default() };
        }
        if self.rescue.page >= self.ledger.locations.pages() {
            return None;
        }
        let done = self.rescue.done;
        let slots = self.ledger.locations.of_segment(self.rescue.page, segment);
        let mut slots = slots.into_iter().filter(|slot| done.is_none_or(|done| *slot > done));
        let jobs = self.jobs_to_write(&mut slots);
        if jobs.0.is_empty() {
            (self.rescue.page, self.rescue.done) = (self.rescue.page + 1, None);
        }
        Some(jobs)
    }

    /// Writes these jobs again. Returns false if the log has no room now. Then the next step begins
    /// with the first job that was not written.
    fn rescue(&mut self, log: &Log, jobs: &[JobToWrite]) -> Result<bool, ReclaimError> {
        let now_ms = self.begin_writing();
        for job in jobs {
            let is_there = self.is_where_it_was(job);
            match &job.body {
                Some(body) if is_there => {
                    if !log.write_again(now_ms, job.log_slot(), body, &mut Mover::new(self))? {
                        return Ok(false);
                    }
                }
                None if is_there => {
                    self.rescue.left += 1;
                    self.rescue.first_left.get_or_insert(job.id);
                }
                Some(_) | None => {}
            }
            self.rescue.done = Some(job.slot);
        }
        Ok(true)
    }
}
