//! Chooses the queue and the job of a take.

use crate::engine::Engine;
use crate::ids::{JobId, JobSlot, QueueId, SessionId};
use crate::limits::UNIT_COMPARISONS;
use crate::queues::Queue;
use crate::sessions::{ReadMode, Registration};

/// If a worker has more registrations than there are queues that could supply a job, a search looks
/// at this many of them by rank before it goes through the queues. The first ones usually have
/// work.
const RANKED_MAX: usize = 64;

/// Where a take looks for its job.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum Choice<'a> {
    /// The best job of all queues that the session watches. The best job has the lowest priority
    /// number. Of several such jobs, the best job has the lowest order number.
    Watched,
    /// The first job of one of the queues that the session is registered for. [`GrabOrder`] decides
    /// which queue comes first.
    Registered(GrabOrder),
    /// The first job of the queue of this name. If necessary, the take makes the queue, marks it as
    /// a queue of items and keeps it in existence. The caller must check [`Engine::admits_child`]
    /// first. The session must come from [`Engine::open_reader`].
    Queue(&'a [u8], ReadMode),
    /// The job with this number, in any queue, if it is ready, delayed or buried.
    Job(JobId),
}

/// The order in which a take tries a worker's queues.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum GrabOrder {
    /// The queue of the newest registration comes first.
    NewestFirst,
    /// The queue of the newest registration comes first, too. But a queue that supplies a job moves
    /// to the end.
    RoundRobin,
}

impl Engine {
    /// Those of these watched queues that are stocked. Counts the work on the meter. A session can
    /// watch thousands of queues, and most of them are empty. An empty one costs a look at one bit.
    pub(in crate::engine) fn stocked(&self, watched: &[QueueId]) -> impl Iterator<Item = QueueId> {
        self.meter.count(1 + watched.len() / UNIT_COMPARISONS);
        let stocked = watched.iter().copied().filter(|id| self.queues.is_stocked(*id));
        stocked.inspect(|_| self.meter.count(1))
    }

    /// The best job of the queues that the session watches.
    pub(in crate::engine) fn best_watched(&self, session: SessionId) -> Option<JobSlot> {
        let stocked = self.stocked(self.sessions[session].watched());
        let heads = stocked.filter_map(|id| self.head(&self.queues[id]));
        heads.min_by_key(|next| next.key).map(|next| next.slot)
    }

    /// The registration of this session whose queue supplies the next job, and its rank. If several
    /// queues can supply a job, the registration with the highest rank wins. Let N be the number of
    /// queues that have both ready jobs and workers. If the session has at most N registrations,
    /// the search goes through them by rank. If it has more, the search looks at a few of them, and
    /// then goes through these N queues instead. So the work is in proportion to N or to the number
    /// of registrations, whichever is smaller.
    pub(in crate::engine) fn next_supplier(
        &self,
        session: SessionId,
    ) -> Option<(i64, Registration)> {
        self.next_supplier_of(session, |queue| self.may_serve(queue))
    }

    /// Like [`Engine::next_supplier`], but a queue can also supply a job if this job is cold.
    pub(in crate::engine) fn next_supplier_if_loaded(
        &self,
        session: SessionId,
    ) -> Option<(i64, Registration)> {
        let serves = |queue: &Queue| self.may_serve(queue) || self.may_serve_loaded(queue);
        self.next_supplier_of(session, serves)
    }

    /// Like [`Engine::next_supplier`], but `serves` decides which queues can supply a job.
    fn next_supplier_of(
        &self,
        session: SessionId,
        serves: impl Fn(&Queue) -> bool,
    ) -> Option<(i64, Registration)> {
        let worker = self.sessions[session].worker()?;
        let serves = |queue: QueueId| serves(&self.queues[queue]);
        self.meter.count(1);
        let supplying = self.queues.supplying();
        let goes_by_rank = worker.len() <= supplying.len();
        let most = if goes_by_rank { worker.len() } else { RANKED_MAX.min(supplying.len()) };
        let mut ranks = worker.by_rank().take(most);
        let found = ranks.find(|(_, found)| {
            self.meter.count(1);
            serves(found.queue)
        });
        if found.is_some() || goes_by_rank {
            return found;
        }
        self.meter.count(supplying.len());
        worker.first_of(supplying.iter().filter(|queue| serves(**queue)))
    }
}
