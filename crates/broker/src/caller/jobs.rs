//! Jobs: put, take, finish, give back, bury, touch, kick, peek.

use engine::policy::Unsent;
use engine::{
    Body, Choice, Engine, Handout, JobBody, JobId, JobSlot, Kick, Millis, NewJob, NotFound,
    Patience, Refused, SessionId, State, Take,
};

use super::holds_logged;
use crate::admission::{not_admitted, put_bytes};
use crate::core::Core;
use crate::{Answer, Caller, PutRefusal, Refusal};

/// A job returned by a peek.
#[derive(Clone, Debug)]
pub struct Peeked {
    /// The job.
    pub id: JobId,
    /// The job's bytes.
    pub body: JobBody,
}

/// # Jobs
impl Caller<'_> {
    /// Puts a job into the queue that this session uses.
    #[inline]
    pub fn put(&mut self, job: NewJob, body: Body) -> Answer<Result<JobId, PutRefusal>> {
        self.put_partly(job, Unsent::NOTHING, body)
    }

    /// Puts a job of which the client did not send everything: see `Engine::put_partly`.
    pub fn put_partly(
        &mut self,
        job: NewJob,
        unsent: Unsent,
        body: Body,
    ) -> Answer<Result<JobId, PutRefusal>> {
        let session = self.session;
        let engine = &self.core.engine;
        let bytes = put_bytes(engine, |engine| put_name(engine, session, None), body.len());
        let admitted = self.shared.admit(
            self.core,
            bytes,
            |engine| engine.puts_are_logged(put_name(engine, session, None)),
            |engine| engine.put_makes_no_job(session, None, &body),
        );
        if let Err(refusal) = admitted {
            return not_admitted(self.core, refusal);
        }
        let core = &mut *self.core;
        let put = core.engine.put_partly(self.session, job, unsent, body, &mut core.effects);
        let after = core.apply_effects();
        match put {
            Ok(id) => Answer::new(Ok(id), after),
            Err(refused) => self.shared.refusal(core, refused),
        }
    }

    /// Puts a job as [`Caller::put`] does, but only as a new job: a duplicate is refused and changes
    /// nothing, whatever the policy `unique` of the queue says.
    pub fn put_new(&mut self, job: NewJob, body: Body) -> Answer<Result<JobId, PutRefusal>> {
        if self.core.engine.put_is_duplicate(self.session, &body) {
            return self.shared.refusal(self.core, Refused::Duplicate);
        }
        self.put(job, body)
    }

    /// Whether the next put of this session must wait, because a queue that it names is full and the
    /// policy of this queue lets puts wait. `queue`: as in `submit` and `add`; `None` for a put into
    /// the used queue. If so, [`crate::Event::Room`] follows. Then the dialect calls this function
    /// again, and does the put if it need not wait. A dialect that does not call this function gets
    /// [`PutRefusal::QueueFull`] at once.
    #[inline]
    pub fn must_wait_for_room(&mut self, queue: Option<&[u8]>, body: &Body, unique: &[u8]) -> bool {
        self.core.engine.puts_may_wait() && self.wait_for_room(queue, (body, unique), None)
    }

    /// Like [`Caller::must_wait_for_room`], for the next item of a list. `since` is the moment at which
    /// the first of the items began to wait, if one has waited: the list waits for the time of one put.
    pub fn item_must_wait_for_room(
        &mut self,
        queue: &[u8],
        body: &Body,
        since: &mut Option<Millis>,
    ) -> bool {
        if !self.core.engine.puts_may_wait() {
            return false;
        }
        let waits = self.wait_for_room(Some(queue), (body, b""), *since);
        if waits {
            since.get_or_insert(self.core.engine.now());
        }
        waits
    }

    /// Ends the wait of this session for room, because its put, which follows, will not wait again. The
    /// parameters are those of [`Caller::must_wait_for_room`].
    pub fn stop_waiting_for_room(&mut self, queue: Option<&[u8]>, body: &Body) {
        if self.core.engine.puts_may_wait() {
            self.try_for_room(queue, (body, b""), None, false);
        }
    }

    fn wait_for_room(
        &mut self,
        queue: Option<&[u8]>,
        put: (&Body, &[u8]),
        since: Option<Millis>,
    ) -> bool {
        self.try_for_room(queue, put, since, true)
    }

    /// Ends the wait of this session for room. If `may_wait`, asks the engine whether the put must wait
    /// again. A put that the broker refuses does not wait.
    fn try_for_room(
        &mut self,
        queue: Option<&[u8]>,
        put: (&Body, &[u8]),
        since: Option<Millis>,
        may_wait: bool,
    ) -> bool {
        let core = &mut *self.core;
        let session = self.session;
        let engine = &core.engine;
        let bytes = put_bytes(engine, |engine| put_name(engine, session, queue), put.0.len());
        // A put that makes no job does not wait for room. So it need not be told apart here.
        let looked = self.shared.look(
            core,
            bytes,
            |engine| engine.puts_are_logged(put_name(engine, session, queue)),
            |_| false,
        );
        let waits = if may_wait && looked.is_ok() {
            core.engine.wait_for_room(session, queue, put, since, &mut core.effects)
        } else {
            core.engine.stop_waiting_for_room(session, &mut core.effects);
            false
        };
        if waits || looked.is_err() {
            core.apply_effects();
        } else {
            // The put follows at once. What it leaves is room for others.
            core.apply_part_of_effects();
        }
        waits
    }

    /// Ends the wait of this session for room. Returns false if the session does not wait, or if the
    /// event is already on its way. Then the session keeps its place in the line until it tries.
    pub fn cancel_room_wait(&mut self) -> bool {
        let core = &mut *self.core;
        let waited = core.engine.cancel_room_wait(self.session, &mut core.effects);
        core.apply_effects();
        waited
    }

    /// Takes the best job of the watched queues. At the limit of memory, a session that holds many jobs
    /// gets no other one of a queue with cold jobs: the answer is [`Take::Nothing`] at once.
    pub fn take(&mut self, patience: Patience) -> Answer<Take> {
        if self.must_finish_first(Choice::Watched) {
            let is_soon = self.core.engine.deadline_is_soon(self.session);
            return Answer::at_once(if is_soon { Take::DeadlineSoon } else { Take::Nothing(None) });
        }
        self.core.take(self.session, Choice::Watched, patience, |core, _| {
            core.ledger.after_queues(core.engine.watched(self.session))
        })
    }

    /// Takes this ready, delayed or buried job from any queue, even a paused one. At the limit of memory, a
    /// session that holds many jobs does not get it if its queue has cold jobs. If the job was cold itself,
    /// it has been loaded before: until then, its queue is not known.
    pub fn take_job(&mut self, id: JobId) -> Answer<Result<Handout, Refusal>> {
        if self.must_finish_first(Choice::Job(id)) {
            return Answer::at_once(Err(Refusal::MemoryFull));
        }
        let core = &mut *self.core;
        // If the job is buried or delayed, the take ends this state. The log must store this
        // change, which needs room.
        if core.lacks_room(1, |engine| is_set_aside(engine, id)) {
            return Answer::at_once(Err(Refusal::LogFull));
        }
        let taken =
            core.take(self.session, Choice::Job(id), Patience::None, |core, _| core.after_id(id));
        taken.map(|taken| taken.granted().ok_or(Refusal::NotFound))
    }

    /// Ends the session's wait for a job or an item, and returns whether the session waited. No
    /// event will come for this wait.
    pub fn cancel_wait(&mut self) -> Answer<bool> {
        let core = &mut *self.core;
        let waited = core.engine.stop_waiting(self.session);
        // The answer waits for all entries so far. An answer about the watched queues is not
        // enough, because a session that waits for an item does not watch the item's queue.
        Answer::new(waited, core.ledger.after_all())
    }

    /// Finishes a job that this session holds, or that no session holds.
    pub fn finish(&mut self, id: JobId) -> Answer<Result<(), NotFound>> {
        let core = &mut *self.core;
        let finished = core.engine.finish(self.session, id, &mut core.effects);
        let after = core.apply_effects();
        core.done(id, finished.map(|_| ()), after)
    }

    /// Gives back a job that this session holds: ready, or delayed if `delay_s` is not 0.
    pub fn give_back(
        &mut self,
        id: JobId,
        priority: u32,
        delay_s: u32,
    ) -> Answer<Result<(), Refusal>> {
        let core = &mut *self.core;
        if core.lacks_room(1, |engine| holds_logged(engine, self.session, id)) {
            return Answer::at_once(Err(Refusal::LogFull));
        }
        let is_logged = holds_logged(&core.engine, self.session, id);
        let given = core.engine.give_back(self.session, id, priority, delay_s, &mut core.effects);
        core.apply_effects();
        if given.is_ok() && is_logged && core.engine.slot(id).is_err() {
            // It has failed too often, and the policy of its queue ended it.
            return Answer::new(Ok(()), core.ledger.after_ended());
        }
        core.changed(id, given)
    }

    /// Buries a job that this session holds.
    pub fn bury(&mut self, id: JobId, priority: u32) -> Answer<Result<(), Refusal>> {
        let core = &mut *self.core;
        if core.lacks_room(1, |engine| holds_logged(engine, self.session, id)) {
            return Answer::at_once(Err(Refusal::LogFull));
        }
        let buried = core.engine.bury(self.session, id, priority, &mut core.effects);
        core.apply_effects();
        core.changed(id, buried)
    }

    /// Restarts the ttr of a job that this session holds.
    pub fn touch(&mut self, id: JobId) -> Answer<Result<(), NotFound>> {
        let touched = self.core.engine.touch(self.session, id);
        self.core.changed(id, touched)
    }

    /// Ends the lease of a job that this session holds, because the time is over that its owner gave it:
    /// the attempt has failed, as at the end of the ttr.
    pub fn time_out(&mut self, id: JobId) -> Answer<Result<(), NotFound>> {
        let core = &mut *self.core;
        let timed_out = core.engine.time_out(self.session, id, &mut core.effects);
        core.apply_effects();
        Answer::new(timed_out, core.after_id(id))
    }

    /// Makes at most `max` jobs of the used queue ready: buried jobs, or delayed jobs if none is
    /// buried.
    pub fn kick(&mut self, max: u64) -> Answer<Result<Kick, Refusal>> {
        let core = &mut *self.core;
        // The kick runs in slices. A later slice could not report to the client that the log has no
        // room. So this checks now that the log has room for all jobs. Others can use this room
        // meanwhile. Then the kick ends early: see `Engine::end_kicks`.
        let used = core.engine.queue_stats(core.engine.used(self.session));
        let found = if used.buried > 0 { used.buried } else { used.delayed };
        let count = max.min(found);
        if core.lacks_room(count, |_| count > 0) {
            return Answer::at_once(Err(Refusal::LogFull));
        }
        let kick = core.engine.kick(self.session, max, &mut core.effects);
        core.apply_effects();
        match kick {
            Kick::Done(_) => {
                Answer::new(Ok(kick), core.ledger.after_queue(core.engine.used(self.session)))
            }
            Kick::Waiting => Answer::at_once(Ok(kick)),
        }
    }

    /// Makes a delayed or buried job ready.
    pub fn kick_job(&mut self, id: JobId) -> Answer<Result<(), Refusal>> {
        let core = &mut *self.core;
        if core.lacks_room(1, |engine| is_set_aside(engine, id)) {
            return Answer::at_once(Err(Refusal::LogFull));
        }
        let kicked = core.engine.kick_job(id, &mut core.effects);
        core.apply_effects();
        core.changed(id, kicked)
    }

    /// Buries a job that no session holds, on an operator's request. A buried job moves behind all other
    /// buried jobs of its queue.
    pub fn bury_job(&mut self, id: JobId, priority: u32) -> Answer<Result<(), Refusal>> {
        let core = &mut *self.core;
        if core.lacks_room(1, |engine| is_logged(engine, id)) {
            return Answer::at_once(Err(Refusal::LogFull));
        }
        let buried = core.engine.bury_job(id, priority, &mut core.effects);
        core.apply_effects();
        Answer::new(buried.map_err(Refusal::from), core.after_id(id))
    }

    /// Gives a job that no session holds another priority, on an operator's request, and makes it ready,
    /// or delayed if `delay_s` is not 0.
    pub fn reschedule_job(
        &mut self,
        id: JobId,
        priority: u32,
        delay_s: u32,
    ) -> Answer<Result<(), Refusal>> {
        let core = &mut *self.core;
        if core.lacks_room(1, |engine| is_logged(engine, id)) {
            return Answer::at_once(Err(Refusal::LogFull));
        }
        let rescheduled = core.engine.reschedule_job(id, priority, delay_s, &mut core.effects);
        core.apply_effects();
        // A waiting client may have got the job, and may have finished it.
        Answer::new(rescheduled.map_err(Refusal::from), core.after_id(id))
    }

    /// Looks at a job in any state and any queue.
    pub fn peek(&self, id: JobId) -> Answer<Result<Peeked, NotFound>> {
        match self.core.engine.slot(id) {
            Ok(slot) => self.core.peeked(slot, self.session),
            Err(NotFound) => Answer::new(Err(NotFound), self.core.ledger.after_ended()),
        }
    }

    /// Looks at the first job of the used queue in this state: the next ready job, the delayed job
    /// with the earliest due time, or the job that was buried first.
    pub fn peek_used(&self, state: State) -> Answer<Result<Peeked, NotFound>> {
        let core = &*self.core;
        match core.engine.first_used(self.session, state) {
            Ok(slot) => core.peeked(slot, self.session),
            Err(NotFound) => {
                Answer::new(Err(NotFound), core.ledger.after_queue(core.engine.used(self.session)))
            }
        }
    }

    /// The number of the job that [`Caller::peek_used`] would show.
    pub fn first_used_id(&self, state: State) -> Answer<Result<JobId, NotFound>> {
        let core = &*self.core;
        match core.engine.first_used(self.session, state) {
            Ok(slot) => {
                let after = core.ledger.after_job(&core.engine, slot);
                Answer::new(Ok(core.engine.id_of(slot)), after)
            }
            Err(NotFound) => {
                Answer::new(Err(NotFound), core.ledger.after_queue(core.engine.used(self.session)))
            }
        }
    }
}

/// The name that a put goes to. `None`: the queue that the session uses.
fn put_name<'n>(engine: &'n Engine, session: SessionId, queue: Option<&'n [u8]>) -> &'n [u8] {
    queue.unwrap_or_else(|| engine.queue_name(engine.used(session)))
}

/// Whether this job is in the log.
fn is_logged(engine: &Engine, id: JobId) -> bool {
    engine.slot(id).is_ok_and(|slot| engine.is_durable(slot))
}

/// Whether this job is delayed or buried, and is in the log.
fn is_set_aside(engine: &Engine, id: JobId) -> bool {
    engine.slot(id).is_ok_and(|slot| {
        let state = engine.facts(slot).state;
        matches!(state, State::Delayed | State::Buried) && engine.is_durable(slot)
    })
}

impl Core {
    pub(super) fn peeked(
        &self,
        slot: JobSlot,
        session: SessionId,
    ) -> Answer<Result<Peeked, NotFound>> {
        let (id, mut body) = (self.engine.id_of(slot), self.engine.body(slot));
        self.fetch((slot, id), None, session, &mut body);
        let peeked = Peeked { id, body };
        Answer::new(Ok(peeked), self.ledger.after_job(&self.engine, slot))
    }
}
