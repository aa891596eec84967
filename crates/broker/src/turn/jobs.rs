//! Jobs: put, take, finish, peek.

use engine::{
    Body, Choice, Engine, JobId, JobSlot, JobStatus, NewJob, NotFound, Patience, SessionId, State,
};

use super::holds_logged;
use crate::core::Core;
use crate::{Denied, Grant, Position, PutRefusal, Refusal, Turn};

/// The immediate outcome of a take.
#[derive(Debug)]
pub enum Take {
    /// A job.
    Granted(Grant),
    /// No job, and the session did not want to wait.
    TimedOut(Position),
    /// No job, and a job that the session holds is within a second of its deadline.
    DeadlineSoon,
    /// The session waits; an [`crate::Event`] will come.
    Waiting,
}

/// The immediate outcome of a kick.
#[derive(Debug)]
pub enum Kick {
    /// This many jobs were kicked.
    Done(u64, Position),
    /// It takes several turns; [`crate::Event::Kicked`] will come.
    Waiting,
}

/// A job returned by a peek.
#[derive(Clone, Debug)]
pub struct Peeked {
    /// The job.
    pub id: JobId,
    /// Its bytes.
    pub body: Body,
}

impl Turn<'_> {
    /// Puts a job into the queue that this session uses.
    pub fn put(
        &mut self,
        session: SessionId,
        job: NewJob,
        body: Body,
    ) -> Result<(JobId, Position), PutRefusal> {
        self.admit(body.len(), |engine| {
            engine.puts_are_logged(engine.queue_name(engine.used(session)))
        })?;
        let core = &mut *self.core;
        let put = core.engine.put(session, job, body, &mut core.effects);
        let after = core.apply_effects();
        match put {
            Ok(id) => Ok((id, after)),
            Err(refused) => Err(core.refusal(refused)),
        }
    }

    /// Uses up a job id without a job.
    pub fn skip_job_id(&mut self) {
        self.core.engine.skip_id();
    }

    /// Takes the best job of the watched queues.
    pub fn take(&mut self, session: SessionId, patience: Patience) -> Take {
        let core = &mut *self.core;
        let take = core.engine.take(session, Choice::Watched, patience, &mut core.effects);
        core.apply_effects();
        match take {
            engine::Take::Granted(handout) => Take::Granted(core.grant(handout)),
            engine::Take::Nothing(_) => {
                Take::TimedOut(core.ledger.after_queues(core.engine.watched(session)))
            }
            engine::Take::DeadlineSoon => Take::DeadlineSoon,
            engine::Take::Waiting => Take::Waiting,
            engine::Take::Finished { .. } | engine::Take::Peeked { .. } => {
                unreachable!("only a take from one queue is asked for this")
            }
        }
    }

    /// Takes this ready, delayed or buried job from any queue, even a paused one.
    pub fn take_job(&mut self, session: SessionId, id: JobId) -> Result<Grant, Refusal> {
        // The end of its buried or delayed state must be logged, and so needs room.
        let core = self.core_for_update(|engine| is_set_aside(engine, id))?;
        let choice = Choice::Job(id);
        let taken = core.engine.take(session, choice, Patience::None, &mut core.effects);
        core.apply_effects();
        match taken.granted() {
            Some(handout) => Ok(core.grant(handout)),
            None => Err(core.denial(id).into()),
        }
    }

    /// Finishes a job that this session holds, or that no session holds.
    pub fn finish(&mut self, session: SessionId, id: JobId) -> Result<Position, Denied> {
        let core = &mut *self.core;
        let finished = core.engine.finish(session, id, &mut core.effects);
        let after = core.apply_effects();
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
        core.apply_effects();
        Ok(core.after_update(id, given)?)
    }

    /// Buries a job that this session holds.
    pub fn bury(
        &mut self,
        session: SessionId,
        id: JobId,
        priority: u32,
    ) -> Result<Position, Refusal> {
        let core = self.core_for_update(|engine| holds_logged(engine, session, id))?;
        let buried = core.engine.bury(session, id, priority, &mut core.effects);
        core.apply_effects();
        Ok(core.after_update(id, buried)?)
    }

    /// Restarts the ttr of a job that this session holds.
    pub fn touch(&mut self, session: SessionId, id: JobId) -> Result<Position, Denied> {
        let touched = self.core.engine.touch(session, id);
        self.core.after_update(id, touched)
    }

    /// Makes up to `max` buried jobs of the used queue ready; if none is buried, delayed jobs.
    pub fn kick(&mut self, session: SessionId, max: u64) -> Result<Kick, Refusal> {
        // Checks room for all jobs at once, although the kick runs in slices: later, a lack of room
        // could not be reported.
        let used = self.core.engine.queue_stats(self.core.engine.used(session));
        let found = if used.buried > 0 { used.buried } else { used.delayed };
        let count = max.min(found);
        let core = self.core_for_updates(count, |_| count > 0)?;
        let kick = core.engine.kick(session, max, &mut core.effects);
        core.apply_effects();
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
        core.apply_effects();
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

    /// The status of a job.
    pub fn job_status(&self, id: JobId) -> Result<(JobStatus, Position), Denied> {
        let core = &*self.core;
        let status = core.engine.job_status(id).map_err(|NotFound| core.denial(id))?;
        let after = core.engine.slot(id).map_or_else(
            |NotFound| Position::default(),
            |slot| core.ledger.after_job(&core.engine, slot),
        );
        Ok((status, after))
    }

    /// The number of the log segment that holds a job; 0 if it is only in memory.
    pub fn job_segment(&self, id: JobId) -> u32 {
        let slot = self.core.engine.slot(id).ok();
        let location = slot.and_then(|slot| self.core.ledger.locations.get(slot));
        location.map_or(0, |location| location.log_slot.segment)
    }
}

/// Whether this job can be kicked, and is in the log.
fn is_set_aside(engine: &Engine, id: JobId) -> bool {
    engine.slot(id).is_ok_and(|slot| {
        let state = engine.facts(slot).state;
        matches!(state, State::Delayed | State::Buried) && engine.is_durable(slot)
    })
}

impl Core {
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
