//! `lineshaft history`: shows the jobs that have left a queue, or one of them, and puts a copy of it.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use api::types::{PastAttempt, PastJob, PastJobs, PastTimes, Put, Quantiles};
use bench::table::Table;
use hyper::Method;
use notation::plain::one_line;
use notation::size;
use serde::Serialize;

use crate::cli::HistoryArguments;
use crate::client::{ApiClient, segment, shown_segment};
use crate::text::{count, counted, elapsed, json_line, print_line, print_value};

/// Jobs of one request.
const PAGE: u64 = 200;

/// Prints the jobs, or one of them, or puts a copy of it.
pub(crate) fn run(arguments: &HistoryArguments) -> Result<ExitCode> {
    let mut client = super::connect(&arguments.api)?;
    match (arguments.job, &arguments.queue) {
        (Some(id), queue) if arguments.run_again => {
            run_again(&mut client, id, queue.as_deref(), arguments.json)
        }
        (Some(id), queue) => one(&mut client, id, queue.as_deref(), arguments.json),
        (None, queue) => list(&mut client, queue.as_deref().unwrap_or_default(), arguments),
    }
}

/// The parameter that chooses the queue that a job left.
fn parameter_of(queue: Option<&str>) -> String {
    queue.map_or(String::new(), |queue| format!("?queue={}", segment(queue)))
}

fn run_again(
    client: &mut ApiClient,
    id: u64,
    queue: Option<&str>,
    as_json: bool,
) -> Result<ExitCode> {
    let queue = parameter_of(queue);
    let put: Put = client.change(&Method::POST, &format!("/jobs/{id}/run_again{queue}"))?;
    if as_json {
        print_value(&put)?;
    } else {
        print_line(&format!("job {} in {} is a copy of job {id}", put.id, put.queue))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn one(client: &mut ApiClient, id: u64, queue: Option<&str>, as_json: bool) -> Result<ExitCode> {
    let queue = parameter_of(queue);
    let job: PastJob = client.get(&format!("/jobs/{id}/history{queue}"))?;
    if as_json {
        print_value(&job)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut lines = vec![
        format!("job {id} of {}", job.queue),
        format!("{}  put, with priority {}", job.created_at, job.priority),
    ];
    let unknown = u64::from(job.takes).saturating_sub(job.attempts.len() as u64);
    if unknown > 0 {
        lines.push(format!("                          {} before", counted(unknown, "attempt")));
    }
    lines.extend(job.attempts.iter().map(attempt_line));
    let to = job.to.as_ref().map_or(String::new(), |to| format!(", now in {to}"));
    lines.push(format!("{}  {}{to}", job.left_at, word(&job.outcome)?));
    lines.push(format!(
        "waited {}, ran {}, in all {}; {} of {} of the body kept",
        time_or_dash(job.waited_ms),
        time_or_dash(job.ran_ms),
        time(job.total_ms),
        size::rounded(job.kept_bytes),
        size::rounded(job.body_bytes)
    ));
    for line in lines {
        print_line(&line)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn attempt_line(attempt: &PastAttempt) -> String {
    let worker = attempt.worker.as_deref().unwrap_or("an unknown worker");
    let outcome = word(&attempt.outcome).unwrap_or_default();
    let end = match outcome.as_str() {
        "left" => String::new(),
        _ => format!(", then {}", outcome.replace('_', " ")),
    };
    let error = match attempt.error.as_deref() {
        Some("") => String::new(),
        Some(error) => format!(": {}", one_line(error)),
        None => ": an error that the server hides".to_owned(),
    };
    let (waited, ran) = (time(attempt.waited_ms), time(attempt.ran_ms));
    format!("{}  taken by {worker} after {waited}, for {ran}{end}{error}", attempt.taken_at)
}

/// The word of a value that is a word in JSON.
fn word(value: &impl Serialize) -> Result<String> {
    let value = serde_json::to_value(value)?;
    Ok(value.as_str().unwrap_or_default().to_owned())
}

fn time(millis: u64) -> String {
    if millis < 1000 { format!("{millis} ms") } else { elapsed(Duration::from_millis(millis)) }
}

/// A dash: the time is not known.
fn time_or_dash(millis: Option<u64>) -> String {
    millis.map_or("-".to_owned(), time)
}

fn list(client: &mut ApiClient, queue: &str, arguments: &HistoryArguments) -> Result<ExitCode> {
    let outcome = arguments.outcome.as_deref();
    let outcome = outcome.map_or(String::new(), |name| format!("&outcome={}", shown_segment(name)));
    let text = arguments.text.as_deref();
    let text = text.map_or(String::new(), |text| format!("&text={}", shown_segment(text)));
    let path = format!("/queues/{}/history", segment(queue));
    let mut table =
        Table::new(2, &["LEFT", "OUTCOME", "ID", "TAKES", "WAITED", "RAN", "TOTAL", "SIZE"]);
    let (mut shown, mut cursor) = (0, String::new());
    let mut output = io::stdout().lock();
    let last = loop {
        let limit = PAGE.min(arguments.limit - shown);
        let page: PastJobs = client.get(&format!("{path}?limit={limit}{outcome}{text}{cursor}"))?;
        shown += page.items.len() as u64;
        for job in &page.items {
            if arguments.json {
                writeln!(output, "{}", json_line(job)?)?;
            } else {
                table.row(cells(job)?);
            }
        }
        match &page.next {
            Some(next) if shown < arguments.limit => cursor = format!("&cursor={next}"),
            Some(_) | None => break page,
        }
    };
    if !arguments.json {
        write!(output, "{}", table.text())?;
        writeln!(output, "\n{} of {}", count(shown), counted(last.total, "job"))?;
        if let Some(times) = &last.times {
            write!(output, "\n{}", times_table(times))?;
        }
    }
    if last.lost > 0 {
        let lost = counted(last.lost, "event");
        eprintln!("lineshaft: the history lacks {lost} of jobs of any queue");
    }
    Ok(ExitCode::SUCCESS)
}

fn cells(job: &PastJob) -> Result<Vec<String>> {
    Ok(vec![
        job.left_at.clone(),
        word(&job.outcome)?,
        job.id.to_string(),
        count(job.takes.into()),
        time_or_dash(job.waited_ms),
        time_or_dash(job.ran_ms),
        time(job.total_ms),
        size::rounded(job.body_bytes),
    ])
}

/// The times of all jobs of the history.
fn times_table(times: &PastTimes) -> String {
    let mut table = Table::new(1, &["ALL JOBS", "MEAN", "HALF", "95 %", "99 %"]);
    let rows = [
        ("waited", times.waited.as_ref()),
        ("ran", times.ran.as_ref()),
        ("total", Some(&times.total)),
    ];
    for (name, values) in rows {
        let Some(Quantiles { mean_ms, p50_ms, p95_ms, p99_ms }) = values else { continue };
        let values = [mean_ms, p50_ms, p95_ms, p99_ms].map(|millis| time(millis.round() as u64));
        table.row(std::iter::once(name.to_owned()).chain(values).collect());
    }
    table.text()
}
