//! `lineshaft jobs`: lists the jobs of a queue, or searches for them, page by page.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Result;
use api::types::{Job, Jobs, Search};
use bench::table::Table;
use notation::plain::one_line;
use notation::size;

use crate::cli::JobsArguments;
use crate::client::{ApiClient, WaitingState, segment, shown_segment};
use crate::text::{count, counted, json_line, seconds};

/// Jobs of one request.
const PAGE: u64 = 100;
/// Characters of a body in the table.
const BODY_CHARACTERS: usize = 60;

/// Prints the jobs.
pub(crate) fn run(arguments: &JobsArguments) -> Result<ExitCode> {
    let mut client = super::connect(&arguments.api)?;
    let mut list = Listing::new(arguments);
    match &arguments.search {
        Some(text) => search(&mut client, text, &mut list),
        None => pages(&mut client, &mut list),
    }
}

/// Prints the jobs in the order of the queue.
fn pages(client: &mut ApiClient, list: &mut Listing<'_>) -> Result<ExitCode> {
    let state = list.arguments.state.unwrap_or(WaitingState::Ready).word();
    let queue = segment(&list.arguments.queue);
    let path = format!("/queues/{queue}/jobs?state={state}&body=text");
    let (mut total, mut unreadable) = (0, 0);
    while let Some(limits) = list.next_page() {
        let page: Jobs = client.get(&format!("{path}{limits}"))?;
        (total, unreadable) = (page.total, unreadable + page.unreadable);
        list.add(page.items, page.next)?;
    }
    let shown = count(list.shown);
    list.end(&format!("{shown} of {}", counted(total, &format!("{state} job"))))?;
    if unreadable > 0 {
        eprintln!("lineshaft: the log cannot give {}", counted(unreadable, "further job"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the jobs whose body has a text.
fn search(client: &mut ApiClient, text: &str, list: &mut Listing<'_>) -> Result<ExitCode> {
    let state = list.arguments.state.map_or(String::new(), |it| format!("&state={}", it.word()));
    let (queue, text) = (segment(&list.arguments.queue), shown_segment(text));
    let path = format!("/search?queue={queue}&text={text}{state}");
    let (mut scanned, mut unsearched) = (0, 0);
    while let Some(limits) = list.next_page() {
        let page: Search = client.get(&format!("{path}{limits}"))?;
        (scanned, unsearched) = (scanned + page.scanned_jobs, unsearched + page.unsearched);
        list.add(page.items, page.next)?;
    }
    let found = counted(list.shown, "job");
    list.end(&format!("{found} found in {}", counted(scanned, "job")))?;
    if unsearched > 0 {
        eprintln!("lineshaft: the server could not search {}", counted(unsearched, "further job"));
    }
    Ok(if list.shown == 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The jobs on their way to standard output.
struct Listing<'a> {
    arguments: &'a JobsArguments,
    table: Table,
    /// The last column. It is aligned to the left.
    bodies: Vec<String>,
    shown: u64,
    cursor: Option<String>,
    has_begun: bool,
}

impl<'a> Listing<'a> {
    fn new(arguments: &'a JobsArguments) -> Self {
        let table = Table::new(0, &["ID", "PRIORITY", "AGE", "TAKES", "SIZE"]);
        let bodies = vec!["BODY".to_owned()];
        Listing { arguments, table, bodies, shown: 0, cursor: None, has_begun: false }
    }

    /// The parameters of the next page. `None`: there are no more jobs, or enough of them.
    fn next_page(&mut self) -> Option<String> {
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        let left = self.arguments.limit.saturating_sub(self.shown);
        if left == 0 || !is_first && self.cursor.is_none() {
            return None;
        }
        let cursor = self.cursor.take().map_or(String::new(), |it| format!("&cursor={it}"));
        Some(format!("&limit={}{cursor}", PAGE.min(left)))
    }

    fn add(&mut self, jobs: Vec<Job>, cursor: Option<String>) -> Result<()> {
        self.cursor = cursor;
        self.shown += jobs.len() as u64;
        let mut output = io::stdout().lock();
        for job in jobs {
            if self.arguments.json {
                writeln!(output, "{}", json_line(&job)?)?;
            } else {
                self.bodies.push(body(&job));
                self.table.row(cells(&job));
            }
        }
        Ok(())
    }

    /// Prints the table, and this last line.
    fn end(&self, last: &str) -> Result<()> {
        if self.arguments.json {
            return Ok(());
        }
        let mut output = io::stdout().lock();
        for (line, body) in self.table.text().lines().zip(&self.bodies) {
            writeln!(output, "{line}  {body}")?;
        }
        writeln!(output, "\n{last}")?;
        Ok(())
    }
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
    let begin: String = body.text.chars().take(BODY_CHARACTERS).collect();
    let mut text = one_line(&begin);
    if body.is_cut || body.text.chars().nth(BODY_CHARACTERS).is_some() {
        text.push('…');
    }
    text
}
