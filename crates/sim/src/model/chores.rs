//! Long operations of the model. They run in slices, with other requests between the slices.

use broker::FailureCause;

use super::outcome::Notification;
use super::session::Expected;
use super::{Model, Name, Place, Serial, State};

/// Number of jobs in one step: a quarter of the units in a slice. The protocol does not define this
/// number, so the model uses the engine's number. No job of the simulation costs more than four
/// units, so the engine does not stop sooner.
const SLICE_JOBS: usize = crate::plan::SLICE_UNITS as usize / 4;

#[derive(Debug)]
pub(super) enum Chore {
    /// Jobs that must still be given back, with the numbers of their leases. Their holder
    /// disconnected, or unregistered from their queues.
    Return(Vec<(u64, u64)>),
    /// The place that stands for a closed connection, and the jobs whose watchers still include
    /// this place.
    Detach(Place, Vec<u64>),
    Kick {
        place: Place,
        serial: Serial,
        queue: Name,
        buried: bool,
        left: usize,
        kicked: usize,
    },
}

impl Model {
    /// Kicks up to `bound` jobs. Returns their number, or `None` if the kick needs more slices.
    pub(super) fn kick(&mut self, place: Place, bound: u32) -> Option<usize> {
        let conn = self.conn(place);
        let (serial, queue) = (conn.serial, conn.used.clone());
        let buried = !self.buried_in(&queue).is_empty();
        let left = bound as usize;
        let chore = Chore::Kick { place, serial, queue, buried, left, kicked: 0 };
        match self.slice(chore) {
            (Some(chore), _) => {
                self.chores.push_back(chore);
                self.conn(place).is_kicking = true;
                None
            }
            (None, kicked) => Some(kicked),
        }
    }

    /// Gives back leased jobs.
    pub(super) fn give_back(&mut self, ids: Vec<u64>) {
        let held = ids.into_iter().map(|id| match self.jobs[&id].state {
            State::Leased(lease) => (lease.number, id),
            _ => unreachable!("only what is held is given back"),
        });
        self.begin(Chore::Return(held.collect()));
    }

    /// Does the first slice of a chore. If the chore needs more slices, adds it to the line of
    /// chores.
    pub(super) fn begin(&mut self, chore: Chore) {
        if let (Some(chore), _) = self.slice(chore) {
            self.chores.push_back(chore);
        }
    }

    /// Runs one slice of the oldest chore.
    pub(super) fn do_a_chore(&mut self) {
        let Some(chore) = self.chores.pop_front() else { return };
        let asked_by = match &chore {
            Chore::Return(_) | Chore::Detach(..) => None,
            Chore::Kick { place, serial, queue, .. } => {
                if self.conns.get(place).is_none_or(|conn| conn.serial != *serial) {
                    return;
                }
                Some((*place, queue.clone()))
            }
        };
        match (self.slice(chore), asked_by) {
            ((Some(chore), _), _) => self.chores.push_back(chore),
            ((None, kicked), Some((place, queue))) => {
                let need = self.history.jobs_need(&queue);
                let conn = self.conn(place);
                conn.is_kicking = false;
                let reply = Expected::line(&format!("KICKED {kicked}"), need);
                conn.notifications.push_back(Notification::Reply(reply));
            }
            ((None, _), None) => {}
        }
    }

    pub(crate) fn has_chores(&self) -> bool {
        !self.chores.is_empty()
    }

    /// Does one slice. Returns the chore if it needs more slices, and the number of jobs kicked so
    /// far.
    fn slice(&mut self, chore: Chore) -> (Option<Chore>, usize) {
        match chore {
            Chore::Return(mut held) => {
                let rest = held.split_off(held.len().min(SLICE_JOBS));
                for (number, id) in held {
                    // The job may have ended since the chore began, or have a new lease.
                    let state = self.jobs.get(&id).map(|job| job.state);
                    if matches!(state, Some(State::Leased(lease)) if lease.number == number) {
                        self.lose(id, FailureCause::HolderLeft);
                    }
                }
                ((!rest.is_empty()).then_some(Chore::Return(rest)), 0)
            }
            Chore::Detach(gone, mut ids) => {
                let rest = ids.split_off(ids.len().min(SLICE_JOBS));
                for id in ids {
                    self.detach_from(gone, id);
                }
                ((!rest.is_empty()).then_some(Chore::Detach(gone, rest)), 0)
            }
            Chore::Kick { place, serial, queue, buried, left, kicked } => {
                let mut chosen =
                    if buried { self.buried_in(&queue) } else { self.delayed_in(&queue) };
                chosen.sort_unstable();
                chosen.truncate(left.min(SLICE_JOBS));
                for (_, id) in &chosen {
                    self.kick_job(*id).expect("a buried or delayed job can be kicked");
                }
                let (left, kicked) = (left - chosen.len(), kicked + chosen.len());
                let goes_on = chosen.len() == SLICE_JOBS && left > 0;
                let chore = Chore::Kick { place, serial, queue, buried, left, kicked };
                (goes_on.then_some(chore), kicked)
            }
        }
    }

    fn buried_in(&self, queue: &Name) -> Vec<(u64, u64)> {
        let key = |state| if let State::Buried { order } = state { Some(order) } else { None };
        self.in_queue(queue, key)
    }

    fn delayed_in(&self, queue: &Name) -> Vec<(u64, u64)> {
        let key = |state| if let State::Delayed { due } = state { Some(due) } else { None };
        self.in_queue(queue, key)
    }

    fn in_queue(&self, queue: &Name, key: fn(State) -> Option<u64>) -> Vec<(u64, u64)> {
        let jobs = self.jobs.iter().filter(|(_, job)| job.queue == *queue);
        jobs.filter_map(|(id, job)| Some((key(job.state)?, *id))).collect()
    }
}
