//! Redrives go on after a restart, and after a change of the leader. Two notes of the engine have what was
//! asked, and how far it has come. Only a redrive has notes: other operations change the first jobs of a
//! queue, and could not tell the jobs that clients put after the restart from those before the start.
//!
//! The progress is noted in the turn that brings letters back, after them. So after a crash it does not
//! count letters that did not come back. If the crash cuts the log between the letters and the note, it lacks
//! the letters of this one turn.

use std::collections::BTreeMap;
use std::mem;
use std::sync::{Arc, Mutex};

use broker::limits::NOTES_BYTES_MAX;
use broker::{Millis, NoteRefusal, Position, Turn};
use http_api::DoorError;
use notation::plain;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use super::begin::{chosen, rate_of};
use super::filter::Filter;
use super::{Operation, Progress, Refusals, Wanted};
use crate::problem::{Problem, ProblemKind};
use crate::state::Api;
use crate::text::name::{parse_name, shown_name};
use crate::types::{self, JobState, OperationKind};

/// What was asked, and what was known at the start: the value of the note `operation/N`, as JSON.
#[derive(Debug, Serialize, Deserialize)]
struct Begun {
    /// The queue of the letters. The client may have given an alias.
    queue: String,
    /// Whether the queue had dead letters. Otherwise its buried jobs come back.
    has_dead: bool,
    total: u64,
    started_ms: u64,
    who: String,
    asked: types::StartOperation,
}

/// The most bytes of the number of a job in a note, with its comma.
const ID_BYTES_MAX: usize = 21;

/// The name of the note about what was asked.
fn begun_name(number: u64) -> String {
    format!("operation/{number}")
}

/// The name of the note about the progress.
fn progress_name(number: u64) -> String {
    format!("operation/{number}/progress")
}

/// The value of the note about the progress. All values have the same length, so that the note never grows
/// and always has room.
fn progress_value([done, skipped, refused]: [u64; 3]) -> String {
    format!("{done:20} {skipped:20} {refused:20}")
}

fn read_progress(value: &[u8]) -> Option<[u64; 3]> {
    let text = str::from_utf8(value).ok()?;
    let numbers: Vec<u64> =
        text.split_ascii_whitespace().filter_map(|it| it.parse().ok()).collect();
    numbers.try_into().ok()
}

/// The highest number of an operation: the highest that every reader of JSON knows exactly.
const NUMBER_MAX: u64 = 1 << 53;

/// The number of the operation that a note is about, and whether the note is about its progress. `None`: the
/// note is not about an operation.
fn read_name(name: &[u8]) -> Option<(u64, bool)> {
    let name = str::from_utf8(name).ok()?;
    let rest = name.strip_prefix("operation/")?;
    let digits = rest.strip_suffix("/progress").unwrap_or(rest);
    let number = digits.parse().ok().filter(|number| *number <= NUMBER_MAX)?;
    let is_progress = digits != rest;
    let own_name = if is_progress { progress_name(number) } else { begun_name(number) };
    (name == own_name).then_some((number, is_progress))
}

/// Removes both notes of an operation. Returns the position of the second removal.
fn remove_notes(number: u64, turn: &mut Turn<'_>) -> Position {
    // If a crash cuts the log between the two, the progress alone means nothing.
    let _ = turn.set_note(begun_name(number).as_bytes(), b"");
    turn.set_note(progress_name(number).as_bytes(), b"").after
}

impl Operation {
    /// Whether the operation goes on after a restart.
    fn is_kept(&self) -> bool {
        self.kind == OperationKind::Redrive && !self.dry_run
    }

    /// What the note about the begin says. Empty: there is no note.
    pub(super) fn begun(&self, asked: &types::StartOperation) -> Result<Vec<u8>, Problem> {
        if !self.is_kept() {
            return Ok(Vec::new());
        }
        let begun = Begun {
            queue: shown_name(&self.queue),
            has_dead: matches!(self.jobs, Wanted::Dead),
            total: self.total,
            started_ms: self.started.0,
            who: self.who.to_string(),
            asked: asked.clone(),
        };
        let begun = serde_json::to_vec(&begun).map_err(|error| {
            Problem::new(ProblemKind::Unavailable, format!("cannot note the operation: {error}"))
        })?;
        if !self.can_have_room(&begun) {
            // It would have no room without the others either, so the client must not try it again.
            let is_long = |ids: &Vec<u64>| ids.len() * ID_BYTES_MAX > begun.len() / 2;
            let parameter = if asked.ids.as_ref().is_some_and(is_long) { "ids" } else { "only" };
            let why = format!(
                "the server can remember {} KiB of `ids` and `only`; name fewer jobs, or write a shorter \
                 filter",
                NOTES_BYTES_MAX >> 10
            );
            return Err(Problem::new(ProblemKind::BadRequest, why).of_parameter(parameter));
        }
        Ok(begun)
    }

    /// Whether the notes of this operation have room if it is the only one.
    fn can_have_room(&self, begun: &[u8]) -> bool {
        let (name, progress) = (begun_name(self.number), progress_name(self.number));
        let values = begun.len() + progress_value([0; 3]).len();
        name.len() + progress.len() + values <= NOTES_BYTES_MAX
    }

    /// Notes what was asked, before the first change. The request is answered when this is durable.
    pub(super) fn note_begin(
        &self,
        turn: &mut Turn<'_>,
        begun: &[u8],
    ) -> Result<Position, Problem> {
        if begun.is_empty() {
            return Ok(Position::NONE);
        }
        // The progress comes first: without it, nothing is left of an operation that was refused.
        let progress = progress_value([0; 3]);
        let first = turn.set_note(progress_name(self.number).as_bytes(), progress.as_bytes());
        let second = turn.set_note(begun_name(self.number).as_bytes(), begun);
        match first.value.and(second.value) {
            Ok(()) => Ok(first.after.max(second.after)),
            Err(refusal) => {
                remove_notes(self.number, turn);
                Err(not_noted(refusal))
            }
        }
    }

    /// Notes the progress, with what a turn did. Returns the position of the note.
    pub(super) fn note_progress(
        &self,
        turn: &mut Turn<'_>,
        [count, skipped, refused]: [u64; 3],
    ) -> Position {
        // What was skipped is looked at again, unless the client has chosen the jobs. So a turn that finds
        // nothing must not wait for the disk.
        let has_changed = count > 0 || matches!(self.jobs, Wanted::Chosen(_));
        if !self.is_kept() || !has_changed {
            return Position::NONE;
        }
        let value = {
            let before = self.progress();
            let refused = before.refusals.count + refused;
            progress_value([before.done + count, before.skipped + skipped, refused])
        };
        turn.set_note(progress_name(self.number).as_bytes(), value.as_bytes()).after
    }

    /// The operation must not go on after a restart, because a client cancels it. The request is
    /// answered when this is durable. While the log has no room, the request is answered at once,
    /// and the note is removed from the log when there is room.
    pub(super) fn note_cancelled(&self, turn: &mut Turn<'_>) -> Position {
        if self.is_kept() && self.is_running() {
            turn.set_note(begun_name(self.number).as_bytes(), b"").after
        } else {
            Position::NONE
        }
    }

    /// The operation of these notes. `None`: another version wrote them, in another form.
    fn read(number: u64, begun: &[u8], progress: Option<&[u8]>) -> Option<Operation> {
        let begun: Begun = serde_json::from_slice(begun).ok()?;
        let started = Millis(begun.started_ms);
        let [done, skipped, refused] = progress.map_or(Some([0; 3]), read_progress)?;
        // These are no numbers of a redrive. They could not be counted on from here.
        let looked_at = done.checked_add(skipped)?;
        if done > begun.total || refused > skipped || looked_at > NUMBER_MAX {
            return None;
        }
        let mut noted = Progress { done, ..Progress::default() };
        let jobs = if let Some(ids) = &begun.asked.ids {
            let mut ids = chosen(ids);
            // A letter that came back can have died again. So these are not looked at again.
            let looked_at = usize::try_from(looked_at).unwrap_or(usize::MAX);
            ids.drain(..looked_at.min(ids.len()));
            noted.skipped = skipped;
            noted.refusals = Refusals { count: refused, first: None };
            Wanted::Chosen(ids)
        } else if begun.has_dead {
            Wanted::Dead
        } else {
            Wanted::Buried
        };
        let has_state = matches!(jobs, Wanted::Buried);
        Some(Operation {
            number,
            kind: OperationKind::Redrive,
            queue: parse_name(&begun.queue).ok()?,
            to: Vec::new(),
            state: has_state.then_some(JobState::Buried),
            jobs,
            rate_per_s: rate_of(&begun.asked),
            only: Filter::read(begun.asked.only.as_ref(), started).ok()?,
            dry_run: false,
            who: begun.who.into(),
            total: begun.total,
            started,
            cancelled: Notify::new(),
            progress: Mutex::new(noted),
        })
    }
}

fn not_noted(refusal: NoteRefusal) -> Problem {
    match refusal {
        NoteRefusal::LogFull => {
            let why =
                "the log has no room to remember the redrive; finish jobs, or free disk space";
            Problem::new(ProblemKind::LogFull, why)
        }
        NoteRefusal::Refused(_) => {
            let why = "the server cannot remember so many jobs, or so long a filter, of all redrives \
                that run; wait for them, or name fewer jobs";
            Problem::new(ProblemKind::TooManyOperations, why)
        }
    }
}

impl Api {
    /// Takes up the redrives that the last process, or the last leader, has not ended. They go on with the
    /// next tick. Must be called before clients come, and only if [`Api::tick`] is called from then on.
    pub fn take_up_operations(&self) {
        let mut turn = self.turn();
        let mut notes: BTreeMap<u64, [Option<Vec<u8>>; 2]> = BTreeMap::new();
        for (name, value) in turn.notes() {
            if let Some((number, is_progress)) = read_name(name) {
                notes.entry(number).or_default()[usize::from(is_progress)] = Some(value.to_vec());
            }
        }
        let mut all = self.act.operations.all();
        for (number, [begun, progress]) in notes {
            all.last = all.last.max(number);
            let Some(begun) = begun else {
                // It has ended.
                let _ = turn.set_note(progress_name(number).as_bytes(), b"");
                continue;
            };
            let Some(operation) = Operation::read(number, &begun, progress.as_deref()) else {
                tracing::warn!(
                    "operation {number} does not go on: another version began it, in another form"
                );
                remove_notes(number, &mut turn);
                continue;
            };
            let operation = Arc::new(operation);
            all.kept.insert(number, operation.clone());
            all.waiting.push(operation);
        }
    }

    /// Starts the operations that were taken up.
    pub(crate) fn go_on_with_operations(&self) {
        let waiting = mem::take(&mut self.act.operations.all().waiting);
        for operation in waiting {
            let (number, done) = (operation.number, operation.progress().done);
            tracing::info!(
                "operation {number} goes on: redrive of {}, {done} of {} jobs are done",
                plain::one_line(&shown_name(&operation.queue)),
                operation.total
            );
            self.run_operation(operation);
        }
    }

    /// An operation has ended, and must not go on after a restart. Waits until this is durable.
    pub(super) async fn forget_operation(&self, operation: &Operation) -> Result<(), DoorError> {
        if !operation.is_kept() {
            return Ok(());
        }
        let removed = remove_notes(operation.number, &mut self.turn());
        self.setup.door.settled_at(removed).await
    }

    /// An operation broke off.
    pub(super) fn forget_broken(&self, operation: &Operation) {
        if operation.is_kept() {
            remove_notes(operation.number, &mut self.turn());
        }
    }
}
