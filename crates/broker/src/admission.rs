//! Admission of jobs: checked before the engine sees a job, in one place for all dialects. `memory`
//! and `queue_limit` hold the limits besides those of the log.

pub(crate) mod memory;
pub(crate) mod queue_limit;

use engine::{Engine, Refused};

use crate::broker::Shared;
use crate::core::Core;
use crate::{Answer, Turn};

/// Why a put was refused. Nothing was stored, unless the put goes to several queues and another
/// queue accepted it.
#[derive(Copy, Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum PutRefusal {
    /// The queue is full.
    #[error("the queue is full")]
    QueueFull,
    /// The body is larger than the queue's policy allows.
    #[error("the body is larger than the queue takes")]
    TooBig,
    /// The log has no room for it. Finishing jobs makes room.
    #[error("the log has no room")]
    LogFull,
    /// The limit of memory is reached: see [`crate::Broker::set_memory_limit`]. Finishing jobs
    /// makes room.
    #[error("the limit of memory is reached")]
    MemoryFull,
    /// It would create a queue, but the limit of queues is reached: see
    /// [`crate::Broker::set_queue_limit`].
    #[error("the limit of queues is reached")]
    NoNewQueue,
    /// The server's status refuses writes.
    #[error("the server's status refuses writes")]
    WritesBlocked,
    /// The server drains: see [`crate::Broker::drain`].
    #[error("the server drains and takes no new jobs")]
    Draining,
}

/// # Admission, before a request
impl Turn<'_> {
    /// Whether to collect a body of this length. If the limit of memory would refuse the job,
    /// returns false and counts it as refused.
    pub fn admits_body(&self, body_bytes: usize) -> bool {
        self.shared.admits_body(&self.core, body_bytes)
    }

    /// Whether a client can refer to this queue. Returns false if that would create a queue beyond
    /// the limit of queues or memory. Must be called before a queue is used, watched or created;
    /// puts check it themselves.
    pub fn admits_queue(&self, name: &[u8]) -> bool {
        self.shared.admits_queue(&self.core, name)
    }

    /// Whether a queue of items of this name exists or can be created. A queue has at most
    /// [`engine::limits::CHILDREN_MAX`] fan-out children that rules do not name.
    pub fn admits_child(&self, queue: &[u8]) -> bool {
        self.core.engine.admits_child(queue)
    }

    /// Whether puts are refused because the server drains.
    pub fn draining(&self) -> bool {
        self.shared.draining()
    }
}

impl Shared {
    /// Checks a job with a body of this length before anything changes. `is_logged` says whether
    /// the job goes to the log, and so needs room there.
    pub(crate) fn admit(
        &self,
        core: &Core,
        body_bytes: usize,
        is_logged: impl FnOnce(&Engine) -> bool,
    ) -> Result<(), PutRefusal> {
        if self.draining() {
            return Err(PutRefusal::Draining);
        }
        if core.engine.writes_blocked() {
            return Err(PutRefusal::WritesBlocked);
        }
        if !self.admits_body(core, body_bytes) {
            return Err(PutRefusal::MemoryFull);
        }
        let has_no_room = core.ledger.log.as_ref().is_some_and(|log| !log.admits_put(body_bytes));
        if has_no_room && is_logged(&core.engine) {
            return Err(PutRefusal::LogFull);
        }
        Ok(())
    }

    /// Whether a body of this length fits into the limit of memory. Otherwise counts it as refused.
    fn admits_body(&self, core: &Core, body_bytes: usize) -> bool {
        let has_memory = self.has_memory_for(core, body_bytes);
        if !has_memory {
            self.memory.count_refusal();
        }
        has_memory
    }

    fn has_memory_for(&self, core: &Core, body_bytes: usize) -> bool {
        self.memory.admits(core.memory_bytes(), body_bytes)
    }
}

impl Core {
    /// A queue's refusal of a job.
    pub(crate) fn refusal<T>(&self, refused: Refused) -> Answer<Result<T, PutRefusal>> {
        match refused {
            // Its jobs may have arrived just now, from any session.
            Refused::QueueFull => Answer::new(Err(PutRefusal::QueueFull), self.ledger.after_all()),
            Refused::TooBig => Answer::at_once(Err(PutRefusal::TooBig)),
        }
    }
}
