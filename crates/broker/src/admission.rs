//! Admission of jobs. For all dialects, the broker checks all limits here before it passes a job to
//! the engine. `memory`, `queue_limit`, `gate` and `disk` have the limits of memory, queues, jobs and the
//! room of the disk. The log checks its own limit.

pub(crate) mod disk;
pub(crate) mod gate;
pub(crate) mod memory;
pub(crate) mod queue_limit;

use std::sync::atomic::{AtomicU64, Ordering};

use engine::crons::CRONS_BYTES_MAX;
use engine::{Engine, Refused};

use crate::broker::Shared;
use crate::core::Core;
use crate::{Answer, Broker, Position, Turn};
use memory::MemoryLimit;

/// The bytes of an entry of the log besides the body, for each body that a put writes after the first
/// one. The log itself adds those of the first one.
const ENTRY_OVERHEAD_BYTES: usize = 1 << 10;

/// So much memory can be used before all memory is added up again. Thus what else grows in a turn, for
/// example tables of queues, cannot exceed the limit by much.
const MEMORY_LEFT_MAX: u64 = 64 << 10;

/// Why a put was refused. Nothing was stored. The only exception: if the put has several queues,
/// other queues may have accepted the job.
#[derive(Copy, Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum PutRefusal {
    /// The queue is full.
    #[error("the queue is full")]
    QueueFull,
    /// The body is larger than the queue's policy allows.
    #[error("the body is larger than the queue takes")]
    TooBig,
    /// The queue has a job with the same key, and its policy refuses duplicates.
    #[error("the queue has a job with the same key")]
    Duplicate,
    /// The log has no room for the job. Finishing jobs makes room.
    #[error("the log has no room")]
    LogFull,
    /// The limit of memory is reached: see [`crate::Broker::set_memory_limit`]. Finishing jobs
    /// makes room.
    #[error("the limit of memory is reached")]
    MemoryFull,
    /// The server has as many jobs as its limit says: see [`crate::Broker::set_job_count_limit`].
    /// Finishing jobs makes room.
    #[error("the limit of jobs is reached")]
    JobsFull,
    /// The put would create a queue, but the limit of queues is reached: see
    /// [`crate::Broker::set_queue_limit`].
    #[error("the limit of queues is reached")]
    NoNewQueue,
    /// The server's status refuses writes.
    #[error("the server's status refuses writes")]
    WritesBlocked,
    /// The server refuses all puts since [`crate::Broker::drain`].
    #[error("the server drains and takes no new jobs")]
    Draining,
}

impl PutRefusal {
    /// All reasons.
    pub const ALL: [PutRefusal; 9] = [
        PutRefusal::QueueFull,
        PutRefusal::TooBig,
        PutRefusal::Duplicate,
        PutRefusal::LogFull,
        PutRefusal::MemoryFull,
        PutRefusal::JobsFull,
        PutRefusal::NoNewQueue,
        PutRefusal::WritesBlocked,
        PutRefusal::Draining,
    ];
}

/// The number of refused puts, by reason. [`memory::MemoryLimit`] counts the refusals at the limit
/// of memory, because these include bodies that no dialect accepted.
#[derive(Debug, Default)]
pub(crate) struct Refusals([AtomicU64; PutRefusal::ALL.len()]);

impl Refusals {
    fn count(&self, refusal: PutRefusal) {
        self.0[refusal as usize].fetch_add(1, Ordering::Relaxed);
    }
}

/// # Admission
impl Broker {
    /// The number of refused puts since the start, by reason.
    pub fn put_refusals(&self) -> [(PutRefusal, u64); PutRefusal::ALL.len()] {
        self.shared.refusals()
    }
}

/// # Admission, before a request
impl Turn<'_> {
    /// Whether a dialect should receive a body of this length. If the job would exceed the limit of
    /// memory, returns false and counts the job as refused.
    pub fn admits_body(&self, body_bytes: usize) -> bool {
        self.shared.admits_body(&self.core, body_bytes)
    }

    /// Whether a client can refer to this queue. Returns false if that would create a queue beyond
    /// the limit of queues or memory. Must be called before a queue is used, watched or created.
    /// Puts do this check themselves.
    pub fn admits_queue(&self, name: &[u8]) -> bool {
        self.shared.admits_queue(&self.core, name)
    }

    /// Whether a queue of items with this name exists or can be created. Clients can give a queue
    /// at most [`engine::limits::CHILDREN_MAX`] children. A child that a rule names does not count
    /// against this limit.
    pub fn admits_child(&self, queue: &[u8]) -> bool {
        self.core.engine.admits_child(queue)
    }

    /// Why a put of a short job into this queue would be refused now. `None`: it would be accepted,
    /// unless it is a duplicate. Counts nothing.
    pub fn put_refusal(&self, queue: &[u8]) -> Option<PutRefusal> {
        let is_logged = |engine: &Engine| engine.puts_are_logged(queue);
        let refusal = self.shared.look(&self.core, 0, is_logged, |_| false).err();
        let is_full = || self.core.engine.is_full_for_puts(queue);
        refusal.or_else(|| is_full().then_some(PutRefusal::QueueFull))
    }

    /// Whether sessions wait for more bodies than may be loaded now: see
    /// [`Broker::set_loads_limit`].
    pub fn has_many_loads(&self) -> bool {
        self.shared.loads.are_many()
    }

    /// Whether puts are refused because the server drains.
    pub fn draining(&self) -> bool {
        self.shared.draining()
    }
}

/// The bytes of bodies that a put can add to the log. Usually these are the bytes of its body. But if
/// it replaces the bodies of jobs in several queues, each of these queues writes the body again.
pub(crate) fn put_bytes<'e>(
    engine: &'e Engine,
    name: impl FnOnce(&'e Engine) -> &'e [u8],
    body_bytes: usize,
) -> usize {
    if !engine.replaces_bodies() {
        return body_bytes;
    }
    let more = engine.bodies_of_put(name(engine)) - 1;
    body_bytes + more * (body_bytes + ENTRY_OVERHEAD_BYTES)
}

impl Shared {
    /// Checks a job with a body of this length before anything changes. `is_logged` returns whether
    /// the log will get the job. If it will, the log must have room. `makes_no_job` returns whether a
    /// job that is there answers the put. If so, the limit of jobs does not refuse it.
    pub(crate) fn admit(
        &self,
        core: &Core,
        body_bytes: usize,
        is_logged: impl FnOnce(&Engine) -> bool,
        makes_no_job: impl FnOnce(&Engine) -> bool,
    ) -> Result<(), PutRefusal> {
        let checked = self.check(core, body_bytes, is_logged, makes_no_job);
        checked.inspect_err(|refusal| self.refusals.count(*refusal))
    }

    /// Whether the server takes the jobs of entries with schedules now.
    pub(crate) fn admits_crons(&self, core: &Core) -> bool {
        self.log_has_room(core, CRONS_BYTES_MAX)
            && self.gate.check(&core.engine).is_ok()
            && self.has_memory_for(core, CRONS_BYTES_MAX)
    }

    fn check(
        &self,
        core: &Core,
        body_bytes: usize,
        is_logged: impl FnOnce(&Engine) -> bool,
        makes_no_job: impl FnOnce(&Engine) -> bool,
    ) -> Result<(), PutRefusal> {
        let looked = self.look(core, body_bytes, is_logged, makes_no_job);
        if looked == Err(PutRefusal::MemoryFull) {
            self.memory.count_refusal();
        }
        looked
    }

    /// Like [`Shared::admit`], but counts nothing.
    pub(crate) fn look(
        &self,
        core: &Core,
        body_bytes: usize,
        is_logged: impl FnOnce(&Engine) -> bool,
        makes_no_job: impl FnOnce(&Engine) -> bool,
    ) -> Result<(), PutRefusal> {
        match self.gate.check(&core.engine) {
            // The search for the job costs time, so only a put that would be refused pays for it.
            Err(PutRefusal::JobsFull) if makes_no_job(&core.engine) => {}
            checked => checked?,
        }
        if core.engine.writes_blocked() {
            return Err(PutRefusal::WritesBlocked);
        }
        if !self.has_memory_for(core, body_bytes) {
            return Err(PutRefusal::MemoryFull);
        }
        if !self.log_has_room(core, body_bytes) && is_logged(&core.engine) {
            return Err(PutRefusal::LogFull);
        }
        Ok(())
    }

    /// Whether the log has room for a put with a body of this length, and may use it.
    fn log_has_room(&self, core: &Core, body_bytes: usize) -> bool {
        core.ledger.log().is_none_or(|log| log.admits_put(body_bytes)) && !self.disk.is_critical()
    }

    /// Whether a body of this length fits into the limit of memory. If it does not fit, counts the
    /// job as refused.
    fn admits_body(&self, core: &Core, body_bytes: usize) -> bool {
        let has_memory = self.has_memory_for(core, body_bytes);
        if !has_memory {
            self.memory.count_refusal();
        }
        has_memory
    }

    /// The number of refused puts, by reason.
    pub(crate) fn refusals(&self) -> [(PutRefusal, u64); PutRefusal::ALL.len()] {
        PutRefusal::ALL.map(|refusal| match refusal {
            PutRefusal::MemoryFull => (refusal, self.memory.memory().refused),
            other => (other, self.refusals.0[other as usize].load(Ordering::Relaxed)),
        })
    }

    /// The answer if the put would create a queue, but the limit of queues is reached.
    pub(crate) fn no_new_queue<T>(&self) -> Answer<Result<T, PutRefusal>> {
        self.refusals.count(PutRefusal::NoNewQueue);
        Answer::at_once(Err(PutRefusal::NoNewQueue))
    }

    /// The answer if a queue refused a job.
    pub(crate) fn refusal<T>(
        &self,
        core: &Core,
        refused: Refused,
    ) -> Answer<Result<T, PutRefusal>> {
        let (refusal, after) = match refused {
            // The jobs that fill the queue may not be durable yet. They can come from any session,
            // so the reply waits for all entries so far.
            Refused::QueueFull => (PutRefusal::QueueFull, core.ledger.after_all()),
            Refused::TooBig => (PutRefusal::TooBig, Position::NONE),
            // The other job may not be durable yet.
            Refused::Duplicate => (PutRefusal::Duplicate, core.ledger.after_all()),
        };
        self.refusals.count(refusal);
        Answer::new(Err(refusal), after)
    }

    /// Whether a job with a body of this length fits into the limit of memory. The first check of a turn
    /// adds up all memory. Further checks use what it left, because many puts can share a turn.
    fn has_memory_for(&self, core: &Core, body_bytes: usize) -> bool {
        let wanted_bytes = MemoryLimit::job_bytes(body_bytes);
        let left = core.memory_left.get().checked_sub(wanted_bytes);
        if let Some(left) = left {
            core.memory_left.set(left);
            return true;
        }
        self.adds_up_to_room_for(core, wanted_bytes)
    }

    #[cold]
    fn adds_up_to_room_for(&self, core: &Core, wanted_bytes: u64) -> bool {
        let room = self.memory.room(core.memory_bytes());
        let left = room.and_then(|room| room.checked_sub(wanted_bytes));
        core.memory_left.set(left.unwrap_or(0).min(MEMORY_LEFT_MAX));
        left.is_some()
    }
}

/// The answer if the server does not admit a put.
pub(crate) fn not_admitted<T>(core: &Core, refusal: PutRefusal) -> Answer<Result<T, PutRefusal>> {
    let after = match refusal {
        // As with a full queue, the reply waits for the jobs that reach the limit.
        PutRefusal::JobsFull => core.ledger.after_all(),
        _ => Position::NONE,
    };
    Answer::new(Err(refusal), after)
}
