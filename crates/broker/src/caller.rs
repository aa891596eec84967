//! The requests of a session, for dialects. Each file in `caller/` has one group of requests.

mod clients;
mod items;
mod jobs;
mod moves;
mod queues;
mod whole_queues;
mod workers;

use engine::{
    Choice, Engine, Handout, JobId, JobSlot, NotFound, Patience, QueueId, SessionId, Take,
};

use crate::broker::Shared;
use crate::core::Core;
use crate::{Answer, Position};

pub use jobs::Peeked;
pub use moves::{MoveRefusal, RedriveRefusal, SetAsideRefusal};
pub use workers::Assignment;

/// The requests of one session about jobs and queues. [`crate::Turn::caller`] creates a `Caller`.
///
/// Replies wait for the log: see [`Answer`].
///
/// - The queues of the session: `use_queue`, `used_queue`, `watch`, `ignore`, `watched`, `watches`.
/// - Jobs, as in beanstalkd: `put`, `take`, `take_job`, `cancel_wait`, `finish`, `give_back`,
///   `bury`, `touch`, `time_out`, `kick`, `kick_job`, `bury_job`, `reschedule_job`, `move_job`,
///   `set_aside_job`, `peek`, `peek_used`, `first_used_id`.
/// - Jobs with an outcome, as in Gearman. For their clients: `submit`, `cancel`. For their workers:
///   `register`, `unregister`, `unregister_all`, `take_registered`, `sleep`, `report`, `progress`,
///   `complete`, `fail`.
/// - Items of a queue that is read in order, as in Kestrel: `add`, `read`, `confirm`,
///   `give_back_item`, `hand_over`, `holds`, `open_body`.
/// - Whole queues: `create_queue`, `limit_queue`, `pause`, `flush`, `flush_all`, `flush_expired`,
///   `drop_queue`, `remove_queue`.
/// - A queue that a list shows, even if its name stands for another one: `use_queue_of`,
///   `limit_queue_of`, `pause_of`, `remove_queue_of`.
/// - The limits of one session, before a request: `admits_watch`, `admits_worker`.
#[derive(Debug)]
pub struct Caller<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) core: &'a mut Core,
    pub(crate) session: SessionId,
}

/// Whether this session holds this job, and the job is in the log.
fn holds_logged(engine: &Engine, session: SessionId, id: JobId) -> bool {
    engine.held(session, id).is_ok_and(|slot| engine.is_durable(slot))
}

impl Core {
    /// Whether the request must be refused because the log has no room for this many updates.
    /// `is_logged` returns whether the request would write to the log. A request that writes
    /// nothing is never refused.
    pub(crate) fn lacks_room(&self, updates: u64, is_logged: impl FnOnce(&Engine) -> bool) -> bool {
        let log = self.ledger.log();
        log.is_some_and(|log| !log.admits_updates(updates)) && is_logged(&self.engine)
    }

    /// The position for an answer about this job, or about its end.
    pub(crate) fn after_id(&self, id: JobId) -> Position {
        match self.engine.slot(id) {
            Ok(slot) => self.ledger.after_job(&self.engine, slot),
            Err(NotFound) => self.ledger.after_ended(),
        }
    }

    /// The answer to a request that changes this job. `slot` is the slot of the changed job, or
    /// `NotFound`.
    pub(crate) fn changed<E: From<NotFound>>(
        &self,
        id: JobId,
        slot: Result<JobSlot, NotFound>,
    ) -> Answer<Result<(), E>> {
        let after = |slot| self.ledger.after_job(&self.engine, slot);
        self.done(id, slot.map(|_| ()), slot.map_or(Position::NONE, after))
    }

    /// The answer to a request about this job. If the request succeeded, its reply waits for
    /// `after`.
    pub(crate) fn done<E: From<NotFound>>(
        &self,
        id: JobId,
        done: Result<(), NotFound>,
        after: Position,
    ) -> Answer<Result<(), E>> {
        match done {
            Ok(()) => Answer::new(Ok(()), after),
            Err(NotFound) => Answer::new(Err(NotFound.into()), self.after_id(id)),
        }
    }

    /// Takes a job. `nothing` returns the position for the answer "no job".
    pub(crate) fn take(
        &mut self,
        session: SessionId,
        choice: Choice<'_>,
        patience: Patience,
        nothing: impl FnOnce(&Self, Option<QueueId>) -> Position,
    ) -> Answer<Take> {
        let mut taken = self.engine.take(session, choice, patience, &mut self.effects);
        match &mut taken {
            Take::Granted(handout) => {
                let queue = self.engine.queue_of(handout.job);
                self.fetch((handout.job, handout.id), Some(queue), session, &mut handout.body);
                self.note_handout(queue, handout.id);
            }
            Take::Peeked { job, id, body } => self.fetch((*job, *id), None, session, body),
            Take::Finished { job, id, body } => {
                let queue = self.effects.finished_queue(*job);
                self.fetch((*job, *id), queue, session, body);
                if let Some(queue) = queue {
                    self.note_handout(queue, *id);
                }
            }
            Take::Nothing(_) | Take::DeadlineSoon | Take::Waiting => {}
        }
        let last = self.apply_effects();
        let after = match &taken {
            Take::Granted(Handout { job, .. }) | Take::Peeked { job, .. } => {
                self.ledger.after_job(&self.engine, *job)
            }
            Take::Finished { .. } => last,
            Take::Nothing(queue) => nothing(self, *queue),
            Take::DeadlineSoon | Take::Waiting => Position::NONE,
        };
        Answer::new(taken, after)
    }

    /// The position for an answer about the queue of this name. The queue need not exist.
    pub(crate) fn after_named(&self, name: &[u8]) -> Position {
        let after = |queue: Option<QueueId>| {
            queue.map_or(self.ledger.after_gone(), |queue| self.ledger.after_queue(queue))
        };
        // The answer can be about the queue that the name stood for until now.
        after(self.engine.queue_id(name)).max(after(self.engine.own_queue_id(name)))
    }
}
