//! Sessions: open, close, use and watch.

use engine::{ReturnOrder, SessionId};

use crate::{Answer, Turn};

impl Turn<'_> {
    /// Opens a session whose events go to this mailbox (its number from
    /// [`crate::Broker::add_mailbox`]). It uses and watches the queue `default`.
    pub fn open_session(&mut self, mailbox: usize) -> SessionId {
        self.core.engine.open_session(mailbox as u32, ReturnOrder::KeepPlace)
    }

    /// Opens a worker session: its lost jobs go behind all others of their priority.
    pub fn open_worker_session(&mut self, mailbox: usize) -> SessionId {
        self.core.engine.open_session(mailbox as u32, ReturnOrder::ToTail)
    }

    /// Opens a session that reads items. It watches no queue.
    pub fn open_reader_session(&mut self, mailbox: usize) -> SessionId {
        self.core.engine.open_reader(mailbox as u32)
    }

    /// Ends a session: ends its wait, and gives back every job that it holds.
    pub fn close_session(&mut self, session: SessionId) {
        let core = &mut *self.core;
        core.engine.close_session(session, &mut core.effects);
        core.apply_effects();
    }

    /// Selects the queue for `put`, `kick` and `peek_used` of this session.
    pub fn use_queue(&mut self, session: SessionId, name: &[u8]) {
        let core = &mut *self.core;
        core.engine.use_queue(session, name, &mut core.effects);
        core.apply_effects();
    }

    /// The name of the queue that this session uses.
    pub fn used_queue(&self, session: SessionId) -> &[u8] {
        self.core.engine.queue_name(self.core.engine.used(session))
    }

    /// Adds a queue to the watched queues, and returns their number.
    pub fn watch(&mut self, session: SessionId, name: &[u8]) -> usize {
        self.core.engine.watch(session, name)
    }

    /// Removes a queue from the watched queues, if it is one of them, and returns their number;
    /// `None` if it is the only one.
    pub fn ignore(&mut self, session: SessionId, name: &[u8]) -> Option<usize> {
        let core = &mut *self.core;
        let count = core.engine.ignore(session, name, &mut core.effects);
        core.apply_effects();
        count
    }

    /// Names of the watched queues, in the order of watching.
    pub fn watched(&self, session: SessionId) -> impl ExactSizeIterator<Item = &[u8]> {
        let engine = &self.core.engine;
        engine.watched(session).iter().map(|queue| engine.queue_name(*queue))
    }

    /// Whether the session watches this queue.
    pub fn watches(&self, session: SessionId, name: &[u8]) -> bool {
        self.core.engine.watches(session, name)
    }

    /// Ends the session's wait for a job or an item, and returns whether it waited. If so, its event
    /// will not come.
    pub fn cancel_wait(&mut self, session: SessionId) -> Answer<bool> {
        let core = &mut *self.core;
        let waited = core.engine.stop_waiting(session);
        // A session that reads items watches nothing, so its queue is unknown here.
        Answer::new(waited, core.ledger.after_all())
    }
}
