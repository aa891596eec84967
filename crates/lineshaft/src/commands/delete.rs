//! `lineshaft delete`: deletes waiting jobs.

use std::hash::{BuildHasher as _, RandomState};
use std::process::ExitCode;

use anyhow::{Result, bail};
use api::types::{
    Connection, Connections, JobState, Me, Operation, OperationKind, OperationStatus, Role,
    StartOperation,
};
use serde_json::json;

use crate::cli::{ApiArguments, DeleteArguments};
use crate::client::{ApiClient, CONNECT_TIMEOUT, Client, Reply, WaitingState, shown_segment};
use crate::commands::operator;
use crate::text::{self, Progress, complain, counted, print_line, print_value};

/// Up to this many jobs are deleted one by one. For more jobs, the server does it.
const ONE_BY_ONE_MAX: u64 = 1_000;

/// Deletes a job by its id, or one job or all jobs of a queue in one state.
pub(crate) fn run(arguments: &DeleteArguments) -> Result<ExitCode> {
    let mut client = Client::connect_within(&arguments.server.beanstalk()?, CONNECT_TIMEOUT)?;
    match (&arguments.queue, arguments.state, arguments.id) {
        (Some(queue), Some(state), _) => delete_of_queue(&mut client, queue, state, arguments),
        (_, _, Some(id)) => delete_job(&mut client, id, arguments.json),
        (_, _, None) => unreachable!("the command line requires a queue with a state, or an id"),
    }
}

fn delete_job(client: &mut Client, id: u64, as_json: bool) -> Result<ExitCode> {
    if client.delete(id)? {
        if as_json {
            print_value(&json!({ "id": id, "deleted": 1 }))?;
        } else {
            print_line(&format!("job {id} is deleted"))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    match client.stats_job(id)? {
        None => complain(&format!("job {id} does not exist")),
        Some(_) => complain(&format!("a worker holds job {id}; only that worker can delete it")),
    }
    Ok(ExitCode::FAILURE)
}

fn delete_of_queue(
    client: &mut Client,
    queue: &str,
    state: WaitingState,
    arguments: &DeleteArguments,
) -> Result<ExitCode> {
    client.use_queue(queue)?;
    let word = state.word();
    let count = format!("current-jobs-{word}");
    let stats = client.stats_queue(queue)?.unwrap_or_default();
    let present = stats.number(&count);
    // Delete at most as many jobs as the state had at the beginning. Without this limit, the loop
    // might never end while clients quickly put jobs.
    let wanted = if arguments.all { present } else { present.min(1) };
    let api = if wanted > ONE_BY_ONE_MAX { api_of(client) } else { None };
    let (deleted, rest) = match api {
        Some(mut api) => {
            let deleted = delete_by_operation(&mut api, queue, state)?;
            (deleted, client.stats_queue(queue)?.unwrap_or_default().number(&count))
        }
        None => delete_one_by_one(client, state, present, wanted)?,
    };
    if deleted == 0 {
        complain(&format!("no job in {queue} is {word}"));
        return Ok(ExitCode::FAILURE);
    }
    if arguments.json {
        print_value(&json!({ "queue": queue, "state": word, "deleted": deleted, "left": rest }))?;
    } else {
        let what = format!("deleted from {queue}");
        print_line(&text::done(deleted, word, &what, rest))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the number of deleted jobs, and the number of those that are left.
fn delete_one_by_one(
    client: &mut Client,
    state: WaitingState,
    present: u64,
    wanted: u64,
) -> Result<(u64, u64)> {
    let mut progress = Progress::new(wanted);
    let (mut rest, mut deleted) = (present, 0);
    while rest > 0 && deleted < wanted {
        let Some(job) = client.peek_next(state)? else { return Ok((deleted, 0)) };
        rest -= 1;
        // If a worker has just taken this job, continue with the next job.
        if client.delete(job.id)? {
            deleted += 1;
            progress.show(deleted)?;
        }
    }
    Ok((deleted, rest))
}

/// Lets the server delete all jobs of a state. Returns their number.
fn delete_by_operation(api: &mut ApiClient, queue: &str, state: WaitingState) -> Result<u64> {
    let name = api::shown_name(queue.as_bytes());
    let asked = StartOperation {
        state: Some(JobState::from(state)),
        confirm: Some(name.clone()),
        ..StartOperation::new(OperationKind::Clear, name)
    };
    let Operation { done, status, problem, .. } = operator::run_operation(api, &asked)?;
    match problem {
        Some(problem) => bail!("{} were deleted, then: {}", counted(done, "job"), problem.detail),
        None if status == OperationStatus::Cancelled => {
            bail!("the deletion was cancelled after {}", counted(done, "job"))
        }
        None => Ok(done),
    }
}

/// The API of the server to which the client is connected. `None`: the server has no API that this
/// tool can use, or the tool finds the API of another server.
fn api_of(client: &mut Client) -> Option<ApiClient> {
    let address = client.local_address()?;
    let mut api = operator::connect(&ApiArguments::of_environment()).ok()?;
    if api.get::<Me>("/me").ok()?.role < Role::Operator {
        return None;
    }
    // Another machine, or the other end of a tunnel, can have a connection from the same address. But
    // only the same server sees that this connection watches a queue with a random name.
    let sign = format!("lineshaft-delete-{:016x}", RandomState::new().hash_one(&address));
    if !matches!(client.ask(&format!("watch {sign}")).ok()?, Reply::Watching(_)) {
        return None;
    }
    let path = format!("/connections?protocol=beanstalk&address={}", shown_segment(&address));
    let found = api.get::<Connections>(&path);
    // The queue ends when nobody watches it.
    client.ask(&format!("ignore {sign}")).ok()?;
    let has_sign = |connection: &Connection| connection.queues.contains(&sign);
    found.ok()?.items.iter().any(has_sign).then_some(api)
}
