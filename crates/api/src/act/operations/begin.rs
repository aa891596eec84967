//! The begin of an operation: which jobs it changes, and how.

use std::sync::{Arc, Mutex};

use broker::{JobId, Position, State};
use tokio::sync::Notify;

use super::filter::Filter;
use super::{Operation, Wanted};
use crate::access::Principal;
use crate::jobs::job::Moments;
use crate::problem::{Problem, ProblemKind};
use crate::state::Api;
use crate::text::name::parse_name;
use crate::types::{self, JobState, OperationKind, OperationStatus};
use crate::version::Condition;

/// An operation can name at most this many jobs.
const CHOSEN_MAX: usize = 10_000;

/// The longest key that a redrive can look for, in bytes: it is hashed for each letter.
const KEY_BYTES_MAX: usize = 64 << 10;

/// The jobs that a redrive brings back in a second, if the client gives no rate: what killed the jobs
/// may not bear more.
const REDRIVE_RATE_PER_S: u32 = 100;

impl Api {
    /// Starts an operation. Must be called in the runtime of the site. If the operation goes on after a
    /// restart, waits until this is durable.
    pub async fn start_operation(
        &self,
        principal: &Principal,
        asked: &types::StartOperation,
    ) -> Result<types::Operation, Problem> {
        self.start_operation_on(principal, asked, &Condition::ANY).await
    }

    /// Starts an operation if its queue has this version.
    pub(in crate::act) async fn start_operation_on(
        &self,
        principal: &Principal,
        asked: &types::StartOperation,
        when: &Condition,
    ) -> Result<types::Operation, Problem> {
        let (shown, after) = self.begin_operation(principal, asked, when)?;
        self.setup.door.settled_at(after).await?;
        Ok(shown)
    }

    fn begin_operation(
        &self,
        principal: &Principal,
        asked: &types::StartOperation,
        when: &Condition,
    ) -> Result<(types::Operation, Position), Problem> {
        let queue = self.turn().shown_name(&parse_name(&asked.queue)?);
        check(asked)?;
        // Keys and the errors of workers can be parts of bodies, and the number of jobs tells which ones match.
        // The letters can come from many queues, whose policies can change, so this is the same for all keys.
        let is_part = |only: &types::DeadFilter| only.error.is_some() || only.key.is_some();
        if asked.only.as_ref().is_some_and(is_part) {
            self.check_bodies(principal).map_err(|problem| problem.of_parameter("only"))?;
        }
        let to = self.target(asked, &queue)?;
        let state = match (asked.kind, asked.state) {
            (OperationKind::Kick | OperationKind::Redrive, None) if asked.ids.is_none() => {
                Some(JobState::Buried)
            }
            (_, state) => state,
        };
        let (jobs, total, moments, unchanged, only) = {
            let turn = self.turn();
            let only = Filter::read(asked.only.as_ref(), turn.now())?;
            let stats = turn.queue_stats(&queue).ok_or_else(|| Problem::no_queue(&queue))?;
            let unchanged = when.check_queue(&turn, &queue);
            let all = [
                (State::Ready, JobState::Ready, stats.ready),
                (State::Delayed, JobState::Delayed, stats.delayed),
                (State::Buried, JobState::Buried, stats.buried),
            ];
            let (jobs, total) = if let Some(ids) = &asked.ids {
                let ids = chosen(ids);
                let total = ids.len() as u64;
                (Wanted::Chosen(ids), total)
            } else if asked.kind == OperationKind::Redrive && (stats.dead > 0 || !only.is_empty()) {
                (Wanted::Dead, asked.count.map_or(stats.dead, |count| count.min(stats.dead)))
            } else if asked.kind == OperationKind::Redrive {
                (Wanted::Buried, asked.count.map_or(stats.buried, |count| count.min(stats.buried)))
            } else {
                let wanted =
                    all.into_iter().filter(|(_, it, _)| state.is_none_or(|state| state == *it));
                let found: Vec<(State, u64)> =
                    wanted.map(|(state, _, count)| (state, count)).collect();
                let sum = found.iter().map(|(_, count)| count).sum();
                (Wanted::First(found), asked.count.map_or(sum, |count| count.min(sum)))
            };
            let leased = if asked.kind == OperationKind::Remove { stats.leased } else { 0 };
            (jobs, total + leased, Moments::of(&turn), unchanged, only)
        };
        let ends_many = match asked.kind {
            OperationKind::Clear => asked.ids.is_none(),
            OperationKind::Remove => true,
            OperationKind::Kick | OperationKind::Redrive | OperationKind::Move => false,
        };
        if ends_many && asked.confirm.as_deref() != Some(&*asked.queue) {
            let name = &asked.queue;
            let why = format!(
                "this would end {total} jobs; to confirm it, send the name of the queue as \
                 `confirm`: `{name}`"
            );
            return Err(Problem::new(ProblemKind::ConfirmationNeeded, why).of_parameter("confirm"));
        }
        // A request that lacks `confirm` is wrong whatever the version of the queue is.
        unchanged?;
        let operation = self.act.operations.all().add(|number| Operation {
            number,
            kind: asked.kind,
            queue,
            to,
            state: state.filter(|_| !matches!(jobs, Wanted::Dead)),
            jobs,
            rate_per_s: rate_of(asked),
            only,
            dry_run: asked.dry_run,
            who: principal.name.clone(),
            total,
            started: moments.now,
            cancelled: Notify::new(),
            progress: Mutex::default(),
        })?;
        // Do this before the turn, because `asked` can be long.
        let begun = operation.begun(asked);
        let noted = begun.and_then(|begun| operation.note_begin(&mut self.turn(), &begun));
        let after = noted.inspect_err(|_| {
            self.act.operations.all().kept.remove(&operation.number);
        })?;
        let shown = operation.shown(&moments);
        self.tell_operation(|| shown.clone());
        self.run_operation(operation);
        Ok((shown, after))
    }

    /// Runs an operation, in the runtime of the site.
    pub(super) fn run_operation(&self, operation: Arc<Operation>) {
        let api = self.clone();
        tokio::spawn(async move {
            let (runner, running) = (api.clone(), operation.clone());
            let ran = tokio::spawn(async move { runner.operate(&running).await }).await;
            // The panic has been reported. At the end of the server, there is none.
            if ran.is_err_and(|error| error.is_panic()) {
                let why = Problem::new(ProblemKind::Unavailable, "the operation broke off");
                let ended = (api.setup.door.now(), OperationStatus::Failed, Some(why));
                operation.progress().ended = Some(ended);
                api.forget_broken(&operation);
            }
        });
    }

    /// The queue that jobs move to. Empty for other kinds of operations.
    fn target(&self, asked: &types::StartOperation, from: &[u8]) -> Result<Vec<u8>, Problem> {
        let bad = |why: &str| Problem::new(ProblemKind::BadRequest, why).of_parameter("to");
        let to = match (asked.kind, &asked.to) {
            (OperationKind::Move, Some(to)) => parse_name(to)?,
            (OperationKind::Move, None) => return Err(bad("write the name of the other queue")),
            (_, Some(_)) => return Err(bad("only a move has another queue")),
            (_, None) => return Ok(Vec::new()),
        };
        if to == from {
            return Err(bad("the jobs are in this queue already"));
        }
        let policy = self.turn().policy(&to);
        if policy.fanout_only || !policy.alias.is_empty() {
            return Err(bad(STORES_NOTHING));
        }
        Ok(to)
    }
}

/// Why jobs cannot move to an alias, or to a queue that only passes jobs on.
pub(in crate::act) const STORES_NOTHING: &str =
    "the queue stores no jobs: it is an alias, or its policy has `fanout_only`";

/// The jobs with these numbers, each once and in ascending order.
pub(super) fn chosen(ids: &[u64]) -> Vec<JobId> {
    let mut ids: Vec<JobId> = ids.iter().copied().map(JobId).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// How many jobs in a second an operation changes. `None`: as fast as the log allows.
pub(super) fn rate_of(asked: &types::StartOperation) -> Option<u32> {
    match (asked.kind, asked.rate_per_s) {
        _ if asked.dry_run => None,
        (OperationKind::Redrive, None) => Some(REDRIVE_RATE_PER_S),
        (_, rate) => rate.filter(|rate| *rate > 0),
    }
}

/// Checks the parameters that do not fit together.
fn check(asked: &types::StartOperation) -> Result<(), Problem> {
    let bad =
        |name: &str, why: &str| Err(Problem::new(ProblemKind::BadRequest, why).of_parameter(name));
    match (asked.kind, asked.state) {
        (OperationKind::Kick, Some(JobState::Ready)) => {
            return bad("state", "a kick needs `buried` or `delayed`");
        }
        (OperationKind::Redrive, Some(_)) => {
            return bad("state", "a redrive brings back dead letters of any state");
        }
        (OperationKind::Remove, Some(_)) => {
            return bad("state", "a queue is removed with all of its jobs");
        }
        (_, Some(JobState::Leased)) => {
            return bad("state", "leased jobs stay; end one with `DELETE /jobs/{id}?force=true`");
        }
        _ => {}
    }
    if asked.kind != OperationKind::Redrive && (asked.only.is_some() || asked.dry_run) {
        return bad("only", "only a redrive has `only` or `dry_run`");
    }
    let key = asked.only.as_ref().and_then(|only| only.key.as_ref());
    if key.is_some_and(|key| key.len() > KEY_BYTES_MAX) {
        return bad("only", "a redrive looks for keys of at most 64 KiB");
    }
    if asked.kind == OperationKind::Remove && (asked.count.is_some() || asked.ids.is_some()) {
        return bad("count", "a queue is removed with all of its jobs");
    }
    let Some(ids) = &asked.ids else { return Ok(()) };
    if asked.count.is_some() {
        return bad("count", "write `count` or `ids`");
    }
    if ids.is_empty() || ids.len() > CHOSEN_MAX {
        return bad("ids", "write the numbers of 1 to 10,000 jobs");
    }
    Ok(())
}
