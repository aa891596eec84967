//! `lineshaft peek`: shows a job without taking it.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use anyhow::Result;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use notation::{plain, port};
use serde_json::{Value, json};

use crate::cli::{PeekArguments, refuse};
use crate::client::{CONNECT_TIMEOUT, Client, Job, Protocol, Stats, WaitingState, kestrel};
use crate::commands::stats::json_of;
use crate::text::{self, complain, print_value};

/// Prints the body to the output, and a line about the job to standard error.
pub(crate) fn run(arguments: &PeekArguments) -> Result<ExitCode> {
    match arguments.protocol {
        Protocol::Beanstalk => {}
        Protocol::Gearman => {
            let why = "the Gearman protocol cannot show jobs; use `lineshaft jobs`";
            return Err(refuse(&format!("--protocol gearman: {why}")).into());
        }
        Protocol::Kestrel => return peek_item(arguments),
    }
    let mut client = Client::connect_within(&arguments.server.beanstalk()?, CONNECT_TIMEOUT)?;
    let job = match (&arguments.queue, arguments.id) {
        (Some(queue), _) => {
            // `use` would make a queue that does not exist.
            if client.stats_queue(queue)?.is_none() {
                complain(&text::no_queue(queue));
                return Ok(ExitCode::FAILURE);
            }
            client.use_queue(queue)?;
            client.peek_next(arguments.state)?
        }
        (None, Some(id)) => client.peek(id)?,
        (None, None) => unreachable!("the command line requires a queue or an id"),
    };
    let Some(job) = job else {
        complain(&nothing_there(&mut client, arguments)?);
        return Ok(ExitCode::FAILURE);
    };
    if !arguments.quiet {
        let stats = client.stats_job(job.id)?.unwrap_or_default();
        if arguments.json {
            return print_json(&job.body, json_of(&stats));
        }
        eprintln!("{}", plain::escaped(&about(&job, &stats)));
    }
    print(&job.body)
}

/// Prints the next item of a Kestrel queue.
fn peek_item(arguments: &PeekArguments) -> Result<ExitCode> {
    let queue = arguments.queue.as_ref().filter(|_| arguments.state == WaitingState::Ready);
    let Some(queue) = queue else {
        let why =
            "a Kestrel server shows only the next item of a queue; leave out --id and --state";
        return Err(refuse(&format!("--protocol kestrel: {why}")).into());
    };
    kestrel::check_name(queue)?;
    let target = arguments.server.target(port::KESTREL)?;
    let mut client = kestrel::Client::connect(&target, Some(CONNECT_TIMEOUT))?;
    match client.peek(queue)? {
        Some(item) if arguments.json => print_json(&item, json!({ "queue": queue })),
        Some(item) => print(&item),
        None => {
            complain(&format!("{queue} has no item, or does not exist"));
            Ok(ExitCode::FAILURE)
        }
    }
}

/// Prints the unchanged body, or a harmless form of it on a terminal.
fn print(body: &[u8]) -> Result<ExitCode> {
    let mut output = io::stdout().lock();
    if output.is_terminal() {
        writeln!(output, "{}", plain::escaped_bytes(without_last_line_end(body)))?;
    } else {
        output.write_all(body)?;
    }
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Prints an object with the body. A body that is not text is in `body_base64`.
fn print_json(body: &[u8], mut about: Value) -> Result<ExitCode> {
    match str::from_utf8(body) {
        Ok(text) => about["body"] = text.into(),
        Err(_) => about["body_base64"] = BASE64.encode(body).into(),
    }
    print_value(&about)?;
    Ok(ExitCode::SUCCESS)
}

/// A terminal shows the end of the last line itself.
pub(crate) fn without_last_line_end(body: &[u8]) -> &[u8] {
    body.strip_suffix(b"\n").unwrap_or(body)
}

/// One line about a job, such as
/// `job 12 in mail: ready, priority 1024, 45 bytes, put 2 m ago, taken 0 times`.
fn about(job: &Job, stats: &Stats) -> String {
    let state = match stats.get("state") {
        Some("reserved") => "leased",
        Some(state) => state,
        None => "gone now",
    };
    let due = match stats.number("time-left") {
        0 => String::new(),
        left => format!(" for {}", text::seconds(left)),
    };
    format!(
        "job {} in {}: {state}{due}, priority {}, {}, put {} ago, taken {}",
        job.id,
        stats.get("tube").unwrap_or("?"),
        stats.number("pri"),
        text::counted(job.body.len() as u64, "byte"),
        text::seconds(stats.number("age")),
        text::counted(stats.number("reserves"), "time"),
    )
}

/// Says which job is missing, and which states have jobs.
fn nothing_there(client: &mut Client, arguments: &PeekArguments) -> Result<String> {
    let Some(queue) = &arguments.queue else {
        return Ok(format!("job {} does not exist", arguments.id.unwrap_or(0)));
    };
    let Some(stats) = client.stats_queue(queue)? else { return Ok(text::no_queue(queue)) };
    let others: Vec<String> = [WaitingState::Ready, WaitingState::Delayed, WaitingState::Buried]
        .into_iter()
        .map(|state| (state.word(), stats.number(&format!("current-jobs-{}", state.word()))))
        .filter(|(_, count)| *count > 0)
        .map(|(word, count)| format!("{} {word} (see --state {word})", text::count(count)))
        .collect();
    let wanted = arguments.state.word();
    Ok(match others.as_slice() {
        [] => format!("no job in {queue} is {wanted}"),
        others => format!("no job in {queue} is {wanted}, but {}", others.join(" and ")),
    })
}
