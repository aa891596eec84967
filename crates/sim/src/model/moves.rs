//! Moves of jobs to other queues, and to a queue of dead letters and back, and other changes of one job, at
//! the request of an operator.

use broker::policy::DeadTarget;
use broker::{
    DeathCause, MoveRefusal, PutRefusal, RedriveRefusal, RedriveRefused, Refusal, SetAsideRefusal,
    SetAsideRefused,
};

use super::outcome::News;
use super::record::Record;
use super::routes::Refused;
use super::{JobKind, Model, Need, State};

impl Model {
    /// Moves a job, as the server did or refused to do. Returns the record that the reply depends on.
    pub(crate) fn move_job(
        &mut self,
        id: u64,
        to: &str,
        seen: Result<(), MoveRefusal>,
    ) -> Result<Need, String> {
        if seen == Err(PutRefusal::LogFull.into()) && self.may_refuse {
            self.refusals += 1;
            return Ok(0);
        }
        let expected = self.try_to_move(id, to);
        if expected != seen {
            return Err(format!("the move of job {id} to {to}: {seen:?}, not {expected:?}"));
        }
        Ok(if expected.is_ok() { self.denial(id) } else { 0 })
    }

    fn try_to_move(&mut self, id: u64, to: &str) -> Result<(), MoveRefusal> {
        if self.writes_blocked() {
            return Err(PutRefusal::WritesBlocked.into());
        }
        let job = self.jobs.get(&id).ok_or(MoveRefusal::NotFound)?;
        let (state, body_len) = (job.state, job.body.len());
        if matches!(state, State::Leased(_)) {
            return Err(MoveRefusal::Leased);
        }
        if &*job.queue == to {
            return Err(MoveRefusal::SameQueue);
        }
        if self.alias(to).is_some() || self.policy(to).fanout_only {
            return Err(MoveRefusal::StoresNothing);
        }
        if self.key_is_taken(id, to) {
            return Err(PutRefusal::Duplicate.into());
        }
        let to = self.create_queue(to);
        if let Err(refused) = self.check_room(&to, body_len) {
            self.drop_queue_if_unwanted(&to);
            return Err(match refused {
                Refused::QueueFull => PutRefusal::QueueFull.into(),
                Refused::TooBig => PutRefusal::TooBig.into(),
                Refused::Duplicate => PutRefusal::Duplicate.into(),
            });
        }
        if let State::Buried { .. } = state {
            let now = self.now;
            let job = self.job_mut(id);
            job.counts.kicks += 1;
            job.since = now;
            job.state = State::Ready;
        }
        self.reroute(id, &to, Record::Update);
        Ok(())
    }

    /// Sets a job aside, as the server did or refused to do. Returns the record that the reply depends
    /// on.
    pub(crate) fn set_aside_job(
        &mut self,
        id: u64,
        seen: Result<(), SetAsideRefusal>,
    ) -> Result<Need, String> {
        if seen == Err(PutRefusal::LogFull.into()) && self.may_refuse {
            self.refusals += 1;
            return Ok(0);
        }
        let expected = self.try_to_set_aside(id);
        if expected != seen {
            return Err(format!("job {id} is set aside: {seen:?}, not {expected:?}"));
        }
        Ok(if expected.is_ok() { self.denial(id) } else { 0 })
    }

    fn try_to_set_aside(&mut self, id: u64) -> Result<(), SetAsideRefusal> {
        if self.writes_blocked() {
            return Err(PutRefusal::WritesBlocked.into());
        }
        let job = self.jobs.get(&id).ok_or(SetAsideRefused::NotFound)?;
        let dead = &self.queues[&job.queue].policy.dead;
        let refused = match job.state {
            State::Leased(_) => Some(SetAsideRefused::Leased),
            _ if job.death.is_some() => Some(SetAsideRefused::DeadAlready),
            _ if job.kind == JobKind::Watched => Some(SetAsideRefused::Awaited),
            _ if dead.target == DeadTarget::Drop || dead.jobs_max == 0 => {
                Some(SetAsideRefused::NotKept)
            }
            _ => None,
        };
        if let Some(refused) = refused {
            return Err(refused.into());
        }
        self.give_up(id, &News::Fail, DeathCause::Operator, None);
        Ok(())
    }

    /// True if the job exists, and not only for the clients that wait for its outcome.
    pub(crate) fn is_lasting(&self, id: u64) -> bool {
        self.jobs.get(&id).is_some_and(|job| job.kind != JobKind::Watched)
    }

    /// Buries a lasting job, as the server did or refused to do. Returns the record that the reply depends
    /// on.
    pub(crate) fn bury_job(
        &mut self,
        id: u64,
        pri: u32,
        seen: Result<(), Refusal>,
    ) -> Result<Need, String> {
        self.change_by_hand(id, seen, |model| {
            let order = model.next_buried;
            model.next_buried += 1;
            let job = model.job_mut(id);
            let watchers = std::mem::take(&mut job.watchers);
            (job.pri, job.state) = (pri, State::Buried { order });
            job.counts.buries += 1;
            model.record(id, Record::Update);
            let need = model.jobs[&id].need;
            model.send_last_news(watchers, id, &News::Fail, need);
        })
    }

    /// Gives a lasting job another priority and delay, as the server did or refused to do. Returns the record
    /// that the reply depends on.
    pub(crate) fn reschedule_job(
        &mut self,
        id: u64,
        (pri, delay): (u32, u32),
        seen: Result<(), Refusal>,
    ) -> Result<Need, String> {
        let now = self.now;
        self.change_by_hand(id, seen, |model| {
            let job = model.job_mut(id);
            let queue = job.queue.clone();
            (job.pri, job.delay) = (pri, delay);
            if delay > 0 {
                (job.since, job.state) = (0, State::Delayed { due: now + u64::from(delay) * 1000 });
                model.record(id, Record::Update);
                model.keep_slot(&queue, id);
                return;
            }
            if job.state != State::Ready {
                (job.since, job.state) = (now, State::Ready);
            }
            model.record(id, Record::Update);
            model.offer(id);
        })
    }

    fn change_by_hand(
        &mut self,
        id: u64,
        seen: Result<(), Refusal>,
        change: impl FnOnce(&mut Self),
    ) -> Result<Need, String> {
        if seen == Err(Refusal::LogFull) && self.may_refuse {
            self.refusals += 1;
            return Ok(0);
        }
        let is_held = self.jobs.get(&id).is_none_or(|job| matches!(job.state, State::Leased(_)));
        let expected = if is_held { Err(Refusal::NotFound) } else { Ok(()) };
        if expected != seen {
            return Err(format!("a change of job {id} by hand: {seen:?}, not {expected:?}"));
        }
        if is_held {
            return Ok(0);
        }
        change(self);
        Ok(self.denial(id))
    }

    /// Brings a dead letter back, as the server did or refused to do. Returns the record that the
    /// reply depends on.
    pub(crate) fn redrive(
        &mut self,
        id: u64,
        seen: Result<(), RedriveRefusal>,
    ) -> Result<Need, String> {
        if seen == Err(PutRefusal::LogFull.into()) && self.may_refuse {
            self.refusals += 1;
            return Ok(0);
        }
        let expected = self.try_to_redrive(id);
        if expected != seen {
            return Err(format!("the redrive of job {id}: {seen:?}, not {expected:?}"));
        }
        Ok(if expected.is_ok() { self.denial(id) } else { 0 })
    }

    fn try_to_redrive(&mut self, id: u64) -> Result<(), RedriveRefusal> {
        if self.writes_blocked() {
            return Err(PutRefusal::WritesBlocked.into());
        }
        let job = self.jobs.get(&id).ok_or(RedriveRefused::NotFound)?;
        let (state, from, created) = (job.state, job.queue.clone(), job.created);
        let origin =
            job.death.as_ref().map(|death| String::from_utf8_lossy(&death.origin).into_owned());
        if matches!(state, State::Leased(_)) {
            return Err(RedriveRefused::Leased.into());
        }
        let is_buried = matches!(state, State::Buried { .. });
        let moves_to = origin.clone().filter(|origin| !origin.is_empty());
        let to = moves_to.unwrap_or_else(|| from.to_string());
        if (is_buried || origin.is_some()) && self.key_is_taken(id, &to) {
            return Err(RedriveRefused::KeyTaken.into());
        }
        let Some(origin) = origin else {
            // A buried job that is no dead letter becomes ready.
            let is_kicked = is_buried && self.kick_job(id).is_ok();
            return if is_kicked { Ok(()) } else { Err(RedriveRefused::NotDead.into()) };
        };
        let now = self.now;
        if origin.is_empty() {
            let job = self.job_mut(id);
            job.revive();
            if state == State::Ready {
                job.since = now;
                self.record(id, Record::Update);
                self.reenter_lane(&from, id);
            } else {
                let _ = self.kick_job(id);
            }
            return Ok(());
        }
        if self.alias(&origin).is_some() || self.policy(&origin).fanout_only {
            return Err(RedriveRefused::StoresNothing.into());
        }
        let to = self.queue_like(&from, &origin);
        let job = self.job_mut(id);
        (job.since, job.state) = (now, State::Ready);
        self.relocate(id, &to, (created, None), Record::Update);
        Ok(())
    }
}
