//! Chores: operations that touch many jobs, and how far each is. They are done in slices, one after the
//! other, so that nobody waits for the whole of them.

use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use crate::collections::Ordered;
use crate::ids::{JobId, JobSlot, LeaseId, Millis, QueueId, SessionId};
use crate::policy::Name;
use crate::queues::{Queue, ReadyKey};
use crate::sessions::ReturnOrder;

/// The line of chores.
#[derive(Debug, Default)]
pub(crate) struct ChoreLine {
    line: VecDeque<Chore>,
    /// Chores rest: see [`crate::Engine::hold_chores`].
    is_held: bool,
    /// Timers left no time for chores: one comes before them next time.
    pub(crate) comes_first: bool,
}

impl ChoreLine {
    pub(crate) fn is_empty(&self) -> bool {
        self.line.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Chore> {
        self.line.iter()
    }

    /// A chore that has begun goes on behind all others.
    pub(crate) fn push(&mut self, chore: Chore) {
        self.line.push_back(chore);
    }

    /// Takes out the chore that waits longest.
    pub(crate) fn pop(&mut self) -> Option<Chore> {
        self.line.pop_front()
    }

    pub(crate) fn hold(&mut self, hold: bool) {
        self.is_held = hold;
    }

    pub(crate) fn is_held(&self) -> bool {
        self.is_held
    }
}

/// A chore and how far it is.
#[derive(Debug)]
pub(crate) enum Chore {
    /// The jobs that a closed session held go back to their queues: first they move from its leases
    /// to `held`, which then yields them in their order.
    Return { leases: Ordered<(Millis, u64)>, held: BinaryHeap<Held>, return_order: ReturnOrder },
    /// Jobs that a worker cannot do any more go back to their queues.
    ReturnHeld(ReturnHeld),
    /// A session is over, and its registrations go.
    Close { session: SessionId },
    /// A session that is gone watches these queues no more.
    Leave { watched: Vec<QueueId> },
    /// A closed session watches these jobs no more.
    Detach { watcher: SessionId, watching: BTreeMap<JobId, u32> },
    /// A flush of many jobs, or of many queues.
    Flush { session: SessionId, work: FlushWork },
    /// The removal of a queue of many jobs.
    Remove { session: SessionId, work: RemovalWork },
    /// A kick of many jobs.
    Kick { session: SessionId, queue: QueueId, buried: bool, left: u64, kicked: u64 },
}

/// Which jobs of a worker go back.
#[derive(Debug)]
pub(crate) struct ReturnHeld {
    pub(crate) worker: SessionId,
    /// Those of this queue, …
    pub(crate) queue: QueueId,
    /// … and of all with a higher number.
    pub(crate) all_behind: bool,
    /// Those that were handed out before this lease.
    pub(crate) before: LeaseId,
}

/// A job that somebody held, by the order in which such jobs go back.
#[derive(Copy, Clone, Debug, Eq, PartialEq, Ord, PartialOrd)]
pub(crate) struct Held {
    number: u64,
    pub(crate) lease: LeaseId,
    pub(crate) slot: JobSlot,
}

/// How far a flush is.
#[derive(Debug)]
pub(crate) struct FlushWork {
    /// After this queue comes the next one by name.
    pub(crate) all: bool,
    pub(crate) queue: Name,
    /// Ready jobs that the queue had when its turn came, and has no more: what is put meanwhile
    /// need not go.
    pub(crate) left: u64,
}

/// How far the removal of a queue is.
#[derive(Debug)]
pub(crate) struct RemovalWork {
    queue: QueueId,
    /// Jobs from this number on were put later, and stay, …
    end: JobId,
    /// … and sessions with tickets from this one on came later.
    tickets_end: u64,
    pub(crate) next: Next,
}

/// Where the next job is looked for. None of the queue's jobs is handed out meanwhile, so none of the
/// old ones comes back to where it was looked for already.
#[derive(Debug)]
pub(crate) enum Next {
    /// Among sessions that wait, from this ticket on.
    Waiting(u64),
    /// Among those that somebody holds: from this place of the table of all jobs on, since there is
    /// no list of them.
    Leased(u32),
    /// From here on in the lists.
    Buried(u64),
    Delayed((Millis, u64)),
    Ready(ReadyKey),
}

impl Chore {
    /// The return of the jobs that a session held when it was closed.
    pub(crate) fn return_of(leases: Ordered<(Millis, u64)>, return_order: ReturnOrder) -> Self {
        Self::Return { leases, held: BinaryHeap::new(), return_order }
    }
}

impl Held {
    /// The oldest goes back first where jobs keep their place, so that waiters get them as they were
    /// handed out; the newest where they go to the tail (spec gearman 4.3).
    pub(crate) fn new(lease: LeaseId, slot: JobSlot, return_order: ReturnOrder) -> Self {
        let number = match return_order {
            ReturnOrder::KeepPlace => !lease.0,
            ReturnOrder::ToTail => lease.0,
        };
        Self { number, lease, slot }
    }
}

impl RemovalWork {
    /// The removal of what is there now: jobs below `end`, and sessions with tickets below `tickets_end`.
    pub(crate) fn new(queue: QueueId, end: JobId, tickets_end: u64) -> Self {
        Self { queue, end, tickets_end, next: Next::Waiting(0) }
    }

    pub(crate) fn queue(&self) -> QueueId {
        self.queue
    }

    /// Whether a job was there when the removal began.
    pub(crate) fn covers(&self, job: JobId) -> bool {
        job < self.end
    }

    /// Whether a session waited when the removal began.
    pub(crate) fn covers_ticket(&self, ticket: u64) -> bool {
        ticket < self.tickets_end
    }

    /// The next job in the lists of the queue, which is passed by that.
    pub(crate) fn next_of_lists(&mut self, queue: &Queue) -> Option<JobSlot> {
        loop {
            match &mut self.next {
                Next::Waiting(_) | Next::Leased(_) => self.next = Next::Buried(0),
                Next::Buried(from) => {
                    if let Some((order, slot)) = queue.buried().first_from(*from) {
                        *from = order + 1;
                        return Some(JobSlot(slot));
                    }
                    self.next = Next::Delayed((Millis(0), 0));
                }
                Next::Delayed(from) => {
                    if let Some(((due, id), slot)) = queue.delayed().first_from(*from) {
                        *from = (due, id + 1);
                        return Some(JobSlot(slot));
                    }
                    self.next = Next::Ready((0, 0));
                }
                Next::Ready(from) => {
                    let ((rank, order), slot) = queue.ready().first_from(*from)?;
                    *from = (rank, order + 1);
                    return Some(JobSlot(slot));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chores_take_turns_in_the_order_in_which_they_began() {
        let mut line = ChoreLine::default();
        let close = |number| Chore::Close { session: SessionId(number) };
        line.push(close(1));
        line.push(close(2));
        let first = line.pop().expect("one was begun");
        assert!(matches!(first, Chore::Close { session: SessionId(1) }));
        line.push(first);
        let sessions: Vec<SessionId> = line
            .iter()
            .filter_map(|chore| match chore {
                Chore::Close { session } => Some(*session),
                _ => None,
            })
            .collect();
        assert_eq!(sessions, [SessionId(2), SessionId(1)]);
    }

    #[test]
    fn jobs_go_back_oldest_first_or_newest_first() {
        for (return_order, first) in [(ReturnOrder::KeepPlace, 1), (ReturnOrder::ToTail, 3)] {
            let held = [2, 3, 1].map(|lease| Held::new(LeaseId(lease), JobSlot(0), return_order));
            let mut heap = BinaryHeap::from(held);
            assert_eq!(heap.pop().map(|held| held.lease), Some(LeaseId(first)));
        }
    }
}
