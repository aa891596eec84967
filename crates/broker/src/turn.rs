//! One turn of the broker: engine and log under their lock, at one moment, for one batch of
//! requests.
//!
//! This file has time, slices of work, totals, and helpers of all requests. The requests
//! themselves:
//!
//! - `sessions`: opening, closing, using and watching queues.
//! - `jobs`: put, take, finish, give back, bury, kick, peek.
//! - `queues`: names, numbers, pause, flush, removal.
//! - `workers`, `submits`: requests of Gearman's workers and clients.
//! - `items`: requests of Kestrel's clients.
//! - `policies`: policies and the server's status.

mod items;
mod jobs;
mod policies;
mod queues;
mod sessions;
mod submits;
mod workers;

use std::sync::MutexGuard;

use engine::{
    Choice, Engine, Handout, JobId, JobSlot, Millis, NotFound, Patience, QueueId, SessionId, Take,
    Totals,
};

use crate::broker::Shared;
use crate::core::Core;
use crate::{Answer, Event, Position};

pub use jobs::Peeked;
pub use submits::SubmittedJob;
pub use workers::Assignment;

/// The locked broker. Take one per batch of requests; never hold it across an `await` or a system
/// call. Dropping it passes the batch to the committer, and events to their mailboxes.
///
/// Requests are for sessions that are open and do not wait. Their replies wait for the log: see
/// [`Answer`].
#[derive(Debug)]
pub struct Turn<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) core: MutexGuard<'a, Core>,
}

/// Statistics of the log.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub struct LogStats {
    /// The oldest segment that is still needed.
    pub oldest_segment: u32,
    /// The current segment.
    pub current_segment: u32,
    /// Entries copied forward by reclaim, in this process.
    pub records_copied: u64,
    /// Entries written in this process, copies included.
    pub records_written: u64,
    /// Bytes of live entries.
    pub live_bytes: u64,
    /// Bytes of the segments that hold the log.
    pub data_bytes: u64,
    /// Bytes of the segments prepared ahead and kept as reserve.
    pub ahead_bytes: u64,
}

impl Turn<'_> {
    /// The moment of this turn.
    pub fn now(&self) -> Millis {
        self.core.engine.now()
    }

    /// Reports what the wall clock showed at this moment. The owner of the clock calls it from time
    /// to time. If the wall clock was set, jobs with times of the wall clock move, in slices;
    /// delays and deadlines stay. Returns false if the log had no room; then call it again later.
    pub fn set_wall(&mut self, moment: Millis, wall: Millis) -> bool {
        self.core.engine.set_wall_ahead(wall.ahead_of(moment));
        self.core.log_wall_clock()
    }

    /// The wall clock's time at this moment, as far as it is known.
    pub fn wall_at(&self, moment: Millis) -> Millis {
        self.core.engine.wall_at(moment)
    }

    /// Begins a slice of work; see [`Turn::slice_is_spent`].
    pub fn begin_slice(&mut self) {
        self.core.engine.begin_slice();
    }

    /// Whether to serve others before the next request. A long request that has begun continues in
    /// a later slice.
    pub fn slice_is_spent(&self) -> bool {
        self.core.engine.slice_is_spent()
    }

    /// Units of the longest slice of work so far, in any turn: see [`Engine::longest_slice`].
    pub fn longest_slice(&self) -> u64 {
        self.core.engine.longest_slice()
    }

    /// Counts units of work of this turn that the engine does not count itself.
    pub fn count_work(&mut self, units: usize) {
        self.core.engine.count_work(units);
    }

    /// Does due work, up to one slice. Returns true if more is due: serve others, then take a new
    /// turn and call this again.
    pub fn advance(&mut self) -> bool {
        let core = &mut *self.core;
        core.alarm = None;
        core.engine.hold_chores(self.shared.writes_behind());
        let more = core.engine.advance(&mut core.effects);
        core.apply_effects();
        more
    }

    /// Lets the end of this turn set the next alarm, after the last one has rung. The begin of the turn
    /// has done a slice of the due work.
    pub fn set_alarm_again(&mut self) {
        self.core.alarm = None;
    }

    /// Does due work, if any, like the begin of the next turn. Statistics read in the same turn as
    /// a change must not depend on where a turn ends.
    pub fn catch_up(&mut self) {
        let now = self.now();
        if self.next_deadline().is_some_and(|at| at <= now) {
            self.advance();
        }
    }

    /// The moment at which [`Turn::advance`] must be called.
    pub fn next_deadline(&self) -> Option<Millis> {
        self.core.engine.next_deadline()
    }

    /// Takes the events of this turn for one mailbox, so that its owner, which holds the turn, gets
    /// them directly. The mailbox may have older ones.
    pub fn take_events(
        &mut self,
        mailbox: usize,
        into: &mut impl Extend<(SessionId, Answer<Event>)>,
    ) {
        let own = self.core.outgoing.extract_if(.., |event| event.0 as usize == mailbox);
        into.extend(own.map(|(_, session, event)| (session, event)));
    }

    /// The position for an answer that can depend on anything so far: sums over all queues, and
    /// each row of a listing.
    pub fn after_all(&self) -> Position {
        self.core.ledger.after_all()
    }

    /// The position for an answer that depends on whether a queue of this name exists and is kept.
    pub fn after_named(&self, name: &[u8]) -> Position {
        let queue: Option<QueueId> = self.core.engine.queue_id(name);
        let ledger = &self.core.ledger;
        queue.map_or(ledger.after_gone(), |queue| ledger.after_queue(queue))
    }

    /// The position for an answer about the policies or the status.
    pub fn after_facts(&self) -> Position {
        self.core.ledger.after_facts()
    }

    /// Sums over all queues.
    pub fn totals(&self) -> Totals {
        self.core.engine.totals()
    }

    /// Statistics of the log; zeros if everything is in memory.
    pub fn log_stats(&self) -> LogStats {
        let Some(log) = &self.core.ledger.log else { return LogStats::default() };
        let usage = log.usage();
        LogStats {
            oldest_segment: usage.first_segment,
            current_segment: usage.last_segment,
            records_copied: usage.copies,
            records_written: usage.entries,
            live_bytes: usage.live_bytes,
            data_bytes: usage.data_bytes,
            ahead_bytes: usage.ahead_bytes,
        }
    }

    /// Whether puts are refused because the server drains.
    pub fn draining(&self) -> bool {
        self.shared.draining()
    }

    /// Walks everything, and panics if the parts disagree; for tests and the simulator.
    pub fn check_invariants(&self) {
        self.core.check_invariants();
    }
}

/// Whether this session holds this job, and it is in the log.
fn holds_logged(engine: &Engine, session: SessionId, id: JobId) -> bool {
    engine.held(session, id).is_ok_and(|slot| engine.is_durable(slot))
}

impl Core {
    /// Whether the log has no room for this many updates. `is_logged` says whether the request
    /// would change something in the log; if not, the engine's own answer applies.
    fn lacks_room(&self, updates: u64, is_logged: impl FnOnce(&Engine) -> bool) -> bool {
        let log = self.ledger.log.as_ref();
        log.is_some_and(|log| !log.admits_updates(updates)) && is_logged(&self.engine)
    }

    /// The position for an answer about this job, or about its end.
    fn after_id(&self, id: JobId) -> Position {
        match self.engine.slot(id) {
            Ok(slot) => self.ledger.after_job(&self.engine, slot),
            Err(NotFound) => self.ledger.after_ended(),
        }
    }

    /// The answer to a request that changed this job, or found that it could not.
    fn changed<E: From<NotFound>>(
        &self,
        id: JobId,
        slot: Result<JobSlot, NotFound>,
    ) -> Answer<Result<(), E>> {
        let after = |slot| self.ledger.after_job(&self.engine, slot);
        self.done(id, slot.map(|_| ()), slot.map_or(Position::NONE, after))
    }

    /// The answer to a request about this job. If the request was done, its reply waits for
    /// `after`.
    fn done<E: From<NotFound>>(
        &self,
        id: JobId,
        done: Result<(), NotFound>,
        after: Position,
    ) -> Answer<Result<(), E>> {
        match done {
            Ok(()) => Answer::new(Ok(()), after),
            Err(NotFound) => Answer::new(Err(NotFound.into()), self.after_id(id)),
        }
    }

    /// Takes a job. `nothing` has the position for the answer that there is none.
    fn take(
        &mut self,
        session: SessionId,
        choice: Choice<'_>,
        patience: Patience,
        nothing: impl FnOnce(&Self, Option<QueueId>) -> Position,
    ) -> Answer<Take> {
        let taken = self.engine.take(session, choice, patience, &mut self.effects);
        let last = self.apply_effects();
        let after = match &taken {
            Take::Granted(Handout { job, .. }) | Take::Peeked { job, .. } => {
                self.ledger.after_job(&self.engine, *job)
            }
            Take::Finished { .. } => last,
            Take::Nothing(queue) => nothing(self, *queue),
            Take::DeadlineSoon | Take::Waiting => Position::NONE,
        };
        Answer::new(taken, after)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // After a panic, nothing may be reported that depends on a half-done request.
        if !std::thread::panicking() {
            self.shared.end_turn(&mut self.core);
        }
    }
}
