//! What a request needs before it can run: the next job must be in memory, and no expired job may
//! be in front of it.

use super::{Choice, Engine};
use crate::effects::Effects;
use crate::ids::{QueueId, SessionId};
use crate::jobs::{JobList, State};
use crate::limits::FULL_MEMORY_LEASES;
use crate::queues::{Cold, Queue, ReadyKey};
use crate::sessions::ReadMode;

/// What a request needs in memory.
#[derive(Copy, Clone, Debug)]
pub enum Need<'a> {
    /// The best job of the queues that the session watches.
    Watched,
    /// The next job of the queues that the session is registered for.
    Registered,
    /// The same, for a worker that begins to sleep. It stays awake if the next job has expired.
    Sleep,
    /// The first job of this state in the queue that the session uses, even if the queue is paused.
    Used(State),
    /// The first job of the queue of this name. Only a read that does not wait needs this. Other
    /// reads wait for the load.
    Queue(&'a [u8]),
}

/// What a request must wait for.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum Obstacle {
    /// More expired jobs are in front of the next job than one slice can end. The session should
    /// try again in its next slice.
    Expired,
    /// The next job of this list is cold. The owner must load the next block of the list.
    Cold(JobList),
}

impl Engine {
    /// Whether [`Engine::clear_way`] can find an obstacle, or do anything.
    pub fn needs_sweeps(&self) -> bool {
        !self.jobs.blocks().is_empty() || self.jobs.can_expire() || self.rules.expire_jobs()
    }

    /// Removes expired jobs in front of the job that a request of this session needs, as the
    /// request itself would. Returns what the request must wait for then. `None`: it can run now.
    /// Uses only what is left of the slice.
    ///
    /// A session can watch thousands of queues, or be registered for them. So this function looks
    /// at them once, unless the slice has room for more.
    pub fn clear_way(
        &mut self,
        session: SessionId,
        need: Need<'_>,
        effects: &mut Effects,
    ) -> Option<Obstacle> {
        if !self.queues.have_extensions() {
            return None;
        }
        self.meter.use_rest_of_slice();
        match need {
            Need::Watched => self.clear_way_to_watched(session, effects),
            Need::Registered => self.clear_way_to_registered(session, effects),
            Need::Queue(name) => self.clear_way_to_queue(name, effects),
            // A peek shows an expired job, too.
            Need::Used(_) | Need::Sleep => self.missing(session, need).map(Obstacle::Cold),
        }
    }

    fn clear_way_to_watched(
        &mut self,
        session: SessionId,
        effects: &mut Effects,
    ) -> Option<Obstacle> {
        let (mut expired, mut cold) = self.watched_obstacles(session);
        // With gates, an expired job can be behind a gate that opens only now.
        let may_sweep = expired.is_some() || self.queues.have_gates();
        if may_sweep && !self.meter.request_is_spent() {
            self.sweep_watched(session, effects);
            (expired, cold) = self.watched_obstacles(session);
        }
        if let Some(queue) = expired
            && self.meter.request_is_spent()
        {
            return Some(self.leave_sweep_to_timer(queue));
        }
        cold.map(|queue| Obstacle::Cold(self.list_of_cold_head(queue)))
    }

    fn clear_way_to_registered(
        &mut self,
        session: SessionId,
        effects: &mut Effects,
    ) -> Option<Obstacle> {
        loop {
            let (_, found) = self.next_supplier_if_loaded(session)?;
            let queue = found.queue;
            if self.queues[queue].head_is_cold() {
                return Some(Obstacle::Cold(self.list_of_cold_head(queue)));
            }
            if self.meter.request_is_spent() {
                let is_expired = self.head_is_expired(&self.queues[queue]);
                return is_expired.then(|| self.leave_sweep_to_timer(queue));
            }
            // A sweep that ends no job can give the job to a session that waits.
            if self.sweep(queue, usize::MAX, effects) == 0 && self.may_serve(&self.queues[queue]) {
                return None;
            }
        }
    }

    fn clear_way_to_queue(&mut self, name: &[u8], effects: &mut Effects) -> Option<Obstacle> {
        let queue = self.queue_to_read(name)?;
        self.sweep_head(queue, effects);
        let is_spent = self.meter.request_is_spent();
        let obstacle = if is_spent && self.head_is_expired(&self.queues[queue]) {
            Some(self.leave_sweep_to_timer(queue))
        } else {
            let is_cold = self.may_serve_loaded(&self.queues[queue]);
            is_cold.then(|| Obstacle::Cold(self.list_of_cold_head(queue)))
        };
        self.drop_if_unwanted(queue, effects);
        obstacle
    }

    /// Leaves an expired head to the queue's timer, which sweeps at once, as for a session that
    /// waits. The slice is spent, perhaps before the sweep came to this queue, and perhaps each
    /// time that the session tries again.
    fn leave_sweep_to_timer(&mut self, queue: QueueId) -> Obstacle {
        self.resume_sweep(queue);
        Obstacle::Expired
    }

    /// The queue that a read under this name reads. If the name is an alias now, there is none: the
    /// jobs of a queue of this name are out of reach.
    fn queue_to_read(&self, name: &[u8]) -> Option<QueueId> {
        self.queue_id(name).filter(|id| !Self::is_hidden(&self.queues[*id]))
    }

    /// Notes whether the memory is full. A failure is never refused. So while the memory is full, a new
    /// dead letter keeps no text of its worker, and does not make the queue that it would move to. Jobs
    /// that were kicked stay in memory. So a kick that has kicked some jobs ends when it needs a cold one.
    pub fn note_full_memory(&mut self, is_full: bool) {
        self.memory_is_full = is_full;
    }

    /// Whether the memory is full: see [`Engine::note_full_memory`].
    pub fn memory_is_full(&self) -> bool {
        self.memory_is_full
    }

    /// Whether this session holds [`FULL_MEMORY_LEASES`] jobs, and there are cold jobs. Leased jobs stay
    /// in memory, and what is taken makes room for loads. So while memory is full, the owner refuses a
    /// take of such a session that [`Engine::takes_beside_cold`]. Other sessions can always take jobs: so
    /// a full server can be emptied.
    pub fn holds_many(&self, session: SessionId) -> bool {
        !self.jobs.blocks().is_empty()
            && self.sessions[session].leases().len() >= FULL_MEMORY_LEASES
    }

    /// Whether this session would hold a job of a queue with cold jobs after this take.
    pub fn takes_beside_cold(&self, session: SessionId, choice: Choice<'_>) -> bool {
        let may_load = |queue: &Queue| queue.cold().is_some_and(Cold::has_waiting);
        match choice {
            Choice::Watched => {
                let watched = self.sessions[session].watched();
                self.stocked(watched).any(|queue| may_load(&self.queues[queue]))
            }
            // A worker can be registered for thousands of queues. So only the one that its next job comes
            // from counts.
            Choice::Registered(_) => {
                let next = self.next_supplier_if_loaded(session);
                next.is_some_and(|(_, found)| may_load(&self.queues[found.queue]))
            }
            Choice::Queue(name, ReadMode::Open { .. }) => {
                self.queue_to_read(name).is_some_and(|queue| may_load(&self.queues[queue]))
            }
            // The session does not hold the item.
            Choice::Queue(_, ReadMode::Finish | ReadMode::Peek) => false,
            // No session gets a job that does not exist, or that is leased.
            Choice::Job(id) => self.slot(id).is_ok_and(|slot| {
                let job = &self.jobs[slot];
                job.state() != State::Leased && self.queues[job.queue()].cold().is_some()
            }),
        }
    }

    /// The list whose next job is cold, if a request of this session needs that job. Then the
    /// request must wait until the owner has loaded the next block of that list.
    pub fn missing(&self, session: SessionId, need: Need<'_>) -> Option<JobList> {
        if self.jobs.blocks().is_empty() {
            return None;
        }
        let queue = match need {
            Need::Watched => self.watched_obstacles(session).1,
            Need::Registered | Need::Sleep => {
                let (_, found) = self.next_supplier_if_loaded(session)?;
                Some(found.queue).filter(|queue| self.queues[*queue].head_is_cold())
            }
            Need::Queue(name) => {
                self.queue_to_read(name).filter(|queue| self.may_serve_loaded(&self.queues[*queue]))
            }
            Need::Used(state) => {
                let id = self.used(session);
                let queue = &self.queues[id];
                if state != State::Ready || !queue.head_is_cold() {
                    return queue.is_first_cold(state).then_some(JobList { queue: id, state });
                }
                Some(id)
            }
        }?;
        Some(self.list_of_cold_head(queue))
    }

    /// Of the queues that this session watches: the first one whose head has expired, and the one
    /// that has the next job, if this job is cold.
    fn watched_obstacles(&self, session: SessionId) -> (Option<QueueId>, Option<QueueId>) {
        let mut expired = None;
        let mut cold: Option<(ReadyKey, QueueId)> = None;
        let mut loaded: Option<ReadyKey> = None;
        for id in self.stocked(self.sessions[session].watched()) {
            let queue = &self.queues[id];
            if let Some(next) = self.head(queue) {
                loaded = Some(loaded.map_or(next.key, |best| best.min(next.key)));
            } else if self.may_serve_loaded(queue) {
                let found = (queue.cold_head().0, id);
                cold = Some(cold.map_or(found, |first| first.min(found)));
            } else if expired.is_none() && self.head_is_expired(queue) {
                expired = Some(id);
            }
        }
        let cold = cold.filter(|(key, _)| loaded.is_none_or(|best| *key < best));
        (expired, cold.map(|(_, queue)| queue))
    }
}
