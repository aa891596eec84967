//! Items of queues that are read in order, as in Kestrel.

use engine::{Body, Choice, LeaseId, NotFound, Patience, ReadMode, Refused, SessionId, Take, When};

use crate::core::Core;
use crate::{Answer, Blocked, Caller, Position, PutRefusal};

/// # Items of a queue that is read in order
impl Caller<'_> {
    /// Adds an item to a queue, and to all queues that this one feeds. It expires unread at
    /// `expires`. Creates and keeps the queue if necessary; one that cannot be created
    /// ([`crate::Turn::admits_child`]) counts as full. An item for an alias is tried at all
    /// destinations, and counts as added if all of them accepted it.
    pub fn add(
        &mut self,
        queue: &[u8],
        body: Body,
        expires: Option<When>,
    ) -> Answer<Result<(), PutRefusal>> {
        if let Err(refusal) =
            self.shared.admit(self.core, body.len(), |engine| engine.puts_are_logged(queue))
        {
            return Answer::at_once(Err(refusal));
        }
        if !self.shared.admits_queue(self.core, queue) {
            return Answer::at_once(Err(PutRefusal::NoNewQueue));
        }
        let core = &mut *self.core;
        if !core.engine.admits_child(queue) {
            return core.refusal(Refused::QueueFull);
        }
        let added = core.engine.add(queue, body, expires, &mut core.effects);
        let after = core.apply_effects();
        match added {
            Ok(()) => Answer::new(Ok(()), after),
            Err(refused) => core.refusal(refused),
        }
    }

    /// Reads the next item of a queue; [`Take::item`] has it. Creates and keeps the queue if
    /// necessary, unless the name is an alias, or the limit of queues is reached: then it counts as
    /// empty. A wait ends by [`crate::Event::Granted`], by [`crate::Event::Peeked`] for a peek, or
    /// by [`crate::Event::TimedOut`].
    pub fn read(
        &mut self,
        queue: &[u8],
        how: ReadMode,
        patience: Patience,
    ) -> Answer<Result<Take, Blocked>> {
        let engine = &self.core.engine;
        if engine.reads_blocked() || !engine.admits_child(queue) {
            return Answer::at_once(Err(Blocked));
        }
        if !self.shared.admits_queue(self.core, queue) {
            return Answer::new(Ok(Take::Nothing(None)), self.core.ledger.after_gone());
        }
        let taken =
            self.core.take(self.session, Choice::Queue(queue, how), patience, |core, queue| {
                queue.map_or(core.ledger.after_facts(), |queue| core.ledger.after_queue(queue))
            });
        taken.map(Ok)
    }

    /// Finishes the item of an open read. `NotFound`: the session holds no such open read.
    pub fn confirm(&mut self, lease: LeaseId) -> Answer<Result<(), NotFound>> {
        let core = &mut *self.core;
        let confirmed = core.engine.confirm(self.session, lease, &mut core.effects);
        let after = core.apply_effects();
        core.after_read(confirmed, after)
    }

    /// Puts the item of an open read back to its place at the head of the queue.
    pub fn give_back_item(&mut self, lease: LeaseId) -> Answer<Result<(), NotFound>> {
        let core = &mut *self.core;
        let returned = core.engine.give_back_item(self.session, lease, &mut core.effects);
        let after = core.apply_effects();
        core.after_read(returned, after)
    }

    /// Passes an open read to another session, one of [`crate::Turn::open_reader_session`]. The
    /// item goes back automatically after this many milliseconds, or after the policy's
    /// `open.timeout` if that is sooner. Both times count from now.
    pub fn hand_over(
        &mut self,
        lease: LeaseId,
        to: SessionId,
        limit_ms: Option<u64>,
    ) -> Answer<Result<(), NotFound>> {
        let core = &mut *self.core;
        let handed = core.engine.hand_over(self.session, lease, to, limit_ms);
        core.after_read(handed, Position::NONE)
    }

    /// Whether this session holds this open read.
    pub fn holds(&self, lease: LeaseId) -> bool {
        self.core.engine.holds(self.session, lease)
    }
}

impl Core {
    /// The answer to a request about an open read, which waits for `after` if the read was open.
    fn after_read(
        &self,
        done: Result<(), NotFound>,
        after: Position,
    ) -> Answer<Result<(), NotFound>> {
        match done {
            Ok(()) => Answer::new(Ok(()), after),
            // The item went back automatically, which is not logged, or it ended.
            Err(NotFound) => Answer::new(Err(NotFound), self.ledger.after_ended()),
        }
    }
}
