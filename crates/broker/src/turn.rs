//! One turn of the broker: engine and log under their lock, at one moment, for one batch of
//! requests.

use std::sync::MutexGuard;

use engine::{
    Body, Engine, JobId, JobSlot, JobStatus, Manner, Millis, NewJob, NotFound, Patience,
    QueueCursor, QueueFacts, QueueId, QueueStats, SessionId, State, Totals,
};

use crate::broker::Shared;
use crate::core::Core;
use crate::{AddRefusal, Event, Grant, Position};

/// The broker, locked. Take one per batch of requests; never hold it across an `await` or a system
/// call. When it is dropped the batch goes to the committer and events to their mailboxes.
///
/// Methods return, beside their result, the log position that a reply telling of it must wait
/// for. Requests are made for sessions that are open and do not wait.
#[derive(Debug)]
pub struct Turn<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) core: MutexGuard<'a, Core>,
}

/// Why a request was refused. Nothing was changed.
#[derive(Copy, Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// No such job, or not in the state or the hands that the request needs. The reply waits for
    /// the position: what the denial rests on must be durable too.
    #[error("not found")]
    NotFound(Position),
    /// The log has no room for it. Finishing jobs makes room.
    #[error("the log has no room")]
    Full,
}

/// No such job or queue, or not in the hands that the request needs. The reply that says so waits for
/// the position.
#[derive(Copy, Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("not found")]
pub struct Denied(pub Position);

impl From<Denied> for Refusal {
    fn from(Denied(after): Denied) -> Self {
        Self::NotFound(after)
    }
}

/// What a take leads to at once.
#[derive(Debug)]
pub enum Take {
    /// A job.
    Granted(Grant),
    /// There is none, and the session did not want to wait.
    TimedOut(Position),
    /// There is none, and a job that the session holds is within a second of its deadline.
    DeadlineSoon,
    /// The session waits; an [`crate::Event`] will come.
    Waiting,
}

/// What a kick leads to at once.
#[derive(Debug)]
pub enum Kick {
    /// So many jobs were kicked.
    Done(u64, Position),
    /// It takes several turns; [`crate::Event::Kicked`] will come.
    Waiting,
}

/// A job that was looked at.
#[derive(Clone, Debug)]
pub struct Peeked {
    /// The job.
    pub id: JobId,
    /// Its bytes.
    pub body: Body,
}

/// Numbers of the log.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub struct LogStats {
    /// The oldest segment that is still needed.
    pub oldest_segment: u32,
    /// The segment that is written to.
    pub current_segment: u32,
    /// Entries copied forward by reclaim, in this process.
    pub records_copied: u64,
    /// Entries written in this process, copies included.
    pub records_written: u64,
    /// Bytes of entries that live.
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

    /// At this moment the wall clock showed this. Whoever takes turns by a clock says so now and then. If the wall
    /// clock was set, jobs whose times were given by it move, in slices; delays and deadlines stay. `false`: the log
    /// had no room for it, and should be told again later.
    pub fn set_wall(&mut self, moment: Millis, wall: Millis) -> bool {
        self.core.engine.set_wall_ahead(wall.ahead_of(moment));
        self.core.tell_log_of_wall()
    }

    /// What the wall clock shows at this moment, as far as it can be told now.
    pub fn wall_at(&self, moment: Millis) -> Millis {
        self.core.engine.wall_at(moment)
    }

    /// Begins a slice of work; see [`Turn::slice_is_spent`].
    pub fn begin_slice(&mut self) {
        self.core.engine.begin_slice();
    }

    /// Whether no further request should be made before others are served. What was begun and is
    /// long goes on in a later slice.
    pub fn slice_is_spent(&self) -> bool {
        self.core.engine.slice_is_spent()
    }

    /// Units of the longest slice of work so far, in any turn: see [`Engine::longest_slice`].
    pub fn longest_slice(&self) -> u64 {
        self.core.engine.longest_slice()
    }

    /// Does what is due by now, a bounded slice of it. True if more is due: serve others, then
    /// take a new turn and call this again.
    pub fn advance(&mut self) -> bool {
        let core = &mut *self.core;
        core.alarm = None;
        core.engine.hold_chores(self.shared.writes_behind());
        let more = core.engine.advance(&mut core.effects);
        core.settle();
        more
    }

    /// Does what is due by now, if anything is, as the beginning of the next turn would. Numbers that are told in
    /// the same turn as a change must not depend on where a turn ends.
    pub fn catch_up(&mut self) {
        let now = self.now();
        if self.next_deadline().is_some_and(|at| at <= now) {
            self.advance();
        }
    }

    /// The moment at which [`Turn::advance`] wants to be called.
    pub fn next_deadline(&self) -> Option<Millis> {
        self.core.engine.next_deadline()
    }

    /// Takes the events of this turn for one mailbox out, so that its owner, who holds the turn,
    /// need not be told and come again. Older ones may lie in the mailbox.
    pub fn take_events(&mut self, mailbox: usize, into: &mut impl Extend<(SessionId, Event)>) {
        let own = self.core.outgoing.extract_if(.., |event| event.0 as usize == mailbox);
        into.extend(own.map(|(_, session, event)| (session, event)));
    }

    // --- Sessions ---

    /// Opens a session whose events go to this mailbox (the number that
    /// [`crate::Broker::add_mailbox`] gave). It uses and watches the queue `default`.
    pub fn open_session(&mut self, mailbox: usize) -> SessionId {
        self.core.engine.open_session(mailbox as u32, Manner::KeepsPlace)
    }

    /// Ends a session: it waits no more, and every job that it holds is given back.
    pub fn close_session(&mut self, session: SessionId) {
        let core = &mut *self.core;
        core.engine.close_session(session, &mut core.effects);
        core.settle();
    }

    /// From now on `put`, `kick` and `peek_used` of this session mean this queue.
    pub fn use_queue(&mut self, session: SessionId, name: &[u8]) {
        let core = &mut *self.core;
        core.engine.use_queue(session, name, &mut core.effects);
        core.settle();
    }

    /// The name of the queue that this session uses.
    pub fn used_queue(&self, session: SessionId) -> &[u8] {
        self.core.engine.queue_name(self.core.engine.used(session))
    }

    /// Adds a queue to those that this session takes from; how many there are then.
    pub fn watch(&mut self, session: SessionId, name: &[u8]) -> usize {
        self.core.engine.watch(session, name)
    }

    /// Removes one (also if it is not watched); how many there are then, or `None` if it is the
    /// only one.
    pub fn ignore(&mut self, session: SessionId, name: &[u8]) -> Option<usize> {
        let core = &mut *self.core;
        let count = core.engine.ignore(session, name, &mut core.effects);
        core.settle();
        count
    }

    /// Names of the queues that this session takes from, in the order of watching.
    pub fn watched(&self, session: SessionId) -> impl ExactSizeIterator<Item = &[u8]> {
        let engine = &self.core.engine;
        engine.watched(session).iter().map(|queue| engine.queue_name(*queue))
    }

    /// Whether the queue of this name is among them.
    pub fn watches(&self, session: SessionId, name: &[u8]) -> bool {
        self.core.engine.watches(session, name)
    }

    // --- Jobs ---

    /// Puts a job into the queue that this session uses.
    pub fn put(
        &mut self,
        session: SessionId,
        job: NewJob,
        body: Body,
    ) -> Result<(JobId, Position), AddRefusal> {
        self.admit(body.len(), |engine| {
            engine.puts_are_logged(engine.queue_name(engine.used(session)))
        })?;
        let core = &mut *self.core;
        let put = core.engine.put(session, job, body, &mut core.effects);
        let after = core.settle();
        match put {
            Ok(id) => Ok((id, after)),
            Err(refused) => Err(core.refusal(refused)),
        }
    }

    /// Uses up a job number without a job.
    pub fn skip_job_id(&mut self) {
        self.core.engine.skip_id();
    }

    /// Takes the best job of the watched queues.
    pub fn take(&mut self, session: SessionId, patience: Patience) -> Take {
        let core = &mut *self.core;
        let take = core.engine.take(session, patience, &mut core.effects);
        core.settle();
        match take {
            engine::Take::Granted(handout) => Take::Granted(core.grant(handout)),
            engine::Take::TimedOut => {
                Take::TimedOut(core.ledger.after_queues(core.engine.watched(session)))
            }
            engine::Take::DeadlineSoon => Take::DeadlineSoon,
            engine::Take::Waiting => Take::Waiting,
        }
    }

    /// Takes this ready, delayed or buried job, from any queue, paused or not.
    pub fn take_job(&mut self, session: SessionId, id: JobId) -> Result<Grant, Refusal> {
        // That it is not set aside any more must last, and so needs room.
        let core = self.core_for_update(|engine| is_set_aside(engine, id))?;
        let taken = core.engine.take_job(session, id, &mut core.effects);
        core.settle();
        match taken {
            Ok(handout) => Ok(core.grant(handout)),
            Err(NotFound) => Err(core.denial(id).into()),
        }
    }

    /// Ends the session's wait for a job, if it waits for one; its event will not come then.
    /// The reply that nothing came waits for the position.
    pub fn cancel_wait(&mut self, session: SessionId) -> Option<Position> {
        let core = &mut *self.core;
        let waited = core.engine.stop_waiting(session);
        // A session that reads items watches nothing: the queue that it waits for is not told here.
        waited.then(|| core.ledger.after_all())
    }

    /// Ends a job that this session holds, or that nobody holds.
    pub fn finish(&mut self, session: SessionId, id: JobId) -> Result<Position, Denied> {
        let core = &mut *self.core;
        let finished = core.engine.finish(session, id, &mut core.effects);
        let after = core.settle();
        finished.map(|_| after).map_err(|NotFound| core.denial(id))
    }

    /// Gives back a job that this session holds: ready, or delayed if `delay_s` is not 0.
    pub fn give_back(
        &mut self,
        session: SessionId,
        id: JobId,
        priority: u32,
        delay_s: u32,
    ) -> Result<Position, Refusal> {
        let core = self.core_for_update(|engine| holds_logged(engine, session, id))?;
        let given = core.engine.give_back(session, id, priority, delay_s, &mut core.effects);
        core.settle();
        Ok(core.after_update(id, given)?)
    }

    /// Sets a job aside that this session holds.
    pub fn bury(
        &mut self,
        session: SessionId,
        id: JobId,
        priority: u32,
    ) -> Result<Position, Refusal> {
        let core = self.core_for_update(|engine| holds_logged(engine, session, id))?;
        let buried = core.engine.bury(session, id, priority, &mut core.effects);
        core.settle();
        Ok(core.after_update(id, buried)?)
    }

    /// Starts the ttr of a job that this session holds anew.
    pub fn touch(&mut self, session: SessionId, id: JobId) -> Result<Position, Denied> {
        let touched = self.core.engine.touch(session, id);
        self.core.after_update(id, touched)
    }

    /// Makes up to `max` buried jobs of the used queue ready, or delayed ones if none is buried.
    pub fn kick(&mut self, session: SessionId, max: u64) -> Result<Kick, Refusal> {
        // All at once, although it is done in slices: nobody could be told of the end of room later.
        let used = self.core.engine.queue_stats(self.core.engine.used(session));
        let found = if used.buried > 0 { used.buried } else { used.delayed };
        let count = max.min(found);
        let core = self.core_for_updates(count, |_| count > 0)?;
        let kick = core.engine.kick(session, max, &mut core.effects);
        core.settle();
        Ok(match kick {
            engine::Kick::Done(count) => {
                Kick::Done(count, core.ledger.after_queue(core.engine.used(session)))
            }
            engine::Kick::Waiting => Kick::Waiting,
        })
    }

    /// Makes a delayed or buried job ready.
    pub fn kick_job(&mut self, id: JobId) -> Result<Position, Refusal> {
        let core = self.core_for_update(|engine| is_set_aside(engine, id))?;
        let kicked = core.engine.kick_job(id, &mut core.effects);
        core.settle();
        Ok(core.after_update(id, kicked)?)
    }

    /// A job in any state.
    pub fn peek(&self, id: JobId) -> Result<(Peeked, Position), Denied> {
        let slot = self.core.engine.slot(id).map_err(|NotFound| self.core.denial(id))?;
        Ok(self.look(slot))
    }

    /// The next ready, the soonest due or the longest buried job of the used queue.
    pub fn peek_used(
        &self,
        session: SessionId,
        state: State,
    ) -> Result<(Peeked, Position), Denied> {
        let core = &*self.core;
        let slot = core
            .engine
            .first_used(session, state)
            .map_err(|NotFound| Denied(core.ledger.after_queue(core.engine.used(session))))?;
        Ok(self.look(slot))
    }

    fn look(&self, slot: JobSlot) -> (Peeked, Position) {
        let core = &*self.core;
        let body = core.engine.body(slot).clone();
        (Peeked { id: core.engine.id_of(slot), body }, core.ledger.after_job(&core.engine, slot))
    }

    // --- Queues and numbers ---

    /// Pauses a queue for so many seconds; 0 ends a pause. Pauses are not logged: they end with
    /// the process, as in beanstalkd.
    pub fn pause(&mut self, name: &[u8], seconds: u32) -> Result<Position, Denied> {
        let core = &mut *self.core;
        let paused = core.engine.pause(name, seconds, &mut core.effects);
        core.settle();
        let gone = core.ledger.after_gone();
        paused.map(|()| Position::default()).map_err(|NotFound| Denied(gone))
    }

    /// A job's numbers.
    pub fn job_status(&self, id: JobId) -> Result<(JobStatus, Position), Denied> {
        let core = &*self.core;
        let status = core.engine.job_status(id).map_err(|NotFound| core.denial(id))?;
        let after = core.engine.slot(id).map_or_else(
            |NotFound| Position::default(),
            |slot| core.ledger.after_job(&core.engine, slot),
        );
        Ok((status, after))
    }

    /// The number of the log segment that a job lies in; 0 if it is in memory only.
    pub fn job_segment(&self, id: JobId) -> u32 {
        let slot = self.core.engine.slot(id).ok();
        let place = slot.and_then(|slot| self.core.ledger.places.get(slot));
        place.map_or(0, |place| place.target.segment)
    }

    /// The name of a queue.
    pub fn queue_name(&self, queue: QueueId) -> &[u8] {
        self.core.engine.queue_name(queue)
    }

    /// The queue of this name, if it exists. Its number may be another's when it is gone; of what
    /// is due at once, that of the lower number comes first.
    pub fn queue_id(&self, name: &[u8]) -> Option<QueueId> {
        self.core.engine.queue_id(name)
    }

    /// Numbers of the queue of this name, if it exists.
    pub fn queue_stats(&self, name: &[u8]) -> Option<QueueStats> {
        let engine = &self.core.engine;
        engine.queue_id(name).map(|queue| engine.queue_stats(queue))
    }

    /// The queue behind the cursor, from the oldest on. The cursor moves there.
    pub fn next_queue(&mut self, cursor: &mut QueueCursor) -> Option<QueueId> {
        self.core.engine.next_queue(cursor)
    }

    /// Numbers of a queue.
    pub fn queue_stats_of(&self, queue: QueueId) -> QueueStats {
        self.core.engine.queue_stats(queue)
    }

    /// What is kept of a queue.
    pub fn queue_facts_of(&self, queue: QueueId) -> QueueFacts {
        self.core.engine.queue_facts(queue)
    }

    /// What an answer waits for that may rest on anything that was done so far: numbers over all queues,
    /// and each row of a listing.
    pub fn after_all(&self) -> Position {
        self.core.ledger.after_all()
    }

    /// So many units of work are done in this turn beside what the engine counts itself.
    pub fn count_work(&mut self, units: usize) {
        self.core.engine.count_work(units);
    }

    /// Names of all queues, oldest first. Whoever walks them to the end holds up everybody: for the first few,
    /// tests and the simulator; all others go by [`Turn::next_queue`].
    pub fn queue_names(&self) -> impl Iterator<Item = &[u8]> {
        let engine = &self.core.engine;
        engine.queue_ids().map(|queue| engine.queue_name(queue))
    }

    /// Numbers over all queues.
    pub fn totals(&self) -> Totals {
        self.core.engine.totals()
    }

    /// Numbers of the log; zeros if everything is in memory only.
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

    /// Whether puts are to be refused because the server is being emptied.
    pub fn draining(&self) -> bool {
        self.shared.draining()
    }

    /// Walks everything and panics where the parts disagree; for tests and the simulator.
    pub fn check_invariants(&self) {
        self.core.check_invariants();
    }

    /// Refuses an update for which the log has no room. `is_logged` says whether anything would
    /// change that is in the log; if not, the engine's own answer holds.
    pub(crate) fn core_for_update(
        &mut self,
        is_logged: impl FnOnce(&Engine) -> bool,
    ) -> Result<&mut Core, Refusal> {
        self.core_for_updates(1, is_logged)
    }

    fn core_for_updates(
        &mut self,
        count: u64,
        is_logged: impl FnOnce(&Engine) -> bool,
    ) -> Result<&mut Core, Refusal> {
        let core = &mut *self.core;
        match &core.ledger.log {
            Some(log) if !log.admits_updates(count) && is_logged(&core.engine) => {
                Err(Refusal::Full)
            }
            Some(_) | None => Ok(core),
        }
    }
}

/// Whether this session holds this job, and it is in the log.
pub(crate) fn holds_logged(engine: &Engine, session: SessionId, id: JobId) -> bool {
    engine.held(session, id).is_ok_and(|slot| engine.is_durable(slot))
}

/// Whether this job is one that can be kicked, and is in the log.
fn is_set_aside(engine: &Engine, id: JobId) -> bool {
    engine.slot(id).is_ok_and(|slot| {
        let state = engine.facts(slot).state;
        matches!(state, State::Delayed | State::Buried) && engine.is_durable(slot)
    })
}

impl Core {
    /// What a denial of a request for this job waits for.
    pub(crate) fn denial(&self, id: JobId) -> Denied {
        Denied(match self.engine.slot(id) {
            Ok(slot) => self.ledger.after_job(&self.engine, slot),
            Err(NotFound) => self.ledger.after_ended(),
        })
    }

    pub(crate) fn grant(&self, handout: engine::Handout) -> Grant {
        let engine::Handout { job, id, lease, body } = handout;
        Grant { id, lease, body, after: self.ledger.after_job(&self.engine, job) }
    }

    fn after_update(&self, id: JobId, slot: Result<JobSlot, NotFound>) -> Result<Position, Denied> {
        match slot {
            Ok(slot) => Ok(self.ledger.after_job(&self.engine, slot)),
            Err(NotFound) => Err(self.denial(id)),
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // After a panic nothing may be told that rests on half of what a request does.
        if !std::thread::panicking() {
            self.shared.end_turn(&mut self.core);
        }
    }
}
