//! What sessions do now, for operators: their queues, their waits and the jobs that they hold.

use engine::{Body, HeldCursor, JobFacts, JobId, QueueId, SessionId, SessionWait, State};

use crate::Turn;

/// What a session does now.
#[derive(Clone, Debug, Default)]
pub struct SessionInfo {
    /// The queue of the session's puts.
    pub used: Vec<u8>,
    /// The first queues that the session watches or has registered for.
    pub queues: Vec<Vec<u8>>,
    /// The number of queues that the session watches.
    pub watched: usize,
    /// The number of queues that the worker has registered for.
    pub registrations: usize,
    /// The number of jobs that the session holds.
    pub held: usize,
    /// What the session waits for.
    pub wait: Option<SessionWait>,
}

/// A job that a session holds.
#[derive(Clone, Debug)]
pub struct HeldRow {
    /// The facts of the job.
    pub facts: JobFacts,
    /// The queue of the job.
    pub queue: QueueId,
    /// The time since the hand-out, in milliseconds.
    pub held_ms: u64,
    /// The time until the deadline, in milliseconds. `None`: there is none.
    pub time_left_ms: Option<u64>,
    /// The key of a submitted job, or empty.
    pub unique: Vec<u8>,
    /// The bytes of the body.
    pub body_len: usize,
    /// The body, if it is in memory.
    pub body: Option<Body>,
    /// Whether the log has the job.
    pub is_durable: bool,
}

/// # Sessions, for operators
impl Turn<'_> {
    /// All places of sessions are below this number.
    pub fn session_places(&self) -> u32 {
        self.core.engine.session_places()
    }

    /// The session at a place of the table, if there is one. A session keeps its place, so a walk
    /// over the places finds each session that exists meanwhile.
    pub fn session_at(&mut self, place: u32) -> Option<SessionId> {
        self.core.engine.session_at(place)
    }

    /// The mailbox of an open session.
    pub fn mailbox_of(&self, session: SessionId) -> Option<usize> {
        self.core.engine.mailbox(session).map(|mailbox| mailbox as usize)
    }

    /// What a session does now, with the names of at most `names_max` of its queues. `None`: the
    /// session is closed.
    pub fn session_info(&mut self, session: SessionId, names_max: usize) -> Option<SessionInfo> {
        let engine = &mut self.core.engine;
        let view = engine.session_view(session)?;
        let watched = engine.watched_by(session).iter().take(names_max);
        let mut queues: Vec<Vec<u8>> =
            watched.map(|queue| engine.queue_name(*queue).to_vec()).collect();
        let registered = engine.registrations(session).take(names_max - queues.len());
        queues.extend(registered.map(|queue| engine.queue_name(queue).to_vec()));
        engine.count_work(queues.len() + 1);
        Some(SessionInfo {
            used: engine.queue_name(view.used).to_vec(),
            queues,
            watched: view.watched,
            registrations: view.registrations,
            held: view.held,
            wait: view.wait,
        })
    }

    /// Whether a session watches this queue, and whether it has registered for it.
    pub fn serves(&mut self, session: SessionId, queue: QueueId) -> (bool, bool) {
        self.core.engine.serves(session, queue)
    }

    /// Returns the queue of the next job that a session holds, by deadline, and the facts of the
    /// job if `wants` accepts the queue. Moves the cursor behind the job.
    pub fn next_held(
        &mut self,
        session: SessionId,
        cursor: &mut HeldCursor,
        wants: impl FnOnce(QueueId) -> bool,
    ) -> Option<Option<HeldRow>> {
        let core = &mut *self.core;
        let held = core.engine.next_held(session, cursor)?;
        if !wants(held.queue) {
            return Some(None);
        }
        let (engine, slot) = (&core.engine, held.slot);
        let body = engine.body(slot);
        Some(Some(HeldRow {
            facts: JobFacts { state: State::Leased, ..engine.facts(slot) },
            queue: held.queue,
            held_ms: held.held_ms,
            time_left_ms: held.time_left_ms,
            unique: engine.tags(slot).map_or_else(Vec::new, |tags| tags.unique.to_vec()),
            body_len: body.len(),
            body: body.resident().cloned(),
            is_durable: engine.is_durable(slot) && core.ledger.log().is_some(),
        }))
    }

    /// The session that holds this job, and the time since the hand-out in milliseconds.
    pub fn holder(&self, id: JobId) -> Option<(SessionId, u64)> {
        self.core.engine.holder(id)
    }
}
