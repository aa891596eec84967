//! One turn of the broker: the locked broker, at one moment, for one batch of requests.
//!
//! This file has the functions about sessions and their events. Each file in `turn/` has another
//! group of functions. `caller/` has the requests that one session makes.

mod listings;
mod notes;
mod policies;
mod positions;
mod sessions;
mod statistics;
mod time;

use engine::{ReturnOrder, SessionId};

use crate::broker::Shared;
use crate::guard::CoreGuard;
use crate::{Answer, Caller, Event};

pub use listings::{LeasedJob, SubmittedJob};
pub use notes::NoteRefusal;
pub use sessions::{HeldRow, SessionInfo};
pub use statistics::LogStats;

/// The locked broker. Take one turn per batch of requests, and never hold it across an `await` or a
/// system call. Dropping the turn passes its entries to the committer, and its events to their
/// mailboxes.
///
/// A [`Caller`] has the requests of one session. The turn itself has everything that needs no
/// session:
///
/// - Sessions and their events: `caller`, `open_session`, `open_worker_session`,
///   `open_reader_session`, `close_session`, `take_events`, `tell_reloaded`.
/// - Time and work: `now`, `set_wall`, `advance`, `next_deadline`, `begin_slice`, `slice_is_spent`,
///   `count_work`, `send_more_news`, and so on.
/// - Admission, before a request: `admits_queue`, `admits_child`, `admits_body`, `has_many_loads`,
///   `draining`.
/// - Statistics: `totals`, `log_stats`, `queue_stats`, `item_stats`, `children_of`, `job_status`,
///   `work_progress`, `needs_search`, and so on.
/// - What sessions do: `session_at`, `session_info`, `next_held`, `holder`, and so on.
/// - Listings: `next_queue`, `next_item_queue`, `next_submitted`, `next_registration`, and so on.
/// - Positions of statistics and listings: `after_all`, `after_named`, `after_facts`.
/// - Policies, status and settings: `policy`, `set_policies`, `status`, `set_status`,
///   `set_wake_max`, and so on.
/// - Notes: `notes`, `set_note`.
#[derive(Debug)]
pub struct Turn<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) core: CoreGuard<'a>,
    /// The bytes of the records of jobs when the turn began.
    pub(crate) records_before: u64,
}

/// # Sessions and their events
impl Turn<'_> {
    /// The requests of a session. The session must be open, and must not wait.
    pub fn caller(&mut self, session: SessionId) -> Caller<'_> {
        Caller { shared: self.shared, core: &mut self.core, session }
    }

    /// Opens a session. The broker delivers its events to this mailbox, a number from
    /// [`crate::Broker::add_mailbox`]. The session uses and watches the queue `default`.
    pub fn open_session(&mut self, mailbox: usize) -> SessionId {
        self.core.engine.open_session(mailbox as u32, ReturnOrder::KeepPlace)
    }

    /// Opens a session of a worker. A job that the session loses, for example because its lease
    /// runs out, is queued behind all other jobs of its priority.
    pub fn open_worker_session(&mut self, mailbox: usize) -> SessionId {
        self.core.engine.open_session(mailbox as u32, ReturnOrder::ToTail)
    }

    /// Opens a session that reads items. It watches no queue.
    pub fn open_reader_session(&mut self, mailbox: usize) -> SessionId {
        self.core.engine.open_reader(mailbox as u32)
    }

    /// Tells the address of a session's client. A dead letter keeps the address of its last worker.
    pub fn set_peer(&mut self, session: SessionId, peer: &str) {
        self.core.engine.set_peer(session, peer.as_bytes());
    }

    /// Ends a session: ends its wait, and gives back every job that it holds.
    pub fn close_session(&mut self, session: SessionId) {
        let core = &mut *self.core;
        core.end_wait(session);
        core.engine.close_session(session, &mut core.effects);
        core.apply_effects();
    }

    /// Takes this turn's events for one mailbox, so that the turn does not deliver them. A
    /// mailbox's owner that holds the turn can handle its own events in this way. The mailbox may
    /// still contain older events, which must come first.
    pub fn take_events(
        &mut self,
        mailbox: usize,
        into: &mut impl Extend<(SessionId, Answer<Event>)>,
    ) {
        let own = self.core.outgoing.extract_if(.., |event| event.0 as usize == mailbox);
        into.extend(own.map(|(_, session, event)| (session, event)));
    }

    /// Notifies a session that its reload of the configuration is done. The end of this turn
    /// delivers the event. Does nothing if the session is closed.
    pub fn tell_reloaded(&mut self, session: SessionId, reloaded: Answer<()>) {
        if let Some(mailbox) = self.core.engine.mailbox(session) {
            self.core.outgoing.push((mailbox, session, reloaded.map(|()| Event::Reloaded)));
        }
    }

    /// Skips one job id: no job will have it.
    pub fn skip_job_id(&mut self) {
        self.core.engine.skip_id();
    }

    /// Checks the whole engine, and the broker's tables about the log. Panics if they disagree. For
    /// tests and the simulator.
    pub fn check_invariants(&self) {
        self.core.check_invariants();
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // After a panic, a request may be half done. Then the turn must not pass on its entries and
        // events.
        if !self.core.has_panicked() {
            self.shared.end_turn(&mut self.core);
        }
    }
}
