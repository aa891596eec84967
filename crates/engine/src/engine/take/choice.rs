//! Chooses the job of a take, and the queues that can supply one. Every hand-out asks here.

use crate::engine::Engine;
use crate::ids::{JobId, JobSlot, QueueId, SessionId};
use crate::queues::{Queue, ReadyKey};
use crate::sessions::{ReadMode, Registration};

/// Where a take looks for its job.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum Choice<'a> {
    /// The best job of all queues that the session watches, by (priority, order number).
    Watched,
    /// The first job of the first queue that has one, among the queues that the session registered
    /// for.
    Registered(GrabOrder),
    /// The first job of the queue of this name. The take makes, marks and keeps the queue as one of
    /// items. The caller must check [`Engine::admits_child`] first, and the session must come from
    /// [`Engine::open_reader`].
    Queue(&'a [u8], ReadMode),
    /// This job in any queue, if it is ready, delayed or buried.
    Job(JobId),
}

/// The order in which a take looks at a worker's queues.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum GrabOrder {
    /// The newest registration first.
    NewestFirst,
    /// The same, but a queue that could supply a job moves to the end of the order.
    RoundRobin,
}

impl Engine {
    /// Whether a queue can serve a take now, apart from expired jobs in front.
    pub(in crate::engine) fn may_serve(&self, queue: &Queue) -> bool {
        queue.can_serve(self.now) && !self.is_blocked(queue)
    }

    /// Whether a queue can serve its waiters now, apart from expired jobs in front.
    pub(in crate::engine) fn may_serve_line(&self, queue: &Queue) -> bool {
        !queue.is_paused() && !self.is_blocked(queue)
    }

    /// The job that a take from this queue gets now, with its place in the order of hand-outs.
    pub(in crate::engine) fn head(&self, queue: &Queue) -> Option<(ReadyKey, JobSlot)> {
        if !self.may_serve(queue) || self.head_is_expired(queue) {
            return None;
        }
        queue.ready().first().map(|(key, slot)| (key, JobSlot(slot)))
    }

    /// The best job of the queues that the session watches.
    pub(in crate::engine) fn best_watched(&self, session: SessionId) -> Option<JobSlot> {
        let watched = self.sessions[session].watched().iter();
        watched.filter_map(|id| self.head(&self.queues[*id])).min().map(|(_, slot)| slot)
    }

    /// The registration whose queue supplies the next job. If several queues can, the registration
    /// with the highest rank wins. The search looks at the session's registrations in the order of
    /// their ranks. If it has not found one after as many registrations as there are queues with
    /// ready jobs and workers, it looks at those queues instead, because they are fewer.
    pub(in crate::engine) fn next_supplier(
        &self,
        session: SessionId,
    ) -> Option<(i64, Registration)> {
        let worker = self.sessions[session].worker()?;
        let serves = |queue: QueueId| self.may_serve(&self.queues[queue]);
        self.meter.count(1);
        let supplying = self.queues.supplying();
        let mut ranks = worker.by_rank().take(supplying.len());
        let found = ranks.find(|(_, found)| {
            self.meter.count(1);
            serves(found.queue)
        });
        if found.is_some() || worker.len() <= supplying.len() {
            return found;
        }
        self.meter.count(supplying.len());
        worker.first_of(supplying.iter().filter(|queue| serves(**queue)))
    }
}
