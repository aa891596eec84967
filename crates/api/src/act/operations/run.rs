//! The run of an operation. It changes some jobs in a turn, and waits until these changes are durable
//! before the next turn. So it does not delay other clients.

use std::collections::BTreeSet;
use std::mem;
use std::time::Duration;

use broker::{
    Answer, Caller, Clearing, Death, Event, JobId, JobRow, ListCursor, ListLimits, Millis, Need,
    Position, PutRefusal, QueueId, RedriveRefusal, RedriveRefused, State, Turn,
};
use http_api::{DoorError, DoorSession, SessionKind};

use super::{Operation, Refusals, Unsettled, Wanted};
use crate::access::bodies::BodySettings;
use crate::act::job::{move_refused, redrive_refused};
use crate::act::refused;
use crate::jobs::BLOCKS_MAX;
use crate::jobs::job::{Moments, no_job};
use crate::problem::Problem;
use crate::state::Api;
use crate::types::{JobState, OperationKind, OperationStatus};

/// Jobs of one turn. A slice of work can be spent earlier.
const STEP_MAX: u64 = 64;
/// Buried jobs of one page of their list.
const PAGE_JOBS: usize = 256;

/// What a turn of an operation did.
struct Step {
    /// The jobs that were changed.
    count: u64,
    /// The jobs that were skipped.
    skipped: u64,
    /// Those of them that could not come back.
    refusals: Refusals,
    after: Position,
    next: Next,
}

/// Why a job was not changed.
enum Unchanged {
    /// It cannot come back. The others can: the queue that this one came from may be an alias by now,
    /// or another job may have its key.
    CannotComeBack(String),
    /// The operation stops.
    Stops(Problem),
}

impl From<Problem> for Unchanged {
    fn from(problem: Problem) -> Self {
        Self::Stops(problem)
    }
}

/// What comes after a turn.
enum Next {
    /// A job cannot be changed. The operation stops.
    Fail(Problem),
    /// There may be more jobs.
    More,
    /// The next job is only in the log. The broker loads it, and sends an event.
    Load,
    /// There are no more jobs of this state.
    End,
}

impl Step {
    fn new() -> Step {
        let refusals = Refusals::default();
        Step { count: 0, skipped: 0, refusals, after: Position::NONE, next: Next::More }
    }

    /// Notes the change of a job. Returns false if the operation stops.
    fn note(&mut self, changed: Result<Position, Unchanged>) -> bool {
        match changed {
            Ok(after) => {
                self.after = self.after.max(after);
                self.count += 1;
                true
            }
            Err(Unchanged::CannotComeBack(why)) => {
                self.skipped += 1;
                self.refusals.add(Refusals { count: 1, first: Some(why) });
                true
            }
            Err(Unchanged::Stops(problem)) => {
                self.next = Next::Fail(problem);
                false
            }
        }
    }

    /// Ends the turn.
    fn end(mut self, operation: &Operation, turn: &mut Turn<'_>) -> Step {
        let did = [self.count, self.skipped, self.refusals.count];
        self.after = self.after.max(operation.note_progress(turn, did));
        self
    }

    /// Whether the turn can change another job.
    fn goes_on(&self, most: u64, turn: &Turn<'_>) -> bool {
        let looked_at = self.count + self.skipped;
        looked_at == 0 || looked_at < most && !turn.slice_is_spent()
    }
}

impl Operation {
    /// The queue that the client saw under its name, if it still exists.
    fn find_queue(&self, turn: &Turn<'_>) -> Option<QueueId> {
        turn.queue_id(&self.queue).filter(|queue| turn.queue_name(*queue) == self.queue)
    }

    /// Changes a job. The caller has checked its state in this turn.
    fn change(&self, caller: &mut Caller<'_>, id: JobId) -> Result<Position, Unchanged> {
        match self.kind {
            OperationKind::Kick => {
                let kicked = caller.kick_job(id);
                kicked.value.map_err(|refusal| refused(refusal, || no_job(id)))?;
                Ok(kicked.after)
            }
            OperationKind::Redrive => {
                let redriven = if self.dry_run {
                    Answer::at_once(self.try_redrive(caller, id))
                } else {
                    caller.redrive(id)
                };
                match redriven.value {
                    Ok(()) => Ok(redriven.after),
                    // Other letters can come from queues that are there.
                    Err(
                        refusal @ (RedriveRefusal::Refused(_)
                        | RedriveRefusal::Put(PutRefusal::NoNewQueue)),
                    ) => Err(Unchanged::CannotComeBack(redrive_refused(refusal, id).detail)),
                    Err(refusal @ RedriveRefusal::Put(_)) => {
                        Err(redrive_refused(refusal, id).into())
                    }
                }
            }
            OperationKind::Clear | OperationKind::Remove => Ok(caller.cancel(id).after),
            OperationKind::Move => {
                let moved = caller.move_job(id, &self.to);
                moved.value.map_err(|refusal| move_refused(refusal, id))?;
                Ok(moved.after)
            }
        }
    }

    /// Says in a dry run why a job would not come back. A job that would come back takes its key, so
    /// the next one with this key would not.
    fn try_redrive(&self, caller: &Caller<'_>, id: JobId) -> Result<(), RedriveRefusal> {
        caller.check_redrive(id)?;
        match caller.key_after_redrive(id) {
            Some(key) if !self.progress().keys.insert(key) => Err(RedriveRefused::KeyTaken.into()),
            Some(_) | None => Ok(()),
        }
    }

    /// Whether a job is as the operation wants it: a client may have changed it meanwhile.
    fn wants(&self, turn: &Turn<'_>, bodies: &BodySettings, id: JobId) -> bool {
        let Ok(status) = turn.job_status(id).value else { return false };
        let state = status.facts.state;
        let has_state = match self.state {
            None => true,
            Some(JobState::Ready) => state == State::Ready,
            Some(JobState::Delayed) => state == State::Delayed,
            Some(JobState::Buried) => state == State::Buried,
            Some(JobState::Leased) => false,
        };
        let can_change = match self.kind {
            OperationKind::Kick => matches!(state, State::Delayed | State::Buried),
            OperationKind::Redrive => match &status.facts.death {
                Some(death) => {
                    let has_key = |key: &[u8]| turn.has_key(id, key, |by| bodies.shows_key(by));
                    // One that died after the start can have come back already.
                    state != State::Leased
                        && death.died <= self.started
                        && self.only.fits(&self.queue, death, bodies, has_key)
                }
                None => state == State::Buried && self.only.is_empty(),
            },
            _ => state != State::Leased,
        };
        has_state && can_change && turn.queue_name(status.queue) == self.queue
    }
}

impl Api {
    /// Runs an operation to its end.
    pub(super) async fn operate(&self, operation: &Operation) {
        let changed = tokio::select! {
            // An operation that was cancelled before it begins changes nothing.
            biased;
            // This drops the work and its session, wherever it waits: also for the disk, behind a turn.
            () = operation.cancelled.notified() => None,
            changed = self.change_all(operation) => Some(changed),
        };
        let outcome = match changed {
            // No client can cancel the last part.
            Some(Ok(())) if operation.kind == OperationKind::Remove => {
                Some(self.remove_rest(operation).await)
            }
            changed => changed,
        };
        let (status, problem) = match outcome {
            Some(Ok(())) => (OperationStatus::Done, None),
            Some(Err(problem)) => (OperationStatus::Failed, Some(problem)),
            None => match self.settle(operation).await {
                Ok(()) => (OperationStatus::Cancelled, None),
                Err(problem) => (OperationStatus::Failed, Some(problem)),
            },
        };
        // An operation that has ended does not go on after a restart.
        let (status, problem) = match self.forget_operation(operation).await {
            Ok(()) => (status, problem),
            Err(error) => (OperationStatus::Failed, problem.or_else(|| Some(error.into()))),
        };
        let mut progress = operation.progress();
        progress.keys = BTreeSet::new();
        progress.ended = Some((self.setup.door.now(), status, problem));
        drop(progress);
        self.tell_operation(|| operation.shown(&Moments::of(&self.turn())));
    }

    async fn change_all(&self, operation: &Operation) -> Result<(), Problem> {
        let session = self.setup.door.session(SessionKind::Reader);
        let queue = {
            let mut turn = self.turn();
            let queue = operation.find_queue(&turn);
            if let Some(queue) = queue {
                // The queue stays in existence as long as the session uses it.
                turn.caller(session.id()).use_queue_of(queue);
            }
            queue
        };
        // Without the queue, its name can stand for another one, whose jobs must stay. Of chosen jobs, each
        // one is looked at.
        if queue.is_none() && !matches!(operation.jobs, Wanted::Chosen(_)) {
            return Ok(());
        }
        match &operation.jobs {
            Wanted::First(found) => {
                for &(state, mut found) in found {
                    while found > 0 && operation.progress().done < operation.total {
                        let left = operation.total - operation.progress().done;
                        let most = left.min(found);
                        let step = |most| self.step(operation, &session, state, most);
                        let (count, has_more) =
                            self.act(operation, &session, most, false, step).await?;
                        found -= count;
                        if !has_more {
                            break;
                        }
                    }
                }
            }
            Wanted::Dead => {
                let mut last = None;
                while operation.progress().done < operation.total {
                    let most = operation.total - operation.progress().done;
                    let step = |most| self.step_dead(operation, &session, &mut last, most);
                    let (_, has_more) = self.act(operation, &session, most, false, step).await?;
                    if !has_more {
                        break;
                    }
                }
            }
            Wanted::Buried => {
                let mut next = Some(ListCursor::default());
                while let Some(from) = next
                    && operation.progress().done < operation.total
                {
                    let (ids, behind) = self.next_buried(operation, from).await?;
                    self.change_these(operation, &session, &ids).await?;
                    next = behind;
                }
            }
            Wanted::Chosen(ids) => self.change_these(operation, &session, ids).await?,
        }
        Ok(())
    }

    /// The next buried jobs of the queue, and the place of the ones behind them. The first one may
    /// stay, so the operation cannot always take the first one.
    async fn next_buried(
        &self,
        operation: &Operation,
        from: ListCursor,
    ) -> Result<(Vec<JobId>, Option<ListCursor>), Problem> {
        let (setup, now) = (self.setup.clone(), self.setup.door.now());
        let queue = operation.queue.clone();
        let page = self.reading(move || {
            let limits = ListLimits { rows: PAGE_JOBS, blocks: BLOCKS_MAX };
            setup.door.broker().list_jobs(now, (&queue, State::Buried), &from, limits)
        });
        let Some(page) = page.await? else { return Ok((Vec::new(), None)) };
        if page.unreadable > 0 {
            return Err(DoorError::Unreadable.into());
        }
        // A cold job has no key, so nothing keeps it from coming back.
        let is_counted = |row: &&JobRow| operation.dry_run && row.is_cold;
        let counted = page.rows.iter().filter(is_counted).count() as u64;
        let mut progress = operation.progress();
        progress.done = (progress.done + counted).min(operation.total);
        let others = page.rows.iter().filter(|row| !is_counted(row));
        Ok((others.map(|row| row.facts.id).collect(), page.next))
    }

    /// Changes or skips these jobs, until the operation has changed as many as it wants.
    async fn change_these(
        &self,
        operation: &Operation,
        session: &DoorSession,
        ids: &[JobId],
    ) -> Result<(), Problem> {
        let mut rest = ids;
        while !rest.is_empty() {
            let left = operation.total.saturating_sub(operation.progress().done);
            if left == 0 {
                break;
            }
            // A job that is not in memory is searched in the log, as for a request.
            let step = |most| self.step_chosen(operation, session, &mut rest, most);
            self.act(operation, session, left, true, step).await?;
        }
        Ok(())
    }

    /// Takes a step of at most `most` jobs, and waits until its changes are durable. Returns the
    /// number of changed jobs, and whether there can be more jobs. `searches`: the step can need a search in
    /// the log.
    async fn act(
        &self,
        operation: &Operation,
        session: &DoorSession,
        most: u64,
        searches: bool,
        step: impl FnOnce(u64) -> Step,
    ) -> Result<(u64, bool), Problem> {
        let door = &self.setup.door;
        door.uncongested().await?;
        let of_rate = operation.rate_per_s.map_or(STEP_MAX, |rate| u64::from(rate).max(1));
        // Requests wait for the same permits. So the operation has one only while it can search, and not while
        // it waits for the disk or for its rate.
        let permit = if searches { self.finders.acquire().await.ok() } else { None };
        let Step { count, skipped, refusals, after, next } = step(most.min(of_rate).min(STEP_MAX));
        operation.progress().unsettled = Unsettled { done: count, skipped, refusals, after };
        let loaded = match next {
            Next::Load => session.event().await.map(|event| event.value),
            Next::Fail(_) | Next::More | Next::End => Ok(Event::Loaded),
        };
        drop(permit);
        self.settle(operation).await?;
        if let Next::Fail(problem) = next {
            return Err(problem);
        }
        if let Event::Unreadable = loaded? {
            return Err(DoorError::Unreadable.into());
        }
        let has_more = !matches!(next, Next::End);
        match operation.rate_per_s {
            Some(rate) => {
                let pause = count as f64 / f64::from(rate.max(1));
                tokio::time::sleep(Duration::from_secs_f64(pause)).await;
            }
            None => http_api::between_turns().await,
        }
        Ok((count, has_more))
    }

    /// Waits until the changes of the last turn are durable, and counts them.
    async fn settle(&self, operation: &Operation) -> Result<(), Problem> {
        let after = operation.progress().unsettled.after;
        self.setup.door.settled_at(after).await?;
        let mut progress = operation.progress();
        let Unsettled { done, skipped, refusals, .. } = mem::take(&mut progress.unsettled);
        progress.done += done;
        progress.skipped += skipped;
        progress.refusals.add(refusals);
        Ok(())
    }

    /// Changes the first jobs of a state in one turn.
    fn step(&self, operation: &Operation, session: &DoorSession, state: State, most: u64) -> Step {
        let mut turn = self.turn();
        turn.begin_slice();
        let mut step = Step::new();
        while step.goes_on(most, &turn) {
            let mut caller = turn.caller(session.id());
            if !caller.is_at_hand(Need::Used(state)) {
                step.next = Next::Load;
                break;
            }
            let Ok(id) = caller.first_used_id(state).value else {
                step.next = Next::End;
                break;
            };
            if !step.note(operation.change(&mut caller, id)) {
                break;
            }
        }
        step
    }

    /// Brings back the next dead letters in one turn. `last` is the last one that it has looked at.
    fn step_dead(
        &self,
        operation: &Operation,
        session: &DoorSession,
        last: &mut Option<(Millis, JobId)>,
        most: u64,
    ) -> Step {
        let mut turn = self.turn();
        turn.begin_slice();
        let mut step = Step::new();
        while step.goes_on(most, &turn) {
            let caller = turn.caller(session.id());
            let Some(next) = caller.next_dead_letter(&operation.queue, *last) else {
                step.next = Next::End;
                break;
            };
            *last = Some(next);
            let death = turn.job_status(next.1).value.ok().and_then(|status| status.facts.death);
            let is_wanted = |death: &Death| {
                // It can have died again meanwhile.
                let bodies = &self.setup.bodies;
                let has_key = |key: &[u8]| turn.has_key(next.1, key, |by| bodies.shows_key(by));
                death.died <= operation.started
                    && operation.only.fits(&operation.queue, death, bodies, has_key)
            };
            if !death.is_some_and(|death| is_wanted(&death)) {
                turn.count_work(1);
                step.skipped += 1;
                continue;
            }
            let mut caller = turn.caller(session.id());
            if !step.note(operation.change(&mut caller, next.1)) {
                break;
            }
        }
        step.end(operation, &mut turn)
    }

    /// Changes or skips the first of these jobs in one turn, and removes them from the slice.
    fn step_chosen(
        &self,
        operation: &Operation,
        session: &DoorSession,
        ids: &mut &[JobId],
        most: u64,
    ) -> Step {
        let mut turn = self.turn();
        turn.begin_slice();
        let mut step = Step::new();
        while let Some((&id, rest)) = ids.split_first()
            && step.goes_on(most, &turn)
        {
            if !turn.caller(session.id()).is_job_at_hand(id) {
                step.next = Next::Load;
                break;
            }
            *ids = rest;
            if operation.wants(&turn, &self.setup.bodies, id) {
                let mut caller = turn.caller(session.id());
                if !step.note(operation.change(&mut caller, id)) {
                    break;
                }
            } else {
                turn.count_work(1);
                step.skipped += 1;
            }
        }
        step.end(operation, &mut turn)
    }

    /// Removes a queue whose jobs have ended, with the jobs that workers have, and those that clients
    /// have put meanwhile.
    async fn remove_rest(&self, operation: &Operation) -> Result<(), Problem> {
        let session = self.setup.door.session(SessionKind::Reader);
        let (removal, count) = {
            let mut turn = self.turn();
            let Some(queue) = operation.find_queue(&turn) else { return Ok(()) };
            let stats = turn.queue_stats_of(queue);
            let removal = turn.caller(session.id()).remove_queue_of(queue);
            (removal, stats.ready + stats.delayed + stats.buried + stats.leased)
        };
        if self.settled(removal).await? == Clearing::Waiting {
            let cleared = session.event().await?;
            self.settled(cleared).await?;
        }
        operation.progress().done += count;
        Ok(())
    }
}
