//! The queues that a session uses and watches.

use engine::QueueId;

use crate::Caller;

/// # The queues of the session
impl Caller<'_> {
    /// Selects the queue for `put`, `kick` and `peek_used` of this session.
    pub fn use_queue(&mut self, name: &[u8]) {
        let core = &mut *self.core;
        core.engine.use_queue(self.session, name, &mut core.effects);
        core.apply_effects();
    }

    /// Like [`Caller::use_queue`], for this queue, whatever its name stands for: see
    /// [`crate::Turn::queue_id`]. The queue must exist in this turn.
    pub fn use_queue_of(&mut self, queue: QueueId) {
        let core = &mut *self.core;
        core.engine.use_queue_of(self.session, queue, &mut core.effects);
        core.apply_effects();
    }

    /// The name by which the session uses its queue.
    pub fn used_queue(&self) -> &[u8] {
        self.core.engine.used_name(self.session)
    }

    /// Adds a queue to the watched queues, and returns the number of watched names: one for each
    /// queue, unless the session has used several names for a queue (see the policy `same_as`).
    pub fn watch(&mut self, name: &[u8]) -> usize {
        let core = &mut *self.core;
        core.engine.forget_watched_name(self.session, name, &mut core.effects);
        let count = core.engine.watch(self.session, name);
        core.apply_effects();
        count
    }

    /// Stops watching a queue by this name, and returns the number of watched names. If the session
    /// watches only this one, changes nothing and returns `None`.
    pub fn ignore(&mut self, name: &[u8]) -> Option<usize> {
        let core = &mut *self.core;
        let count = core.engine.ignore(self.session, name, &mut core.effects);
        core.apply_effects();
        count
    }

    /// The names by which the session watches its queues, in the order of watching.
    pub fn watched(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        let names: Vec<&[u8]> = self.core.engine.watched_names(self.session).collect();
        names.into_iter()
    }

    /// Whether the session watches a queue by this name.
    pub fn watches(&self, name: &[u8]) -> bool {
        self.core.engine.watches(self.session, name)
    }
}
