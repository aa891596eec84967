//! Operations that touch many jobs, done in slices so that nobody waits for the whole of them.

use std::collections::{BTreeMap, BinaryHeap};

use crate::collections::Ordered;
use crate::effects::{Effects, Happening};
use crate::engine::Engine;
use crate::flush::FlushWork;
use crate::ids::{JobId, JobSlot, LeaseId, Millis, QueueId, SessionId};
use crate::jobs::Job;
use crate::removal::RemovalWork;
use crate::session::{Manner, Waiting};

/// Leases that are put into another order, so many for one unit of work.
const MOVES_OF_A_UNIT: usize = 8;

/// A long operation and how far it is.
#[derive(Debug)]
pub(crate) enum Chore {
    /// The jobs that a closed session held go back to their queues: first they move from its leases
    /// to `held`, which then yields them in their order.
    Return { leases: Ordered<(Millis, u64)>, held: BinaryHeap<Held>, manner: Manner },
    /// Jobs that a worker cannot do any more go back to their queues.
    Unload(Unload),
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
pub(crate) struct Unload {
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
    lease: LeaseId,
    slot: JobSlot,
}

/// What a kick leads to at once.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum Kick {
    /// So many jobs were kicked.
    Done(u64),
    /// It goes on in slices; [`Happening::Kicked`] will come.
    Waiting,
}

impl Engine {
    /// Makes jobs of the used queue ready: up to `max` buried ones, longest buried first, or if
    /// none is buried, up to `max` delayed ones, soonest due first.
    pub fn kick(&mut self, session: SessionId, max: u64, effects: &mut Effects) -> Kick {
        debug_assert!(!self.is_waiting(session));
        self.meter.begin_request();
        let queue = self.session(session).used;
        let buried = !self.queue(queue).buried.is_empty();
        let mut chore = Chore::Kick { session, queue, buried, left: max, kicked: 0 };
        if self.step(&mut chore, effects) {
            self.open_mut(session).waiting = Some(Waiting::Kick);
            self.chores.push_back(chore);
            return Kick::Waiting;
        }
        match chore {
            Chore::Kick { kicked, .. } => Kick::Done(kicked),
            Chore::Return { .. }
            | Chore::Unload(_)
            | Chore::Close { .. }
            | Chore::Leave { .. }
            | Chore::Detach { .. }
            | Chore::Flush { .. }
            | Chore::Remove { .. } => unreachable!("the chore of this function is a kick"),
        }
    }

    /// Lets long operations rest, or go on. They write a lot, and nobody who could be asked to
    /// stop reading feeds them: whoever keeps the records says when it has enough.
    pub fn hold_chores(&mut self, hold: bool) {
        self.chores_held = hold;
    }

    /// Works a slice off the chore that waits longest.
    pub(crate) fn do_a_chore(&mut self, effects: &mut Effects) {
        let Some(mut chore) = self.chores.pop_front() else { return };
        self.meter.begin_request();
        if let Chore::Kick { session, .. } = chore
            && self.find_session(session).is_none()
        {
            // Whoever asked is gone; what was done so far stays done.
            return;
        }
        if self.step(&mut chore, effects) {
            return self.chores.push_back(chore);
        }
        let (session, news) = match chore {
            Chore::Return { .. }
            | Chore::Unload(_)
            | Chore::Close { .. }
            | Chore::Leave { .. }
            | Chore::Detach { .. } => return,
            Chore::Kick { session, queue, kicked, .. } => {
                (session, Happening::Kicked(queue, kicked))
            }
            // These went on without whoever asked: a queue is not left half flushed or removed.
            Chore::Flush { session, .. } | Chore::Remove { session, .. }
                if self.find_session(session).is_none() =>
            {
                return;
            }
            Chore::Flush { session, .. } | Chore::Remove { session, .. } => {
                (session, Happening::Cleared)
            }
        };
        self.open_mut(session).waiting = None;
        effects.happenings.push((session, news));
    }

    /// Begins a chore that nobody waits for: it is over at once, if it is small.
    pub(crate) fn begin(&mut self, mut chore: Chore, effects: &mut Effects) {
        if self.step(&mut chore, effects) {
            self.chores.push_back(chore);
        }
    }

    /// Does one slice of a chore; true if something is left.
    pub(crate) fn step(&mut self, chore: &mut Chore, effects: &mut Effects) -> bool {
        match chore {
            Chore::Return { leases, held, manner } => {
                self.return_slice(leases, held, *manner, effects)
            }
            Chore::Unload(unload) => self.unload_slice(unload, effects),
            Chore::Close { session } => self.close_slice(*session, effects),
            Chore::Leave { watched } => self.leave_slice(watched, effects),
            Chore::Detach { watcher, watching } => self.detach_slice(*watcher, watching, effects),
            Chore::Flush { work, .. } => self.flush_slice(work, effects),
            Chore::Remove { work, .. } => self.removal_slice(work, effects),
            Chore::Kick { queue, buried, left, kicked, .. } => {
                let mut jobs_left = self.meter.step_jobs();
                while *left > 0 {
                    if jobs_left == 0 || self.meter.request_is_spent() {
                        return true;
                    }
                    jobs_left -= 1;
                    let lists = self.queue_mut(*queue);
                    let first = if *buried {
                        lists.buried.pop_first().map(|(_, slot)| slot)
                    } else {
                        lists.delayed.pop_first().map(|(_, slot)| slot)
                    };
                    let Some(slot) = first else { return false };
                    self.kick_delisted(JobSlot(slot), effects);
                    *kicked += 1;
                    *left -= 1;
                }
                false
            }
        }
    }

    fn return_slice(
        &mut self,
        leases: &mut Ordered<(Millis, u64)>,
        held: &mut BinaryHeap<Held>,
        manner: Manner,
        effects: &mut Effects,
    ) -> bool {
        while let Some(((_, lease), slot)) = leases.first() {
            if self.meter.request_is_spent() {
                return true;
            }
            leases.pop_first();
            // Far less than a unit each.
            self.meter.count(usize::from(held.len().is_multiple_of(MOVES_OF_A_UNIT)));
            // The oldest goes back first where jobs keep their place, so that waiters get them as
            // they were handed out; the newest where they go to the tail (spec gearman 4.3).
            let number = match manner {
                Manner::KeepsPlace => !lease,
                Manner::ToTheTail => lease,
            };
            held.push(Held { number, lease: LeaseId(lease), slot: JobSlot(slot) });
        }
        let mut jobs_left = self.meter.step_jobs();
        while !held.is_empty() {
            if jobs_left == 0 || self.meter.request_is_spent() {
                return true;
            }
            jobs_left -= 1;
            let Some(next) = held.pop() else { break };
            // While the chore waited for its turn the job may have ended, with its queue.
            if self.is_still_held(&next) {
                self.end_lease(next.slot);
                self.lost(next.slot, manner, effects);
            }
        }
        false
    }

    /// The newest one goes back first, as when the worker is lost (spec gearman 4.3).
    fn unload_slice(&mut self, unload: &mut Unload, effects: &mut Effects) -> bool {
        let mut jobs_left = self.meter.step_jobs();
        loop {
            // A session that has ended gives all back by itself.
            let Some(session) = self.find_session(unload.worker) else { return false };
            let manner = session.manner;
            let next =
                session.worker.as_ref().and_then(|w| w.held_from(unload.queue, unload.before));
            let Some((queue, slot)) = next else { return false };
            if queue != unload.queue {
                if !unload.all_behind {
                    return false;
                }
                // Its newest ones may have been handed out since.
                unload.queue = queue;
                continue;
            }
            if jobs_left == 0 || self.meter.request_is_spent() {
                return true;
            }
            jobs_left -= 1;
            self.end_lease(slot);
            self.lost(slot, manner, effects);
        }
    }

    /// Whether the lease of a session that is gone has not ended yet. The place may be another
    /// job's by now.
    fn is_still_held(&self, held: &Held) -> bool {
        let job = self.jobs.get(held.slot);
        job.and_then(Job::lease).is_some_and(|lease| lease.id == held.lease)
    }
}

impl Chore {
    /// The return of the jobs that a session held when it was closed.
    pub(crate) fn return_of(leases: Ordered<(Millis, u64)>, manner: Manner) -> Self {
        Self::Return { leases, held: BinaryHeap::new(), manner }
    }
}
