//! A worker is a session that registers for queues. It requests each job itself. If there is no
//! job, the worker sleeps until a job wakes it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::num::NonZeroU64;

use crate::ids::{JobSlot, LeaseId, QueueId};

/// The registrations of a worker, its sleep, and its held jobs.
#[derive(Debug, Default)]
pub(crate) struct Worker {
    /// The registrations by rank. A take first tries the queue with the highest rank.
    by_rank: BTreeMap<i64, Registration>,
    by_queue: BTreeMap<QueueId, Known>,
    /// The queues of `by_queue` whose lists of sleepers do not have this worker.
    unlisted: BTreeSet<QueueId>,
    asleep: bool,
    /// The queue whose job woke the worker. `None` after the worker has looked for a job or has
    /// gone to sleep again.
    woken_for: Option<QueueId>,
    /// The held jobs by queue. In each queue, the job with the newest lease is first.
    held: BTreeSet<(QueueId, Reverse<LeaseId>, JobSlot)>,
    /// The last job that the worker got, and its lease. [`Worker::take_newest`] resets this field.
    newest: Option<(LeaseId, JobSlot)>,
    next_rank: i64,
    last_rank: i64,
}

/// A registration of a worker for a queue. This type and [`Known`] are small, because a client can
/// register for thousands of queues.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Registration {
    pub(crate) queue: QueueId,
    /// The time limit of the leases that the worker gets from this queue. `None`: no limit.
    pub(crate) limit_ms: Option<NonZeroU64>,
}

/// The result of the removal of a registration.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) struct RemovedRegistration {
    /// The ticket of the worker in the queue's list of sleepers, if the list has the worker.
    pub(crate) listed: Option<u64>,
}

#[derive(Copy, Clone, Debug)]
struct Known {
    /// The rank of the worker's registration for the queue.
    rank: i64,
    /// The ticket of the worker in the queue's list of sleepers. If a job of another queue wakes
    /// the worker, the worker stays in this list. So when the worker sleeps again, the engine need
    /// not add the worker to this list. When the queue wakes its sleepers, the engine skips workers
    /// that are already awake, and removes them from the list.
    listed: Option<NonZeroU64>,
}

/// Registrations.
impl Worker {
    /// The number of queues that the worker has registered for.
    pub(crate) fn len(&self) -> usize {
        self.by_queue.len()
    }

    pub(crate) fn is_registered(&self, queue: QueueId) -> bool {
        self.by_queue.contains_key(&queue)
    }

    /// Registers the worker for a queue. If the worker has a registration for the queue, the
    /// registration gets the highest rank and the new limit. Returns whether the registration is
    /// new.
    pub(super) fn register(&mut self, registration: Registration) -> bool {
        self.next_rank += 1;
        let (rank, queue) = (self.next_rank, registration.queue);
        self.by_rank.insert(rank, registration);
        let known = self.by_queue.get_mut(&queue);
        if let Some(before) = known.map(|known| mem::replace(&mut known.rank, rank)) {
            self.by_rank.remove(&before);
            return false;
        }
        self.unlisted.insert(queue);
        self.by_queue.insert(queue, Known { rank, listed: None });
        true
    }

    /// Removes the registration for a queue. `None`: the worker has none.
    pub(super) fn forget(&mut self, queue: QueueId) -> Option<RemovedRegistration> {
        let known = self.by_queue.remove(&queue)?;
        self.by_rank.remove(&known.rank);
        self.unlisted.remove(&queue);
        self.woken_for.take_if(|woken_for| *woken_for == queue);
        Some(RemovedRegistration { listed: known.listed.map(NonZeroU64::get) })
    }

    /// Of the queues that the worker is registered for, the queue with the lowest number.
    pub(crate) fn first_queue(&self) -> Option<QueueId> {
        self.by_queue.first_key_value().map(|(queue, _)| *queue)
    }

    /// The registrations by rank, highest first.
    pub(crate) fn by_rank(&self) -> impl Iterator<Item = (i64, Registration)> {
        self.by_rank.iter().rev().map(|(rank, registration)| (*rank, *registration))
    }

    /// The registration with the highest rank below `rank`. If `rank` is `None`, the registration
    /// with the highest rank of all.
    pub(crate) fn next_behind(&self, rank: Option<i64>) -> Option<(i64, Registration)> {
        let behind = self.by_rank.range(..rank.unwrap_or(i64::MAX));
        behind.map(|(rank, registration)| (*rank, *registration)).next_back()
    }

    /// Of the registrations for these queues, the registration with the highest rank.
    pub(crate) fn first_of<'a>(
        &self,
        queues: impl Iterator<Item = &'a QueueId>,
    ) -> Option<(i64, Registration)> {
        let known = queues.filter_map(|queue| self.by_queue.get(queue));
        let rank = known.map(|known| known.rank).max()?;
        self.by_rank.get(&rank).map(|registration| (rank, *registration))
    }

    /// Gives the registration that has this rank a new rank below all others.
    pub(crate) fn move_to_end(&mut self, rank: i64) {
        let Some(registration) = self.by_rank.remove(&rank) else { return };
        self.last_rank -= 1;
        self.by_rank.insert(self.last_rank, registration);
        if let Some(known) = self.by_queue.get_mut(&registration.queue) {
            known.rank = self.last_rank;
        }
    }
}

/// Sleep.
impl Worker {
    pub(crate) fn is_asleep(&self) -> bool {
        self.asleep
    }

    /// Marks the worker as awake, because it looks for a job. Returns the queue whose job woke it.
    pub(crate) fn look(&mut self) -> Option<QueueId> {
        self.asleep = false;
        self.woken_for.take()
    }

    /// Restores the result of [`Worker::look`], because the worker must look for a job once more.
    pub(crate) fn look_again(&mut self, woken_for: Option<QueueId>) {
        self.woken_for = woken_for;
    }

    /// Marks the worker as asleep. Returns the queues whose lists of sleepers do not have the
    /// worker. The caller must add the worker to each of these lists and call [`Worker::list`].
    pub(crate) fn fall_asleep(&mut self) -> BTreeSet<QueueId> {
        self.asleep = true;
        self.woken_for = None;
        mem::take(&mut self.unlisted)
    }

    /// Stores the ticket of the worker in a queue's list of sleepers.
    pub(crate) fn list(&mut self, queue: QueueId, ticket: u64) {
        let known = self.by_queue.get_mut(&queue).expect("only known queues are unlisted");
        known.listed = NonZeroU64::new(ticket);
    }

    /// Stores that the worker is no longer in the list of sleepers of this queue, because a job of
    /// the queue wakes the worker. Returns whether the worker was asleep.
    pub(crate) fn unlist(&mut self, queue: QueueId) -> bool {
        if let Some(known) = self.by_queue.get_mut(&queue) {
            known.listed = None;
            self.unlisted.insert(queue);
        }
        let slept = mem::take(&mut self.asleep);
        if slept {
            self.woken_for = Some(queue);
        }
        slept
    }

    /// Marks the worker as awake, because it registered for a queue and now has work. Does not set
    /// `woken_for`, because no job became ready.
    pub(crate) fn wake(&mut self) {
        self.asleep = false;
    }
}

/// Held jobs.
impl Worker {
    /// Adds a job to the jobs that the worker holds.
    pub(super) fn hold(&mut self, queue: QueueId, lease: LeaseId, slot: JobSlot) {
        self.held.insert((queue, Reverse(lease), slot));
        self.newest = Some((lease, slot));
    }

    /// Removes a job from the jobs that the worker holds.
    pub(super) fn let_go(&mut self, queue: QueueId, lease: LeaseId, slot: JobSlot) {
        self.held.remove(&(queue, Reverse(lease), slot));
    }

    /// The held job of this queue with the newest lease that is older than `before`. If there is no
    /// such job, the job with the newest lease among the worker's jobs of the next queue.
    pub(crate) fn held_from(&self, queue: QueueId, before: LeaseId) -> Option<(QueueId, JobSlot)> {
        let first = (queue, Reverse(before), JobSlot(u32::MAX));
        self.held.range(first..).next().map(|(queue, _, slot)| (*queue, *slot))
    }

    /// Returns and resets the last job that the worker got. `None`: the worker got no job since the
    /// last call.
    pub(crate) fn take_newest(&mut self) -> Option<(LeaseId, JobSlot)> {
        self.newest.take()
    }
}

/// Functions for [`crate::Engine::check_invariants`].
impl Worker {
    pub(crate) fn held(&self) -> impl ExactSizeIterator<Item = (QueueId, LeaseId, JobSlot)> {
        self.held.iter().map(|(queue, Reverse(lease), slot)| (*queue, *lease, *slot))
    }

    /// The queues that the worker is registered for.
    pub(crate) fn queues(&self) -> impl Iterator<Item = QueueId> {
        self.by_queue.keys().copied()
    }

    /// The queues whose lists of sleepers have the worker, with the worker's ticket.
    pub(crate) fn listed(&self) -> impl Iterator<Item = (QueueId, u64)> {
        self.by_queue.iter().filter_map(|(queue, known)| Some((*queue, known.listed?.get())))
    }

    /// Panics if the tables of registrations disagree.
    pub(super) fn check_invariants(&self) {
        let ranked = self.by_rank.iter().map(|(rank, found)| (found.queue, *rank));
        let known = self.by_queue.iter().map(|(queue, known)| (*queue, known.rank));
        assert!(ranked.collect::<BTreeMap<_, _>>().into_iter().eq(known));
        assert_eq!(self.by_rank.len(), self.by_queue.len(), "one registration for a queue");
        let unlisted = self.by_queue.iter().filter(|(_, known)| known.listed.is_none());
        assert!(unlisted.map(|(queue, _)| *queue).eq(self.unlisted.iter().copied()));
        let ranks = self.last_rank..=self.next_rank;
        assert!(self.by_rank.keys().all(|rank| ranks.contains(rank)));
    }
}
