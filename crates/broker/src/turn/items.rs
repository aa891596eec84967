//! Items of queues that are read in order, as Kestrel has them.

use engine::{
    AliasStats, Body, ItemStats, JobId, LeaseId, NameCursor, NotFound, Patience, ReadMode, Refused,
    SessionId, When,
};

use crate::core::Core;
use crate::{Position, PutRefusal, Turn};

/// An item that was fetched.
#[derive(Clone, Debug)]
pub struct Item {
    /// The number of its job.
    pub id: JobId,
    /// The name of the open read; only of [`ReadMode::Open`].
    pub lease: Option<LeaseId>,
    /// Its bytes.
    pub body: Body,
    /// The position for the reply.
    pub after: Position,
}

/// What a fetch leads to at once.
#[derive(Clone, Debug)]
pub enum Read {
    /// An item.
    Item(Item),
    /// There is none, and the session did not want to wait. The reply waits for the position.
    Empty(Position),
    /// The server's status refuses reads, or the queue may not be made: see [`Turn::admits_child`].
    Blocked,
    /// The session waits. It ends by [`crate::Event::Granted`] (for [`ReadMode::Finish`] too: confirm
    /// the lease then, and reply with that position), by [`crate::Event::Peeked`] for a peek, or by
    /// [`crate::Event::TimedOut`].
    Waiting,
}

/// No such open read is held by this session. The reply that says so waits for the position.
#[derive(Copy, Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("no such open read")]
pub struct NotHeld(pub Position);

impl Turn<'_> {
    /// Adds an item to a queue, and to all that this queue feeds. It ends unread after `expires`.
    /// Makes and keeps the queue if it is not there; one that may not be made ([`Turn::admits_child`])
    /// is full. An item for an alias is added if all of the alias's destinations took it; all of them
    /// are tried.
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

    /// Fetches the next item of a queue. Makes and keeps the queue if it is not there, unless the
    /// name is an alias, or there are as many queues as there may be: then it is always empty.
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
        let read = core.engine.read(session, queue, how, patience, &mut core.effects);
        let last = core.apply_effects();
        match read {
            engine::Read::Item { job, id, lease, body } => Read::Item(Item {
                id,
                lease,
                body,
                after: core.ledger.after_job(&core.engine, job),
            }),
            engine::Read::Finished { id, body } => {
                Read::Item(Item { id, lease: None, body, after: last })
            }
            engine::Read::Empty(queue) => Read::Empty(
                queue.map_or(core.ledger.after_facts(), |queue| core.ledger.after_queue(queue)),
            ),
            engine::Read::Waiting => Read::Waiting,
        }
    }

    /// Ends the item of an open read.
    pub fn confirm(&mut self, holder: SessionId, lease: LeaseId) -> Result<Position, NotHeld> {
        let core = &mut *self.core;
        let confirmed = core.engine.confirm(holder, lease, &mut core.effects);
        let after = core.apply_effects();
        confirmed.map(|()| after).map_err(|NotFound| core.not_held())
    }

    /// Puts the item of an open read back to its place at the head of the queue.
    pub fn put_back(&mut self, holder: SessionId, lease: LeaseId) -> Result<Position, NotHeld> {
        let core = &mut *self.core;
        let returned = core.engine.put_back(holder, lease, &mut core.effects);
        let after = core.apply_effects();
        returned.map(|()| after).map_err(|NotFound| core.not_held())
    }

    /// An open read is held by another session from now on, one of [`Turn::open_reader_session`]. It
    /// goes back by itself after so many milliseconds from now, or after the policy's `open.timeout`
    /// from now if that is sooner.
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

    /// The name of the queue of items, or of the alias, behind the cursor, which moves there.
    pub fn next_item_queue<'c>(&mut self, cursor: &'c mut NameCursor) -> Option<&'c [u8]> {
        self.core.engine.next_item_queue(cursor)
    }

    /// Names of the queues that a client of Kestrel's made or used, and of the aliases, sorted. Of all of
    /// them at once: for programs that embed the broker, and tests.
    pub fn item_queues(&self) -> Vec<&[u8]> {
        self.core.engine.item_queues()
    }

    /// Numbers of a queue.
    pub fn item_stats(&self, queue: &[u8]) -> Option<ItemStats> {
        self.core.engine.item_stats(queue)
    }

    /// Numbers of an alias; `None`: the name is not one.
    pub fn alias_stats(&self, name: &[u8]) -> Option<AliasStats> {
        self.core.engine.alias_stats(name)
    }

    /// How many reads of the queue of this name one connection may have open.
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
