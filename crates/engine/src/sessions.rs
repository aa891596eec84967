//! Sessions: opening, closing, and the queues they use and watch.

use std::collections::BTreeMap;

use crate::bytes::{JOIN_BYTES, SESSION_BYTES, WATCH_BYTES};
use crate::chores::Chore;
use crate::collections::Ordered;
use crate::effects::Effects;
use crate::engine::{DEFAULT_QUEUE, Engine};
use crate::ids::{QueueId, SessionId};
use crate::limits::UNIT_COMPARISONS;
use crate::session::{Manner, Session, Waiting};
use crate::timers::TimerKey;

/// The place and the generation that a session number is made of.
fn split(session: SessionId) -> (u32, u32) {
    (session.0 as u32, (session.0 >> 32) as u32)
}

impl Engine {
    /// Opens a session that uses and watches the queue `default`. `mailbox` is the caller's own
    /// mark; see [`Engine::mailbox`].
    pub fn open_session(&mut self, mailbox: u32, manner: Manner) -> SessionId {
        self.meter.count(1);
        let generation = self.next_generation;
        // After 2^32 sessions the numbers of the first ones come again, in other places mostly.
        self.next_generation = self.next_generation.checked_add(1).unwrap_or(1);
        let default = self.queue_or_create(DEFAULT_QUEUE);
        let queue = self.queue_mut(default);
        queue.users += 1;
        queue.watchers += 1;
        self.memory_bytes += SESSION_BYTES + WATCH_BYTES;
        let place = self.sessions.insert(Session {
            generation,
            mailbox,
            used: default,
            watched: vec![default],
            leases: Ordered::default(),
            waiting: None,
            manner,
            watching: BTreeMap::new(),
            worker: None,
            reader: None,
            timer: None,
        });
        SessionId(u64::from(generation) << 32 | u64::from(place))
    }

    /// Opens a session that reads jobs of queues by name and holds them by lease. It watches no
    /// queue.
    pub fn open_reader(&mut self, mailbox: u32) -> SessionId {
        let session = self.open_session(mailbox, Manner::KeepsPlace);
        let reader = self.open_mut(session);
        reader.reader = Some(Box::default());
        let watched = std::mem::take(&mut reader.watched);
        self.memory_bytes -= watched.len() as u64 * WATCH_BYTES;
        for queue in watched {
            self.queue_mut(queue).watchers -= 1;
        }
        session
    }

    /// Ends a session: it waits no more, what it holds is given back, and its queues go if nothing
    /// else keeps them. Counted as nothing in the jobs (spec beanstalkd 4).
    pub fn close_session(&mut self, session: SessionId, effects: &mut Effects) {
        self.meter.begin_request();
        self.meter.count(1);
        self.stop_waiting(session);
        self.session(session);
        self.begin(Chore::Close { session }, effects);
    }

    /// A slice of the end of a session; true if something is left. It is found by its number until its
    /// registrations are gone.
    pub(crate) fn close_slice(&mut self, session: SessionId, effects: &mut Effects) -> bool {
        if self.retire_worker(session, effects) {
            return true;
        }
        let (place, _) = split(session);
        let Some(mut closed) = self.sessions.remove(place) else { return false };
        let joins: u64 = closed.watching.values().map(|count| u64::from(*count)).sum();
        self.memory_bytes -=
            SESSION_BYTES + closed.watched.len() as u64 * WATCH_BYTES + joins * JOIN_BYTES;
        self.timers.disarm(&mut closed.timer, TimerKey::Session(place));
        // Its queues are held until its jobs are back: these may end, and nothing else may keep the
        // queues.
        self.begin(Chore::Detach { watcher: session, watching: closed.watching }, effects);
        self.begin(Chore::return_of(closed.leases, closed.manner), effects);
        self.queue_mut(closed.used).users -= 1;
        self.drop_if_unwanted(closed.used, effects);
        let mut watched = closed.watched;
        watched.reverse();
        self.begin(Chore::Leave { watched }, effects);
        false
    }

    /// A session that is gone leaves queues that it watched, the last one first; true if some are left.
    pub(crate) fn leave_slice(
        &mut self,
        watched: &mut Vec<QueueId>,
        effects: &mut Effects,
    ) -> bool {
        while !watched.is_empty() {
            if self.meter.request_is_spent() {
                return true;
            }
            let Some(queue) = watched.pop() else { break };
            self.meter.count(1);
            self.queue_mut(queue).watchers -= 1;
            self.drop_if_unwanted(queue, effects);
        }
        false
    }

    /// What the session was opened with, while it is open.
    pub fn mailbox(&self, session: SessionId) -> Option<u32> {
        self.find_session(session).map(|session| session.mailbox)
    }

    /// From now on this session puts into, kicks in and peeks at this queue.
    pub fn use_queue(&mut self, session: SessionId, name: &[u8], effects: &mut Effects) {
        self.meter.count(1);
        let next = self.queue_or_create(name);
        let queue = self.queue_mut(next);
        queue.users += 1;
        queue.ready.prefetch_end();
        let last = std::mem::replace(&mut self.open_mut(session).used, next);
        self.queue_mut(last).users -= 1;
        self.drop_if_unwanted(last, effects);
    }

    /// The queue that this session uses.
    pub fn used(&self, session: SessionId) -> QueueId {
        self.session(session).used
    }

    /// Adds a queue to those that this session takes from; how many there are then.
    pub fn watch(&mut self, session: SessionId, name: &[u8]) -> usize {
        debug_assert!(!self.is_waiting(session));
        let queue = self.queue_or_create(name);
        self.meter.count(1 + self.watched(session).len() / UNIT_COMPARISONS);
        let watched = &mut self.open_mut(session).watched;
        if watched.contains(&queue) {
            return watched.len();
        }
        watched.push(queue);
        let count = watched.len();
        self.memory_bytes += WATCH_BYTES;
        self.queue_mut(queue).watchers += 1;
        count
    }

    /// Removes a queue from those that this session takes from; how many there are then, or
    /// `None` if it is the only one. A queue that is not watched is ignored already.
    pub fn ignore(
        &mut self,
        session: SessionId,
        name: &[u8],
        effects: &mut Effects,
    ) -> Option<usize> {
        debug_assert!(!self.is_waiting(session));
        let queue = self.queue_id(name);
        self.meter.count(1 + self.watched(session).len() / UNIT_COMPARISONS);
        let watched = &mut self.open_mut(session).watched;
        let Some(at) = watched.iter().position(|watched| Some(*watched) == queue) else {
            return Some(watched.len());
        };
        if watched.len() == 1 {
            return None;
        }
        let queue = watched.remove(at);
        let count = watched.len();
        self.memory_bytes -= WATCH_BYTES;
        self.queue_mut(queue).watchers -= 1;
        self.drop_if_unwanted(queue, effects);
        Some(count)
    }

    /// The queues that this session takes from, in the order of watching.
    pub fn watched(&self, session: SessionId) -> &[QueueId] {
        &self.session(session).watched
    }

    /// Whether the queue of this name is among them.
    pub fn watches(&self, session: SessionId, name: &[u8]) -> bool {
        self.queue_id(name).is_some_and(|queue| self.watched(session).contains(&queue))
    }

    /// Whether this session waits for an event.
    pub fn is_waiting(&self, session: SessionId) -> bool {
        self.session(session).waiting.is_some()
    }

    /// Ends the session's wait for a job, if it waits for one: no event will come. Whether it did.
    pub fn stop_waiting(&mut self, session: SessionId) -> bool {
        let waiting = &mut self.open_mut(session).waiting;
        let ticket = match *waiting {
            Some(Waiting::Job { ticket, .. }) => ticket,
            Some(Waiting::Item { ticket, queue, .. }) => {
                *waiting = None;
                self.meter.count(1);
                self.waiting_sessions -= 1;
                self.queue_mut(queue).waiters.remove(ticket);
                self.arm_queue(queue);
                return true;
            }
            Some(Waiting::Kick | Waiting::Clearing) | None => return false,
        };
        *waiting = None;
        self.waiting_sessions -= 1;
        let watched = std::mem::take(&mut self.open_mut(session).watched);
        self.meter.count(watched.len());
        for queue in &watched {
            self.queue_mut(*queue).waiters.remove(ticket);
        }
        self.open_mut(session).watched = watched;
        true
    }

    pub(crate) fn find_session(&self, session: SessionId) -> Option<&Session> {
        let (place, generation) = split(session);
        self.sessions.get(place).filter(|session| session.generation == generation)
    }

    pub(crate) fn session_mut(&mut self, session: SessionId) -> Option<&mut Session> {
        let (place, generation) = split(session);
        self.sessions.get_mut(place).filter(|session| session.generation == generation)
    }

    pub(crate) fn session(&self, session: SessionId) -> &Session {
        self.find_session(session).expect("requests come from open sessions")
    }

    pub(crate) fn open_mut(&mut self, session: SessionId) -> &mut Session {
        self.session_mut(session).expect("requests come from open sessions")
    }

    /// The number of the session at this place.
    pub(crate) fn session_at(&self, place: u32) -> SessionId {
        let session = self.sessions.get(place).expect("lines and timers name open sessions");
        SessionId(u64::from(session.generation) << 32 | u64::from(place))
    }

    pub(crate) fn place_of(session: SessionId) -> u32 {
        split(session).0
    }
}
