//! What holds back all puts: the server drains, or it has as many jobs as its limit says.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use engine::Engine;

use super::PutRefusal;

/// The server drains.
const DRAINS: u8 = 1;
/// The number of jobs has a limit.
const LIMITS_JOBS: u8 = 2;

/// Whether puts pass. A server that neither drains nor limits its jobs pays for one look at `reasons`.
#[derive(Debug, Default)]
pub(crate) struct PutGate {
    /// What the gate must look at.
    reasons: AtomicU8,
    jobs_max: AtomicU64,
}

impl PutGate {
    pub(crate) fn set_draining(&self, drains: bool) {
        self.set(DRAINS, drains);
    }

    pub(crate) fn draining(&self) -> bool {
        self.has(DRAINS)
    }

    /// Limits the number of jobs. `None`: there is no limit.
    pub(crate) fn set_jobs_max(&self, most: Option<u64>) {
        self.jobs_max.store(most.unwrap_or(u64::MAX), Ordering::Relaxed);
        self.set(LIMITS_JOBS, most.is_some());
    }

    pub(crate) fn jobs_max(&self) -> Option<u64> {
        self.has(LIMITS_JOBS).then(|| self.jobs_max.load(Ordering::Relaxed))
    }

    /// Whether the server takes a new job.
    #[inline]
    pub(crate) fn check(&self, engine: &Engine) -> Result<(), PutRefusal> {
        if self.reasons.load(Ordering::Relaxed) == 0 {
            return Ok(());
        }
        self.look(engine)
    }

    #[cold]
    fn look(&self, engine: &Engine) -> Result<(), PutRefusal> {
        if self.draining() {
            return Err(PutRefusal::Draining);
        }
        match self.jobs_max() {
            Some(most) if engine.job_count() >= most => Err(PutRefusal::JobsFull),
            Some(_) | None => Ok(()),
        }
    }

    fn has(&self, reason: u8) -> bool {
        self.reasons.load(Ordering::Relaxed) & reason != 0
    }

    fn set(&self, reason: u8, is_there: bool) {
        if is_there {
            self.reasons.fetch_or(reason, Ordering::Relaxed);
        } else {
            self.reasons.fetch_and(!reason, Ordering::Relaxed);
        }
    }
}
