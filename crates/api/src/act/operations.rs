//! Operations: changes of many jobs, in many turns. An operation runs until it is done, a client
//! cancels it, or the server stops. A redrive goes on when the server starts again.
//!
//! This file has the operations that the server remembers, and their progress. `begin`: which jobs an
//! operation changes, and how. `filter`: which dead letters. `run`: the changes. `kept`: what survives a
//! restart. `endpoints`: the requests of clients.

mod begin;
pub(crate) mod endpoints;
mod filter;
mod kept;
mod run;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use broker::{ClaimKey, JobId, Millis, Position, State};
use tokio::sync::Notify;

use crate::jobs::job::Moments;
use crate::problem::{Problem, ProblemKind};
use crate::state::Api;
use crate::text::moment;
use crate::text::name::shown_name;
use crate::types::{self, JobState, OperationKind, OperationStatus};

pub(in crate::act) use begin::STORES_NOTHING;
pub(in crate::act) use endpoints::started;

/// Operations that can run at a time.
const RUNNING_MAX: usize = 8;
/// Operations that the server remembers.
const KEPT_MAX: usize = 100;

/// All operations.
#[derive(Clone, Debug, Default)]
pub(crate) struct Operations {
    all: Arc<Mutex<List>>,
}

#[derive(Debug, Default)]
struct List {
    kept: BTreeMap<u64, Arc<Operation>>,
    last: u64,
    /// Operations of the last process that have not gone on yet.
    waiting: Vec<Arc<Operation>>,
}

#[derive(Debug)]
struct Operation {
    number: u64,
    kind: OperationKind,
    queue: Vec<u8>,
    /// The queue that the jobs move to. Empty for other kinds.
    to: Vec<u8>,
    /// The state that the client gave.
    state: Option<JobState>,
    jobs: Wanted,
    /// `None`: as fast as the log allows.
    rate_per_s: Option<u32>,
    only: filter::Filter,
    /// It changes nothing, and only counts.
    dry_run: bool,
    who: Arc<str>,
    total: u64,
    started: Millis,
    cancelled: Notify,
    progress: Mutex<Progress>,
}

/// The jobs that an operation changes.
#[derive(Debug)]
enum Wanted {
    /// The first jobs of these states, one state after the other, with the number of jobs that each
    /// had at the start. Jobs that come later must not count against those.
    First(Vec<(State, u64)>),
    /// These jobs, in ascending order. The jobs of a block then follow each other. Jobs that have
    /// changed since the client chose them are skipped.
    Chosen(Vec<JobId>),
    /// The dead letters of the queue. Those that die after the start are skipped.
    Dead,
    /// The buried jobs of the queue, for a redrive. Those that cannot come back are skipped.
    Buried,
}

#[derive(Debug, Default)]
struct Progress {
    done: u64,
    skipped: u64,
    refusals: Refusals,
    /// What the last turn did, until it is durable.
    unsettled: Unsettled,
    /// The keys of the jobs that would come back, in a dry run.
    keys: BTreeSet<ClaimKey>,
    /// The moment and the outcome of the end.
    ended: Option<(Millis, OperationStatus, Option<Problem>)>,
}

/// The jobs that could not come back.
#[derive(Debug, Default)]
struct Refusals {
    count: u64,
    /// Why the first of them could not.
    first: Option<String>,
}

impl Refusals {
    fn add(&mut self, more: Refusals) {
        self.count += more.count;
        self.first = self.first.take().or(more.first);
    }
}

/// What a turn did.
#[derive(Debug, Default)]
struct Unsettled {
    done: u64,
    skipped: u64,
    refusals: Refusals,
    after: Position,
}

impl Operation {
    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_running(&self) -> bool {
        self.progress().ended.is_none()
    }

    fn shown(&self, moments: &Moments) -> types::Operation {
        let progress = self.progress();
        let ended = progress.ended.as_ref();
        let until = ended.map_or(moments.now, |(at, ..)| *at);
        let seconds = until.since(self.started).max(1) as f64 / 1_000.0;
        types::Operation {
            id: self.number,
            kind: self.kind,
            queue: shown_name(&self.queue),
            to: (self.kind == OperationKind::Move).then(|| shown_name(&self.to)),
            state: self.state,
            dry_run: self.dry_run,
            status: ended.map_or(OperationStatus::Running, |(_, status, _)| *status),
            done: progress.done,
            skipped: progress.skipped,
            refused: progress.refusals.count,
            refusal: progress.refusals.first.clone(),
            total: self.total.max(progress.done),
            per_s: progress.done as f64 / seconds,
            started_at: moment::written(moments.wall(self.started)),
            ended_at: ended.map(|(at, ..)| moment::written(moments.wall(*at))),
            who: self.who.to_string(),
            problem: ended.and_then(|(.., problem)| problem.clone()),
        }
    }
}

impl Operations {
    fn all(&self) -> MutexGuard<'_, List> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, number: u64) -> Result<Arc<Operation>, Problem> {
        self.all().kept.get(&number).cloned().ok_or_else(no_operation)
    }
}

impl List {
    /// Adds an operation, if not too many run.
    fn add(&mut self, make: impl FnOnce(u64) -> Operation) -> Result<Arc<Operation>, Problem> {
        if self.kept.values().filter(|operation| operation.is_running()).count() >= RUNNING_MAX {
            let why = format!("{RUNNING_MAX} operations run; wait, or cancel one");
            return Err(Problem::new(ProblemKind::TooManyOperations, why));
        }
        while self.kept.len() >= KEPT_MAX
            && let Some(oldest) = self.kept.values().find(|it| !it.is_running()).map(|it| it.number)
        {
            self.kept.remove(&oldest);
        }
        self.last += 1;
        let operation = Arc::new(make(self.last));
        self.kept.insert(self.last, operation.clone());
        Ok(operation)
    }
}

fn no_operation() -> Problem {
    let why = "there is no such operation; the server remembers the last 100, and those that have \
        ended only until it stops";
    Problem::new(ProblemKind::NotFound, why)
}

impl Api {
    /// All operations that the server remembers, newest first.
    pub fn operations(&self) -> types::Operations {
        let moments = Moments::of(&self.turn());
        let all = self.act.operations.all();
        let items = all.kept.values().rev().map(|operation| operation.shown(&moments)).collect();
        types::Operations { items }
    }

    /// One operation.
    pub fn operation(&self, number: u64) -> Result<types::Operation, Problem> {
        let operation = self.act.operations.find(number)?;
        let moments = Moments::of(&self.turn());
        Ok(operation.shown(&moments))
    }

    /// The operations that run.
    pub(crate) fn running_operations(&self) -> Vec<types::Operation> {
        let moments = Moments::of(&self.turn());
        let all = self.act.operations.all();
        let running = all.kept.values().filter(|operation| operation.is_running());
        running.map(|operation| operation.shown(&moments)).collect()
    }

    /// Cancels an operation. If it would go on after a restart, waits until it is durable that it
    /// does not. While the log has no room, it does not wait: the log gets the cancel when there is
    /// room.
    pub async fn cancel_operation(&self, number: u64) -> Result<types::Operation, Problem> {
        let operation = self.act.operations.find(number)?;
        let after = operation.note_cancelled(&mut self.turn());
        // If the operation is not waiting now, the notice stays until it waits.
        operation.cancelled.notify_one();
        self.setup.door.settled_at(after).await?;
        let moments = Moments::of(&self.turn());
        Ok(operation.shown(&moments))
    }
}
