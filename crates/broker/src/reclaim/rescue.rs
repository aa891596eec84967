//! If a segment cannot be read as a whole, a *rescue* writes its live jobs to the log again. Their
//! bodies come from memory, or from the parts of the segment that can still be read. So a bad
//! sector affects only the jobs whose bodies are in this sector: the rescue *leaves* these jobs. If
//! it leaves no job, reclaim can free the segment after the rescue. Otherwise the rescue reports
//! the jobs that it left, and begins again later.

use std::mem::take;

use engine::{Body, JobId, JobSlot, Millis};
use log::{BodyError, BodyReader, Log, ReclaimError, Slot};

use crate::broker::{Shared, lock};
use crate::core::{Core, Mover};

/// One step writes jobs until their bodies have at least this many bytes in all, and at most this many
/// jobs. A step of reclaim has the same limits, so that nobody waits long for the broker's lock.
const STEP_BYTES_MAX: usize = 64 << 10;
const STEP_JOBS_MAX: usize = 128;
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

/// A job to write again.
#[derive(Debug)]
struct Endangered {
    slot: JobSlot,
    id: JobId,
    log_slot: Slot,
    entry_at: u32,
    body: Option<Body>,
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
        let mut stored: Vec<_> = jobs.iter_mut().filter(|job| job.body.is_none()).collect();
        stored.sort_unstable_by_key(|job| job.entry_at);
        let entries: Vec<u32> = stored.iter().map(|job| job.entry_at).collect();
        let _hold = log.hold(segment);
        let mut lacks_descriptors = false;
        // A failing disk can take long for each read. So do not lock the loader's reader, because
        // other threads need it.
        BodyReader::default().read(log, segment, &entries, |index, body| {
            lacks_descriptors |= body.as_ref().is_err_and(BodyError::is_out_of_descriptors);
            stored[index].body = body.ok().map(Body::from);
        });
        if lacks_descriptors {
            return Ok(false);
        }
        let mut turn = self.turn(now);
        turn.core.rescue(log, &jobs)
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
    fn endangered(&mut self, segment: u32) -> Option<Vec<Endangered>> {
        if self.rescue.segment != segment {
            self.rescue = Rescue { segment, ..Rescue::default() };
        }
        if self.rescue.page >= self.ledger.locations.pages() {
            return None;
        }
        let mut jobs = Vec::new();
        let mut bytes = 0;
        for slot in self.ledger.locations.of_segment(self.rescue.page, segment) {
            if self.rescue.done.is_some_and(|done| slot <= done) {
                continue;
            }
            let (Some(id), Some(location)) =
                (self.engine.id_at(slot), self.ledger.locations.get(slot))
            else {
                continue;
            };
            let body = self.engine.body(slot);
            bytes += body.len();
            let (log_slot, entry_at) = (location.log_slot, location.entry_at);
            let body = body.resident().cloned();
            jobs.push(Endangered { slot, id, log_slot, entry_at, body });
            if bytes >= STEP_BYTES_MAX || jobs.len() >= STEP_JOBS_MAX {
                break;
            }
        }
        if jobs.is_empty() {
            (self.rescue.page, self.rescue.done) = (self.rescue.page + 1, None);
        }
        Some(jobs)
    }

    /// Writes these jobs again. Returns false if the log has no room now. Then the next step begins
    /// with the first job that was not written.
    fn rescue(&mut self, log: &Log, jobs: &[Endangered]) -> Result<bool, ReclaimError> {
        let now_ms = self.engine.now().0;
        self.ledger.cut_before_copies(&self.engine);
        self.ledger.appended = true;
        for job in jobs {
            // The job can have ended since its body was read.
            let location = self.ledger.locations.get(job.slot);
            let is_there = self.engine.id_at(job.slot) == Some(job.id)
                && location.is_some_and(|location| location.log_slot == job.log_slot);
            match &job.body {
                Some(body) if is_there => {
                    let slot = (job.log_slot, job.id.0);
                    if !log.rescue(now_ms, slot, body, &mut Mover::new(self))? {
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
