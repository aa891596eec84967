//! The positions for answers that a dialect makes from statistics and listings.

use crate::{Position, Turn};

/// # Positions for answers from statistics and listings
impl Turn<'_> {
    /// The position for an answer that can depend on any entry so far. Examples are a sum over all
    /// queues and a row of a listing.
    pub fn after_all(&self) -> Position {
        self.core.ledger.after_all()
    }

    /// The position for an answer that depends on whether a queue of this name exists, or stays
    /// when it is empty and unused.
    pub fn after_named(&self, name: &[u8]) -> Position {
        self.core.after_named(name)
    }

    /// The position for an answer about the policies or the status.
    pub fn after_facts(&self) -> Position {
        self.core.ledger.after_facts()
    }
}
