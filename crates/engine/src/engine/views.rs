//! Reads sessions for operators: what each one does now, and which jobs it holds.

use super::Engine;
use crate::ids::{JobId, JobSlot, Millis, QueueId, SessionId};
use crate::sessions::{NEVER, Waiting, Worker};

/// What a session does now.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct SessionView {
    /// The queue of the session's puts.
    pub used: QueueId,
    /// The number of queues that the session watches.
    pub watched: usize,
    /// The number of queues that the worker has registered for.
    pub registrations: usize,
    /// The number of jobs that the session holds.
    pub held: usize,
    /// What the session waits for.
    pub wait: Option<SessionWait>,
}

/// What a session waits for.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum SessionWait {
    /// A job. The wait ends after this time, in milliseconds. `None`: it has no limit.
    Job(Option<u64>),
    /// A worker sleeps until a job of its queues is ready.
    Work,
    /// The end of a long request.
    Request,
}

/// A job that a session holds.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct HeldJob {
    /// The place of the job.
    pub slot: JobSlot,
    /// The number of the job.
    pub id: JobId,
    /// The queue of the job.
    pub queue: QueueId,
    /// The time since the hand-out, in milliseconds.
    pub held_ms: u64,
    /// The time until the deadline, in milliseconds. `None`: there is none.
    pub time_left_ms: Option<u64>,
}

/// A place in the jobs that a session holds, by deadline. The default is before the first job.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub struct HeldCursor {
    /// The first deadline and lease that were not read yet.
    pub next: (u64, u64),
}

impl Engine {
    /// All places of sessions are below this number.
    pub fn session_places(&self) -> u32 {
        self.sessions.places()
    }

    /// The session at a place of the table, if there is one. A session keeps its place.
    pub fn session_at(&mut self, place: u32) -> Option<SessionId> {
        self.meter.count(1);
        self.sessions.id_at(place)
    }

    /// What a session does now.
    pub fn session_view(&self, session: SessionId) -> Option<SessionView> {
        let found = self.sessions.find(session)?;
        let left = |until: Millis| (until != NEVER).then(|| until.since(self.now));
        let is_asleep = found.worker().is_some_and(Worker::is_asleep);
        let wait = match found.waiting() {
            Some(Waiting::Job { until, .. } | Waiting::Item { until, .. }) => {
                Some(SessionWait::Job(left(until)))
            }
            Some(Waiting::Kick | Waiting::Clearing) => Some(SessionWait::Request),
            None if is_asleep => Some(SessionWait::Work),
            None => None,
        };
        Some(SessionView {
            used: found.used(),
            watched: found.watched().len(),
            registrations: found.worker().map_or(0, Worker::len),
            held: found.leases().len(),
            wait,
        })
    }

    /// The queues that an open session watches, in the order of watching. Empty for a closed
    /// session.
    pub fn watched_by(&self, session: SessionId) -> &[QueueId] {
        self.sessions.find(session).map_or(&[], |session| session.watched())
    }

    /// Whether a session watches this queue, and whether it has registered for it.
    pub fn serves(&mut self, session: SessionId, queue: QueueId) -> (bool, bool) {
        let Some(session) = self.sessions.find(session) else { return (false, false) };
        let watched = session.watched();
        self.meter.count(watched.len() / crate::limits::UNIT_COMPARISONS + 1);
        let is_worker = session.worker().is_some_and(|worker| worker.is_registered(queue));
        (watched.contains(&queue), is_worker)
    }

    /// Returns the next job that a session holds, and moves the cursor behind it.
    pub fn next_held(&mut self, session: SessionId, cursor: &mut HeldCursor) -> Option<HeldJob> {
        self.meter.count(1);
        let (deadline, lease) = cursor.next;
        let found = self.sessions.find(session)?;
        let (key, slot) = found.leases().first_from((Millis(deadline), lease))?;
        cursor.next = (key.0.0, key.1.saturating_add(1));
        let job = &self.jobs[JobSlot(slot)];
        Some(HeldJob {
            slot: JobSlot(slot),
            id: job.id(),
            queue: job.queue(),
            held_ms: job.leased_for_ms(self.now),
            time_left_ms: (key.0 != NEVER).then(|| key.0.since(self.now)),
        })
    }

    /// The session that holds this job, and the time since the hand-out in milliseconds.
    pub fn holder(&self, id: JobId) -> Option<(SessionId, u64)> {
        let job = &self.jobs[self.slot(id).ok()?];
        job.lease().map(|lease| (lease.holder, job.leased_for_ms(self.now)))
    }
}
