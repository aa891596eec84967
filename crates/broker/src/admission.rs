//! Whether a job is taken at all: asked before the engine sees it, in one place for all dialects.
//! `memory` and `queue_limit` keep the limits that a server has beside those of the log.

pub(crate) mod memory;
pub(crate) mod queue_limit;

use engine::{Engine, Refused};

use crate::core::Core;
use crate::{Position, Turn};

/// Why an item or a job was not put. Nothing was stored, unless it feeds several queues and another
/// one of them took it.
#[derive(Copy, Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum AddRefusal {
    /// The queue has as much as it may have. The reply waits for the position.
    #[error("the queue is full")]
    Full(Position),
    /// The body is larger than the queue's policy lets it be.
    #[error("the body is larger than the queue takes")]
    TooBig,
    /// The log has no room for it. Finishing jobs makes room.
    #[error("the log has no room")]
    LogFull,
    /// There is no memory left for it: see [`crate::Broker::set_memory_limit`]. Finishing jobs makes
    /// room.
    #[error("there is no memory left for it")]
    MemoryFull,
    /// It would make a queue, and there are as many as there may be: see
    /// [`crate::Broker::set_queue_limit`].
    #[error("there are as many queues as there may be")]
    NoNewQueue,
    /// The server's status refuses writes.
    #[error("the server's status refuses writes")]
    WritesBlocked,
    /// The server is being emptied: see [`crate::Broker::drain`].
    #[error("the server takes nothing new, to be emptied")]
    Draining,
}

impl Turn<'_> {
    /// Refuses a job with a body of this length while nothing has changed for it yet. `is_logged`
    /// says whether the log would hear of it; only a full one makes that matter.
    pub(crate) fn admit(
        &self,
        body_bytes: usize,
        is_logged: impl FnOnce(&Engine) -> bool,
    ) -> Result<(), AddRefusal> {
        let core = &*self.core;
        if self.draining() {
            return Err(AddRefusal::Draining);
        }
        if core.engine.writes_blocked() {
            return Err(AddRefusal::WritesBlocked);
        }
        if !self.has_memory_for(body_bytes) {
            self.shared.memory.count_refusal();
            return Err(AddRefusal::MemoryFull);
        }
        let has_no_room = core.ledger.log.as_ref().is_some_and(|log| !log.admits_put(body_bytes));
        if has_no_room && is_logged(&core.engine) {
            return Err(AddRefusal::LogFull);
        }
        Ok(())
    }
}

impl Turn<'_> {
    /// Whether a body of this length is to be gathered at all: not if the limit of memory would refuse
    /// the job, which counts as refused then.
    pub fn admits_body(&self, body_bytes: usize) -> bool {
        let has_memory = self.has_memory_for(body_bytes);
        if !has_memory {
            self.shared.memory.count_refusal();
        }
        has_memory
    }

    pub(crate) fn has_memory_for(&self, body_bytes: usize) -> bool {
        self.shared.memory.admits(self.core.memory_bytes(), body_bytes)
    }
}

impl Core {
    /// A queue's refusal to take a job, with what it waits for.
    pub(crate) fn refusal(&self, refused: Refused) -> AddRefusal {
        match refused {
            // What it is full of may have come a moment ago, from anybody.
            Refused::Full => AddRefusal::Full(self.ledger.after_all()),
            Refused::TooBig => AddRefusal::TooBig,
        }
    }
}
