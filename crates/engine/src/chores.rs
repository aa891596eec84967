//! Operations that touch many jobs, done in slices so that nobody waits for the whole of them.

use std::collections::{BTreeMap, BinaryHeap};

use crate::effects::{Effects, Happening};
use crate::engine::Engine;
use crate::flush::FlushWork;
use crate::ids::{JobId, JobSlot, LeaseId, Millis, QueueId, SessionId};
use crate::job::Job;
use crate::limits::SLICE_JOBS_MAX;
use crate::ordered::Ordered;
use crate::removal::RemovalWork;
use crate::session::{Manner, Waiting};

/// A long operation and how far it is.
#[derive(Debug)]
pub(crate) enum Chore {
    /// The jobs that a closed session held, or those that a worker cannot do any more, go back to
    /// their queues, those with the highest number first.
    Return { held: BinaryHeap<Held>, manner: Manner },
    /// A closed session watches these jobs no more.
    Detach { watcher: SessionId, watching: BTreeMap<JobId, u32> },
    /// A flush of many jobs, or of many queues.
    Flush { session: SessionId, work: FlushWork },
    /// The removal of a queue of many jobs.
    Remove { session: SessionId, work: RemovalWork },
    /// A kick of many jobs.
    Kick { session: SessionId, queue: QueueId, buried: bool, left: u64, kicked: u64 },
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
            Chore::Return { .. } | Chore::Detach { .. } => return,
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
            Chore::Return { held, manner } => self.return_slice(held, *manner, effects),
            Chore::Detach { watcher, watching } => self.detach_slice(*watcher, watching, effects),
            Chore::Flush { work, .. } => self.flush_slice(work, effects),
            Chore::Remove { work, .. } => self.removal_slice(work, effects),
            Chore::Kick { queue, buried, left, kicked, .. } => {
                let slice = (*left).min(SLICE_JOBS_MAX as u64);
                let done = self.kick_slice(*queue, *buried, slice, effects);
                *kicked += done;
                *left -= done;
                done == SLICE_JOBS_MAX as u64 && *left > 0
            }
        }
    }

    fn kick_slice(&mut self, queue: QueueId, buried: bool, max: u64, effects: &mut Effects) -> u64 {
        for done in 0..max {
            let lists = self.queue_mut(queue);
            let first = if buried {
                lists.buried.pop_first().map(|(_, slot)| slot)
            } else {
                lists.delayed.pop_first().map(|(_, slot)| slot)
            };
            let Some(slot) = first else { return done };
            self.kick_delisted(JobSlot(slot), effects);
        }
        max
    }

    fn return_slice(
        &mut self,
        held: &mut BinaryHeap<Held>,
        manner: Manner,
        effects: &mut Effects,
    ) -> bool {
        for _ in 0..SLICE_JOBS_MAX {
            let Some(next) = held.pop() else { return false };
            // While the chore waited for its turn the job may have ended, with its queue.
            if self.is_still_held(&next) {
                self.end_lease(next.slot);
                self.lost(next.slot, manner, effects);
            }
        }
        !held.is_empty()
    }

    /// Whether the lease of a session that is gone has not ended yet. The place may be another
    /// job's by now.
    fn is_still_held(&self, held: &Held) -> bool {
        let job = self.jobs.get(held.slot.0);
        job.and_then(Job::lease).is_some_and(|lease| lease.id == held.lease)
    }
}

impl Chore {
    /// The return of these jobs, the first one first.
    pub(crate) fn return_in_order(jobs: &[(LeaseId, JobSlot)], manner: Manner) -> Self {
        let numbered = jobs.iter().rev().enumerate();
        let held = numbered.map(|(at, &(lease, slot))| Held { number: at as u64, lease, slot });
        Self::Return { held: held.collect(), manner }
    }

    /// The return of these leases: the oldest first where jobs keep their place, so that waiters
    /// get them as they were handed out; the newest first where they go to the tail (spec gearman
    /// 4.3).
    pub(crate) fn return_of(leases: &Ordered<(Millis, u64)>, manner: Manner) -> Self {
        let numbered = leases.iter().map(|((_, lease), slot)| match manner {
            Manner::KeepsPlace => (!lease, lease, slot),
            Manner::ToTheTail => (lease, lease, slot),
        });
        let numbered = numbered.map(|(number, lease, slot)| Held {
            number,
            lease: LeaseId(lease),
            slot: JobSlot(slot),
        });
        Self::Return { held: numbered.collect(), manner }
    }
}
