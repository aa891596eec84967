//! Does chores, one slice at a time. This file also has the request that kicks many jobs.

use crate::chores::{Chore, Held, ReturnHeld, ReturnWork};
use crate::effects::{Effects, Event};
use crate::engine::Engine;
use crate::engine::attempts::Failure;
use crate::ids::{JobSlot, LeaseId, SessionId};
use crate::jobs::{Job, JobList, State};
use crate::queues::Queue;
use crate::sessions::Waiting;

/// A chore sorts jobs by their leases before it gives them back. Sorting this many leases counts as
/// one unit of work.
const MOVES_OF_A_UNIT: usize = 8;

/// The most chores of which one call of [`Engine::advance`] does a step: before the timers, and after
/// them.
const STEPS_PER_ADVANCE: usize = 2;

/// The immediate result of a kick of many jobs.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum Kick {
    /// This many jobs were kicked.
    Done(u64),
    /// The kick continues in slices. [`Event::Kicked`] follows.
    Waiting,
}

impl Engine {
    /// Makes up to `max` jobs of the session's used queue ready. If the queue has buried jobs, the
    /// kick makes buried jobs ready, in the order in which they were buried. Otherwise it makes
    /// delayed jobs ready, in the order of their due times.
    pub fn kick(&mut self, session: SessionId, max: u64, effects: &mut Effects) -> Kick {
        debug_assert!(!self.is_waiting(session));
        self.meter.begin_request();
        let queue = self.sessions[session].used();
        let buried = self.queues[queue].counts().buried > 0;
        let state = if buried { State::Buried } else { State::Delayed };
        let list = JobList { queue, state };
        let mut chore = Chore::Kick { session, list, left: max, kicked: 0 };
        if self.step(&mut chore, effects) {
            self.sessions.begin_wait(session, Waiting::Kick);
            self.chores.push(chore);
            return Kick::Waiting;
        }
        match chore {
            Chore::Kick { kicked, .. } => Kick::Done(kicked),
            Chore::Return(_)
            | Chore::ReturnHeld(_)
            | Chore::Close { .. }
            | Chore::Leave { .. }
            | Chore::Detach { .. }
            | Chore::Flush { .. }
            | Chore::Remove { .. } => unreachable!("the chore of this function is a kick"),
        }
    }

    /// Stops all chores, or lets them continue. A chore appends to the log. The server cannot slow
    /// a chore down by reading less from a client. So the broker stops chores while the log has too
    /// many unwritten bytes.
    pub fn hold_chores(&mut self, hold: bool) {
        self.chores.hold(hold);
    }

    /// Whether chores wait until the log has written more. For the simulator.
    pub fn has_held_chores(&self) -> bool {
        self.chores.is_held() && !self.chores.is_empty()
    }

    /// Whether chores have more to do, now or later.
    pub fn has_chores(&self) -> bool {
        !self.chores.is_empty()
    }

    /// From now on, a kick ends instead of its next slice, also if it has kicked no job yet. Each
    /// job needs room in the log, and other clients can use the room that a kick had found.
    pub fn end_kicks(&mut self, end: bool) {
        self.chores.end_kicks(end);
    }

    /// The most jobs that kicks make ready in one call of [`Engine::advance`].
    pub fn kick_jobs_max(&self) -> u64 {
        let jobs_of = |chore: &Chore| match chore {
            Chore::Kick { list, left, .. } => {
                let counts = self.queues.get(list.queue).map(Queue::counts);
                (*left).min(counts.map_or(0, |counts| counts.in_state(list.state)))
            }
            _ => 0,
        };
        let most = STEPS_PER_ADVANCE as u64 * u64::from(self.meter.step_jobs());
        self.chores.next(STEPS_PER_ADVANCE).map(jobs_of).sum::<u64>().min(most)
    }

    /// Does one slice of the chore that has waited longest, and does not rest.
    pub(in crate::engine) fn do_a_chore(&mut self, effects: &mut Effects) {
        let Some(mut chore) = self.chores.pop(self.now) else { return };
        self.meter.begin_request();
        if let Chore::Kick { session, .. } = chore
            && self.sessions.find(session).is_none()
        {
            // The session that requested the kick has ended, so the kick ends, too. The jobs that
            // are already kicked stay ready.
            return;
        }
        let ends = matches!(chore, Chore::Kick { .. }) && self.chores.kicks_end();
        if !ends && self.step(&mut chore, effects) {
            return self.chores.push(chore);
        }
        let (session, news) = match chore {
            Chore::Return(_)
            | Chore::ReturnHeld(_)
            | Chore::Close { .. }
            | Chore::Leave { .. }
            | Chore::Detach { .. } => return,
            Chore::Kick { session, list, kicked, .. } => {
                (session, Event::Kicked(list.queue, kicked))
            }
            // A flush or a removal continues after its session has ended. Otherwise a queue would
            // stay half flushed or half removed.
            Chore::Flush { session, .. } | Chore::Remove { session, .. }
                if self.sessions.find(session).is_none() =>
            {
                return;
            }
            Chore::Flush { session, .. } | Chore::Remove { session, .. } => {
                (session, Event::Cleared)
            }
        };
        self.sessions.end_wait(session);
        effects.events.push((session, news));
    }

    /// Begins a chore that no session waits for. A small chore is done at once.
    pub(in crate::engine) fn begin(&mut self, mut chore: Chore, effects: &mut Effects) {
        if self.step(&mut chore, effects) {
            self.chores.push(chore);
        }
    }

    /// Does one slice of a chore. Returns true if work is left.
    pub(in crate::engine) fn step(&mut self, chore: &mut Chore, effects: &mut Effects) -> bool {
        match chore {
            Chore::Return(work) => self.return_slice(work, effects),
            Chore::ReturnHeld(held) => self.return_held_slice(held, effects),
            Chore::Close { session } => self.close_slice(*session, effects),
            Chore::Leave { watched } => self.leave_slice(watched, effects),
            Chore::Detach { watcher, watching } => self.detach_slice(*watcher, watching, effects),
            Chore::Flush { work, .. } => self.flush_slice(work, effects),
            Chore::Remove { work, .. } => self.removal_slice(work, effects),
            Chore::Kick { list, left, kicked, .. } => {
                let mut jobs_left = self.meter.step_jobs();
                while *left > 0 {
                    if jobs_left == 0 || self.meter.request_is_spent() {
                        return true;
                    }
                    jobs_left -= 1;
                    let queue = &mut self.queues[list.queue];
                    if queue.is_first_cold(list.state) {
                        if self.memory_is_full && *kicked > 0 {
                            return false;
                        }
                        self.rest_for_load(*list);
                        return true;
                    }
                    let is_buried = list.state == State::Buried;
                    let first = if is_buried { queue.pop_buried() } else { queue.pop_delayed() };
                    let Some(slot) = first else { return false };
                    if self.queues.have_gates() {
                        self.leave_lane(slot);
                    }
                    self.kick_delisted(slot, effects);
                    *kicked += 1;
                    *left -= 1;
                }
                false
            }
        }
    }

    fn return_slice(&mut self, work: &mut ReturnWork, effects: &mut Effects) -> bool {
        let ReturnWork { leases, held, return_order, peer } = work;
        let return_order = *return_order;
        while let Some(((_, lease), slot)) = leases.first() {
            if self.meter.request_is_spent() {
                return true;
            }
            leases.pop_first();
            // Moving one job costs much less than a unit of work, so only some of the jobs count.
            self.meter.count(usize::from(held.len().is_multiple_of(MOVES_OF_A_UNIT)));
            held.push(Held::new(LeaseId(lease), JobSlot(slot), return_order));
        }
        let mut jobs_left = self.meter.step_jobs();
        while !held.is_empty() {
            if jobs_left == 0 || self.meter.request_is_spent() {
                return true;
            }
            jobs_left -= 1;
            let Some(next) = held.pop() else { break };
            // The job may have ended while the chore waited for its turn. The job's queue may have
            // vanished, too.
            if self.is_still_held(&next) {
                let failure = Failure::HolderLeft { return_order, peer: Some(&*peer) };
                self.fail_attempt(next.slot, failure, effects);
            }
        }
        false
    }

    /// Gives back jobs that a worker holds, as many as one slice of work allows. The job with the
    /// newest lease comes first, as after a disconnect of the worker (spec gearman 4.3).
    fn return_held_slice(&mut self, held: &mut ReturnHeld, effects: &mut Effects) -> bool {
        let mut jobs_left = self.meter.step_jobs();
        loop {
            // The session has ended. Another chore gives back all its jobs.
            let Some(session) = self.sessions.find(held.worker) else { return false };
            let return_order = session.return_order();
            let next = session.worker().and_then(|w| w.held_from(held.queue, held.before));
            let Some((queue, slot)) = next else { return false };
            if queue != held.queue {
                if !held.all_behind {
                    return false;
                }
                // Search again in the next queue. The newest leases of this queue may have begun
                // after `before`, and the chore must skip them.
                held.queue = queue;
                continue;
            }
            if jobs_left == 0 || self.meter.request_is_spent() {
                return true;
            }
            jobs_left -= 1;
            let failure = Failure::HolderLeft { return_order, peer: None };
            self.fail_attempt(slot, failure, effects);
        }
    }

    /// Whether a lease of a closed session still exists. If not, the place may have another job by
    /// now.
    fn is_still_held(&self, held: &Held) -> bool {
        let job = self.jobs.get(held.slot);
        job.and_then(Job::lease).is_some_and(|lease| lease.id == held.lease)
    }
}
