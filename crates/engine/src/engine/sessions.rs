//! Sessions: opening, closing, and the queues that sessions use and watch.

use super::Engine;
use crate::chores::Chore;
use crate::effects::Effects;
use crate::ids::{QueueId, SessionId};
use crate::limits::{DEAD_WORKER_BYTES_MAX, UNIT_COMPARISONS};
use crate::queues::DEFAULT_QUEUE;
use crate::sessions::{ClosedSession, RemovedName, ReturnOrder, Session, Sessions, Waiting};
use crate::timers::TimerKey;

impl Engine {
    /// Opens a session that uses and watches the queue `default`. `mailbox` is a number of the
    /// caller. The engine only stores it, and [`Engine::mailbox`] returns it.
    pub fn open_session(&mut self, mailbox: u32, return_order: ReturnOrder) -> SessionId {
        self.meter.count(1);
        let default = self.own_queue_or_create(DEFAULT_QUEUE);
        let queue = &mut self.queues[default];
        queue.hold();
        queue.add_watcher();
        self.sessions.open(mailbox, return_order, default)
    }

    /// Opens a session that takes jobs from queues by name, and names its held jobs by their
    /// leases. The session watches no queue.
    pub fn open_reader(&mut self, mailbox: u32) -> SessionId {
        let session = self.open_session(mailbox, ReturnOrder::KeepPlace);
        self.sessions[session].hold_by_lease();
        let default = self.sessions[session].used();
        self.sessions.ignore(session, default);
        self.queues[default].remove_watcher();
        session
    }

    /// Ends a session. The session no longer waits, and no longer uses or watches queues. The
    /// engine gives back the jobs that the session holds. A queue vanishes if nothing else keeps it
    /// in existence. The end of a session does not count as a release or a timeout of the jobs
    /// (spec beanstalkd 4).
    pub fn close_session(&mut self, session: SessionId, effects: &mut Effects) {
        self.meter.begin_request();
        self.meter.count(1);
        self.stop_waiting(session);
        self.leave_room_line(session, effects);
        self.begin(Chore::Close { session }, effects);
    }

    /// Does one slice of the end of a session. Returns true if work is left. The session stays in
    /// the table until all its registrations are removed.
    pub(super) fn close_slice(&mut self, session: SessionId, effects: &mut Effects) -> bool {
        if self.retire_worker(session, effects) {
            return true;
        }
        let Some(mut closed) = self.sessions.remove(session) else { return false };
        let place = Sessions::place_of(session);
        self.timers.disarm(closed.timer_mut(), TimerKey::Session(place));
        let (used, return_order) = (closed.used(), closed.return_order());
        let ClosedSession { watching, leases, mut watched, peer } = closed.into_closed();
        // Give back the jobs before the session stops using and watching its queues. A job can end
        // instead of returning to its queue. Then the engine still uses the queue, and perhaps only
        // this session keeps the queue in existence.
        self.begin(Chore::Detach { watcher: session, watching }, effects);
        self.begin(Chore::return_of(leases, return_order, peer), effects);
        self.queues[used].release();
        self.drop_if_unwanted(used, effects);
        watched.reverse();
        self.begin(Chore::Leave { watched }, effects);
        false
    }

    /// Removes a closed session from the watchers of as many of its queues as one slice of work
    /// allows. Begins with the last queue of the list. Returns true if queues are left.
    pub(super) fn leave_slice(
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
            self.queues[queue].remove_watcher();
            self.drop_if_unwanted(queue, effects);
        }
        false
    }

    /// Tells the address of a session's client. A dead letter keeps the address of its last worker, up
    /// to [`DEAD_WORKER_BYTES_MAX`] bytes.
    pub fn set_peer(&mut self, session: SessionId, peer: &[u8]) {
        let peer = &peer[..peer.len().min(DEAD_WORKER_BYTES_MAX)];
        self.sessions.set_peer(session, peer);
    }

    /// The mailbox number that the caller gave for this session. `None`: the session is closed.
    pub fn mailbox(&self, session: SessionId) -> Option<u32> {
        self.sessions.find(session).map(Session::mailbox)
    }

    /// Makes this session use this queue. Later puts, kicks and peeks of the session are about this
    /// queue.
    pub fn use_queue(&mut self, session: SessionId, name: &[u8], effects: &mut Effects) {
        let queue = self.queue_or_create(name);
        self.use_as(session, queue, Some(name), effects);
    }

    /// Makes this session use this queue, whatever its name stands for.
    pub fn use_queue_of(&mut self, session: SessionId, queue: QueueId, effects: &mut Effects) {
        self.use_as(session, queue, None, effects);
    }

    /// `name`: the name by which the session uses the queue. `None`: the queue's own one.
    fn use_as(
        &mut self,
        session: SessionId,
        next: QueueId,
        name: Option<&[u8]>,
        effects: &mut Effects,
    ) {
        self.meter.count(1);
        let queue = &mut self.queues[next];
        queue.hold();
        queue.ready().prefetch_end();
        let last = self.sessions[session].set_used(next);
        let own = self.queues[next].name();
        self.sessions.name_used(session, own, name.unwrap_or(own));
        self.queues[last].release();
        self.drop_if_unwanted(last, effects);
    }

    /// The queue that this session uses.
    pub fn used(&self, session: SessionId) -> QueueId {
        self.sessions[session].used()
    }

    /// The name by which this session uses its queue.
    pub fn used_name(&self, session: SessionId) -> &[u8] {
        let of = &self.sessions[session];
        let other = of.other_names().and_then(|names| names.used.as_deref());
        other.unwrap_or_else(|| self.queues[of.used()].name())
    }

    /// Adds a queue to the watched queues of this session. Returns the new number of watched names.
    /// Usually each queue has one: see [`Engine::watched_names`].
    pub fn watch(&mut self, session: SessionId, name: &[u8]) -> usize {
        debug_assert!(!self.is_waiting(session));
        let queue = self.queue_or_create(name);
        self.meter.count(1 + self.watched(session).len() / UNIT_COMPARISONS);
        let is_new = self.sessions.watch(session, queue);
        if is_new {
            self.queues[queue].add_watcher();
        }
        let own = self.queues[queue].name();
        self.sessions.name_watched(session, queue, own, name, is_new);
        self.watched_count(session)
    }

    /// Before a session watches a queue by this name: if the name stood for another queue when the
    /// session used it last, the session no longer watches that queue by this name.
    pub fn forget_watched_name(&mut self, session: SessionId, name: &[u8], effects: &mut Effects) {
        // The name can stand for another queue now, or it did before.
        if !self.rules.have_same_as() && self.sessions[session].other_names().is_none() {
            return;
        }
        self.renew_named(name);
        let before = self.watched_as(session, name);
        if let Some(before) = before.filter(|before| self.queue_id(name) != Some(*before)) {
            self.ignore_name(session, before, name, effects);
        }
    }

    /// The number of names of watched queues.
    fn watched_count(&self, session: SessionId) -> usize {
        let of = &self.sessions[session];
        let surplus = of.other_names().map_or(0, |names| names.watched.surplus());
        of.watched().len() + surplus
    }

    /// Removes a name from the watched queues of this session. Returns the new number of watched
    /// names. If it is the only one, it stays, and the result is `None`. If the session does not watch
    /// a queue by this name, nothing changes.
    pub fn ignore(
        &mut self,
        session: SessionId,
        name: &[u8],
        effects: &mut Effects,
    ) -> Option<usize> {
        debug_assert!(!self.is_waiting(session));
        self.meter.count(1 + self.watched(session).len() / UNIT_COMPARISONS);
        let count = self.watched_count(session);
        let Some(queue) = self.watched_as(session, name) else { return Some(count) };
        if count == 1 {
            return None;
        }
        self.ignore_name(session, queue, name, effects);
        Some(count - 1)
    }

    /// Removes a name of a watched queue, and the queue with its last name.
    fn ignore_name(
        &mut self,
        session: SessionId,
        queue: QueueId,
        name: &[u8],
        effects: &mut Effects,
    ) {
        let own = (queue, self.queues[queue].name());
        let removed = self.sessions.unname(session, |names| &mut names.watched, own, name);
        if removed == RemovedName::Only {
            self.sessions.ignore(session, queue);
            self.queues[queue].remove_watcher();
            self.drop_if_unwanted(queue, effects);
        }
    }

    /// The queue that this session watches by this name.
    fn watched_as(&self, session: SessionId, name: &[u8]) -> Option<QueueId> {
        let of = &self.sessions[session];
        let names = of.other_names().map(|names| &names.watched);
        let own = |queue: &QueueId| {
            of.watched().contains(queue)
                && names.is_none_or(|names| names.of(*queue).next().is_none())
        };
        let other = names.and_then(|names| names.queue(name));
        other.or_else(|| self.own_queue_id(name).filter(own))
    }

    /// The names by which this session watches its queues, in the order of watching. A queue has
    /// several if the session watches it by several names.
    pub fn watched_names(&self, session: SessionId) -> impl Iterator<Item = &[u8]> {
        let of = &self.sessions[session];
        let names = of.other_names().map(|names| &names.watched);
        of.watched().iter().flat_map(move |queue| {
            let mut others = names.into_iter().flat_map(|names| names.of(*queue)).peekable();
            let own = others.peek().is_none().then(|| self.queues[*queue].name());
            own.into_iter().chain(others)
        })
    }

    /// The watched queues of this session, in the order of watching.
    pub fn watched(&self, session: SessionId) -> &[QueueId] {
        self.sessions[session].watched()
    }

    /// Whether this session watches a queue by this name.
    pub fn watches(&self, session: SessionId, name: &[u8]) -> bool {
        // The owner asks this before it refuses a `watch`, which then counts nothing else.
        self.meter.count(1 + self.watched(session).len() / UNIT_COMPARISONS);
        self.watched_as(session, name).is_some()
    }

    /// Whether this session waits for an event.
    pub fn is_waiting(&self, session: SessionId) -> bool {
        self.sessions[session].waiting().is_some()
    }

    /// Whether this session waits for the end of a flush or of the removal of a queue.
    pub fn is_clearing(&self, session: SessionId) -> bool {
        matches!(self.sessions[session].waiting(), Some(Waiting::Clearing))
    }

    /// Ends the session's wait for a job. The session gets no event. Returns false if the session
    /// does not wait for a job.
    pub fn stop_waiting(&mut self, session: SessionId) -> bool {
        match self.sessions[session].waiting() {
            Some(Waiting::Job { .. } | Waiting::Item { .. }) => {}
            Some(Waiting::Kick | Waiting::Clearing) | None => return false,
        }
        match self.sessions.end_wait(session) {
            Some(Waiting::Job { ticket, .. }) => {
                let watched = self.sessions[session].watched();
                self.meter.count(watched.len());
                for queue in watched {
                    self.queues[*queue].leave_line(ticket);
                }
            }
            Some(Waiting::Item { ticket, queue, .. }) => {
                self.meter.count(1);
                self.queues[queue].leave_line(ticket);
                self.arm_queue(queue);
            }
            Some(Waiting::Kick | Waiting::Clearing) | None => {}
        }
        true
    }
}
