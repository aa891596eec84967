//! Queues: statistics, and operations on all of their jobs.

use engine::{Clearing, NotFound, QueueCursor, QueueFacts, QueueId, QueueStats, SessionId};

use crate::core::Core;
use crate::{Answer, Refusal, Turn};

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
    pub fn pause(&mut self, name: &[u8], seconds: u32) -> Answer<Result<(), NotFound>> {
        let core = &mut *self.core;
        let paused = core.engine.pause(name, seconds, &mut core.effects);
        core.apply_effects();
        match paused {
            Ok(()) => Answer::at_once(Ok(())),
            Err(NotFound) => Answer::new(Err(NotFound), core.ledger.after_gone()),
        }
    }

    /// Creates and keeps a queue.
    pub fn create_queue(&mut self, name: &[u8]) -> Answer<()> {
        let core = &mut *self.core;
        core.engine.create_queue(name, &mut core.effects);
        core.apply_effects();
        Answer::new((), self.after_named(name))
    }

    /// Limits the unfinished jobs of a queue per [`engine::Band`]; 0 means no limit.
    pub fn limit_queue(&mut self, name: &[u8], limits: [u32; 3]) -> Answer<Result<(), Refusal>> {
        let core = &mut *self.core;
        if core.lacks_room(1, |engine| engine.queue_id(name).is_some()) {
            return Answer::at_once(Err(Refusal::LogFull));
        }
        let limited = core.engine.limit_queue(name, limits, &mut core.effects);
        core.apply_effects();
        Answer::new(limited.map_err(Refusal::from), self.after_named(name))
    }

    /// Removes a queue and its jobs. Returns `None` if it has workers or leased jobs.
    pub fn drop_queue(
        &mut self,
        session: SessionId,
        name: &[u8],
    ) -> Answer<Result<Option<Clearing>, NotFound>> {
        let core = &mut *self.core;
        let dropped = core.engine.drop_queue(session, name, &mut core.effects);
        core.apply_effects();
        match dropped {
            Ok(Some(removal)) => core.cleared(removal).map(|removal| Ok(Some(removal))),
            Ok(None) => Answer::at_once(Ok(None)),
            Err(NotFound) => Answer::new(Err(NotFound), core.ledger.after_removal()),
        }
    }

    /// Removes a queue with all of its jobs, even leased ones, and ends all waits for its items.
    /// The queue itself stays, empty, if sessions of other dialects use or watch it; so do jobs put
    /// there before the removal ends. Does nothing if the queue does not exist.
    pub fn remove_queue(&mut self, session: SessionId, queue: &[u8]) -> Answer<Clearing> {
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
    pub fn flush(&mut self, session: SessionId, queue: &[u8]) -> Answer<Clearing> {
        let core = &mut *self.core;
        let flush = core.engine.flush(session, queue, &mut core.effects);
        core.apply_effects();
        core.cleared(flush)
    }

    /// The same for all queues that a Kestrel client created or used.
    pub fn flush_all(&mut self, session: SessionId) -> Answer<Clearing> {
        let core = &mut *self.core;
        let flush = core.engine.flush_all(session, &mut core.effects);
        core.apply_effects();
        core.cleared(flush)
    }

    /// Ends the expired items at the head of a queue, at most its policy's `expire_sweep` and
    /// 1,000, and returns their number. The others end soon. Returns `None` if the
    /// queue does not exist.
    pub fn flush_expired(&mut self, queue: &[u8]) -> Answer<Option<u64>> {
        let core = &mut *self.core;
        let count = core.engine.flush_expired(queue, &mut core.effects);
        Answer::new(count, core.apply_effects())
    }

    /// Whether a queue of items of this name exists or can be created. A queue has at most
    /// [`engine::limits::CHILDREN_MAX`] fan-out children that rules do not name.
    pub fn admits_child(&self, queue: &[u8]) -> bool {
        self.core.engine.admits_child(queue)
    }
}

impl Core {
    /// Must be called when the request has settled.
    fn cleared(&self, clearing: Clearing) -> Answer<Clearing> {
        match clearing {
            // A queue that others use stays. The log must also record that it is no longer a queue
            // of items.
            Clearing::Done => {
                Answer::new(clearing, self.ledger.last.max(self.ledger.after_removal()))
            }
            Clearing::Waiting => Answer::at_once(clearing),
        }
    }
}
