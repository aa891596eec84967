//! The steps of the reclaim thread: which work comes next, and the broker's part of a copy.

mod rescue;
mod rewrite;
mod written;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use engine::Millis;
use log::{Log, ReclaimError};

use crate::broker::{Shared, lock};
use crate::cold::loads::ForReclaim;
use crate::core::Mover;
use crate::step_thread::Step;

pub(crate) use rescue::Rescue;
pub(crate) use rewrite::Rewrite;

impl Shared {
    pub(crate) fn look_at_disk(&self, now: Millis) {
        if let Some(log) = &self.log {
            self.disk.look_if_due(log, now);
        }
    }

    /// One step of the reclaim thread.
    pub(crate) fn reclaim_if_wanted(&self, now: Millis) -> Step {
        self.look_at_disk(now);
        match self.reclaim_work(now) {
            Ok(Step::Idle) => Step::Idle,
            Ok(_) if self.reclaim_hurries() || self.memory.memory().is_full() => {
                Step::WorkedInHaste
            }
            Ok(step) => step,
            // The broker continues, and `Broker::reclaim_error` reports the error.
            Err(error) => {
                self.note_reclaim_error(error);
                Step::Idle
            }
        }
    }

    /// Stores the first error of reclaim. Later, an error about jobs that a rescue has left
    /// replaces the stored error.
    fn note_reclaim_error(&self, error: ReclaimError) {
        let mut known = lock(&self.reclaim_error);
        let is_news = match (known.as_deref(), &error) {
            (Some(ReclaimError::Left { jobs: before, .. }), ReclaimError::Left { jobs, .. }) => {
                jobs != before
            }
            (None, _) | (Some(_), ReclaimError::Left { .. }) => true,
            (Some(_), _) => false,
        };
        if is_news {
            *known = Some(Arc::new(error));
        }
    }

    /// Whether the log lacks space, so that it refuses puts now or soon, or is much too big.
    fn reclaim_hurries(&self) -> bool {
        self.log.as_ref().is_some_and(|log| log.usage().short || log.reclaim_hurries())
    }

    /// Does a slice of work, if reclaim is wanted. Returns false if there was nothing to do.
    pub(crate) fn reclaim_step(&self, now: Millis) -> Result<bool, ReclaimError> {
        self.reclaim_work(now).map(|step| step != Step::Idle)
    }

    fn reclaim_work(&self, now: Millis) -> Result<Step, ReclaimError> {
        let Some(log) = &self.log else { return Ok(Step::Idle) };
        // Turns do this, too. But perhaps no client comes.
        self.write_owed(now);
        let mut written = 0;
        let done = self.reclaim_some(log, now, &mut written);
        let goes_on = matches!(done, Ok(step) if step != Step::Idle);
        let is_awaited = goes_on && self.memory.memory().is_full();
        self.loads.note_written(if is_awaited { written } else { 0 });
        // Clients rest only for a reclaim that makes progress.
        let rests = if goes_on { log.reclaim_lag() } else { 0 };
        self.reclaim_rests.store(rests, Ordering::Relaxed);
        done
    }

    /// Counts the changed jobs that it has written again in `written`.
    fn reclaim_some(
        &self,
        log: &Log,
        now: Millis,
        written: &mut usize,
    ) -> Result<Step, ReclaimError> {
        let as_step = |worked| if worked { Step::Worked } else { Step::Idle };
        self.rescue_again_if_due(log, now);
        if let Some(segment) = log.unreadable_segment() {
            let done = self.rescue_step(log, segment, now);
            if done.is_err() {
                log.end_rescue();
            }
            return done.map(as_step);
        }
        let mut unfinished = lock(&self.reclaim_slice);
        if unfinished.is_none() {
            if !log.reclaim_wanted() {
                return self.rewrite_step(log, now, written).map(as_step);
            }
            // The step can take long if it must read, so shorter rests begin before it.
            self.reclaim_rests.fetch_min(log.reclaim_lag(), Ordering::Relaxed);
        }
        let first = log.first_segment();
        match self.load_for_reclaim(first, now) {
            ForReclaim::Ready => {}
            ForReclaim::Worked => return Ok(Step::Worked),
            ForReclaim::Later => return Ok(Step::Idle),
            ForReclaim::Lost => {
                // The rescue writes all other jobs of the segment again.
                log.begin_rescue(first);
                return Ok(Step::Worked);
            }
        }
        let mut slice = match unfinished.take() {
            Some(slice) => slice,
            None => match log.reclaim_read()? {
                Some(slice) => slice,
                None => return Ok(Step::Idle),
            },
        };
        let mut turn = self.turn(now);
        let core = &mut *turn.core;
        let now = core.engine.now();
        core.ledger.cut_before_copies(&core.engine);
        let is_done = log.reclaim_copy(now.0, &mut slice, &mut Mover::new(core))?;
        *unfinished = (!is_done).then_some(slice);
        Ok(Step::Copied)
    }
}
