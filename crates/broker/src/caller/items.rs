//! Items of queues that are read in order, as in Kestrel.

use engine::{
    Body, Choice, JobBody, LeaseId, NotFound, Patience, ReadMode, Refused, SessionId, Take, When,
};

use crate::admission::{not_admitted, put_bytes};
use crate::core::Core;
use crate::{Answer, Blocked, Caller, Position, PutRefusal};

/// # Items of a queue that is read in order
impl Caller<'_> {
    /// Adds an item to all queues of the name's route. The item expires unread at `expires`. If the
    /// queue does not exist, it is created, and stays when it is empty. A queue that cannot be
    /// created counts as full: see [`crate::Turn::admits_child`]. If the name is an alias, the item
    /// goes to all queues of the alias. The item counts as added if all these queues accepted it.
    pub fn add(
        &mut self,
        queue: &[u8],
        body: Body,
        expires: Option<When>,
    ) -> Answer<Result<(), PutRefusal>> {
        let bytes = put_bytes(&self.core.engine, |_| queue, body.len());
        let admitted = self.shared.admit(
            self.core,
            bytes,
            |engine| engine.puts_are_logged(queue),
            |engine| engine.put_makes_no_job(self.session, Some(queue), &body),
        );
        if let Err(refusal) = admitted {
            return not_admitted(self.core, refusal);
        }
        if !self.shared.admits_queue(self.core, queue) {
            return self.shared.no_new_queue();
        }
        let core = &mut *self.core;
        if !core.engine.admits_child(queue) {
            return self.shared.refusal(core, Refused::QueueFull);
        }
        let added = core.engine.add(Some(self.session), queue, body, expires, &mut core.effects);
        let after = core.apply_effects();
        match added {
            Ok(()) => Answer::new(Ok(()), after),
            Err(refused) => self.shared.refusal(core, refused),
        }
    }

    /// Reads the next item of a queue. [`Take::item`] returns that item. If the queue does not
    /// exist, it is created, and stays when it is empty. If the name is an alias, or the limit of
    /// queues is reached, no queue is created, and the read finds no item. A wait ends with
    /// [`crate::Event::Granted`], with [`crate::Event::Peeked`] for a peek, or with
    /// [`crate::Event::TimedOut`]. At the limit of memory, an open read of a session that holds many
    /// items finds no item, if the queue has cold items.
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
        if self.must_finish_first(Choice::Queue(queue, how)) {
            return Answer::at_once(Ok(Take::Nothing(None)));
        }
        let taken =
            self.core.take(self.session, Choice::Queue(queue, how), patience, |core, queue| {
                queue.map_or(core.ledger.after_facts(), |queue| core.ledger.after_queue(queue))
            });
        taken.map(Ok)
    }

    /// Finishes the item of an open read. Returns `NotFound` if the session does not hold this
    /// read.
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

    /// Passes an open read to another session, which [`crate::Turn::open_reader_session`] must have
    /// opened. The item is given back automatically after `limit_ms` or the policy's
    /// `open.timeout`, whichever is shorter. Both times count from now.
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

    /// The body of the item of this open read, if this session holds the read.
    pub fn open_body(&self, lease: LeaseId) -> Option<JobBody> {
        let slot = self.core.engine.held_by(self.session, lease).ok()?;
        self.core.peeked(slot, self.session).value.ok().map(|peeked| peeked.body)
    }
}

impl Core {
    /// The answer to a request about an open read. If the read was open, the reply waits for
    /// `after`.
    fn after_read(
        &self,
        done: Result<(), NotFound>,
        after: Position,
    ) -> Answer<Result<(), NotFound>> {
        match done {
            Ok(()) => Answer::new(Ok(()), after),
            // Either the item was given back automatically, or it ended. The log gets an entry only
            // for an end. So the reply waits for the ends of all jobs so far.
            Err(NotFound) => Answer::new(Err(NotFound), self.ledger.after_ended()),
        }
    }
}
