//! The requests of a [`Turn`] that Kestrel makes: items that expire, open reads by the number of
//! their lease, waiting on one queue, flushing, fan-out, policies, and the server's status.

use engine::policy::{Policy, Rules};
use engine::{Body, JobId, LeaseId, Millis, Patience, SessionId};
use log::Position;

use crate::Turn;

/// Why an item or a job was not put. Nothing was stored, unless it feeds several queues and another
/// one of them took it.
#[derive(Copy, Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum AddRefusal {
    /// The queue has as much as its policy lets it have. The reply waits for the position.
    #[error("the queue is full")]
    Full(Position),
    /// The body is larger than the queue's policy lets it be.
    #[error("the body is larger than the queue takes")]
    TooBig,
    /// The log has no room for it. Finishing jobs makes room.
    #[error("the log has no room")]
    LogFull,
    /// The server's status refuses writes.
    #[error("the server's status refuses writes")]
    WritesBlocked,
}

/// What a fetch is to do with the item.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum ReadHow {
    /// Take it, and be done with it.
    Finish,
    /// Take it and hold it, until it is confirmed or put back. It goes back by itself after the
    /// limit, or after the policy's `open.timeout` if that is sooner.
    Open {
        /// Milliseconds from now; `None` for no limit.
        limit_ms: Option<u64>,
    },
    /// Look at it.
    Peek,
}

/// An item that was fetched.
#[derive(Clone, Debug)]
pub struct Item {
    /// The number of its job.
    pub id: JobId,
    /// The name of the open read; only of [`ReadHow::Open`].
    pub lease: Option<LeaseId>,
    /// Its bytes.
    pub body: Body,
    /// The reply waits for this.
    pub after: Position,
}

/// What a fetch leads to at once.
#[derive(Clone, Debug)]
pub enum Read {
    /// An item.
    Item(Item),
    /// There is none, and the session did not want to wait. The reply waits for the position.
    Empty(Position),
    /// The server's status refuses reads.
    Blocked,
    /// The session waits. It ends by [`crate::Event::Granted`] (for [`ReadHow::Finish`] too: confirm
    /// the lease then, and reply with that position), by [`crate::Event::Looked`] for a peek, or by
    /// [`crate::Event::TimedOut`].
    Waiting,
}

/// What a flush leads to at once.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum Flush {
    /// It is done. The reply waits for the position.
    Done(Position),
    /// It takes several turns; [`crate::Event::Flushed`] will come.
    Waiting,
}

/// No such open read is held by this session. The reply that says so waits for the position.
#[derive(Copy, Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("no such open read")]
pub struct NotHeld(pub Position);

/// What the server lets its clients do.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq, Ord, PartialOrd)]
pub enum Status {
    /// Everything.
    #[default]
    Up,
    /// Everything, but whoever chooses among servers should write to another one.
    WriteAvoid,
    /// No writes.
    ReadOnly,
    /// Neither reads nor writes.
    Quiescent,
}

/// Numbers of a queue as Kestrel counts them. Counters count since the queue exists, in this process.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ItemStats {
    /// Items that wait for a taker.
    pub items: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
    /// Items added.
    pub puts: u64,
    /// Bytes of the bodies of the items added.
    pub put_bytes: u64,
    /// Items that expired.
    pub expired: u64,
    /// Items that were dropped to make room for others.
    pub discarded: u64,
    /// Milliseconds since the item that was taken last was put; before the first one, since the next
    /// one was put. 0 if there is no item.
    pub age_ms: u64,
    /// Sessions that wait for an item.
    pub waiters: u64,
    /// Open reads.
    pub open: u64,
    /// Reads opened.
    pub transactions: u64,
    /// Open reads that were given back.
    pub cancelled: u64,
    /// Flushes.
    pub flushes: u64,
    /// Names of the fan-out children, sorted; `None`: it never had one.
    pub children: Option<Vec<Box<[u8]>>>,
    /// When it was made.
    pub created: Millis,
    /// The most items that its policy lets it have.
    pub items_max: Option<u64>,
    /// The most bytes.
    pub bytes_max: Option<u64>,
}

/// Numbers of an alias.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct AliasStats {
    /// Items added through it.
    pub puts: u64,
    /// Bytes of their bodies.
    pub put_bytes: u64,
    /// Where they go.
    pub destinations: Vec<Box<[u8]>>,
}

impl Turn<'_> {
    /// Opens a session that reads items. It watches no queue.
    pub fn open_reader_session(&mut self, mailbox: usize) -> SessionId {
        self.open_session(mailbox)
    }

    // --- Items ---

    /// Adds an item to a queue, and to all that this queue feeds. It ends unread after `expires`.
    /// Makes and keeps the queue if it is not there.
    pub fn add(
        &mut self,
        queue: &[u8],
        body: Body,
        expires: Option<Millis>,
    ) -> Result<Position, AddRefusal> {
        let _ = (queue, body, expires);
        Err(AddRefusal::LogFull)
    }

    /// Fetches the next item of a queue. Makes and keeps the queue if it is not there, unless the
    /// name is an alias, which is always empty.
    pub fn read(
        &mut self,
        session: SessionId,
        queue: &[u8],
        how: ReadHow,
        patience: Patience,
    ) -> Read {
        self.read_for(session, session, queue, how, patience)
    }

    /// As [`Turn::read`], but an open read is held by `holder`, while `waiter` waits for it.
    pub fn read_for(
        &mut self,
        waiter: SessionId,
        holder: SessionId,
        queue: &[u8],
        how: ReadHow,
        patience: Patience,
    ) -> Read {
        let _ = (waiter, holder, queue, how, patience);
        Read::Empty(Position::default())
    }

    /// Ends the item of an open read.
    pub fn confirm(&mut self, holder: SessionId, lease: LeaseId) -> Result<Position, NotHeld> {
        let _ = (holder, lease);
        Err(NotHeld(Position::default()))
    }

    /// Puts the item of an open read back to its place at the head of the queue.
    pub fn put_back(&mut self, holder: SessionId, lease: LeaseId) -> Result<Position, NotHeld> {
        let _ = (holder, lease);
        Err(NotHeld(Position::default()))
    }

    /// An open read goes back by itself after so many milliseconds from now, or after the policy's
    /// `open.timeout` from now if that is sooner.
    pub fn set_lease_limit(
        &mut self,
        holder: SessionId,
        lease: LeaseId,
        limit_ms: Option<u64>,
    ) -> Result<(), NotHeld> {
        let _ = (holder, lease, limit_ms);
        Err(NotHeld(Position::default()))
    }

    /// Whether this session holds this open read.
    pub fn holds(&self, holder: SessionId, lease: LeaseId) -> bool {
        let _ = (holder, lease);
        false
    }

    // --- Queues ---

    /// Ends all items of a queue that nobody holds. The session waits meanwhile.
    pub fn flush(&mut self, session: SessionId, queue: &[u8]) -> Flush {
        let _ = (session, queue);
        Flush::Done(Position::default())
    }

    /// The same for all queues that [`Turn::item_queues`] names.
    pub fn flush_all(&mut self, session: SessionId) -> Flush {
        let _ = session;
        Flush::Done(Position::default())
    }

    /// Ends the expired items at the head of a queue, at most as many as its policy's
    /// `expire_sweep`; how many. `None`: there is no such queue.
    pub fn flush_expired(&mut self, queue: &[u8]) -> Option<(u64, Position)> {
        let _ = queue;
        None
    }

    /// The same for all queues that [`Turn::item_queues`] names.
    pub fn flush_all_expired(&mut self) -> (u64, Position) {
        (0, Position::default())
    }

    /// Removes a queue with all of its jobs, also those that somebody holds; whoever waits for an
    /// item of it waits no more. Without such a queue nothing happens.
    pub fn remove_queue(&mut self, queue: &[u8]) -> Position {
        let _ = queue;
        Position::default()
    }

    /// Names of the queues that a client of Kestrel's has made, and of the aliases, sorted.
    pub fn item_queues(&self) -> Vec<&[u8]> {
        Vec::new()
    }

    /// Numbers of a queue.
    pub fn item_stats(&self, queue: &[u8]) -> Option<ItemStats> {
        let _ = queue;
        None
    }

    /// Numbers of an alias; `None`: the name is not one.
    pub fn alias_stats(&self, name: &[u8]) -> Option<AliasStats> {
        let _ = name;
        None
    }

    // --- Policies and status ---

    /// What is asked of the queue of this name, whether it exists or not.
    pub fn policy(&self, queue: &[u8]) -> Policy {
        let _ = queue;
        Policy::default()
    }

    /// From now on these rules are in force, for queues that exist and for those to come.
    pub fn set_policies(&mut self, rules: Rules) -> Position {
        let _ = rules;
        Position::default()
    }

    /// What the server lets its clients do, or will when the grace is over.
    pub fn status(&self) -> Status {
        Status::Up
    }

    /// Changes the status. A stricter one comes into force `grace_ms` later; meanwhile one that is
    /// as strict or stricter is ignored, and a looser one acts at once.
    pub fn set_status(&mut self, status: Status, grace_ms: u64) -> Position {
        let _ = (status, grace_ms);
        Position::default()
    }

    /// Whether the status, as it is in force, refuses reads.
    pub fn reads_blocked(&self) -> bool {
        false
    }

    /// Whether the status, as it is in force, refuses writes.
    pub fn writes_blocked(&self) -> bool {
        false
    }
}
