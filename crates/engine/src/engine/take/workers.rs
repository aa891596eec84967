//! Workers: sessions that register for queues. A worker requests each job itself. If there is no
//! job, the worker sleeps until a job wakes it.
//!
//! If a queue has waiters, a waiter gets the ready job: see `serve.rs`. Only a job that stays ready
//! wakes sleepers. Only [`Engine::has_work`] decides whether a worker has work. The code that wakes
//! workers must agree with this function. If a job woke a worker that has no work, the worker would
//! sleep and wake again and again. If work did not wake a worker, the worker would sleep for ever.

use std::num::NonZeroU64;

use crate::chores::{Chore, ReturnHeld};
use crate::effects::{Effects, Event};
use crate::engine::Engine;
use crate::ids::{QueueId, SessionId};
use crate::jobs::{Job, Lease};
use crate::limits::WOKEN_AT_ONCE_MIN;
use crate::sessions::{NEVER, Registration, RemovedName, Session, Sessions, Worker};

/// Minimum time limit of a registration (spec gearman 4.8).
const LIMIT_MS_MIN: NonZeroU64 = NonZeroU64::new(1000).expect("it is not 0");

/// Units of work to make or remove a registration. The cost is more than one unit, because a
/// registration is in several trees.
const REGISTRATION_UNITS: usize = 4;

impl Engine {
    /// Registers this session as a worker for this queue. `limit_ms` limits the time of each lease.
    /// The engine keeps the queue in existence from now on. If the session is registered for the
    /// queue already, the registration moves to the front and gets the new limit. In gearmand, such
    /// a request adds a second registration. Here it does not, because a client could then make any
    /// number of registrations.
    pub fn register(
        &mut self,
        session: SessionId,
        name: &[u8],
        limit_ms: Option<u64>,
        effects: &mut Effects,
    ) {
        self.meter.count(REGISTRATION_UNITS);
        self.renew_named(name);
        let queue = self.queue_or_create(name);
        self.keep(queue, effects);
        if let Some(before) = self.registered_as(session, name).filter(|before| *before != queue) {
            self.forget_registration_name(session, before, name, effects);
        }
        let limit_ms = limit_ms.map(|limit| {
            NonZeroU64::new(limit).map_or(LIMIT_MS_MIN, |limit| limit.max(LIMIT_MS_MIN))
        });
        let is_new = self.sessions.register(session, Registration { queue, limit_ms });
        self.queues.add_worker(queue, is_new);
        let own = self.queues[queue].name();
        self.sessions.name_registered(session, queue, own, name, is_new);
        let asleep = self.sessions[session].worker().is_some_and(Worker::is_asleep);
        if asleep && !self.sleep(session) {
            self.wake(session, effects);
        }
    }

    /// The number of queues that this session is registered for, and whether this queue is one of
    /// them.
    pub fn registered(&self, session: SessionId, name: &[u8]) -> (usize, bool) {
        let of = &self.sessions[session];
        let Some(worker) = of.worker() else { return (0, false) };
        let surplus = of.other_names().map_or(0, |names| names.registered.surplus());
        (worker.len() + surplus, self.registered_as(session, name).is_some())
    }

    /// The queue that a session has registered for under this name.
    fn registered_as(&self, session: SessionId, name: &[u8]) -> Option<QueueId> {
        let of = &self.sessions[session];
        let worker = of.worker()?;
        let names = of.other_names().map(|names| &names.registered);
        let own = |queue: &QueueId| {
            worker.is_registered(*queue)
                && names.is_none_or(|names| names.of(*queue).next().is_none())
        };
        let other = names.and_then(|names| names.queue(name));
        other.or_else(|| self.own_queue_id(name).filter(own))
    }

    /// The name under which a session last registered for a queue.
    pub fn registered_name(&self, session: SessionId, queue: QueueId) -> &[u8] {
        let names = self.sessions.find(session).and_then(Session::other_names);
        let last = names.and_then(|names| names.registered.of(queue).next_back());
        last.unwrap_or_else(|| self.queues[queue].name())
    }

    /// Removes this session's registration for this queue. Gives back the session's jobs of the
    /// queue.
    pub fn unregister(&mut self, session: SessionId, name: &[u8], effects: &mut Effects) {
        self.meter.begin_request();
        self.meter.count(1);
        if let Some(queue) = self.registered_as(session, name)
            && self.forget_registration_name(session, queue, name, effects)
        {
            self.return_held(session, queue, false, effects);
        }
    }

    /// Removes a name under which a session has registered for a queue. Returns whether the
    /// registration ends, because it was the only one.
    fn forget_registration_name(
        &mut self,
        session: SessionId,
        queue: QueueId,
        name: &[u8],
        effects: &mut Effects,
    ) -> bool {
        let own = (queue, self.queues[queue].name());
        let removed = self.sessions.unname(session, |names| &mut names.registered, own, name);
        removed == RemovedName::Only && self.forget_registration(session, queue, effects)
    }

    /// Removes the registrations of this session, as many as one slice of work allows. Returns true
    /// if some are left. If so, the caller must call this function again before any other request
    /// of the session.
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

    /// Removes a session's registration for a queue from all tables. Returns whether the
    /// registration existed.
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

    /// Removes a session's registrations from all tables, as many as one slice of work allows.
    /// Returns true if some are left. The caller gives back the session's jobs.
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

    /// Whether a take of this worker would get a job now.
    pub fn has_work(&self, session: SessionId) -> bool {
        self.next_supplier(session).is_some()
    }

    /// Puts a worker to sleep until a job wakes it. Returns false if the worker already has work.
    /// Then the worker stays awake.
    pub fn sleep(&mut self, session: SessionId) -> bool {
        if let Some((_, found)) = self.next_supplier_if_loaded(session) {
            if self.may_serve(&self.queues[found.queue]) || self.has_work(session) {
                return false;
            }
            // The end of the load wakes the worker.
            self.want_head(found.queue);
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

    /// A worker has looked for a job, and must not take one now. If a job has woken the worker, that job
    /// wakes another one.
    pub fn decline(&mut self, session: SessionId, effects: &mut Effects) {
        self.meter.begin_request();
        let woken_for = self.sessions[session].worker_mut().and_then(Worker::look);
        if let Some(queue) = woken_for {
            self.pass_wake_on(queue, effects);
        }
    }

    /// Removes the time limit of the last job that a worker got, because the worker begins to
    /// sleep. If the worker no longer holds the job, nothing changes. The original gearmand also
    /// stops the timer of a connection that sleeps (case `pre-sleep-lifts-the-time-limit`).
    fn lift_limit(&mut self, session: SessionId) {
        let worker = self.sessions[session].worker_mut();
        let Some((lease, slot)) = worker.and_then(Worker::take_newest) else { return };
        let held = self.jobs.get(slot).and_then(Job::lease);
        if let Some(held) = held.filter(|held| held.id == lease && held.until != NEVER) {
            self.jobs[slot].set_lease(Some(Lease { until: NEVER, ..held }));
            self.renew_deadline(slot);
        }
    }

    /// Wakes sleepers of a queue for this many ready jobs, in the order of the list of sleepers.
    /// Each job wakes at most the number of sleepers that [`Engine::set_wake_max`] has set. The
    /// list can also have workers that another queue has woken. The engine removes such workers
    /// from the list, but does not count them.
    ///
    /// If the slice of work is spent and sleepers are left, the queue rests, and its timer wakes
    /// them if a job is still ready then. For this, the timer counts all ready jobs. So these jobs
    /// can wake more sleepers than usual, but no job is left without a worker.
    pub(in crate::engine) fn wake_sleepers(
        &mut self,
        queue: QueueId,
        jobs: u64,
        effects: &mut Effects,
    ) {
        let wake_max = u64::from(self.wake_max).saturating_mul(jobs);
        let (mut woken, mut removed) = (0, 0);
        while self.wake_max == 0 || woken < wake_max {
            let is_left = !self.queues[queue].sleepers().is_empty();
            if is_left && removed >= WOKEN_AT_ONCE_MIN && self.meter.request_is_spent() {
                return self.rest_from_serving(queue);
            }
            let Some(slept) = self.wake_first(queue, effects) else { return };
            removed += 1;
            woken += u64::from(slept);
        }
    }

    /// Wakes all sleepers of a queue in one step, even if the queue has no job for them.
    pub(in crate::engine) fn wake_all_sleepers(&mut self, queue: QueueId, effects: &mut Effects) {
        while self.wake_first(queue, effects).is_some() {}
    }

    /// Removes the first worker from a queue's list of sleepers, and wakes it. Returns whether it
    /// was asleep. `None`: the list is empty.
    fn wake_first(&mut self, queue: QueueId, effects: &mut Effects) -> Option<bool> {
        let place = self.queues[queue].pop_sleeper()?;
        self.meter.count(1);
        let session = self.sessions.at(place);
        let worker = self.sessions[session].worker_mut().expect("sleepers are workers");
        let slept = worker.unlist(queue);
        if slept {
            effects.events.push((session, Event::WorkToDo));
        }
        Some(slept)
    }

    /// Wakes other sleepers of a queue, because an awake worker has left the queue or got a job of
    /// another queue. Perhaps a job of the queue has woken only this worker. If every job wakes all
    /// sleepers, no other sleeper is left to wake.
    pub(in crate::engine) fn pass_wake_on(&mut self, queue: QueueId, effects: &mut Effects) {
        let passed_on = &self.queues[queue];
        if self.wake_max == 0 || passed_on.sleepers().is_empty() {
            return;
        }
        if self.may_serve(passed_on) {
            self.wake_sleepers(queue, 1, effects);
        } else if self.may_serve_loaded(passed_on) {
            // The end of the load wakes the sleepers.
            self.want_head(queue);
        }
    }

    fn wake(&mut self, session: SessionId, effects: &mut Effects) {
        self.sessions[session].ensure_worker().wake();
        effects.events.push((session, Event::WorkToDo));
    }

    /// Sets the number of sleepers that one job wakes. 0 for all.
    pub fn set_wake_max(&mut self, wake_max: u32) {
        self.wake_max = wake_max;
    }

    /// The queue and the rank of one of the session's registrations. It is the registration with
    /// the highest rank below `behind`. If `behind` is `None`, it is the registration with the
    /// highest rank.
    pub fn next_registration(
        &mut self,
        session: SessionId,
        behind: Option<i64>,
    ) -> Option<(QueueId, i64)> {
        self.meter.count(1);
        let worker = self.sessions.find(session)?.worker()?;
        worker.next_behind(behind).map(|(rank, registration)| (registration.queue, rank))
    }

    /// The queues that a session is registered for, highest rank first.
    pub fn registrations(&self, session: SessionId) -> impl Iterator<Item = QueueId> {
        let worker = self.sessions.find(session).and_then(Session::worker);
        let ranks = worker.into_iter().flat_map(Worker::by_rank);
        ranks.map(|(_, registration)| registration.queue)
    }
}
