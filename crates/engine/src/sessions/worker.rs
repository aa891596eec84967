//! A worker: a session that registers for queues, asks for a job when it wants one, and sleeps
//! until a job wakes it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::num::NonZeroU64;

use crate::ids::{JobSlot, LeaseId, QueueId};

/// The registrations of a worker, its sleep, and its held jobs.
#[derive(Debug, Default)]
pub(crate) struct Worker {
    /// By the rank of the registration. A take looks at the highest rank first.
    by_rank: BTreeMap<i64, Registration>,
    by_queue: BTreeMap<QueueId, Known>,
    /// Queues of `by_queue` that do not have this session in their list of sleepers.
    unlisted: BTreeSet<QueueId>,
    asleep: bool,
    /// The queue whose job woke the worker, until it looks for a job or sleeps again.
    woken_for: Option<QueueId>,
    /// The held jobs by queue, the newest hand-out of each queue first.
    held: BTreeSet<(QueueId, Reverse<LeaseId>, JobSlot)>,
    /// The last job that the worker got, with its lease. [`Worker::take_newest`] takes it out when
    /// the lease loses its time limit.
    newest: Option<(LeaseId, JobSlot)>,
    next_rank: i64,
    last_rank: i64,
}

/// It is small, like [`Known`], because a client can register for thousands of queues.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Registration {
    pub(crate) queue: QueueId,
    /// How long the worker may work on a job.
    pub(crate) limit_ms: Option<NonZeroU64>,
}

/// A registration that was removed.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) struct RemovedRegistration {
    /// The place in the queue's list of sleepers, if the worker was in it.
    pub(crate) listed: Option<u64>,
}

#[derive(Copy, Clone, Debug)]
struct Known {
    /// The rank of the registration for the queue.
    rank: i64,
    /// The place in the queue's list of sleepers. A session stays in the list when it wakes up, so
    /// that the next sleep costs nothing. A walk of the list removes sessions that are awake.
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

    /// Registers for a queue. If the worker is registered already, the registration moves to the
    /// front and gets the new limit. Returns whether it was not registered before.
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

    /// Removes a registration, if there is one.
    pub(super) fn forget(&mut self, queue: QueueId) -> Option<RemovedRegistration> {
        let known = self.by_queue.remove(&queue)?;
        self.by_rank.remove(&known.rank);
        self.unlisted.remove(&queue);
        self.woken_for.take_if(|woken_for| *woken_for == queue);
        Some(RemovedRegistration { listed: known.listed.map(NonZeroU64::get) })
    }

    /// The registered queue with the lowest number.
    pub(crate) fn first_queue(&self) -> Option<QueueId> {
        self.by_queue.first_key_value().map(|(queue, _)| *queue)
    }

    /// The registrations by rank, highest first.
    pub(crate) fn by_rank(&self) -> impl Iterator<Item = (i64, Registration)> {
        self.by_rank.iter().rev().map(|(rank, registration)| (*rank, *registration))
    }

    /// The first registration behind this rank.
    pub(crate) fn next_behind(&self, rank: Option<i64>) -> Option<(i64, Registration)> {
        let behind = self.by_rank.range(..rank.unwrap_or(i64::MAX));
        behind.map(|(rank, registration)| (*rank, *registration)).next_back()
    }

    /// The registration with the highest rank among those for these queues.
    pub(crate) fn first_of<'a>(
        &self,
        queues: impl Iterator<Item = &'a QueueId>,
    ) -> Option<(i64, Registration)> {
        let known = queues.filter_map(|queue| self.by_queue.get(queue));
        let rank = known.map(|known| known.rank).max()?;
        self.by_rank.get(&rank).map(|registration| (rank, *registration))
    }

    /// Gives the registration of this rank the last rank.
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

    /// The worker looks for a job. Returns the queue that it was woken for, if any.
    pub(crate) fn look(&mut self) -> Option<QueueId> {
        self.asleep = false;
        self.woken_for.take()
    }

    /// The worker will look for a job again, as if it were still woken for this queue.
    pub(crate) fn look_again(&mut self, woken_for: Option<QueueId>) {
        self.woken_for = woken_for;
    }

    /// Puts the worker to sleep. Returns the queues that do not have it in their list of sleepers.
    /// For each of them, the caller must call [`Worker::list`].
    pub(crate) fn fall_asleep(&mut self) -> BTreeSet<QueueId> {
        self.asleep = true;
        self.woken_for = None;
        mem::take(&mut self.unlisted)
    }

    /// A queue has the worker in its list of sleepers, at this place.
    pub(crate) fn list(&mut self, queue: QueueId, ticket: u64) {
        let known = self.by_queue.get_mut(&queue).expect("only known queues are unlisted");
        known.listed = NonZeroU64::new(ticket);
    }

    /// A queue that has a job took the worker out of its list. Returns whether the worker slept,
    /// and so wakes up for that job.
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

    /// Wakes the worker for another reason than a job of a queue.
    pub(crate) fn wake(&mut self) {
        self.asleep = false;
    }
}

/// Held jobs.
impl Worker {
    /// The worker holds a job from now on.
    pub(super) fn hold(&mut self, queue: QueueId, lease: LeaseId, slot: JobSlot) {
        self.held.insert((queue, Reverse(lease), slot));
        self.newest = Some((lease, slot));
    }

    /// The worker does not hold the job any more.
    pub(super) fn let_go(&mut self, queue: QueueId, lease: LeaseId, slot: JobSlot) {
        self.held.remove(&(queue, Reverse(lease), slot));
    }

    /// The newest held job of this queue that was handed out before this lease. If there is none,
    /// the newest of the next queue.
    pub(crate) fn held_from(&self, queue: QueueId, before: LeaseId) -> Option<(QueueId, JobSlot)> {
        let first = (queue, Reverse(before), JobSlot(u32::MAX));
        self.held.range(first..).next().map(|(queue, _, slot)| (*queue, *slot))
    }

    /// Takes out the last job that the worker got. `None`: it was taken out before.
    pub(crate) fn take_newest(&mut self) -> Option<(LeaseId, JobSlot)> {
        self.newest.take()
    }
}

/// For [`crate::Engine::check_invariants`].
impl Worker {
    pub(crate) fn held(&self) -> impl ExactSizeIterator<Item = (QueueId, LeaseId, JobSlot)> {
        self.held.iter().map(|(queue, Reverse(lease), slot)| (*queue, *lease, *slot))
    }

    /// The queues that the worker is registered for.
    pub(crate) fn queues(&self) -> impl Iterator<Item = QueueId> {
        self.by_queue.keys().copied()
    }

    /// The queues that have the worker in their list of sleepers, with its ticket there.
    pub(crate) fn listed(&self) -> impl Iterator<Item = (QueueId, u64)> {
        self.by_queue.iter().filter_map(|(queue, known)| Some((*queue, known.listed?.get())))
    }

    /// Panics if the two tables disagree.
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
