//! Workers as Gearman knows them: sessions that register for queues, ask for a job when they want
//! one, and sleep until they are woken.
//!
//! A job goes to a waiter (see `take.rs`) first; sleepers hear only of a job that stayed ready.
//! Whether there is work for a session is one question with one answer, [`Engine::has_work`]: a
//! wake-up that it would not confirm keeps workers spinning, one that is missed loses them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::num::NonZeroU64;

use crate::bytes::REGISTRATION_BYTES;
use crate::chores::{Chore, Unload};
use crate::effects::{Effects, Happening};
use crate::engine::Engine;
use crate::ids::{JobSlot, LeaseId, QueueId, SessionId};
use crate::jobs::{Job, Lease};
use crate::session::NEVER;
use crate::take::Handout;

/// Shortest time limit of a registration (spec gearman 4.8).
const LIMIT_MS_MIN: NonZeroU64 = NonZeroU64::new(1000).expect("it is not 0");

/// A registration stands in several trees: making it, or forgetting it, takes as long as so many units of other work.
const REGISTRATION_UNITS: usize = 4;

/// In which order a worker's queues are asked for a job.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum GrabOrder {
    /// The newest registration first.
    NewestFirst,
    /// The same, but a queue that could supply a job goes to the end of the line.
    RoundRobin,
}

/// What a session that works has registered for.
#[derive(Debug, Default)]
pub(crate) struct Worker {
    /// By the rank of the registration; the highest is asked first.
    by_rank: BTreeMap<i64, Registration>,
    by_queue: BTreeMap<QueueId, Known>,
    /// Queues of `by_queue` that do not list this session among their sleepers.
    unlisted: BTreeSet<QueueId>,
    asleep: bool,
    /// The queue whose job woke it, until it looks for a job or sleeps again.
    woken_for: Option<QueueId>,
    /// The jobs in its hands by queue, the newest hand-out of each queue first.
    held: BTreeSet<(QueueId, Reverse<LeaseId>, JobSlot)>,
    /// The job that it got last, while that has a time limit of this lease.
    newest: Option<(LeaseId, JobSlot)>,
    next_rank: i64,
    last_rank: i64,
}

/// Kept small, as [`Known`]: a client may register for thousands of queues.
#[derive(Copy, Clone, Debug)]
struct Registration {
    queue: QueueId,
    limit_ms: Option<NonZeroU64>,
}

#[derive(Copy, Clone, Debug)]
struct Known {
    /// The rank of the registration for the queue.
    rank: i64,
    /// The place in the queue's list of sleepers. A session stays listed when it wakes up, so that
    /// sleeping again costs nothing; whoever walks the list drops those who are awake.
    listed: Option<NonZeroU64>,
}

impl Engine {
    /// This session can work on jobs of this queue, for at most so many milliseconds each. The
    /// queue is kept from now on. One that is registered already comes first again, with the new limit:
    /// gearmand adds a second registration, of which a client could have any number.
    pub fn register(
        &mut self,
        session: SessionId,
        name: &[u8],
        limit_ms: Option<u64>,
        effects: &mut Effects,
    ) {
        self.meter.count(REGISTRATION_UNITS);
        let queue = self.queue_or_create(name);
        self.keep(queue, effects);
        let limit_ms = limit_ms.map(|limit| {
            NonZeroU64::new(limit).map_or(LIMIT_MS_MIN, |limit| limit.max(LIMIT_MS_MIN))
        });
        let worker = self.open_mut(session).worker.get_or_insert_default();
        worker.next_rank += 1;
        let rank = worker.next_rank;
        worker.by_rank.insert(rank, Registration { queue, limit_ms });
        let before =
            worker.by_queue.get_mut(&queue).map(|known| mem::replace(&mut known.rank, rank));
        if let Some(before) = before {
            worker.by_rank.remove(&before);
        } else {
            worker.unlisted.insert(queue);
            worker.by_queue.insert(queue, Known { rank, listed: None });
        }
        let asleep = worker.asleep;
        let queue_mut = self.queue_mut(queue);
        queue_mut.workers += u32::from(before.is_none());
        if !queue_mut.ready.is_empty() {
            self.supplying.insert(queue);
        }
        if before.is_none() {
            self.memory_bytes += REGISTRATION_BYTES;
        }
        if asleep && !self.sleep(session) {
            self.wake(session, effects);
        }
    }

    /// How many queues this session has registered for, and whether this one is among them.
    pub fn registered(&self, session: SessionId, name: &[u8]) -> (usize, bool) {
        let Some(worker) = &self.session(session).worker else { return (0, false) };
        let is_known =
            self.queue_id(name).is_some_and(|queue| worker.by_queue.contains_key(&queue));
        (worker.by_queue.len(), is_known)
    }

    /// This session cannot work on jobs of this queue any more. Those that it holds are given back.
    pub fn unregister(&mut self, session: SessionId, name: &[u8], effects: &mut Effects) {
        self.meter.begin_request();
        self.meter.count(1);
        if let Some(queue) = self.queue_id(name)
            && self.forget_registrations(session, queue, effects)
        {
            self.unload(session, queue, false, effects);
        }
    }

    /// The same for all of its queues. True if it has more of them than one slice of work allows: to
    /// be called again, before anything else is asked for this session.
    pub fn unregister_all(&mut self, session: SessionId, effects: &mut Effects) -> bool {
        self.meter.begin_request();
        self.meter.count(1);
        if self.retire_worker(session, effects) {
            return true;
        }
        self.unload(session, QueueId(0), true, effects);
        false
    }

    fn unload(
        &mut self,
        worker: SessionId,
        queue: QueueId,
        all_behind: bool,
        effects: &mut Effects,
    ) {
        let before = LeaseId(self.next_lease);
        self.begin(Chore::Unload(Unload { worker, queue, all_behind, before }), effects);
    }

    /// Takes a session's registrations for one queue out of all tables; whether there were any.
    fn forget_registrations(
        &mut self,
        session: SessionId,
        queue: QueueId,
        effects: &mut Effects,
    ) -> bool {
        let Some(worker) = self.open_mut(session).worker.as_mut() else { return false };
        let Some(known) = worker.by_queue.remove(&queue) else { return false };
        worker.by_rank.remove(&known.rank);
        worker.unlisted.remove(&queue);
        let asleep = worker.asleep;
        worker.woken_for.take_if(|woken_for| *woken_for == queue);
        self.meter.count(REGISTRATION_UNITS);
        self.leave_queue(queue, known);
        if !asleep {
            self.pass_wake_on(queue, effects);
        }
        true
    }

    /// The queue forgets registrations that the session has forgotten.
    fn leave_queue(&mut self, queue: QueueId, known: Known) {
        self.memory_bytes -= REGISTRATION_BYTES;
        let queue_mut = self.queue_mut(queue);
        queue_mut.workers -= 1;
        if let Some(ticket) = known.listed {
            queue_mut.sleepers.remove(ticket.get());
        }
        if queue_mut.workers == 0 {
            self.supplying.remove(&queue);
            self.arm_queue(queue);
        }
    }

    /// Takes a session's registrations out of all tables, as many as one slice of work allows; true if
    /// some are left. Its jobs are the caller's business.
    pub(crate) fn retire_worker(&mut self, session: SessionId, effects: &mut Effects) -> bool {
        loop {
            let Some(worker) = self.open_mut(session).worker.as_mut() else { return false };
            let Some((queue, known)) = worker.by_queue.pop_first() else {
                worker.by_rank.clear();
                worker.unlisted.clear();
                return false;
            };
            worker.by_rank.remove(&known.rank);
            worker.unlisted.remove(&queue);
            worker.woken_for.take_if(|woken_for| *woken_for == queue);
            let asleep = worker.asleep;
            self.meter.count(REGISTRATION_UNITS);
            self.leave_queue(queue, known);
            if !asleep {
                self.pass_wake_on(queue, effects);
            }
            if self.meter.request_is_spent() {
                return true;
            }
        }
    }

    /// Whether a grab of this session would get a job now.
    pub fn has_work(&self, session: SessionId) -> bool {
        self.next_supplier(session).is_some()
    }

    /// The registration whose queue supplies the next job: the one with the highest rank. Goes
    /// through the session's queues from there, but through no more than there are queues that have
    /// jobs; then these are fewer, and it goes through them.
    fn next_supplier(&self, session: SessionId) -> Option<(i64, Registration)> {
        let worker = self.session(session).worker.as_ref()?;
        let serves = |queue: QueueId| {
            let queue = self.queue(queue);
            queue.can_serve(self.now) && !self.is_blocked(queue)
        };
        self.meter.count(1);
        let mut ranks = worker.by_rank.iter().rev().take(self.supplying.len());
        let found = ranks.find(|(_, found)| {
            self.meter.count(1);
            serves(found.queue)
        });
        if let Some((rank, found)) = found {
            return Some((*rank, *found));
        }
        if worker.by_rank.len() <= self.supplying.len() {
            return None;
        }
        self.meter.count(self.supplying.len());
        let ranks = self.supplying.iter().filter(|queue| serves(**queue));
        let best =
            ranks.filter_map(|queue| worker.by_queue.get(queue)).map(|known| known.rank).max();
        best.and_then(|rank| worker.by_rank.get(&rank).map(|found| (rank, *found)))
    }

    /// Takes the next job for a worker, if there is one. It is awake from now on. If it takes a job of another
    /// queue than the one it was woken for, others are woken for that one in its place.
    pub fn grab(
        &mut self,
        session: SessionId,
        order: GrabOrder,
        effects: &mut Effects,
    ) -> Option<Handout> {
        self.meter.begin_request();
        let mut woken_for = None;
        if let Some(worker) = self.open_mut(session).worker.as_mut() {
            worker.asleep = false;
            woken_for = worker.woken_for.take();
        }
        let (rank, registration) = loop {
            let (rank, registration) = self.next_supplier(session)?;
            let queue = registration.queue;
            if self.queue(queue).extra.is_none() {
                break (rank, registration);
            }
            if self.sweep(queue, usize::MAX, effects) == 0 {
                break (rank, registration);
            }
            if self.meter.request_is_spent() {
                // Enough for one request. When it is about to sleep it will hear that there is more.
                if let Some(worker) = self.open_mut(session).worker.as_mut() {
                    worker.woken_for = woken_for;
                }
                return None;
            }
        };
        if order == GrabOrder::RoundRobin {
            self.move_to_end(session, rank);
        }
        let (_, slot) = self.queue(registration.queue).ready.first()?;
        self.delist(JobSlot(slot));
        let limit_ms = registration.limit_ms.map(NonZeroU64::get);
        let handout = self.hand_out(JobSlot(slot), session, limit_ms, effects);
        if let Some(queue) = woken_for.filter(|queue| *queue != registration.queue) {
            self.pass_wake_on(queue, effects);
        }
        Some(handout)
    }

    fn move_to_end(&mut self, session: SessionId, rank: i64) {
        let Some(worker) = self.open_mut(session).worker.as_mut() else { return };
        let Some(registration) = worker.by_rank.remove(&rank) else { return };
        worker.last_rank -= 1;
        worker.by_rank.insert(worker.last_rank, registration);
        let Some(known) = worker.by_queue.get_mut(&registration.queue) else { return };
        known.rank = worker.last_rank;
    }

    /// A worker has nothing to do: true if it sleeps from now on and will be woken, false if there
    /// is work for it already.
    pub fn sleep(&mut self, session: SessionId) -> bool {
        if self.has_work(session) {
            return false;
        }
        let worker = self.open_mut(session).worker.get_or_insert_default();
        worker.asleep = true;
        worker.woken_for = None;
        let unlisted = std::mem::take(&mut worker.unlisted);
        self.meter.count(unlisted.len());
        for queue in unlisted {
            let ticket = self.next_ticket;
            self.next_ticket += 1;
            self.queue_mut(queue).sleepers.insert(ticket, Self::place_of(session));
            let worker = self.open_mut(session).worker.as_mut().expect("it falls asleep");
            let known = worker.by_queue.get_mut(&queue).expect("only known queues are unlisted");
            known.listed = NonZeroU64::new(ticket);
        }
        self.lift_limit(session);
        true
    }

    /// A worker that sleeps with a job in its hands has no time limit for it any more: for the one that it
    /// got last, as gearmand stops the timer of a connection (case `pre-sleep-lifts-the-time-limit`).
    fn lift_limit(&mut self, session: SessionId) {
        let worker = self.open_mut(session).worker.as_mut();
        let Some((lease, slot)) = worker.and_then(|worker| worker.newest.take()) else { return };
        let held = self.jobs.get(slot).and_then(Job::lease);
        if let Some(held) = held.filter(|held| held.id == lease && held.until != NEVER) {
            self.jobs[slot].set_lease(Some(Lease { until: NEVER, ..held }));
            self.renew_deadline(slot);
        }
    }

    /// A queue has so many ready jobs that nobody waited for: wakes who sleeps, for each job up to the number
    /// set by [`Engine::set_wake_max`], in the order in which they came to the list. (Whoever was woken for
    /// another queue kept the place in this one's.)
    pub(crate) fn wake_sleepers(&mut self, queue: QueueId, jobs: u64, effects: &mut Effects) {
        let wake_max = u64::from(self.wake_max).saturating_mul(jobs);
        let mut woken = 0;
        while self.wake_max == 0 || woken < wake_max {
            let Some((_, place)) = self.queue_mut(queue).sleepers.pop_first() else { return };
            self.meter.count(1);
            let session = self.session_at(place);
            let worker = self.open_mut(session).worker.as_mut().expect("sleepers are workers");
            if let Some(known) = worker.by_queue.get_mut(&queue) {
                known.listed = None;
                worker.unlisted.insert(queue);
            }
            if worker.asleep {
                woken += 1;
                worker.woken_for = Some(queue);
                self.wake(session, effects);
            }
        }
    }

    /// A worker that is awake leaves a queue, or got a job elsewhere. It may be the only one that was woken for
    /// a job there, so others are woken in its place. When every job wakes all sleepers, they know already.
    fn pass_wake_on(&mut self, queue: QueueId, effects: &mut Effects) {
        let passed_on = self.queue(queue);
        if self.wake_max != 0 && passed_on.can_serve(self.now) && !self.is_blocked(passed_on) {
            self.wake_sleepers(queue, 1, effects);
        }
    }

    fn wake(&mut self, session: SessionId, effects: &mut Effects) {
        if let Some(worker) = self.open_mut(session).worker.as_mut() {
            worker.asleep = false;
        }
        effects.happenings.push((session, Happening::WorkToDo));
    }

    /// How many sleepers one job wakes; 0 for all.
    pub fn set_wake_max(&mut self, wake_max: u32) {
        self.wake_max = wake_max;
    }

    /// The queue of the next registration of a session behind this rank, and its own rank. From the newest
    /// on, before which is no rank.
    pub fn next_registration(
        &mut self,
        session: SessionId,
        behind: Option<i64>,
    ) -> Option<(QueueId, i64)> {
        self.meter.count(1);
        let worker = self.find_session(session)?.worker.as_ref()?;
        let older = worker.by_rank.range(..behind.unwrap_or(i64::MAX));
        older.map(|(rank, registration)| (registration.queue, *rank)).next_back()
    }

    /// The queues that a session is registered for, newest first, as often as it registered.
    pub fn registrations(&self, session: SessionId) -> impl Iterator<Item = QueueId> {
        let worker = self.find_session(session).and_then(|session| session.worker.as_ref());
        let ranks = worker.into_iter().flat_map(|worker| worker.by_rank.values().rev());
        ranks.map(|registration| registration.queue)
    }
}

impl Worker {
    /// It holds a job from now on.
    pub(crate) fn hold(&mut self, queue: QueueId, lease: LeaseId, slot: JobSlot) {
        self.held.insert((queue, Reverse(lease), slot));
        self.newest = Some((lease, slot));
    }

    /// It does not hold it any more.
    pub(crate) fn let_go(&mut self, queue: QueueId, lease: LeaseId, slot: JobSlot) {
        self.held.remove(&(queue, Reverse(lease), slot));
    }

    /// The newest job of this queue that it holds and was handed before this lease; if there is none,
    /// the newest of the next queue.
    pub(crate) fn held_from(&self, queue: QueueId, before: LeaseId) -> Option<(QueueId, JobSlot)> {
        let first = (queue, Reverse(before), JobSlot(u32::MAX));
        self.held.range(first..).next().map(|(queue, _, slot)| (*queue, *slot))
    }
}

/// For [`Engine::check_invariants`].
impl Worker {
    pub(crate) fn held(&self) -> impl ExactSizeIterator<Item = (QueueId, LeaseId, JobSlot)> {
        self.held.iter().map(|(queue, Reverse(lease), slot)| (*queue, *lease, *slot))
    }

    pub(crate) fn is_asleep(&self) -> bool {
        self.asleep
    }

    /// The queues that it is registered for.
    pub(crate) fn queues(&self) -> impl Iterator<Item = QueueId> {
        self.by_queue.keys().copied()
    }

    /// The queues whose sleepers it is among, and its ticket there.
    pub(crate) fn listed(&self) -> impl Iterator<Item = (QueueId, u64)> {
        self.by_queue.iter().filter_map(|(queue, known)| Some((*queue, known.listed?.get())))
    }

    /// Panics where the two tables disagree.
    pub(crate) fn check(&self) {
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
