//! Workers in the model: their registrations, their jobs, their sleep, and their wake-ups (spec
//! gearman 4).

use std::collections::BTreeSet;

use super::outcome::Notification;
use super::{Model, NEVER, Name, Place, State};

/// The shortest time limit of a registration (spec gearman 4.8).
const LIMIT_MS_MIN: u64 = 1000;

#[derive(Debug, Default)]
pub(super) struct Worker {
    /// A grab checks the registration with the highest rank first.
    registrations: Vec<Registration>,
    pub(super) asleep: bool,
    /// The queue whose job woke the worker. `None` after the worker looked for a job or sleeps
    /// again.
    woken_for: Option<Name>,
    /// Queues for which the worker is registered, but whose lists of sleepers do not have the
    /// worker.
    unlisted: BTreeSet<Name>,
    /// The lease of the worker's last job. `None` after the worker has slept.
    pub(super) newest: Option<u64>,
    next_rank: i64,
    last_rank: i64,
}

#[derive(Clone, Debug)]
struct Registration {
    rank: i64,
    queue: Name,
    /// The names under which the worker has registered, the newest one last.
    names: Vec<String>,
    limit_ms: Option<u64>,
}

impl Worker {
    /// The number of registrations for this queue.
    pub(super) fn records(&self, queue: &Name) -> usize {
        self.registrations.iter().filter(|one| one.queue == *queue).count()
    }

    pub(super) fn queues(&self) -> BTreeSet<Name> {
        self.registrations.iter().map(|one| one.queue.clone()).collect()
    }

    /// The name under which the worker last registered for this queue.
    pub(super) fn name_of(&self, queue: &Name) -> Option<&str> {
        let found = self.registrations.iter().find(|one| one.queue == *queue)?;
        found.names.last().map(String::as_str)
    }

    /// Removes a name under which the worker has registered. Returns the queue if it was the only
    /// name: then the caller removes the registration.
    pub(super) fn forget_name(&mut self, name: &str) -> Option<Name> {
        let is_named = |one: &&mut Registration| one.names.iter().any(|known| known == name);
        let found = self.registrations.iter_mut().find(is_named)?;
        if found.names.len() == 1 {
            return Some(found.queue.clone());
        }
        found.names.retain(|known| known != name);
        None
    }

    /// The registrations, in the order in which a grab checks them.
    fn ranked(&self) -> Vec<Registration> {
        let mut ranked = self.registrations.clone();
        ranked.sort_by_key(|one| std::cmp::Reverse(one.rank));
        ranked
    }
}

impl Model {
    pub(super) fn register(&mut self, place: Place, name: &str, limit_ms: Option<u64>) {
        let queue = self.create_queue(name);
        self.keep_queue(&queue);
        let worker = &mut self.conn(place).worker;
        worker.next_rank += 1;
        if worker.records(&queue) == 0 {
            worker.unlisted.insert(queue.clone());
        }
        let before = worker.registrations.iter().position(|one| one.queue == queue);
        let before = before.map(|index| worker.registrations.remove(index).names);
        let mut names = before.unwrap_or_default();
        names.retain(|known| known != name);
        names.push(name.to_owned());
        let limit_ms = limit_ms.map(|limit| limit.max(LIMIT_MS_MIN));
        worker.registrations.push(Registration { rank: worker.next_rank, queue, names, limit_ms });
        if worker.asleep && !self.fall_asleep(place) {
            self.wake(place);
        }
    }

    /// Removes the worker's registrations for these queues.
    pub(super) fn unregister(&mut self, place: Place, queues: &BTreeSet<Name>) {
        let Some(conn) = self.conns.get_mut(&place) else { return };
        let was_asleep = conn.worker.asleep;
        let left: BTreeSet<_> = conn.worker.queues().intersection(queues).cloned().collect();
        conn.worker.registrations.retain(|one| !queues.contains(&one.queue));
        conn.worker.unlisted.retain(|queue| !queues.contains(queue));
        conn.worker.woken_for.take_if(|queue| queues.contains(queue));
        for name in queues {
            if let Some(queue) = self.queues.get_mut(name) {
                queue.sleepers.retain(|_, sleeper| *sleeper != place);
            }
        }
        let left = self.queues_by_place().into_iter().filter(|name| left.contains(name));
        for name in left.filter(|_| !was_asleep).collect::<Vec<_>>() {
            self.pass_wake_on(&name);
        }
    }

    /// Called when a worker that is awake takes no job of this queue. If a job of the queue woke
    /// only this worker, another worker must wake.
    fn pass_wake_on(&mut self, name: &Name) {
        let passes_on = self.setting.wake_max != 0 && !self.reads_blocked();
        let is_held = self.is_paused(name) || self.is_shut_for_takers(name);
        if passes_on && !is_held && self.first_ready(name).is_some() {
            self.wake_sleepers(name, 1);
        }
    }

    /// Gives back the connection's jobs of these queues: queue by queue, the newest job first.
    pub(super) fn lose_those_of(&mut self, place: Place, is_of: impl Fn(&Name) -> bool) {
        let held = self.held_as_taken(place);
        let mut lost = Vec::new();
        for name in self.queues_by_place().into_iter().filter(is_of) {
            lost.extend(held.iter().rev().filter(|id| self.jobs[id].queue == name));
        }
        self.give_back(lost);
    }

    fn next_supplier(&self, place: Place) -> Option<Registration> {
        if self.reads_blocked() {
            return None;
        }
        let ranked = self.conns[&place].worker.ranked();
        let serves = |queue: &Name| {
            let is_held = self.is_paused(queue) || self.is_shut_for_takers(queue);
            !is_held && self.first_ready(queue).is_some()
        };
        ranked.into_iter().find(|one| serves(&one.queue))
    }

    /// True if a grab would get a job now.
    pub(super) fn has_work(&self, place: Place) -> bool {
        self.next_supplier(place).is_some()
    }

    /// Returns the job that a grab gets.
    pub(super) fn grab(&mut self, place: Place) -> Option<u64> {
        let worker = &mut self.conn(place).worker;
        worker.asleep = false;
        let woken_for = worker.woken_for.take();
        let supplier = loop {
            let supplier = self.next_supplier(place)?;
            if self.sweep(&supplier.queue).0 == 0 {
                break supplier;
            }
        };
        if self.setting.round_robin {
            let worker = &mut self.conn(place).worker;
            worker.last_rank -= 1;
            let last = worker.last_rank;
            let found = worker.registrations.iter_mut().find(|one| one.rank == supplier.rank);
            found.expect("it was just found").rank = last;
        }
        let id = self.first_ready(&supplier.queue)?;
        self.hand_out(place, id, supplier.limit_ms);
        self.tally.grabs += 1;
        if let Some(name) = woken_for.filter(|name| *name != supplier.queue) {
            self.pass_wake_on(&name);
        }
        if self.has_gates(&supplier.queue) {
            self.pass_wake_on(&supplier.queue);
        }
        Some(id)
    }

    /// Makes the worker sleep. Returns false if there is work for it.
    pub(super) fn fall_asleep(&mut self, place: Place) -> bool {
        if self.has_work(place) {
            return false;
        }
        let worker = &mut self.conn(place).worker;
        worker.asleep = true;
        worker.woken_for = None;
        for name in std::mem::take(&mut worker.unlisted) {
            let ticket = self.next_ticket;
            self.next_ticket += 1;
            let queue = self.queues.get_mut(&name).expect("a registration keeps its queue");
            queue.sleepers.insert(ticket, place);
        }
        self.lift_limit(place);
        true
    }

    /// Removes the time limit of the worker's last job, because the worker sleeps.
    fn lift_limit(&mut self, place: Place) {
        let Some(newest) = self.conn(place).worker.newest.take() else { return };
        let held = |state: &State| matches!(state, State::Leased(lease) if lease.number == newest);
        let id = self.jobs.iter().find(|(_, job)| held(&job.state)).map(|(id, _)| *id);
        let Some(id) = id else { return };
        if let State::Leased(lease) = &mut self.job_mut(id).state
            && std::mem::replace(&mut lease.limit, NEVER) != NEVER
        {
            self.renew_deadline(id);
        }
    }

    /// Wakes workers, because a queue has this number of ready jobs and no waiting client.
    pub(super) fn wake_sleepers(&mut self, name: &Name, jobs: usize) {
        let wake_max = self.setting.wake_max as usize * jobs;
        let mut woken = 0;
        while self.setting.wake_max == 0 || woken < wake_max {
            let queue = self.queues.get_mut(name).expect("a queue with a job");
            let Some((_, place)) = queue.sleepers.pop_first() else { return };
            let worker = &mut self.conn(place).worker;
            worker.unlisted.insert(name.clone());
            if worker.asleep {
                woken += 1;
                worker.woken_for = Some(name.clone());
                self.wake(place);
            }
        }
    }

    fn wake(&mut self, place: Place) {
        self.tally.wake_ups += 1;
        let conn = self.conn(place);
        conn.worker.asleep = false;
        conn.notifications.push_back(Notification::WorkToDo);
    }

    /// True if a worker sleeps although a queue has a job for it. This must not happen if a job
    /// wakes all workers. If a job wakes only a few workers, other workers can sleep while jobs are
    /// ready.
    pub(super) fn misses_work(&self, place: Place) -> bool {
        // If the gates of a queue can open, the queue's timer wakes its workers next.
        // If its head has expired, the timer ends the head first.
        let is_shut = |queue: &Name| {
            self.is_shut(queue) || self.lane_moment(queue).is_some() || self.head_is_expired(queue)
        };
        let queues = self.conns[&place].worker.queues();
        self.setting.wake_max == 0
            && self.conns[&place].worker.asleep
            && !queues.iter().any(is_shut)
            && self.has_work(place)
    }

    /// The queues of a sleeping worker, if every job of these queues must wake the worker.
    pub(crate) fn sleeps_on(&self, place: Place) -> Vec<Name> {
        let worker = &self.conns[&place].worker;
        let is_sure = worker.asleep && self.setting.wake_max == 0 && !self.reads_blocked();
        let queues = if is_sure { worker.queues() } else { BTreeSet::new() };
        let is_held = |queue: &Name| {
            self.is_paused(queue)
                || self.is_shut(queue)
                || self.lane_moment(queue).is_some()
                || self.head_is_expired(queue)
        };
        queues.into_iter().filter(|queue| !is_held(queue)).collect()
    }

    /// The number of unfinished jobs, and the number of leased jobs among them.
    pub(super) fn unfinished_in(&self, name: &Name) -> [u64; 2] {
        let mut counts = [0, 0];
        for job in self.jobs.values().filter(|job| job.queue == *name) {
            counts[0] += u64::from(!matches!(job.state, State::Buried { .. }));
            counts[1] += u64::from(matches!(job.state, State::Leased(_)));
        }
        counts
    }

    /// The number of registrations for a queue, over all connections.
    pub(super) fn workers_of(&self, name: &Name) -> usize {
        self.conns.values().map(|conn| conn.worker.records(name)).sum()
    }
}
