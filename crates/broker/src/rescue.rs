//! If a segment cannot be read, a *rescue* writes its live jobs to the log again, from memory. So a
//! bad sector loses no job whose body is in memory. After the rescue, reclaim can free the segment,
//! so the log does not grow forever.

use log::{Log, ReclaimError};

use crate::core::{Core, Mover, Rescue};

/// A step ends after it has written more than this many bytes of bodies.
const STEP_BYTES_MAX: usize = 1 << 20;

impl Core {
    /// Writes some jobs of this segment again. Returns false if the log has no room now.
    pub(crate) fn rescue_step(&mut self, log: &Log, segment: u32) -> Result<bool, ReclaimError> {
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
            // A body that is only in this segment cannot be written again.
            let body = self.engine.body(slot);
            let (log_slot, Some(body)) = (location.log_slot, body.resident().cloned()) else {
                continue;
            };
            if !log.rescue(now_ms, (log_slot, id.0), &body, &mut Mover::new(self))? {
                return Ok(false);
            }
            written += body.len();
            if written > STEP_BYTES_MAX {
                // The next step reads this page again, and finds only the jobs that are still in
                // the segment.
                return Ok(true);
            }
        }
        self.rescue.page += 1;
        Ok(true)
    }
}
