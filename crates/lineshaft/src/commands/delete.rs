//! `lineshaft delete`: deletes waiting jobs.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Result;

use crate::cli::DeleteArguments;
use crate::client::{CONNECT_TIMEOUT, Client, WaitingState};
use crate::text;

/// Deletes a job by its id, or one job or all jobs of a queue in one state.
pub(crate) fn run(arguments: &DeleteArguments) -> Result<ExitCode> {
    let mut client = Client::connect_within(&arguments.server.beanstalk()?, CONNECT_TIMEOUT)?;
    match (&arguments.queue, arguments.state, arguments.id) {
        (Some(queue), Some(state), _) => delete_of_queue(&mut client, queue, state, arguments.all),
        (_, _, Some(id)) => delete_job(&mut client, id),
        (_, _, None) => unreachable!("the command line requires a queue with a state, or an id"),
    }
}

fn delete_job(client: &mut Client, id: u64) -> Result<ExitCode> {
    if client.delete(id)? {
        writeln!(io::stdout(), "job {id} is deleted")?;
        return Ok(ExitCode::SUCCESS);
    }
    match client.stats_job(id)? {
        None => eprintln!("lineshaft: job {id} does not exist"),
        Some(_) => eprintln!("lineshaft: a worker holds job {id}; only that worker can delete it"),
    }
    Ok(ExitCode::FAILURE)
}

fn delete_of_queue(
    client: &mut Client,
    queue: &str,
    state: WaitingState,
    all: bool,
) -> Result<ExitCode> {
    client.use_queue(queue)?;
    let word = state.word();
    let stats = client.stats_queue(queue)?.unwrap_or_default();
    let present = stats.number(&format!("current-jobs-{word}"));
    // Delete at most as many jobs as the state had at the beginning. Without this limit, the loop
    // might never end while clients quickly put jobs.
    let wanted = if all { present } else { present.min(1) };
    let (mut rest, mut deleted) = (present, 0);
    while rest > 0 && deleted < wanted {
        let Some(job) = client.peek_next(state)? else {
            rest = 0;
            break;
        };
        rest -= 1;
        // If a worker has just taken this job, continue with the next job.
        if client.delete(job.id)? {
            deleted += 1;
        }
    }
    if deleted == 0 {
        eprintln!("lineshaft: no job in {queue} is {word}");
        return Ok(ExitCode::FAILURE);
    }
    let what = format!("deleted from {queue}");
    writeln!(io::stdout(), "{}", text::done(deleted, word, &what, rest))?;
    Ok(ExitCode::SUCCESS)
}
