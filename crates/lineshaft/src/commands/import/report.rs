//! The report of an import: which jobs were imported, and which were not and why.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use broker::offline::Added;
use import::{Backlog, Job, State};
use notation::plain;
use serde_json::{Value, json};
use server::exit;
use unicode_width::UnicodeWidthStr as _;

use super::record::Earlier;
use super::source::Source;
use crate::text::{count, counted, print_line};

/// Limits of the report: queues and losses that it lists.
const QUEUES_SHOWN_MAX: usize = 100;
const LOSSES_SHOWN_MAX: usize = 1000;

/// Counts jobs by what the import did with them.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Jobs that an interrupted run of the same import has imported, or left out on purpose.
    before: u64,
    kept: u64,
    unnumbered: u64,
    renumbered: u64,
    joined: u64,
    present: u64,
}

impl Tally {
    /// The tally of an import that continues after this many jobs.
    pub(super) fn after(before: u64) -> Tally {
        Tally { before, ..Tally::default() }
    }

    pub(super) fn note(&mut self, job: &Job, added: Added) {
        *match added {
            Added::Kept => &mut self.kept,
            Added::New(_) if job.id.is_some() => &mut self.renumbered,
            Added::New(_) => &mut self.unnumbered,
            Added::Joined(_) => &mut self.joined,
            Added::Present => &mut self.present,
        } += 1;
    }
}

/// The numbers of a source's jobs.
pub(super) struct Ids {
    /// The lowest and the highest number.
    pub(super) range: Option<(u64, u64)>,
    /// Whether each job has a number, and these numbers increase.
    pub(super) ascend: bool,
}

pub(super) fn ids(jobs: &[Job]) -> Ids {
    let ids = jobs.iter().filter_map(|job| job.id);
    let range = ids.clone().min().zip(ids.max());
    let ascend = jobs.is_sorted_by(|one, next| match (one.id, next.id) {
        (Some(one), Some(next)) => one < next,
        _ => false,
    }) && jobs.iter().all(|job| job.id.is_some());
    Ids { range, ascend }
}

/// The place of each buried job among all buried jobs. The key is the job's index in `jobs`.
pub(super) fn buried_places(jobs: &[Job]) -> BTreeMap<usize, u64> {
    let buried = jobs.iter().enumerate().filter(|(_, job)| job.state == State::Buried);
    let mut order: Vec<(u64, usize)> = buried.map(|(index, job)| (job.buried, index)).collect();
    order.sort_unstable();
    order.into_iter().zip(0..).map(|((_, index), place)| (index, place)).collect()
}

/// The exit code: 0 if no job was lost.
pub(super) fn exit_code(backlog: &Backlog) -> ExitCode {
    ExitCode::from(if backlog.losses.is_empty() { 0 } else { exit::DAMAGED_DATA })
}

/// What a run of the command did.
pub(super) enum Outcome<'a> {
    /// Nothing. An import would add the jobs, unless it was done earlier.
    DryRun(&'a Earlier),
    /// Nothing, because the source was imported before.
    DoneBefore,
    /// An import.
    Done(&'a Tally),
}

/// The report as JSON. Unlike the text, it has all queues, and all losses that the backlog has.
pub(super) fn value(source: &Source, folder: &Path, outcome: Outcome<'_>) -> Value {
    let nothing = Tally::default();
    let (earlier, tally) = match outcome {
        Outcome::DryRun(Earlier::None) => (None, &nothing),
        Outcome::DryRun(Earlier::Begun(_)) => (Some("interrupted"), &nothing),
        Outcome::DryRun(Earlier::Changed(_)) => (Some("changed"), &nothing),
        Outcome::DryRun(Earlier::Done(_)) | Outcome::DoneBefore => (Some("done"), &nothing),
        Outcome::Done(tally) => ((tally.before > 0).then_some("interrupted"), tally),
    };
    let Tally { before, kept, unnumbered, renumbered, joined, present } = *tally;
    let queues = counts(&source.backlog).into_iter().map(|(name, counts)| {
        let (queue, queue_base64) = import::jsonl::split(name);
        let Counts { ready, delayed, buried, bytes } = counts;
        let mut row =
            json!({ "queue": queue, "ready": ready, "delayed": delayed, "buried": buried, "bytes": bytes });
        if let Some(name) = queue_base64 {
            row["queue_base64"] = name.into();
        }
        row
    });
    let losses = source.backlog.losses.iter();
    let losses = losses.map(|loss| json!({ "place": loss.place, "what": loss.what }));
    json!({
        "source": source.shown(),
        "data": folder.to_string_lossy(),
        "dry_run": matches!(outcome, Outcome::DryRun(_)),
        "earlier": earlier,
        "jobs": source.backlog.jobs.len(),
        "imported": kept + unnumbered + renumbered,
        "imported_before": before,
        "kept_numbers": kept,
        "new_numbers": renumbered,
        "joined": joined,
        "present": present,
        "queues": queues.collect::<Vec<Value>>(),
        "losses": losses.collect::<Vec<Value>>(),
        "more_losses": source.backlog.more_losses,
    })
}

/// Prints which jobs an import would add.
pub(super) fn print_plan(source: &Source, folder: &Path, earlier: &Earlier) -> Result<()> {
    print_table(&source.backlog)?;
    let jobs = counted(source.backlog.jobs.len() as u64, "job");
    let (from, to) = (source.shown(), folder.display());
    print_line(&format!("An import would add {jobs} from {from} to {to}. Nothing was changed."))?;
    match earlier {
        Earlier::None => {}
        Earlier::Done(record) => print_line(&format!("But {}", record.done_before(source)))?,
        Earlier::Begun(record) => print_line(&format!("But {}", record.continues()))?,
        Earlier::Changed(record) => print_line(&format!("But {}", record.changed_since(source)))?,
    }
    print_losses(&source.backlog)
}

/// Prints which jobs were imported.
pub(super) fn print_done(source: &Source, folder: &Path, tally: &Tally) -> Result<()> {
    print_table(&source.backlog)?;
    let Tally { before, kept, unnumbered, renumbered, joined, present } = *tally;
    let imported = counted(kept + unnumbered + renumbered, "job");
    print_line(&format!("Imported {imported} from {} into {}.", source.shown(), folder.display()))?;
    for (number, what) in [
        (before, "imported, or left out, before the interruption"),
        (kept, "with the old number"),
        (renumbered, "with a new number, because the old one was used before"),
        (joined, "not imported: an unfinished job of the queue has the same key"),
        (present, "not imported: the queue already has the same job"),
    ] {
        if number > 0 {
            print_line(&format!("  {}: {what}", counted(number, "job")))?;
        }
    }
    print_losses(&source.backlog)
}

/// The jobs and bytes of a queue.
#[derive(Clone, Debug, Default)]
struct Counts {
    ready: u64,
    delayed: u64,
    buried: u64,
    bytes: u64,
}

/// The jobs of each queue, sorted by the name.
fn counts(backlog: &Backlog) -> Vec<(&[u8], Counts)> {
    let mut counts = vec![Counts::default(); backlog.queues.len()];
    for job in &backlog.jobs {
        let queue = &mut counts[job.queue as usize];
        queue.bytes += job.body_bytes();
        *match job.state {
            State::Ready => &mut queue.ready,
            State::Delayed => &mut queue.delayed,
            State::Buried => &mut queue.buried,
        } += 1;
    }
    let names = backlog.queues.iter().map(|queue| &*queue.name);
    let mut rows: Vec<(&[u8], Counts)> = names.zip(counts).collect();
    rows.sort_by_key(|(name, _)| *name);
    rows
}

fn print_table(backlog: &Backlog) -> io::Result<()> {
    let rows = counts(backlog).into_iter();
    let shown = |name| plain::escaped(&String::from_utf8_lossy(name)).into_owned();
    let mut rows: Vec<(String, Counts)> =
        rows.map(|(name, counts)| (shown(name), counts)).collect();
    let hidden = rows.len().saturating_sub(QUEUES_SHOWN_MAX);
    rows.truncate(QUEUES_SHOWN_MAX);
    let widest = rows.iter().map(|(name, _)| name.width()).max().unwrap_or(0).max(5);
    let mut out = io::stdout().lock();
    let pad = |name: &str| " ".repeat(widest.saturating_sub(name.width()));
    let (name, space) = ("queue", pad("queue"));
    writeln!(
        out,
        "{name}{space} {:>12} {:>12} {:>12} {:>15}",
        "ready", "delayed", "buried", "bytes"
    )?;
    for (name, Counts { ready, delayed, buried, bytes }) in &rows {
        let [ready, delayed, buried, bytes] = [ready, delayed, buried, bytes].map(|n| count(*n));
        let space = pad(name);
        writeln!(out, "{name}{space} {ready:>12} {delayed:>12} {buried:>12} {bytes:>15}")?;
    }
    if hidden > 0 {
        writeln!(out, "and {}", counted(hidden as u64, "more queue"))?;
    }
    Ok(())
}

fn print_losses(backlog: &Backlog) -> Result<()> {
    let (shown, hidden) = backlog.losses.split_at(backlog.losses.len().min(LOSSES_SHOWN_MAX));
    let hidden = hidden.len() as u64 + backlog.more_losses;
    let mut out = io::stdout().lock();
    if !shown.is_empty() {
        writeln!(out, "Not imported:")?;
    }
    for loss in shown {
        writeln!(out, "  {}: {}", plain::escaped(&loss.place), plain::escaped(&loss.what))?;
    }
    if hidden > 0 {
        writeln!(out, "  and {}", counted(hidden, "more place"))?;
    }
    Ok(())
}
