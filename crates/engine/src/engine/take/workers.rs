//! Workers: sessions that register for queues, ask for a job when they want one, and sleep until they
//! are woken.
//!
//! A job goes to a waiter (see `serve.rs`) first; sleepers hear only of a job that stayed ready.
//! Whether there is work for a session is one question with one answer, [`Engine::has_work`]: a
//! wake-up that it would not confirm keeps workers spinning, one that is missed loses them.

use std::num::NonZeroU64;

use crate::chores::{Chore, ReturnHeld};
use crate::effects::{Effects, Event};
use crate::engine::Engine;
use crate::ids::{QueueId, SessionId};
use crate::jobs::{Job, Lease};
use crate::sessions::{NEVER, Registration, Session, Sessions, Worker};

/// Shortest time limit of a registration (spec gearman 4.8).
const LIMIT_MS_MIN: NonZeroU64 = NonZeroU64::new(1000).expect("it is not 0");

/// A registration stands in several trees: making it, or forgetting it, takes as long as so many units of other work.
const REGISTRATION_UNITS: usize = 4;

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
        let is_new = self.sessions.register(session, Registration { queue, limit_ms });
        self.queues.add_worker(queue, is_new);
        let asleep = self.sessions[session].worker().is_some_and(Worker::is_asleep);
        if asleep && !self.sleep(session) {
            self.wake(session, effects);
        }
    }

    /// How many queues this session has registered for, and whether this one is among them.
    pub fn registered(&self, session: SessionId, name: &[u8]) -> (usize, bool) {
        let Some(worker) = self.sessions[session].worker() else { return (0, false) };
        let is_known = self.queue_id(name).is_some_and(|queue| worker.is_registered(queue));
        (worker.len(), is_known)
    }

    /// This session cannot work on jobs of this queue any more. Those that it holds are given back.
    pub fn unregister(&mut self, session: SessionId, name: &[u8], effects: &mut Effects) {
        self.meter.begin_request();
        self.meter.count(1);
        if let Some(queue) = self.queue_id(name)
            && self.forget_registration(session, queue, effects)
        {
            self.return_held(session, queue, false, effects);
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
        self.return_held(session, QueueId(0), true, effects);
        false
    }

    fn return_held(
        &mut self,
        worker: SessionId,
        queue: QueueId,
        all_behind: bool,
        effects: &mut Effects,
    ) {
        let before = self.sessions.next_lease();
        self.begin(Chore::ReturnHeld(ReturnHeld { worker, queue, all_behind, before }), effects);
    }

    /// Takes a session's registration for a queue out of all tables; whether there was one.
    fn forget_registration(
        &mut self,
        session: SessionId,
        queue: QueueId,
        effects: &mut Effects,
    ) -> bool {
        let Some(forgotten) = self.sessions.unregister(session, queue) else { return false };
        self.meter.count(REGISTRATION_UNITS);
        if let Some(ticket) = forgotten.listed {
            self.queues[queue].remove_sleeper(ticket);
        }
        if self.queues.remove_worker(queue) {
            self.arm_queue(queue);
        }
        if !self.sessions[session].worker().is_some_and(Worker::is_asleep) {
            self.pass_wake_on(queue, effects);
        }
        true
    }

    /// Takes a session's registrations out of all tables, as many as one slice of work allows; true if
    /// some are left. Its jobs are the caller's business.
    pub(in crate::engine) fn retire_worker(
        &mut self,
        session: SessionId,
        effects: &mut Effects,
    ) -> bool {
        while let Some(queue) = self.sessions[session].worker().and_then(Worker::first_queue) {
            self.forget_registration(session, queue, effects);
            if self.meter.request_is_spent() {
                return true;
            }
        }
        false
    }

    /// Whether a grab of this session would get a job now.
    pub fn has_work(&self, session: SessionId) -> bool {
        self.next_supplier(session).is_some()
    }

    /// A worker has nothing to do: true if it sleeps from now on and will be woken, false if there
    /// is work for it already.
    pub fn sleep(&mut self, session: SessionId) -> bool {
        if self.has_work(session) {
            return false;
        }
        let unlisted = self.sessions[session].ensure_worker().fall_asleep();
        self.meter.count(unlisted.len());
        for queue in unlisted {
            let ticket = self.sessions.deal_ticket();
            self.queues[queue].add_sleeper(ticket, Sessions::place_of(session));
            self.sessions[session].ensure_worker().list(queue, ticket);
        }
        self.lift_limit(session);
        true
    }

    /// A worker that sleeps with a job in its hands has no time limit for it any more: for the one that it
    /// got last, as gearmand stops the timer of a connection (case `pre-sleep-lifts-the-time-limit`).
    fn lift_limit(&mut self, session: SessionId) {
        let worker = self.sessions[session].worker_mut();
        let Some((lease, slot)) = worker.and_then(Worker::take_newest) else { return };
        let held = self.jobs.get(slot).and_then(Job::lease);
        if let Some(held) = held.filter(|held| held.id == lease && held.until != NEVER) {
            self.jobs[slot].set_lease(Some(Lease { until: NEVER, ..held }));
            self.renew_deadline(slot);
        }
    }

    /// A queue has so many ready jobs that nobody waited for: wakes who sleeps, for each job up to the number
    /// set by [`Engine::set_wake_max`], in the order in which they came to the list. (Whoever was woken for
    /// another queue kept the place in this one's.)
    pub(in crate::engine) fn wake_sleepers(
        &mut self,
        queue: QueueId,
        jobs: u64,
        effects: &mut Effects,
    ) {
        let wake_max = u64::from(self.wake_max).saturating_mul(jobs);
        let mut woken = 0;
        while self.wake_max == 0 || woken < wake_max {
            let Some(place) = self.queues[queue].pop_sleeper() else { return };
            self.meter.count(1);
            let session = self.sessions.at(place);
            let worker = self.sessions[session].worker_mut().expect("sleepers are workers");
            if worker.unlist(queue) {
                woken += 1;
                effects.events.push((session, Event::WorkToDo));
            }
        }
    }

    /// A worker that is awake leaves a queue, or got a job elsewhere. It may be the only one that was woken for
    /// a job there, so others are woken in its place. When every job wakes all sleepers, they know already.
    pub(in crate::engine) fn pass_wake_on(&mut self, queue: QueueId, effects: &mut Effects) {
        let passed_on = &self.queues[queue];
        if self.wake_max != 0 && self.may_serve(passed_on) {
            self.wake_sleepers(queue, 1, effects);
        }
    }

    fn wake(&mut self, session: SessionId, effects: &mut Effects) {
        self.sessions[session].ensure_worker().wake();
        effects.events.push((session, Event::WorkToDo));
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
        let worker = self.sessions.find(session)?.worker()?;
        worker.next_behind(behind).map(|(rank, registration)| (registration.queue, rank))
    }

    /// The queues that a session is registered for, newest first, as often as it registered.
    pub fn registrations(&self, session: SessionId) -> impl Iterator<Item = QueueId> {
        let worker = self.sessions.find(session).and_then(Session::worker);
        let ranks = worker.into_iter().flat_map(Worker::by_rank);
        ranks.map(|(_, registration)| registration.queue)
    }
}
