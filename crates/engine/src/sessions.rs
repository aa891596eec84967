//! Sessions: the table of all sessions, and the numbers of leases and tickets. A ticket is a place
//! in a line of waiting sessions.
//!
//! [`Sessions`] owns every session. The count of waiting sessions and the memory account depend on
//! some fields of a session. Only `Sessions` changes these fields.

mod other_names;
mod session;
mod worker;

use std::mem::size_of;
use std::ops::{Index, IndexMut};

use crate::bytes::allocated_bytes;
use crate::collections::Slab;
use crate::ids::{JobId, LeaseId, QueueId, SessionId};

pub(crate) use other_names::RemovedName;
use other_names::{NameList, OtherNames};
pub(crate) use session::{ClosedSession, NEVER, Session, Waiting};
pub use session::{ReadMode, ReturnOrder};
pub(crate) use worker::{Registration, RemovedRegistration, Worker};

/// The bytes of a session without its lists.
const SESSION_BYTES: u64 = size_of::<Session>() as u64;
/// The bytes of a watched queue. They are for an entry in the session's list, and for an entry in
/// the queue's line while the session waits. Both lists double their size when they grow. Their
/// unused room can make the estimate wrong by up to a fifth.
const WATCH_BYTES: u64 = 26;
/// The bytes of an attachment. They are for an entry in the job's list of watchers, and for an
/// entry in the session's list of jobs.
const JOIN_BYTES: u64 = 48;
/// The bytes of a registration of a worker. They are for two entries in the session's tables, and
/// for one entry in the queue's list of sleepers.
const REGISTRATION_BYTES: u64 = 112;

/// The table of all sessions: see the module.
#[derive(Debug)]
pub(crate) struct Sessions {
    slab: Slab<Session>,
    next_generation: u32,
    next_ticket: u64,
    next_lease: u64,
    /// The number of sessions that wait for a job.
    waiting: u64,
    bytes: u64,
}

/// Splits the number of a session into its place and its generation.
fn split(session: SessionId) -> (u32, u32) {
    (session.0 as u32, (session.0 >> 32) as u32)
}

fn number(place: u32, session: &Session) -> SessionId {
    SessionId(u64::from(session.generation()) << 32 | u64::from(place))
}

/// The bytes of a session in the memory account.
fn bytes_of(session: &Session) -> u64 {
    let registrations = session.worker().map_or(0, Worker::len);
    SESSION_BYTES
        + allocated_bytes(session.peer().len())
        + session.other_names().map_or(0, OtherNames::bytes)
        + session.watched().len() as u64 * WATCH_BYTES
        + session.joins() * JOIN_BYTES
        + registrations as u64 * REGISTRATION_BYTES
}

impl Index<SessionId> for Sessions {
    type Output = Session;

    #[inline]
    fn index(&self, session: SessionId) -> &Session {
        self.find(session).expect("requests come from open sessions")
    }
}

impl IndexMut<SessionId> for Sessions {
    #[inline]
    fn index_mut(&mut self, session: SessionId) -> &mut Session {
        self.find_mut(session).expect("requests come from open sessions")
    }
}

impl Sessions {
    /// Makes an empty table. The first lease gets this number.
    pub(crate) fn new(first_lease: u64) -> Self {
        Self {
            slab: Slab::default(),
            next_generation: 1,
            next_ticket: 1,
            next_lease: first_lease,
            waiting: 0,
            bytes: 0,
        }
    }

    // --- The table ---

    pub(crate) fn len(&self) -> usize {
        self.slab.len()
    }

    /// The memory of all sessions, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Opens a session that uses and watches this queue.
    pub(crate) fn open(
        &mut self,
        mailbox: u32,
        return_order: ReturnOrder,
        queue: QueueId,
    ) -> SessionId {
        let generation = self.next_generation;
        // After 2^32 sessions, the generations start again. Two sessions of the same generation are
        // nearly always at different places, so their numbers differ.
        self.next_generation = self.next_generation.checked_add(1).unwrap_or(1);
        let session = Session::new(generation, mailbox, return_order, queue);
        self.bytes += bytes_of(&session);
        let place = self.slab.insert(session);
        SessionId(u64::from(generation) << 32 | u64::from(place))
    }

    /// Removes a session. The session must not wait, and the caller disarms its timer.
    pub(crate) fn remove(&mut self, session: SessionId) -> Option<Session> {
        self.find(session)?;
        let closed = self.slab.remove(Self::place_of(session))?;
        self.bytes -= bytes_of(&closed);
        Some(closed)
    }

    /// Sets the address of the session's client.
    pub(crate) fn set_peer(&mut self, session: SessionId, peer: &[u8]) {
        let of = &mut self[session];
        let before = bytes_of(of);
        of.set_peer(peer.into());
        let after = bytes_of(of);
        self.bytes = self.bytes - before + after;
    }

    pub(crate) fn find(&self, session: SessionId) -> Option<&Session> {
        let (place, generation) = split(session);
        self.slab.get(place).filter(|session| session.generation() == generation)
    }

    pub(crate) fn find_mut(&mut self, session: SessionId) -> Option<&mut Session> {
        let (place, generation) = split(session);
        self.slab.get_mut(place).filter(|session| session.generation() == generation)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (SessionId, &Session)> {
        self.slab.iter().map(|(place, session)| (number(place, session), session))
    }

    /// The number of the session at this place.
    pub(crate) fn at(&self, place: u32) -> SessionId {
        number(place, self.slab.get(place).expect("lines and timers name open sessions"))
    }

    /// All places are below this number.
    pub(crate) fn places(&self) -> u32 {
        self.slab.end()
    }

    /// The number of the session at this place, if there is one.
    pub(crate) fn id_at(&self, place: u32) -> Option<SessionId> {
        self.slab.get(place).map(|session| number(place, session))
    }

    /// The place of a session. Lines and timers store this place instead of the number.
    pub(crate) fn place_of(session: SessionId) -> u32 {
        split(session).0
    }

    // --- Numbers ---

    /// Returns a new ticket: a place in a line, behind all earlier tickets.
    pub(crate) fn deal_ticket(&mut self) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        ticket
    }

    /// The number of the next ticket.
    pub(crate) fn next_ticket(&self) -> u64 {
        self.next_ticket
    }

    pub(crate) fn deal_lease(&mut self) -> LeaseId {
        let lease = self.next_lease;
        self.next_lease += 1;
        LeaseId(lease)
    }

    /// The number of the next lease.
    pub(crate) fn next_lease(&self) -> LeaseId {
        LeaseId(self.next_lease)
    }

    /// Makes sure that the number of every new lease is at least `next`. An earlier process may
    /// have used the lower numbers.
    pub(crate) fn raise_lease(&mut self, next: u64) {
        self.next_lease = self.next_lease.max(next);
    }

    // --- Waiting ---

    /// The number of sessions that wait for a job.
    pub(crate) fn waiting(&self) -> u64 {
        self.waiting
    }

    /// Begins the wait of a session that does not wait. The caller updates the lines.
    pub(crate) fn begin_wait(&mut self, session: SessionId, waiting: Waiting) {
        self.waiting += u64::from(waiting.is_for_job());
        let before = self[session].set_waiting(Some(waiting));
        debug_assert!(before.is_none(), "a session waits for one thing at a time");
    }

    /// Ends the wait of a session, and returns the wait. `None`: the session did not wait. The
    /// caller updates the lines.
    pub(crate) fn end_wait(&mut self, session: SessionId) -> Option<Waiting> {
        let waiting = self[session].set_waiting(None)?;
        self.waiting -= u64::from(waiting.is_for_job());
        Some(waiting)
    }

    // --- Changes that the memory account depends on ---

    /// Adds a queue to the watched queues of a session. Returns false if the session watches it
    /// already.
    pub(crate) fn watch(&mut self, session: SessionId, queue: QueueId) -> bool {
        let is_new = self[session].watch(queue);
        self.bytes += if is_new { WATCH_BYTES } else { 0 };
        is_new
    }

    /// Removes a queue from the watched queues of a session. Returns whether the session watched
    /// it.
    pub(crate) fn ignore(&mut self, session: SessionId, queue: QueueId) -> bool {
        self.forget_names(session, |names| &mut names.watched, queue);
        let was_watched = self[session].ignore(queue);
        self.bytes -= if was_watched { WATCH_BYTES } else { 0 };
        was_watched
    }

    /// Notes the name by which a session uses its queue, whose own name is `own`.
    pub(crate) fn name_used(&mut self, session: SessionId, own: &[u8], name: &[u8]) {
        if own != name || self[session].other_names().is_some() {
            let used = (own != name).then(|| name.into());
            self.change_names(session, |names| names.used = used);
        }
    }

    /// Notes a name by which a session watches a queue. `is_new`: it did not watch the queue.
    pub(crate) fn name_watched(
        &mut self,
        session: SessionId,
        queue: QueueId,
        own: &[u8],
        name: &[u8],
        is_new: bool,
    ) {
        if own != name || self[session].other_names().is_some() {
            self.change_names(session, |names| names.watched.add(queue, own, name, is_new));
        }
    }

    /// Notes a name under which a session registers for a queue. `is_new`: it had not registered.
    pub(crate) fn name_registered(
        &mut self,
        session: SessionId,
        queue: QueueId,
        own: &[u8],
        name: &[u8],
        is_new: bool,
    ) {
        if own != name || self[session].other_names().is_some() {
            self.change_names(session, |names| {
                // The newest name is the last one.
                names.registered.remove(queue, own, name);
                names.registered.add(queue, own, name, is_new);
            });
        }
    }

    /// Forgets a name of a queue in one of the session's lists, if the queue has another one there.
    pub(crate) fn unname(
        &mut self,
        session: SessionId,
        list: impl FnOnce(&mut OtherNames) -> &mut NameList,
        queue: (QueueId, &[u8]),
        name: &[u8],
    ) -> RemovedName {
        let (queue, own) = queue;
        if self[session].other_names().is_none() {
            return if own == name { RemovedName::Only } else { RemovedName::Unknown };
        }
        self.change_names(session, |names| list(names).remove(queue, own, name))
    }

    /// Forgets the names of a queue that leaves one of the session's lists.
    fn forget_names(
        &mut self,
        session: SessionId,
        list: impl FnOnce(&mut OtherNames) -> &mut NameList,
        queue: QueueId,
    ) {
        if self[session].other_names().is_some() {
            self.change_names(session, |names| list(names).forget(queue));
        }
    }

    fn change_names<T>(
        &mut self,
        session: SessionId,
        change: impl FnOnce(&mut OtherNames) -> T,
    ) -> T {
        let of = &mut self[session];
        let before = of.other_names().map_or(0, OtherNames::bytes);
        let names = of.ensure_other_names();
        let changed = change(names);
        let after = if names.is_empty() { 0 } else { names.bytes() };
        if after == 0 {
            of.forget_other_names();
        }
        self.bytes = self.bytes - before + after;
        changed
    }

    /// Adds an attachment of a session to a job: the session waits for the job's outcome.
    pub(crate) fn join(&mut self, session: SessionId, job: JobId) {
        self[session].join(job);
        self.bytes += JOIN_BYTES;
    }

    /// Removes all attachments of a session to a job, because the session got the outcome.
    pub(crate) fn part(&mut self, session: SessionId, job: JobId) {
        let joins = self.find_mut(session).map_or(0, |session| session.part(job));
        self.bytes -= u64::from(joins) * JOIN_BYTES;
    }

    /// Registers a session as a worker for a queue. Returns whether the registration is new.
    pub(crate) fn register(&mut self, session: SessionId, registration: Registration) -> bool {
        let is_new = self[session].ensure_worker().register(registration);
        self.bytes += if is_new { REGISTRATION_BYTES } else { 0 };
        is_new
    }

    /// Removes the registration of a session for this queue. `None`: the session has none.
    pub(crate) fn unregister(
        &mut self,
        session: SessionId,
        queue: QueueId,
    ) -> Option<RemovedRegistration> {
        let forgotten = self[session].worker_mut()?.forget(queue)?;
        self.forget_names(session, |names| &mut names.registered, queue);
        self.bytes -= REGISTRATION_BYTES;
        Some(forgotten)
    }

    // --- Checks ---

    /// Walks all sessions. Panics if a count or the memory account disagrees with the sessions.
    pub(crate) fn check_invariants(&self) {
        let (mut waiting, mut bytes) = (0, 0);
        for (_, session) in self.iter() {
            session.check_invariants();
            waiting += u64::from(session.waiting().is_some_and(Waiting::is_for_job));
            bytes += bytes_of(session);
        }
        assert_eq!(waiting, self.waiting, "sessions that wait");
        assert_eq!(bytes, self.bytes, "the memory account of sessions");
    }
}

#[cfg(test)]
mod tests;
