//! Requests about a queue with all of its jobs.

use engine::{Clearing, NotFound, QueueId};

use crate::core::Core;
use crate::{Answer, Caller, Refusal};

/// # Whole queues
///
/// The methods whose names end with `_of` are about one queue, also if its name stands for another one:
/// see [`crate::Turn::queue_id`]. The queue must exist in this turn.
impl Caller<'_> {
    /// Creates a queue if it does not exist. The queue then stays, even while it is empty and
    /// unused.
    pub fn create_queue(&mut self, name: &[u8]) -> Answer<Result<(), Refusal>> {
        let core = &mut *self.core;
        let lacks_room = core.lacks_room(1, |engine| {
            engine.queue_id(name).is_none_or(|queue| !engine.queue_facts(queue).kept)
        });
        if lacks_room {
            return Answer::at_once(Err(Refusal::LogFull));
        }
        core.engine.create_queue(name, &mut core.effects);
        core.apply_effects();
        Answer::new(Ok(()), core.after_named(name))
    }

    /// Limits the unfinished jobs of a queue per [`engine::Band`]; 0 means no limit.
    pub fn limit_queue(&mut self, name: &[u8], limits: [u32; 3]) -> Answer<Result<(), Refusal>> {
        let core = &mut *self.core;
        if core.lacks_room(1, |engine| engine.queue_id(name).is_some()) {
            return Answer::at_once(Err(Refusal::LogFull));
        }
        let limited = core.engine.limit_queue(name, limits, &mut core.effects);
        core.apply_effects();
        Answer::new(limited.map_err(Refusal::from), core.after_named(name))
    }

    /// Like [`Caller::limit_queue`], for this queue.
    pub fn limit_queue_of(
        &mut self,
        queue: QueueId,
        limits: [u32; 3],
    ) -> Answer<Result<(), Refusal>> {
        let core = &mut *self.core;
        if core.lacks_room(1, |_| true) {
            return Answer::at_once(Err(Refusal::LogFull));
        }
        core.engine.limit_queue_of(queue, limits, &mut core.effects);
        core.apply_effects();
        Answer::new(Ok(()), core.ledger.after_queue(queue))
    }

    /// Pauses a queue for this many seconds. 0 ends a pause. The log does not store pauses, so they
    /// end with the process, as in beanstalkd.
    pub fn pause(&mut self, name: &[u8], seconds: u32) -> Answer<Result<(), NotFound>> {
        let core = &mut *self.core;
        let paused = core.engine.pause(name, seconds, &mut core.effects);
        core.apply_effects();
        match paused {
            Ok(()) => Answer::at_once(Ok(())),
            Err(NotFound) => Answer::new(Err(NotFound), core.ledger.after_gone()),
        }
    }

    /// Like [`Caller::pause`], for this queue.
    pub fn pause_of(&mut self, queue: QueueId, seconds: u32) {
        let core = &mut *self.core;
        core.engine.pause_of(queue, seconds, &mut core.effects);
        core.apply_effects();
    }

    /// Removes a queue and its jobs. If the queue has workers or leased jobs, does nothing and
    /// returns `None`.
    pub fn drop_queue(&mut self, name: &[u8]) -> Answer<Result<Option<Clearing>, NotFound>> {
        let core = &mut *self.core;
        let dropped = core.engine.drop_queue(self.session, name, &mut core.effects);
        core.apply_effects();
        match dropped {
            Ok(Some(removal)) => core.cleared(removal).map(|removal| Ok(Some(removal))),
            Ok(None) => Answer::at_once(Ok(None)),
            Err(NotFound) => Answer::new(Err(NotFound), core.ledger.after_removal()),
        }
    }

    /// Removes a queue with all of its jobs, even leased jobs, and ends all waits for its items. If
    /// sessions still use or watch the queue, the queue itself stays and only loses its jobs. A job
    /// that is put into the queue during a long removal also stays. Does nothing if the queue does
    /// not exist.
    pub fn remove_queue(&mut self, queue: &[u8]) -> Answer<Clearing> {
        let core = &mut *self.core;
        let removal = core.engine.remove_queue(self.session, queue, &mut core.effects);
        core.apply_effects();
        core.cleared(removal)
    }

    /// Like [`Caller::remove_queue`], for this queue.
    pub fn remove_queue_of(&mut self, queue: QueueId) -> Answer<Clearing> {
        let core = &mut *self.core;
        let removal = core.engine.remove_queue_of(self.session, queue, &mut core.effects);
        core.apply_effects();
        core.cleared(removal)
    }

    /// Removes all items of a queue, except items that a session holds. Does nothing if the queue
    /// does not exist.
    pub fn flush(&mut self, queue: &[u8]) -> Answer<Clearing> {
        let core = &mut *self.core;
        let flush = core.engine.flush(self.session, queue, &mut core.effects);
        core.apply_effects();
        core.cleared(flush)
    }

    /// Like [`Caller::flush`], for all queues that a Kestrel client created or used.
    pub fn flush_all(&mut self) -> Answer<Clearing> {
        let core = &mut *self.core;
        let flush = core.engine.flush_all(self.session, &mut core.effects);
        core.apply_effects();
        core.cleared(flush)
    }

    /// Ends expired items at the head of a queue, and returns their number. One call ends at most
    /// 1,000 items, and at most the policy's `expire_sweep`. Timers end the other expired items.
    /// Returns `None` if the queue does not exist.
    pub fn flush_expired(&mut self, queue: &[u8]) -> Answer<Option<u64>> {
        let core = &mut *self.core;
        let count = core.engine.flush_expired(queue, &mut core.effects);
        Answer::new(count, core.apply_effects())
    }
}

impl Core {
    /// The answer to a flush or a removal. Must be called after the request's effects were applied.
    fn cleared(&self, clearing: Clearing) -> Answer<Clearing> {
        match clearing {
            // If other sessions use the queue, it stays. Then the log gets an entry that it is no
            // longer a queue of items. The reply also waits for this entry.
            Clearing::Done => {
                Answer::new(clearing, self.ledger.last.max(self.ledger.after_removal()))
            }
            Clearing::Waiting => Answer::at_once(clearing),
        }
    }
}
