//! Items of queues that are read in order, as in Kestrel.

use engine::{
    AliasStats, Body, Choice, Handout, ItemStats, JobId, LeaseId, NameCursor, NotFound, Patience,
    ReadMode, Refused, SessionId, When,
};

use crate::core::Core;
use crate::{Position, PutRefusal, Turn};

/// A fetched item.
#[derive(Clone, Debug)]
pub struct Item {
    /// The id of its job.
    pub id: JobId,
    /// The name of the open read; only of [`ReadMode::Open`].
    pub lease: Option<LeaseId>,
    /// Its bytes.
    pub body: Body,
    /// The position for the reply.
    pub after: Position,
}

/// The immediate outcome of a fetch.
#[derive(Clone, Debug)]
pub enum Read {
    /// An item.
    Item(Item),
    /// No item, and the session did not want to wait. The reply waits for the position.
    Empty(Position),
    /// The server's status refuses reads, or the queue cannot be created: see
    /// [`Turn::admits_child`].
    Blocked,
    /// The session waits. It ends by [`crate::Event::Granted`] (for [`ReadMode::Finish`] too: confirm
    /// the lease then, and reply with that position), by [`crate::Event::Peeked`] for a peek, or by
    /// [`crate::Event::TimedOut`].
    Waiting,
}

/// This session holds no such open read. The reply waits for the position.
#[derive(Copy, Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("no such open read")]
pub struct NotHeld(pub Position);

impl Turn<'_> {
    /// Adds an item to a queue, and to all queues that this one feeds. It expires unread at
    /// `expires`. Creates and keeps the queue if necessary; one that cannot be created
    /// ([`Turn::admits_child`]) counts as full. An item for an alias is tried at all destinations,
    /// and counts as added if all of them accepted it.
    pub fn add(
        &mut self,
        queue: &[u8],
        body: Body,
        expires: Option<When>,
    ) -> Result<Position, PutRefusal> {
        self.admit(body.len(), |engine| engine.puts_are_logged(queue))?;
        if !self.admits_queue(queue) {
            return Err(PutRefusal::NoNewQueue);
        }
        let core = &mut *self.core;
        if !core.engine.admits_child(queue) {
            return Err(core.refusal(Refused::QueueFull));
        }
        let added = core.engine.add(queue, body, expires, &mut core.effects);
        let after = core.apply_effects();
        added.map(|()| after).map_err(|refused| core.refusal(refused))
    }

    /// Fetches the next item of a queue. Creates and keeps the queue if necessary, unless the name
    /// is an alias, or the limit of queues is reached: then it counts as empty.
    pub fn read(
        &mut self,
        session: SessionId,
        queue: &[u8],
        how: ReadMode,
        patience: Patience,
    ) -> Read {
        let core = &*self.core;
        if core.engine.reads_blocked() || !core.engine.admits_child(queue) {
            return Read::Blocked;
        }
        if !self.admits_queue(queue) {
            return Read::Empty(self.core.ledger.after_gone());
        }
        let core = &mut *self.core;
        let choice = Choice::Queue(queue, how);
        let taken = core.engine.take(session, choice, patience, &mut core.effects);
        let last = core.apply_effects();
        let after = |job| core.ledger.after_job(&core.engine, job);
        match taken {
            engine::Take::Granted(Handout { job, id, lease, body }) => {
                Read::Item(Item { id, lease: Some(lease), body, after: after(job) })
            }
            engine::Take::Peeked { job, id, body } => {
                Read::Item(Item { id, lease: None, body, after: after(job) })
            }
            engine::Take::Finished { id, body } => {
                Read::Item(Item { id, lease: None, body, after: last })
            }
            engine::Take::Nothing(queue) => Read::Empty(
                queue.map_or(core.ledger.after_facts(), |queue| core.ledger.after_queue(queue)),
            ),
            engine::Take::Waiting => Read::Waiting,
            engine::Take::DeadlineSoon => unreachable!("only a take of watched queues hears this"),
        }
    }

    /// Finishes the item of an open read.
    pub fn confirm(&mut self, holder: SessionId, lease: LeaseId) -> Result<Position, NotHeld> {
        let core = &mut *self.core;
        let confirmed = core.engine.confirm(holder, lease, &mut core.effects);
        let after = core.apply_effects();
        confirmed.map(|()| after).map_err(|NotFound| core.not_held())
    }

    /// Puts the item of an open read back to its place at the head of the queue.
    pub fn give_back_item(
        &mut self,
        holder: SessionId,
        lease: LeaseId,
    ) -> Result<Position, NotHeld> {
        let core = &mut *self.core;
        let returned = core.engine.give_back_item(holder, lease, &mut core.effects);
        let after = core.apply_effects();
        returned.map(|()| after).map_err(|NotFound| core.not_held())
    }

    /// Passes an open read to another session, one of [`Turn::open_reader_session`]. It goes back
    /// automatically after this many milliseconds, or after the policy's `open.timeout`, if that is
    /// sooner; both count from now.
    pub fn hand_over(
        &mut self,
        holder: SessionId,
        lease: LeaseId,
        to: SessionId,
        limit_ms: Option<u64>,
    ) -> Result<(), NotHeld> {
        let core = &mut *self.core;
        let handed = core.engine.hand_over(holder, lease, to, limit_ms);
        handed.map_err(|NotFound| core.not_held())
    }

    /// Whether this session holds this open read.
    pub fn holds(&self, holder: SessionId, lease: LeaseId) -> bool {
        self.core.engine.holds(holder, lease)
    }

    /// Moves the cursor to the next queue of items or alias, and returns its name.
    pub fn next_item_queue<'c>(&mut self, cursor: &'c mut NameCursor) -> Option<&'c [u8]> {
        self.core.engine.next_item_queue(cursor)
    }

    /// The sorted names of queues that a Kestrel client created or used, and of aliases. All at
    /// once: for programs that embed the broker, and tests.
    pub fn item_queues(&self) -> Vec<&[u8]> {
        self.core.engine.item_queues()
    }

    /// Statistics of a queue.
    pub fn item_stats(&self, queue: &[u8]) -> Option<ItemStats> {
        self.core.engine.item_stats(queue)
    }

    /// Statistics of an alias, or `None` if the name is not one.
    pub fn alias_stats(&self, name: &[u8]) -> Option<AliasStats> {
        self.core.engine.alias_stats(name)
    }

    /// Limit of open reads of this queue per connection.
    pub fn open_max(&self, queue: &[u8]) -> u32 {
        self.core.engine.open_max(queue)
    }
}

impl Core {
    fn not_held(&self) -> NotHeld {
        // The item went back by itself, which is not logged, or it ended.
        NotHeld(self.ledger.after_ended())
    }
}
