//! What lives in a segment that cannot be read is written anew from memory: a bad sector under old jobs costs no job, and
//! the log's files do not grow for ever, as long as the server runs.

use engine::Millis;
use log::{Log, ReclaimError};

use crate::broker::Shared;
use crate::core::{Core, Mover};

/// So many bytes of bodies are written in one step, and a job more.
const STEP_BYTES_MAX: usize = 1 << 20;

/// How far it has come.
#[derive(Debug, Default)]
pub(crate) struct Rescue {
    segment: u32,
    /// The next page of the table of locations.
    page: usize,
}

impl Shared {
    /// Writes some jobs of this segment anew; false if there is no room for them now.
    pub(crate) fn rescue_step(
        &self,
        now: Millis,
        log: &Log,
        segment: u32,
    ) -> Result<bool, ReclaimError> {
        let mut turn = self.turn(now);
        let done = turn.core.rescue_step(log, segment);
        if done.is_err() {
            log.end_rescue();
        }
        done
    }
}

impl Core {
    fn rescue_step(&mut self, log: &Log, segment: u32) -> Result<bool, ReclaimError> {
        if self.rescue.segment != segment {
            self.rescue = Rescue { segment, page: 0 };
        }
        if self.rescue.page >= self.ledger.locations.pages() {
            log.end_rescue();
            return Ok(true);
        }
        self.ledger.appended = true;
        let now_ms = self.engine.now().0;
        let mut written = 0;
        for slot in self.ledger.locations.of_segment(self.rescue.page, segment) {
            let (Some(id), Some(location)) =
                (self.engine.id_at(slot), self.ledger.locations.get(slot))
            else {
                continue;
            };
            let (target, body) = (location.target, self.engine.body(slot).clone());
            if !log.rescue(now_ms, (target, id.0), &body, &mut Mover::new(self))? {
                return Ok(false);
            }
            written += body.len();
            if written > STEP_BYTES_MAX {
                // The rest of the page is found again.
                return Ok(true);
            }
        }
        self.rescue.page += 1;
        Ok(true)
    }
}
