//! What holds back all puts: the server drains, or it has as many jobs as its limit says.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use engine::Engine;
use engine::limits::JOBS_MAX;

use super::PutRefusal;

/// The server drains.
const DRAINS: u8 = 1;
/// The number of jobs has a limit.
const LIMITS_JOBS: u8 = 2;

/// Whether puts pass. A server that neither drains nor limits its jobs pays for one look at `reasons`,
/// and for one at the number of jobs.
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
        if self.reasons.load(Ordering::Relaxed) == 0 && engine.job_count() < JOBS_MAX {
            return Ok(());
        }
        self.look(engine)
    }

    #[cold]
    fn look(&self, engine: &Engine) -> Result<(), PutRefusal> {
        if self.draining() {
            return Err(PutRefusal::Draining);
        }
        let most = self.jobs_max().map_or(JOBS_MAX, |most| most.min(JOBS_MAX));
        if engine.job_count() >= most { Err(PutRefusal::JobsFull) } else { Ok(()) }
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

#[cfg(test)]
mod tests {
    use engine::{BlockFacts, EngineSetup, Millis, State};

    use super::*;
    use crate::Broker;

    #[test]
    fn a_server_takes_no_more_jobs_than_it_can_count() {
        let broker = Broker::memory(EngineSetup::default(), Millis(1));
        let mut turn = broker.turn(Millis(1));
        // As if a log had so many jobs.
        let mut restore = |jobs: u32| {
            let facts = BlockFacts {
                state: State::Buried,
                first: (jobs.into(), 0),
                last: (jobs.into(), 0),
                first_ready: (0, 1),
                created: Millis(1),
                bands: [0, jobs, 0],
                body_bytes: 0,
                expires: false,
            };
            turn.core.engine.restore_block(b"mails", facts).expect("they can be counted");
            turn.put_refusal(b"other")
        };
        let most = u32::try_from(JOBS_MAX).expect("it is below the limit of the counts");
        assert_eq!(restore(most - 1), None);
        assert_eq!(restore(1), Some(PutRefusal::JobsFull));
    }
}
