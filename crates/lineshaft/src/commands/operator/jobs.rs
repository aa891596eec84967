//! `lineshaft jobs`: lists the jobs of a queue, page by page.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Result;
use api::types::{Job, Jobs};
use bench::table::Table;
use notation::size;

use crate::cli::JobsArguments;
use crate::client::segment;
use crate::text::{count, counted, seconds};

/// Jobs of one request.
const PAGE: u64 = 100;
/// Characters of a body in the table.
const BODY_CHARACTERS: usize = 60;

/// Prints the jobs.
pub(crate) fn run(arguments: &JobsArguments) -> Result<ExitCode> {
    let mut client = super::connect(&arguments.api)?;
    let path = format!(
        "/queues/{}/jobs?state={}&body=text",
        segment(&arguments.queue),
        arguments.state.word()
    );
    let mut table = Table::new(0, &["ID", "PRIORITY", "AGE", "TAKES", "SIZE"]);
    let (mut bodies, mut shown, mut total, mut unreadable) = (Vec::new(), 0, 0, 0);
    let mut output = io::stdout().lock();
    let mut cursor: Option<String> = None;
    while shown < arguments.limit {
        let limit = PAGE.min(arguments.limit - shown);
        let from = cursor.map_or_else(String::new, |cursor| format!("&cursor={cursor}"));
        let page: Jobs = client.get(&format!("{path}&limit={limit}{from}"))?;
        (total, unreadable) = (page.total, unreadable + page.unreadable);
        shown += page.items.len() as u64;
        for job in page.items {
            if arguments.json {
                writeln!(output, "{}", serde_json::to_string(&job)?)?;
            } else {
                bodies.push(body(&job));
                table.row(cells(&job));
            }
        }
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    if !arguments.json {
        // The bodies are the last column. They are aligned to the left.
        let mut bodies = std::iter::once("BODY".to_owned()).chain(bodies);
        for line in table.text().lines() {
            writeln!(output, "{line}  {}", bodies.next().unwrap_or_default())?;
        }
        let state = arguments.state.word();
        writeln!(output, "\n{} of {}", count(shown), counted(total, &format!("{state} job")))?;
    }
    if unreadable > 0 {
        eprintln!("lineshaft: the log cannot give {}", counted(unreadable, "further job"));
    }
    Ok(ExitCode::SUCCESS)
}

fn cells(job: &Job) -> Vec<String> {
    vec![
        job.id.to_string(),
        job.priority.to_string(),
        seconds(job.age_ms / 1000),
        count(job.counters.takes.into()),
        size::rounded(job.body_bytes),
    ]
}

/// The beginning of a body on one line.
fn body(job: &Job) -> String {
    let Some(body) = &job.body else { return String::new() };
    let plain = |character: char| if character.is_control() { ' ' } else { character };
    let mut text: String = body.text.chars().take(BODY_CHARACTERS).map(plain).collect();
    if body.is_cut || body.text.chars().nth(BODY_CHARACTERS).is_some() {
        text.push('…');
    }
    text
}
