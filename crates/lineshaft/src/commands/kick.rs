//! `lineshaft kick`: makes buried or delayed jobs ready again.

use std::process::ExitCode;

use anyhow::Result;
use serde_json::json;

use crate::cli::KickArguments;
use crate::client::{CONNECT_TIMEOUT, Client, Stats};
use crate::text::{self, complain, print_line, print_value};

/// Number of jobs per kick command. It is limited because a server may let other clients wait while
/// it executes one command.
const KICK_AT_ONCE: u64 = 10_000;

/// Kicks a job by its id, or some or all jobs of a queue.
pub(crate) fn run(arguments: &KickArguments) -> Result<ExitCode> {
    let mut client = Client::connect_within(&arguments.server.beanstalk()?, CONNECT_TIMEOUT)?;
    match (&arguments.queue, arguments.id) {
        (Some(queue), _) => kick_queue(&mut client, arguments, queue),
        (None, Some(id)) => kick_job(&mut client, id, arguments.json),
        (None, None) => unreachable!("the command line requires a queue or an id"),
    }
}

fn kick_job(client: &mut Client, id: u64, as_json: bool) -> Result<ExitCode> {
    if client.kick_job(id)? {
        if as_json {
            print_value(&json!({ "id": id, "kicked": 1 }))?;
        } else {
            print_line(&format!("job {id} is ready"))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    match client.stats_job(id)?.as_ref().and_then(|stats| stats.get("state")) {
        None => complain(&format!("job {id} does not exist")),
        Some("reserved") => complain(&format!("a worker holds job {id}; nothing to kick")),
        Some(state) => complain(&format!("job {id} is {state}; nothing to kick")),
    }
    Ok(ExitCode::FAILURE)
}

fn kick_queue(client: &mut Client, arguments: &KickArguments, queue: &str) -> Result<ExitCode> {
    client.use_queue(queue)?;
    let stats = client.stats_queue(queue)?.unwrap_or_default();
    let Some((state, present)) = kickable(&stats) else {
        complain(&format!("no job in {queue} is buried or delayed"));
        return Ok(ExitCode::FAILURE);
    };
    // Kick at most as many jobs as the state had at the beginning. Without this limit, the server
    // would kick delayed jobs when no buried job is left.
    let wanted = if arguments.all { present } else { present.min(u64::from(arguments.count)) };
    let mut kicked = 0;
    while kicked < wanted {
        let bound = (wanted - kicked).min(KICK_AT_ONCE) as u32;
        match client.kick(bound)? {
            0 => break,
            count => kicked += count,
        }
    }
    let rest = present.saturating_sub(kicked);
    let what = format!("kicked in {queue}");
    if arguments.json {
        let done = json!({ "queue": queue, "state": state, "kicked": kicked, "left": rest });
        print_value(&done)?;
    } else {
        print_line(&text::done(kicked, state, &what, rest))?;
    }
    Ok(if kicked == 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Returns the state of the jobs that the server would kick, and their number.
fn kickable(stats: &Stats) -> Option<(&'static str, u64)> {
    ["buried", "delayed"]
        .into_iter()
        .map(|state| (state, stats.number(&format!("current-jobs-{state}"))))
        .find(|(_, count)| *count > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buried_jobs_are_kicked_before_delayed_ones() {
        let stats = |text: &str| Stats::parse(text.as_bytes());
        let both = stats("---\ncurrent-jobs-delayed: 2\ncurrent-jobs-buried: 3\n");
        assert_eq!(kickable(&both), Some(("buried", 3)));
        let delayed = stats("---\ncurrent-jobs-delayed: 2\ncurrent-jobs-buried: 0\n");
        assert_eq!(kickable(&delayed), Some(("delayed", 2)));
        assert_eq!(kickable(&Stats::default()), None);
    }
}
