//! The queue operations of a memcache or text connection: putting items, fetching items, waiting
//! for items, and open reads.

use std::sync::Arc;

use broker::{
    Answer, Blocked, Body, Event, JobBody, LeaseId, NotFound, Patience, Position, PutRefusal,
    ReadMode, SessionId, Take, Turn, When,
};

use crate::counters::Counters;
use crate::latency::{Measure, Watch};
use crate::open_lists::OpenLists;
use crate::server::{Refusals, Server};

/// The position of a reply that does not wait for the log.
pub(crate) const AT_ONCE: Position = Position::NONE;

/// A memcache or text connection: its session in the broker, and its open reads.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) id: SessionId,
    pub(crate) server: Arc<Server>,
    refusals: Refusals,
    /// The open reads. A read stays in its list after it has timed out, or after its queue was
    /// removed. A close means the oldest read of the list. If a timed-out read were missing, the
    /// client's close of this read would finish the item of a later read.
    open: OpenLists,
    /// True if a fetch waits for an event.
    waits: bool,
    /// The measurement of the last fetch.
    watch: Watch,
    /// True if the connection can stop the server and set its status.
    pub(crate) may_control: bool,
    /// True after the session was closed in the broker. The connection then ignores all input, and
    /// sends no more replies.
    ended: bool,
}

/// How a fetch reads the item.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) enum FetchMode {
    Take,
    Open,
    Peek,
}

/// The oldest open reads of a queue, which a request closes. There can be very many, so it closes them
/// in slices of work.
#[derive(Debug)]
pub(crate) struct Closing {
    pub(crate) queue: Vec<u8>,
    /// Number of reads that are still to close.
    left: usize,
    /// The position that the reply waits for.
    pub(crate) after: Position,
}

impl Closing {
    pub(crate) fn new(queue: Vec<u8>, count: usize) -> Self {
        Self { queue, left: count, after: AT_ONCE }
    }
}

/// The outcome of a fetch.
#[derive(Debug)]
pub(crate) enum Fetched {
    /// An item. The reply waits for the position.
    Item(JobBody, Position),
    /// No item, and the fetch does not wait.
    Nothing(Position),
    /// The session waits for an event.
    Waiting,
}

impl Client {
    pub(crate) fn new(server: Arc<Server>, turn: &mut Turn<'_>, mailbox: usize) -> Self {
        let id = turn.open_reader_session(mailbox);
        let refusals = server.enter();
        Self {
            id,
            server,
            refusals,
            open: OpenLists::default(),
            waits: false,
            watch: Watch::Off,
            may_control: true,
            ended: false,
        }
    }

    pub(crate) fn counters(&self) -> &Counters {
        self.server.counters()
    }

    /// True if this connection cannot set, delete or flush now.
    pub(crate) fn is_refused_writes(&self, turn: &Turn<'_>) -> bool {
        self.refusals.writes(turn)
    }

    /// True if this connection cannot get, peek or monitor now.
    pub(crate) fn is_refused_reads(&self, turn: &Turn<'_>) -> bool {
        self.refusals.reads(turn)
    }

    /// Adds an item.
    pub(crate) fn add(
        &self,
        queue: &[u8],
        body: Body,
        expires: Option<When>,
        turn: &mut Turn<'_>,
    ) -> Answer<Result<(), PutRefusal>> {
        self.counters().cmd_set.add_one();
        let watch = self.server.begin(turn.now());
        let added = turn.caller(self.id).add(queue, body, expires);
        if added.value.is_ok() {
            self.server.note(watch, Measure::Set);
        }
        added
    }

    /// Fetches the next item of a queue, or begins to wait for one.
    pub(crate) fn fetch(
        &mut self,
        queue: &[u8],
        how: FetchMode,
        patience: Patience,
        turn: &mut Turn<'_>,
    ) -> Fetched {
        self.watch = self.server.begin(turn.now());
        let read_how = match how {
            FetchMode::Take => ReadMode::Finish,
            FetchMode::Open => ReadMode::Open { limit_ms: None },
            FetchMode::Peek => ReadMode::Peek,
        };
        let Answer { value, after } = turn.caller(self.id).read(queue, read_how, patience);
        match value {
            Ok(Take::Waiting) => {
                self.waits = true;
                self.watch = self.server.begin_wait();
                Fetched::Waiting
            }
            Ok(taken) => {
                if let Some((lease, body)) = taken.item() {
                    self.found(queue, lease, body, after)
                } else {
                    self.server.note(self.watch, Measure::Miss);
                    self.missed(queue, after, turn)
                }
            }
            Err(Blocked) => self.missed(queue, after, turn),
        }
    }

    /// Handles the event that ends a fetch's wait.
    pub(crate) fn resume(
        &mut self,
        queue: &[u8],
        how: FetchMode,
        event: Answer<Event>,
        turn: &mut Turn<'_>,
    ) -> Fetched {
        self.waits = false;
        let Answer { value, after } = event;
        match value {
            Event::Granted(handout) if how == FetchMode::Take => {
                let Answer { value, after } = turn.caller(self.id).confirm(handout.lease);
                match value {
                    Ok(()) => self.found(queue, None, handout.body, after),
                    Err(NotFound) => self.missed(queue, after, turn),
                }
            }
            Event::Granted(handout) => self.found(queue, Some(handout.lease), handout.body, after),
            Event::Peeked(body) => self.found(queue, None, body, after),
            Event::TimedOut => {
                self.server.note(self.watch, Measure::Timeout);
                self.missed(queue, after, turn)
            }
            Event::DeadlineSoon
            | Event::WorkToDo
            | Event::News { .. }
            | Event::Kicked(_)
            | Event::Loaded
            | Event::Room
            | Event::Unreadable
            | Event::Cleared
            | Event::Reloaded => unreachable!("this session waits for an item of one queue"),
        }
    }

    /// Handles an event that arrived after the session ended. If the event grants an item, the
    /// broker has already given the item back.
    pub(crate) fn note_late(&self, event: &Event) {
        if let Event::Granted(_) = event {
            self.counters().cmd_get_open_dropped.add_one();
        }
    }

    fn found(
        &mut self,
        queue: &[u8],
        lease: Option<LeaseId>,
        body: JobBody,
        after: Position,
    ) -> Fetched {
        self.counters().get_hits.add_one();
        self.server.note(self.watch, Measure::Hit);
        if let Some(lease) = lease {
            self.open.add(queue, lease);
        }
        Fetched::Item(body, after)
    }

    fn missed(&self, queue: &[u8], after: Position, turn: &Turn<'_>) -> Fetched {
        self.server.count_miss(queue, turn);
        Fetched::Nothing(after)
    }

    /// The memory of the list of open reads, in bytes. Only a client that never closes its reads makes
    /// this list long.
    pub(crate) fn buffered_bytes(&self) -> usize {
        self.open.buffered_bytes()
    }

    /// Number of open reads of this queue. A read that timed out counts until the client closes it.
    pub(crate) fn open_count(&self, queue: &[u8]) -> usize {
        self.open.count(queue)
    }

    /// True if the connection has reached this queue's limit of open reads, or the limit of queues
    /// with open reads.
    pub(crate) fn is_open_full(&self, queue: &[u8], turn: &Turn<'_>) -> bool {
        match self.open_count(queue) {
            // Every policy allows one open read. So there is no need to look up the policy.
            0 => self.open.is_full_of_queues(),
            open => open >= turn.open_max(queue) as usize,
        }
    }

    /// Closes open reads, and finishes their items, until the slice of work is spent. Returns true if
    /// none of them is left. If a read has timed out, it counts as closed, but its item is not
    /// finished.
    pub(crate) fn close(&mut self, closing: &mut Closing, turn: &mut Turn<'_>) -> bool {
        let closed = self.open.change(&closing.queue, |open| {
            while closing.left > 0
                && let Some(lease) = open.pop_front()
            {
                let after = turn.caller(self.id).confirm(lease).after;
                closing.after = closing.after.max(after);
                closing.left -= 1;
                // A read that has timed out costs the engine nothing, but it takes time.
                turn.count_work(1);
                if turn.slice_is_spent() {
                    break;
                }
            }
        });
        closed.is_none() || closing.left == 0
    }

    /// Closes the oldest open read, as [`Client::close`] does. Returns the position for the reply.
    pub(crate) fn close_oldest(&mut self, queue: &[u8], turn: &mut Turn<'_>) -> Position {
        let oldest = self.open.remove_oldest(queue);
        oldest.map_or(AT_ONCE, |lease| turn.caller(self.id).confirm(lease).after)
    }

    /// Gives back the item of the oldest open read. Returns the position for the reply.
    pub(crate) fn abort_oldest(&mut self, queue: &[u8], turn: &mut Turn<'_>) -> Position {
        let oldest = self.open.remove_oldest(queue);
        oldest.map_or(AT_ONCE, |lease| turn.caller(self.id).give_back_item(lease).after)
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.ended
    }

    /// Closes the session in the broker, if it is still open. The broker gives back the items of
    /// its open reads.
    pub(crate) fn end(&mut self, turn: &mut Turn<'_>) {
        if !self.ended {
            self.ended = true;
            if self.waits {
                self.counters().waiters_aborted.add_one();
            }
            self.open = OpenLists::default();
            self.server.leave();
            turn.close_session(self.id);
        }
    }
}

/// The time to wait for an item, from the client's timeout.
pub(crate) fn patience(timeout_ms: i32) -> Patience {
    Patience::of_millis(u64::try_from(timeout_ms).unwrap_or(0))
}
