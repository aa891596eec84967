//! Queues: statistics, and operations on all of their jobs.

use engine::{NotFound, QueueCursor, QueueFacts, QueueId, QueueStats, SessionId};

use crate::core::Core;
use crate::{Denied, Position, Refusal, Turn};

/// The immediate outcome of a flush, or of the removal of a queue.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum Clearing {
    /// It is done. The reply waits for the position.
    Done(Position),
    /// It takes several turns; [`crate::Event::Cleared`] will come.
    Waiting,
}

impl Turn<'_> {
    /// The id of the queue of this name, if it exists. Ids are reused after a queue is gone. Of
    /// events due at the same moment, that of the lower id comes first.
    pub fn queue_id(&self, name: &[u8]) -> Option<QueueId> {
        self.core.engine.queue_id(name)
    }

    /// The name of a queue.
    pub fn queue_name(&self, queue: QueueId) -> &[u8] {
        self.core.engine.queue_name(queue)
    }

    /// Names of all queues, oldest first. A full walk delays all clients: use it for the first few
    /// names, in tests and in the simulator; otherwise use [`Turn::next_queue`].
    pub fn queue_names(&self) -> impl Iterator<Item = &[u8]> {
        let engine = &self.core.engine;
        engine.queue_ids().map(|queue| engine.queue_name(queue))
    }

    /// Moves the cursor to the next queue, from the oldest on, and returns it.
    pub fn next_queue(&mut self, cursor: &mut QueueCursor) -> Option<QueueId> {
        self.core.engine.next_queue(cursor)
    }

    /// Queues whose names equal this one, ignoring ASCII case, oldest first.
    pub fn queues_alike(&mut self, name: &[u8]) -> Vec<QueueId> {
        self.core.engine.queues_alike(name)
    }

    /// Statistics of the queue of this name, if it exists.
    pub fn queue_stats(&self, name: &[u8]) -> Option<QueueStats> {
        let engine = &self.core.engine;
        engine.queue_id(name).map(|queue| engine.queue_stats(queue))
    }

    /// Statistics of a queue.
    pub fn queue_stats_of(&self, queue: QueueId) -> QueueStats {
        self.core.engine.queue_stats(queue)
    }

    /// Whether the queue of this name is kept, and its limits; if it exists.
    pub fn queue_facts(&self, name: &[u8]) -> Option<QueueFacts> {
        let engine = &self.core.engine;
        engine.queue_id(name).map(|queue| engine.queue_facts(queue))
    }

    /// The facts of a queue.
    pub fn queue_facts_of(&self, queue: QueueId) -> QueueFacts {
        self.core.engine.queue_facts(queue)
    }

    /// Pauses a queue for this many seconds; 0 ends a pause. Pauses are not logged: they end with
    /// the process, as in beanstalkd.
    pub fn pause(&mut self, name: &[u8], seconds: u32) -> Result<Position, Denied> {
        let core = &mut *self.core;
        let paused = core.engine.pause(name, seconds, &mut core.effects);
        core.apply_effects();
        let gone = core.ledger.after_gone();
        paused.map(|()| Position::default()).map_err(|NotFound| Denied(gone))
    }

    /// Creates and keeps a queue.
    pub fn create_queue(&mut self, name: &[u8]) -> Position {
        let core = &mut *self.core;
        core.engine.create_queue(name, &mut core.effects);
        core.apply_effects();
        self.after_named(name)
    }

    /// Limits the unfinished jobs of a queue per [`engine::Band`]; 0 means no limit.
    pub fn limit_queue(&mut self, name: &[u8], limits: [u32; 3]) -> Result<Position, Refusal> {
        let core = self.core_for_update(|engine| engine.queue_id(name).is_some())?;
        let limited = core.engine.limit_queue(name, limits, &mut core.effects);
        core.apply_effects();
        let after = self.after_named(name);
        limited.map(|()| after).map_err(|NotFound| Refusal::NotFound(after))
    }

    /// Removes a queue and its jobs. Returns `None` if it has workers or leased jobs.
    pub fn drop_queue(
        &mut self,
        session: SessionId,
        name: &[u8],
    ) -> Result<Option<Clearing>, Denied> {
        let core = &mut *self.core;
        let dropped = core.engine.drop_queue(session, name, &mut core.effects);
        core.apply_effects();
        match dropped {
            Ok(removal) => Ok(removal.map(|removal| core.cleared(removal))),
            Err(NotFound) => Err(Denied(core.ledger.after_removal())),
        }
    }

    /// Removes a queue with all of its jobs, even leased ones, and ends all waits for its items.
    /// The queue itself stays, empty, if sessions of other dialects use or watch it; so do jobs put
    /// there before the removal ends. Does nothing if the queue does not exist.
    pub fn remove_queue(&mut self, session: SessionId, queue: &[u8]) -> Clearing {
        let core = &mut *self.core;
        let removal = core.engine.remove_queue(session, queue, &mut core.effects);
        core.apply_effects();
        core.cleared(removal)
    }

    /// Whether the removal of a queue is in progress.
    pub fn is_being_removed(&self, queue: QueueId) -> bool {
        self.core.engine.is_being_removed(queue)
    }

    /// Removes all items of a queue that no session holds. Does nothing if the queue does not
    /// exist.
    pub fn flush(&mut self, session: SessionId, queue: &[u8]) -> Clearing {
        let core = &mut *self.core;
        let flush = core.engine.flush(session, queue, &mut core.effects);
        core.apply_effects();
        core.cleared(flush)
    }

    /// The same for all queues that a Kestrel client created or used.
    pub fn flush_all(&mut self, session: SessionId) -> Clearing {
        let core = &mut *self.core;
        let flush = core.engine.flush_all(session, &mut core.effects);
        core.apply_effects();
        core.cleared(flush)
    }

    /// Ends the expired items at the head of a queue, at most its policy's `expire_sweep` and
    /// 1,000, and returns their number. The others end soon. Returns `None` if the
    /// queue does not exist.
    pub fn flush_expired(&mut self, queue: &[u8]) -> Option<(u64, Position)> {
        let core = &mut *self.core;
        let count = core.engine.flush_expired(queue, &mut core.effects);
        let after = core.apply_effects();
        count.map(|count| (count, after))
    }

    /// Whether a queue of items of this name exists or can be created. A queue has at most
    /// [`engine::limits::CHILDREN_MAX`] fan-out children that rules do not name.
    pub fn admits_child(&self, queue: &[u8]) -> bool {
        self.core.engine.admits_child(queue)
    }
}

impl Core {
    /// Must be called when the request has settled.
    pub(crate) fn cleared(&self, clearing: engine::Clearing) -> Clearing {
        match clearing {
            // A queue that others use stays. The log must also record that it is no longer a queue
            // of items.
            engine::Clearing::Done => {
                Clearing::Done(self.ledger.last.max(self.ledger.after_removal()))
            }
            engine::Clearing::Waiting => Clearing::Waiting,
        }
    }
}
