//! The queues that a session uses and watches.

use crate::Caller;

/// # The queues of the session
impl Caller<'_> {
    /// Selects the queue for `put`, `kick` and `peek_used` of this session.
    pub fn use_queue(&mut self, name: &[u8]) {
        let core = &mut *self.core;
        core.engine.use_queue(self.session, name, &mut core.effects);
        core.apply_effects();
    }

    /// The name of the queue that this session uses.
    pub fn used_queue(&self) -> &[u8] {
        self.core.engine.queue_name(self.core.engine.used(self.session))
    }

    /// Adds a queue to the watched queues, and returns the number of watched queues.
    pub fn watch(&mut self, name: &[u8]) -> usize {
        self.core.engine.watch(self.session, name)
    }

    /// Stops watching a queue, and returns the number of watched queues. If the session watches
    /// only this queue, changes nothing and returns `None`.
    pub fn ignore(&mut self, name: &[u8]) -> Option<usize> {
        let core = &mut *self.core;
        let count = core.engine.ignore(self.session, name, &mut core.effects);
        core.apply_effects();
        count
    }

    /// Names of the watched queues, in the order of watching.
    pub fn watched(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        let engine = &self.core.engine;
        engine.watched(self.session).iter().map(|queue| engine.queue_name(*queue))
    }

    /// Whether the session watches this queue.
    pub fn watches(&self, name: &[u8]) -> bool {
        self.core.engine.watches(self.session, name)
    }
}
