//! A *rewrite* writes jobs again that stay in memory only because they have changed.
//!
//! An index describes each job as its entry in the log does. So a job that has changed cannot become
//! cold before it has a new entry. Reclaim writes one, but a change is often a small entry beside a
//! large job: changed jobs can fill the memory long before there is enough garbage for reclaim. So if
//! the records of jobs exceed their limit, and changed jobs are a large part of them or memory is full,
//! a rewrite writes changed jobs again, wherever they are.

use std::collections::VecDeque;

use engine::{JobSlot, Millis};
use log::{Log, ReclaimError};

use crate::bodies::loads::TURN_JOBS;
use crate::broker::Shared;
use crate::core::{Core, Mover};
use crate::ledger::locations::Location;
use crate::reclaim::written::JobsToWrite;

/// The time between two passes over all changed jobs. A job is written again only if it has not changed
/// between two passes. Otherwise one that clients change all the time would be written all the time.
const REST_MS: u64 = 1000;
/// Some changed jobs can never become cold, for example dead letters. After a pass that wrote less than
/// an eighth of the jobs that it looked at, the time doubles, up to this. A pass over a million such jobs
/// takes about a quarter of a second.
const REST_MAX_MS: u64 = 16_000;
/// See [`REST_MAX_MS`].
const WORTH_PART: usize = 8;
/// One turn looks at no more pages of the table of locations. A page takes up to 5 us.
const PAGES_PER_TURN: usize = 64;
/// While memory is not full, there is no rewrite if fewer jobs in memory have changed than all of them
/// divided by this. Then others keep the records of jobs above their limit.
const CHANGED_PART: u64 = 4;

/// The progress of a pass over all changed jobs.
#[derive(Debug, Default)]
pub(crate) struct Rewrite {
    /// The page of the table of locations that comes next.
    page: usize,
    /// The jobs of the page before it that are still to be written.
    found: VecDeque<JobSlot>,
    /// The jobs that the pass has looked at so far, and those of them that it has written again.
    looked: usize,
    written: usize,
    /// The pass begins at this moment.
    begins: Millis,
    /// The time from the end of the last pass to this moment.
    rest_ms: u64,
}

impl Rewrite {
    /// The pass after this one, which ends now.
    fn next_pass(&self, now: Millis) -> Self {
        let is_worth_it = self.written * WORTH_PART >= self.looked;
        let rest_ms = if is_worth_it { REST_MS } else { self.rest_ms * 2 };
        let rest_ms = rest_ms.clamp(REST_MS, REST_MAX_MS);
        Self { begins: Millis(now.0 + rest_ms), rest_ms, ..Self::default() }
    }
}

impl Shared {
    /// Writes some changed jobs again, and counts them in `written`. Returns false if there is nothing to
    /// do now, or if the log has no room. Does not hold the broker's lock while it reads.
    pub(super) fn rewrite_step(
        &self,
        log: &Log,
        now: Millis,
        written: &mut usize,
    ) -> Result<bool, ReclaimError> {
        if self.disk.is_critical() {
            return Ok(false);
        }
        let Some(mut jobs) = self.turn(now).core.next_changed() else { return Ok(false) };
        if jobs.0.is_empty() {
            return Ok(true);
        }
        // A job without a body is left out, and comes again in the next pass.
        jobs.read_bodies(log);
        let mut turn = self.turn(now);
        turn.core.write_again(log, &jobs, written)
    }
}

impl Core {
    /// Whether changed jobs should be written again.
    fn wants_rewrite(&self) -> bool {
        // Takes change jobs, too, but a leased job cannot become cold.
        let changed = self.ledger.locations.changed().saturating_sub(self.engine.totals().leased);
        let is_large_part = changed * CHANGED_PART >= self.ledger.locations.count();
        // Only above the limit do jobs begin to become cold. A job that stays in memory anyway need not be
        // written again.
        changed > 0
            && (is_large_part || self.engine.memory_is_full())
            && self.has_too_many_jobs(false)
    }

    /// Moves the progress of the pass, and returns the next jobs, if any. `None`: the pass has ended, or
    /// there need be none now.
    fn next_changed(&mut self) -> Option<JobsToWrite> {
        let now = self.engine.now();
        if now < self.rewrite.begins || !self.wants_rewrite() {
            return None;
        }
        for _ in 0..PAGES_PER_TURN {
            if !self.rewrite.found.is_empty() {
                break;
            }
            let page = self.rewrite.page;
            if page >= self.ledger.locations.pages() {
                self.rewrite = self.rewrite.next_pass(now);
                return None;
            }
            self.rewrite.found = self.ledger.locations.sweep_changed(page).into();
            self.rewrite.page = page + 1;
        }
        let mut found = std::mem::take(&mut self.rewrite.found);
        let found_before = found.len();
        let looked = std::iter::from_fn(|| found.pop_front()).take(TURN_JOBS);
        let jobs = self.jobs_to_write(&mut looked.filter(|slot| self.may_be_rewritten(*slot)));
        self.rewrite.looked += found_before - found.len();
        self.rewrite.found = found;
        Some(jobs)
    }

    /// Whether this job can become cold when it is written again.
    fn may_be_rewritten(&self, slot: JobSlot) -> bool {
        let location = self.ledger.locations.get(slot);
        location.is_some_and(Location::needs_slot) && self.engine.may_be_cold(slot)
    }

    /// Writes these jobs again, and counts them in `written`. Returns false if the log has no room now.
    /// The reserve of the log is for finishes and for reclaim, which frees segments. So a job needs the
    /// room of a put.
    fn write_again(
        &mut self,
        log: &Log,
        jobs: &JobsToWrite,
        written: &mut usize,
    ) -> Result<bool, ReclaimError> {
        let now_ms = self.begin_writing();
        for job in &jobs.0 {
            let Some(body) = &job.body else { continue };
            if !self.is_where_it_was(job) || !self.may_be_rewritten(job.slot) {
                continue;
            }
            if !log.admits_put(body.len())
                || !log.write_again(now_ms, job.log_slot(), body, &mut Mover::new(self))?
            {
                return Ok(false);
            }
            *written += 1;
            self.rewrite.written += 1;
        }
        Ok(true)
    }
}
