//! Operations of the server: changes of many jobs. `lineshaft move`, `redrive` and `clear` start one,
//! and show its progress.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use api::types::{
    DeadFilter, JobState, Operation, OperationKind, OperationStatus, Queue, StartOperation,
};
use hyper::Method;

use crate::cli::{ClearArguments, MoveArguments, RedriveArguments};
use crate::client::{ApiClient, WaitingState, segment};
use crate::text::{Progress, count, counted, json_line, print_line};

/// The time between two looks at an operation.
const PAUSE: Duration = Duration::from_millis(200);

/// Moves jobs of a queue to another queue.
pub(crate) fn move_jobs(arguments: &MoveArguments) -> Result<ExitCode> {
    let mut client = super::connect(&arguments.operation.api)?;
    let asked = StartOperation {
        to: Some(shown(&arguments.to)),
        state: arguments.state.map(JobState::from),
        count: arguments.count,
        rate_per_s: arguments.operation.rate,
        ..StartOperation::new(OperationKind::Move, shown(&arguments.from))
    };
    let operation = run(&mut client, &asked)?;
    let what = format!("moved from {} to {}", arguments.from, arguments.to);
    report(&operation, &what, arguments.operation.json)
}

/// Brings the dead letters of a queue back, or makes its buried jobs ready.
pub(crate) fn redrive(arguments: &RedriveArguments) -> Result<ExitCode> {
    let mut client = super::connect(&arguments.operation.api)?;
    let only = DeadFilter {
        cause: arguments.cause.map(Into::into),
        origin: arguments.origin.as_deref().map(shown),
        key: arguments.key.clone(),
        error: arguments.error.clone(),
        older_than_s: arguments.older.map(u64::from),
        younger_than_s: arguments.younger.map(u64::from),
    };
    let asked = StartOperation {
        count: arguments.count,
        ids: (!arguments.ids.is_empty()).then(|| arguments.ids.clone()),
        rate_per_s: arguments.operation.rate,
        only: (only != DeadFilter::default()).then_some(only),
        dry_run: arguments.dry_run,
        ..StartOperation::new(OperationKind::Redrive, shown(&arguments.queue))
    };
    let operation = run(&mut client, &asked)?;
    let done = if arguments.dry_run { "would become ready" } else { "made ready" };
    let what = format!("of {} {done}", arguments.queue);
    report(&operation, &what, arguments.operation.json)
}

/// Ends the jobs of a queue in one state.
pub(crate) fn clear(arguments: &ClearArguments) -> Result<ExitCode> {
    let mut client = super::connect(&arguments.operation.api)?;
    let name = shown(&arguments.queue);
    if !arguments.yes {
        let queue: Queue = client.get(&format!("/queues/{}", segment(&arguments.queue)))?;
        let jobs = match arguments.state {
            WaitingState::Ready => queue.ready,
            WaitingState::Delayed => queue.delayed,
            WaitingState::Buried => queue.buried,
        };
        let jobs = counted(jobs, &format!("{} job", arguments.state.word()));
        bail!("this would end {jobs} of {}; to do it, add --yes", arguments.queue);
    }
    let asked = StartOperation {
        state: Some(JobState::from(arguments.state)),
        confirm: Some(name.clone()),
        rate_per_s: arguments.operation.rate,
        ..StartOperation::new(OperationKind::Clear, name)
    };
    let operation = run(&mut client, &asked)?;
    report(&operation, &format!("of {} ended", arguments.queue), arguments.operation.json)
}

fn shown(queue: &str) -> String {
    api::shown_name(queue.as_bytes())
}

/// Starts an operation, and waits until it ends. On a terminal, shows how far it is.
pub(crate) fn run(client: &mut ApiClient, asked: &StartOperation) -> Result<Operation> {
    let asked = serde_json::to_value(asked)?;
    let mut operation: Operation = client.send_json(&Method::POST, "/operations", Some(&asked))?;
    let mut progress = Progress::new(operation.total);
    progress.note(&format!("operation {}, {} jobs", operation.id, count(operation.total)))?;
    while operation.status == OperationStatus::Running {
        std::thread::sleep(PAUSE);
        operation = client
            .get(&format!("/operations/{}", operation.id))
            .with_context(|| format!("operation {} continues in the server", operation.id))?;
        progress.show(operation.done)?;
    }
    Ok(operation)
}

/// Says what an operation did.
fn report(operation: &Operation, what: &str, as_json: bool) -> Result<ExitCode> {
    let line = if as_json {
        json_line(operation)?
    } else {
        let done = counted(operation.done, "job");
        match &operation.refusal {
            None => format!("{done} {what}"),
            Some(why) => format!("{done} {what}, {} left: {why}", count(operation.refused)),
        }
    };
    print_line(&line)?;
    match (&operation.problem, operation.status) {
        (Some(problem), _) => bail!("the operation stopped: {}", problem.detail),
        (None, OperationStatus::Cancelled) => bail!("the operation was cancelled"),
        (None, _) if operation.done == 0 => Ok(ExitCode::FAILURE),
        (None, _) => Ok(ExitCode::SUCCESS),
    }
}
