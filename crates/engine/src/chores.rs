//! Chores: operations on many jobs, and their progress. The engine does a chore in slices, and the
//! chores take turns. So other clients never wait for a whole chore.

use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::mem;

use crate::collections::Ordered;
use crate::ids::{JobId, JobSlot, LeaseId, Millis, QueueId, SessionId};
use crate::jobs::{JobList, State};
use crate::policy::Name;
use crate::queues::{Extension, Queue, ReadyKey, ready_place};
use crate::sessions::ReturnOrder;

/// The line of chores.
#[derive(Debug, Default)]
pub(crate) struct ChoreLine {
    line: VecDeque<Chore>,
    /// The chores that need jobs that the owner loads. They rest together: when one of them rests
    /// again, so do the others. So even thousands of them cost little while they wait.
    resting: VecDeque<Chore>,
    /// No chore of `resting` continues before this moment.
    rests_until: Millis,
    /// The chore that does a slice now rests after it.
    begins_to_rest: bool,
    /// No chore continues while this is true: see [`crate::Engine::hold_chores`].
    is_held: bool,
    /// Kicks end instead of their next slice: see [`crate::Engine::end_kicks`].
    kicks_end: bool,
    /// The last slice was spent on timers, so the next slice begins with a chore.
    pub(crate) comes_first: bool,
}

impl ChoreLine {
    pub(crate) fn is_empty(&self) -> bool {
        self.line.is_empty() && self.resting.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Chore> {
        self.line.iter().chain(&self.resting)
    }

    /// The chores that can come in the next steps, as many as these, and perhaps others.
    pub(crate) fn next(&self, steps: usize) -> impl Iterator<Item = &Chore> {
        self.line.iter().take(steps).chain(self.resting.iter().take(steps))
    }

    /// Adds a chore that has just done a slice. It comes to the end of the line, or rests.
    pub(crate) fn push(&mut self, chore: Chore) {
        let rests = mem::take(&mut self.begins_to_rest);
        let line = if rests { &mut self.resting } else { &mut self.line };
        line.push_back(chore);
    }

    /// Removes the first chore of the line. This chore has waited longest. If the rest of other
    /// chores is over, one of them comes to the end of the line before that.
    pub(crate) fn pop(&mut self, now: Millis) -> Option<Chore> {
        if self.rests_until <= now
            && let Some(rested) = self.resting.pop_front()
        {
            self.line.push_back(rested);
        }
        self.line.pop_front()
    }

    pub(crate) fn hold(&mut self, hold: bool) {
        self.is_held = hold;
    }

    pub(crate) fn end_kicks(&mut self, end: bool) {
        self.kicks_end = end;
    }

    pub(crate) fn kicks_end(&self) -> bool {
        self.kicks_end
    }

    pub(crate) fn is_held(&self) -> bool {
        self.is_held
    }

    /// Makes the chore that does a slice now rest until this moment. Its slice must end with
    /// [`ChoreLine::push`]. If other chores rest already, their rest does not become longer.
    /// Otherwise new chores could keep them at rest for ever.
    pub(crate) fn rest_until(&mut self, moment: Millis, now: Millis) {
        self.begins_to_rest = true;
        if self.rests_until <= now {
            self.rests_until = moment;
        }
    }

    /// Ends the rest of all chores.
    pub(crate) fn end_rest(&mut self) {
        self.rests_until = Millis(0);
    }

    /// The moment before which no chore can continue, because all of them rest.
    pub(crate) fn all_rest_until(&self) -> Millis {
        if self.line.is_empty() { self.rests_until } else { Millis(0) }
    }

    /// Whether a chore can continue at this moment.
    pub(crate) fn may_continue(&self, now: Millis) -> bool {
        !self.is_held && self.all_rest_until() <= now
    }
}

/// A chore and its progress.
#[derive(Debug)]
pub(crate) enum Chore {
    /// Gives back the jobs that a closed session held. First the chore moves the jobs from `leases`
    /// to the heap `held`, which sorts them. Then the chore gives back the jobs in the order of the
    /// heap.
    Return(ReturnWork),
    /// Gives back jobs that a worker holds. The worker has removed its registrations for the queues
    /// of these jobs.
    ReturnHeld(ReturnHeld),
    /// Removes the registrations of a session that ends, and then the session.
    Close { session: SessionId },
    /// Removes a closed session from the watchers of these queues.
    Leave { watched: Vec<QueueId> },
    /// Removes a closed session from the watchers of these jobs.
    Detach { watcher: SessionId, watching: BTreeMap<JobId, u32> },
    /// Flushes a queue with many jobs, or many queues.
    Flush { session: SessionId, work: FlushWork },
    /// Removes a queue with many jobs.
    Remove { session: SessionId, work: RemovalWork },
    /// Kicks many jobs of a queue.
    Kick { session: SessionId, list: JobList, left: u64, kicked: u64 },
}

/// The progress of [`Chore::Return`].
#[derive(Debug)]
pub(crate) struct ReturnWork {
    pub(crate) leases: Ordered<(Millis, u64)>,
    pub(crate) held: BinaryHeap<Held>,
    pub(crate) return_order: ReturnOrder,
    /// The address of the client of the closed session.
    pub(crate) peer: Name,
}

/// The selection of the jobs that [`Chore::ReturnHeld`] gives back.
#[derive(Debug)]
pub(crate) struct ReturnHeld {
    pub(crate) worker: SessionId,
    /// The chore gives back the jobs of this queue.
    pub(crate) queue: QueueId,
    /// The chore also gives back the jobs of all queues with higher numbers.
    pub(crate) all_behind: bool,
    /// The chore gives back only jobs whose lease is older than this lease.
    pub(crate) before: LeaseId,
}

/// A job in the heap of [`Chore::Return`]. The heap returns the job with the highest `number`
/// first.
#[derive(Copy, Clone, Debug, Eq, PartialEq, Ord, PartialOrd)]
pub(crate) struct Held {
    number: u64,
    pub(crate) lease: LeaseId,
    pub(crate) slot: JobSlot,
}

/// The progress of a flush.
#[derive(Debug)]
pub(crate) struct FlushWork {
    /// Whether the flush continues with the next queue by name, after the queue `queue`.
    pub(crate) all: bool,
    pub(crate) queue: Name,
    /// The number of ready jobs that the flush must still end. When the flush comes to a queue,
    /// `left` becomes the number of ready jobs of the queue. So later puts do not make the flush
    /// longer.
    pub(crate) left: u64,
}

/// The progress of the removal of a queue.
#[derive(Debug)]
pub(crate) struct RemovalWork {
    queue: QueueId,
    /// The removal ends only *old* jobs: their order numbers are below this number. Jobs with other
    /// order numbers were put later, or came from another queue later.
    end: u64,
    /// The removal ends only the waits of sessions with tickets below this ticket. Other sessions
    /// began to wait later.
    tickets_end: u64,
    /// See [`Extension::old_jobs_listed`], when the pass over the lists began.
    listed_before: u64,
    pub(crate) next: Next,
}

/// The place at which the removal continues. During the removal, the queue hands out no job. But an
/// old job can come to a place that the removal has already visited: for example, it expires and
/// is buried. Then the removal makes another pass over the lists.
#[derive(Debug)]
pub(crate) enum Next {
    /// Among the waiting sessions, from this ticket on.
    Waiting(u64),
    /// Among the leased jobs, from this place on. It is a place in the table of all jobs, because
    /// leased jobs have no list of their own.
    Leased(u32),
    /// In the queue's list of buried jobs, from this key on. The next two variants are keys in the
    /// lists of delayed and of ready jobs.
    Buried(u64),
    Delayed((Millis, u64)),
    Ready(ReadyKey),
}

/// The next job of a removal.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) enum NextJob {
    Resident(JobSlot),
    /// The job is cold, and has this state. The owner must load it first.
    Cold(State),
}

impl Chore {
    /// Makes the chore that gives back the jobs of a closed session.
    pub(crate) fn return_of(
        leases: Ordered<(Millis, u64)>,
        return_order: ReturnOrder,
        peer: Name,
    ) -> Self {
        Self::Return(ReturnWork { leases, held: BinaryHeap::new(), return_order, peer })
    }
}

impl Held {
    /// Makes an entry of the heap. If jobs keep their place, the job with the oldest lease is given
    /// back first. So waiters get the jobs in the order of the old leases. If jobs move to the
    /// tail, the job with the newest lease is given back first (spec gearman 4.3).
    pub(crate) fn new(lease: LeaseId, slot: JobSlot, return_order: ReturnOrder) -> Self {
        let number = match return_order {
            ReturnOrder::KeepPlace => !lease.0,
            ReturnOrder::ToTail => lease.0,
        };
        Self { number, lease, slot }
    }
}

impl RemovalWork {
    /// Begins a removal. The removal ends jobs with order numbers below `end`, and waits of sessions
    /// with tickets below `tickets_end`.
    pub(crate) fn new(queue: QueueId, end: u64, tickets_end: u64) -> Self {
        Self { queue, end, tickets_end, listed_before: 0, next: Next::Waiting(0) }
    }

    pub(crate) fn queue(&self) -> QueueId {
        self.queue
    }

    /// The removal ends jobs with order numbers below this number.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Whether the job with this order number was in the queue when the removal began.
    pub(crate) fn covers(&self, order: u64) -> bool {
        order < self.end
    }

    /// Whether the session with this ticket waited when the removal began.
    pub(crate) fn covers_ticket(&self, ticket: u64) -> bool {
        ticket < self.tickets_end
    }

    /// Begins a pass over the lists of the queue.
    pub(crate) fn begin_pass(&mut self, queue: &Queue) {
        self.listed_before = old_jobs_listed(queue);
        self.next = Next::Buried(0);
    }

    /// Whether an old job has come to a list since the pass began.
    pub(crate) fn may_have_missed(&self, queue: &Queue) -> bool {
        self.listed_before != old_jobs_listed(queue)
    }

    /// The next job in the lists of the queue. Moves `next` behind this job, unless it is cold.
    pub(crate) fn next_of_lists(&mut self, queue: &Queue) -> Option<NextJob> {
        loop {
            match &mut self.next {
                Next::Waiting(_) | Next::Leased(_) => self.next = Next::Buried(0),
                Next::Buried(from) => {
                    let next = queue.buried().first_from(*from);
                    if is_cold_before(queue, State::Buried, next.map(|(order, _)| (order, 0))) {
                        return Some(NextJob::Cold(State::Buried));
                    }
                    if let Some((order, slot)) = next {
                        *from = order + 1;
                        return Some(NextJob::Resident(JobSlot(slot)));
                    }
                    self.next = Next::Delayed((Millis(0), 0));
                }
                Next::Delayed(from) => {
                    let next = queue.delayed().first_from(*from);
                    let key = next.map(|((due, id), _)| (due.0, id));
                    if is_cold_before(queue, State::Delayed, key) {
                        return Some(NextJob::Cold(State::Delayed));
                    }
                    if let Some(((due, id), slot)) = next {
                        *from = (due, id + 1);
                        return Some(NextJob::Resident(JobSlot(slot)));
                    }
                    self.next = Next::Ready((0, 0));
                }
                Next::Ready(from) => {
                    let next = queue.ready().first_from(*from);
                    let place = next.map(|(key, _)| ready_place(key));
                    if is_cold_before(queue, State::Ready, place) {
                        return Some(NextJob::Cold(State::Ready));
                    }
                    let ((rank, order), slot) = next?;
                    *from = (rank, order + 1);
                    return Some(NextJob::Resident(JobSlot(slot)));
                }
            }
        }
    }
}

fn old_jobs_listed(queue: &Queue) -> u64 {
    queue.extension().map_or(0, Extension::old_jobs_listed)
}

/// Whether the first cold job of a state comes before the job in memory at this place.
fn is_cold_before(queue: &Queue, state: State, resident: Option<(u64, u64)>) -> bool {
    queue.first_cold(state).is_some_and(|(cold, _)| resident.is_none_or(|key| cold < key))
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
        let first = line.pop(Millis(0)).expect("one was begun");
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
    fn chores_that_rest_do_not_hold_up_others() {
        let mut line = ChoreLine::default();
        let close = |number| Chore::Close { session: SessionId(number) };
        let next = |line: &mut ChoreLine, now| match line.pop(Millis(now)) {
            Some(Chore::Close { session }) => Some(session.0),
            _ => None,
        };
        for (number, now) in [(1, 0), (2, 3)] {
            line.rest_until(Millis(now + 5), Millis(now));
            line.push(close(number));
        }
        line.push(close(3));
        assert_eq!((line.iter().count(), line.all_rest_until()), (3, Millis(0)));
        assert_eq!(next(&mut line, 4), Some(3));
        // The second rest has not made the first one longer.
        assert_eq!((next(&mut line, 4), line.all_rest_until()), (None, Millis(5)));
        assert!(!line.is_empty() && !line.may_continue(Millis(4)));
        line.push(close(4));
        assert_eq!([(); 3].map(|()| next(&mut line, 5)), [Some(4), Some(1), Some(2)]);
        assert!(line.is_empty());
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
