//! Sessions whose puts wait for room in a full queue: see [`crate::policy::WhenFull::Block`].
//!
//! The engine does not keep the puts. The owner of a session keeps its put, and tries again when the
//! session gets [`crate::Event::Room`]. In each queue, one session tries at a time: the one that has
//! waited longest. It stays the first of its line until it has tried. So no put passes an earlier one.
//! A put that does not wait, for example by an operator, is refused while there is a line.

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::{Millis, QueueId, SessionId};
use crate::timers::{TimerKey, Timers};

/// The bytes of a wait: entries of three trees whose nodes are half full.
const WAIT_BYTES: u64 = 216;

/// The wait of one session.
#[derive(Copy, Clone, Debug)]
pub(crate) struct RoomWait {
    pub(crate) queue: QueueId,
    pub(crate) ticket: u64,
    /// When the put began to wait, in this queue or in another one.
    pub(crate) since: Millis,
    /// When the wait is over.
    pub(crate) until: Millis,
    /// The session has got the event, and has not tried again yet.
    pub(crate) tries: bool,
}

/// The lines of all queues: see the module.
#[derive(Debug, Default)]
pub(crate) struct RoomLines {
    lines: BTreeMap<QueueId, BTreeMap<u64, SessionId>>,
    /// All waits, and those that are over but whose sessions have not tried again yet.
    waits: BTreeMap<SessionId, RoomWait>,
    by_end: BTreeSet<(Millis, SessionId)>,
    /// Queues with a line that may have room now, or another first session.
    changed: BTreeSet<QueueId>,
    next_ticket: u64,
    timer: Option<Millis>,
    /// The session whose put follows after its wait. The sessions behind it do not keep it out.
    passing: Option<SessionId>,
}

impl RoomLines {
    pub(crate) fn is_empty(&self) -> bool {
        self.waits.is_empty()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.waits.len() as u64 * WAIT_BYTES
    }

    /// Returns a ticket behind all others.
    pub(crate) fn deal_ticket(&mut self) -> u64 {
        self.next_ticket += 1;
        self.next_ticket
    }

    /// Adds a session to the line of a queue. The caller holds the queue while the session is in the
    /// line.
    pub(crate) fn line_up(&mut self, session: SessionId, wait: RoomWait, timers: &mut Timers) {
        self.lines.entry(wait.queue).or_default().insert(wait.ticket, session);
        self.waits.insert(session, wait);
        self.by_end.insert((wait.until, session));
        self.changed.insert(wait.queue);
        self.arm(timers);
    }

    /// The number of sessions in the line of a queue. Each of them holds the queue.
    pub(crate) fn waiting(&self, queue: QueueId) -> u64 {
        self.lines.get(&queue).map_or(0, |line| line.len() as u64)
    }

    /// Whether sessions with earlier tickets are in the line of a queue.
    pub(crate) fn has_earlier(&self, queue: QueueId, ticket: u64) -> bool {
        let first = self.lines.get(&queue).and_then(BTreeMap::first_key_value);
        first.is_some_and(|(first, _)| *first < ticket)
    }

    /// Notes whose put follows after its wait. `None`: the put that follows has not waited.
    pub(crate) fn let_pass(&mut self, session: Option<SessionId>) {
        self.passing = session;
    }

    /// Whether the room of a queue is for the sessions in its line, and not for a put of this client.
    pub(crate) fn keeps_out(&self, queue: QueueId, client: Option<SessionId>) -> bool {
        self.lines.contains_key(&queue) && (client.is_none() || client != self.passing)
    }

    /// Whether a session waits, and has not got the event yet.
    pub(crate) fn awaits_event(&self, session: SessionId) -> bool {
        self.waits.get(&session).is_some_and(|wait| !wait.tries)
    }

    /// Forgets the wait of a session, because it tries again, or closes. Returns the wait, and whether
    /// the session was still in the line.
    pub(crate) fn take(&mut self, session: SessionId) -> Option<(RoomWait, bool)> {
        let wait = self.waits.remove(&session)?;
        self.by_end.remove(&(wait.until, session));
        Some((wait, self.leave(&wait)))
    }

    fn leave(&mut self, wait: &RoomWait) -> bool {
        let Some(line) = self.lines.get_mut(&wait.queue) else { return false };
        let was_there = line.remove(&wait.ticket).is_some();
        if line.is_empty() {
            self.lines.remove(&wait.queue);
            self.changed.remove(&wait.queue);
        } else if was_there {
            self.changed.insert(wait.queue);
        }
        was_there
    }

    /// Notes that a queue may have room now.
    pub(crate) fn note(&mut self, queue: QueueId) {
        if self.lines.contains_key(&queue) {
            self.changed.insert(queue);
        }
    }

    /// The next queue that may have room now, or another first session.
    pub(crate) fn pop_changed(&mut self) -> Option<QueueId> {
        self.changed.pop_first()
    }

    /// The first session of a queue that has room, if it does not try yet. It tries from now on.
    pub(crate) fn let_first_try(&mut self, queue: QueueId) -> Option<SessionId> {
        let (_, session) = self.lines.get(&queue)?.first_key_value()?;
        let wait = self.waits.get_mut(session)?;
        (!std::mem::replace(&mut wait.tries, true)).then_some(*session)
    }

    /// Ends the first wait that is over by now: the session leaves its line. Returns its queue, and
    /// the session if it does not try yet.
    pub(crate) fn end_one(&mut self, now: Millis) -> Option<(QueueId, Option<SessionId>)> {
        let (_, session) = *self.by_end.first().filter(|(until, _)| *until <= now)?;
        self.by_end.pop_first();
        let wait = self.waits.get_mut(&session)?;
        let tried = std::mem::replace(&mut wait.tries, true);
        let wait = *wait;
        self.leave(&wait);
        Some((wait.queue, (!tried).then_some(session)))
    }

    /// The timer is due. The caller ends waits next, and then calls [`RoomLines::arm`].
    pub(crate) fn take_timer(&mut self) {
        self.timer = None;
    }

    /// Sets the timer to the end of the first wait.
    pub(crate) fn arm(&mut self, timers: &mut Timers) {
        if let Some((until, _)) = self.by_end.first() {
            timers.arm(&mut self.timer, *until, TimerKey::Room);
        }
    }

    pub(crate) fn timer(&self) -> Option<Millis> {
        self.timer
    }

    /// The queues of all sessions in lines, for a check.
    pub(crate) fn queues(&self) -> impl Iterator<Item = QueueId> {
        self.lines.iter().flat_map(|(queue, line)| line.values().map(|_| *queue))
    }

    pub(crate) fn check_invariants(&self) {
        let mut waiting = 0;
        for (queue, line) in &self.lines {
            for (ticket, session) in line {
                let wait = self.waits[session];
                assert_eq!(
                    (wait.queue, wait.ticket),
                    (*queue, *ticket),
                    "a session is in its line"
                );
                assert!(self.by_end.contains(&(wait.until, *session)), "a wait ends");
                assert!(!wait.tries || *ticket == *line.keys().next().unwrap_or(ticket));
                waiting += 1;
            }
        }
        assert_eq!(waiting, self.by_end.len(), "a wait that is over has left its line");
        assert!(self.changed.iter().all(|queue| self.lines.contains_key(queue)));
        let first = self.by_end.first().map(|(until, _)| *until);
        let is_armed = first.is_none_or(|first| self.timer.is_some_and(|timer| timer <= first));
        assert!(is_armed, "the timer is not later than the first end");
    }
}
