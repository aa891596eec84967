//! Which job a take gets, and from which queues any can be had. Every hand-out asks here.

use crate::engine::Engine;
use crate::ids::{JobId, JobSlot, QueueId, SessionId};
use crate::queues::{Queue, ReadyKey};
use crate::sessions::{ReadMode, Registration};

/// Where a take looks for its job.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum Choice<'a> {
    /// The best job of all queues that the session watches, by (priority, order number).
    Watched,
    /// The first job of the first queue that has one, of those that the session registered for.
    Registered(GrabOrder),
    /// The first job of the queue of this name, which is made, marked and kept as one of items. To be
    /// asked only if [`Engine::admits_child`], for a session of [`Engine::open_reader`].
    Queue(&'a [u8], ReadMode),
    /// This job, whatever queue it is in, if it is ready, delayed or buried.
    Job(JobId),
}

/// In which order a worker's queues are asked for a job.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum GrabOrder {
    /// The newest registration first.
    NewestFirst,
    /// The same, but a queue that could supply a job goes to the end of the line.
    RoundRobin,
}

impl Engine {
    /// Whether a take may be served from a queue now, apart from what expired in front.
    pub(in crate::engine) fn may_serve(&self, queue: &Queue) -> bool {
        queue.can_serve(self.now) && !self.is_blocked(queue)
    }

    /// Whether those who wait for a queue may be served now, apart from what expired in front.
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

    /// The registration whose queue supplies the next job: the one with the highest rank. Goes
    /// through the session's queues from there, but through no more than there are queues that have
    /// jobs; then these are fewer, and it goes through them.
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
