//! Requests and replies of Gearman clients.

use broker::policy::Unsent;

use super::super::rooms::Blocked;
use super::super::routes::Refused;
use super::super::session::{Expected, Observed};
use super::super::submit::{HIGH, LOW, NORMAL, Submission};
use super::super::unique::Offer;
use super::super::{Model, Need, Place, State};
use super::wire::{integer, kind};
use super::{Answer, HANDLE_BYTES_MAX, error, handle, named, packet, queue_error, text};

/// The longest key or reducer.
const UNIQUE_BYTES_MAX: usize = 64;

/// The end of the year 9999, in milliseconds.
const DUE_MAX: u64 = 253_402_300_799_000;

/// Parses the arguments of a submit. Returns `None` if the server ignores the request.
fn submission(kind: u32, arguments: &[&[u8]]) -> Option<Submission> {
    let mut due = 0;
    let mut reducer = Vec::new();
    let pri = match kind {
        kind::SUBMIT_JOB_HIGH | kind::SUBMIT_JOB_HIGH_BG => HIGH,
        kind::SUBMIT_JOB_LOW | kind::SUBMIT_JOB_LOW_BG => LOW,
        kind::SUBMIT_JOB_EPOCH => {
            let seconds = i64::try_from(integer(arguments[2])).ok()?;
            due = u64::try_from(seconds).unwrap_or(0).saturating_mul(1000).min(DUE_MAX);
            NORMAL
        }
        kind::SUBMIT_REDUCE_JOB | kind::SUBMIT_REDUCE_JOB_BG => {
            reducer = arguments[2].to_vec();
            NORMAL
        }
        _ => NORMAL,
    };
    let is_foreground = matches!(
        kind,
        kind::SUBMIT_JOB | kind::SUBMIT_JOB_HIGH | kind::SUBMIT_JOB_LOW | kind::SUBMIT_REDUCE_JOB
    );
    let unique = arguments[1].to_vec();
    let body = arguments.last().copied().unwrap_or_default().to_vec();
    let (priority, delay) = (pri == NORMAL, kind != kind::SUBMIT_JOB_EPOCH);
    let unsent = Unsent { ttr: true, priority, delay };
    Some(Submission { pri, due, unsent, unique, reducer, body, is_foreground })
}

fn queue_full() -> Expected {
    error("QUEUE_ERROR", "Job queue is full", 0)
}

impl Model {
    pub(in crate::model) fn submit(
        &mut self,
        place: Place,
        kind: u32,
        arguments: &[&[u8]],
        observed: &mut Observed<'_>,
    ) -> Result<Option<Expected>, String> {
        let Some(submission) = submission(kind, arguments) else { return Ok(None) };
        let Submission { unique, reducer, is_foreground, .. } = &submission;
        let is_foreground = *is_foreground;
        if unique.len() > UNIQUE_BYTES_MAX || reducer.len() > UNIQUE_BYTES_MAX {
            return Ok(Some(error("ARGUMENT_TOO_LARGE", "Unique value too large", 0)));
        }
        let before = self.leave_line(place);
        if self.is_draining {
            return Ok(Some(error("QUEUE_ERROR", "Server is draining", 0)));
        }
        if self.writes_blocked() {
            return Ok(Some(queue_error()));
        }
        let name = text(arguments[0]);
        // The log does not contain a foreground job, but it contains the job's copies in other
        // queues.
        let is_logged = !is_foreground || self.feeds_others(&name);
        if is_logged && self.is_refused(&queue_error(), observed)? {
            return Ok(None);
        }
        let content = (&submission.body[..], &submission.unique[..]);
        if self.must_wait(place, before.as_ref(), &name, content) {
            self.conn(place).blocked = Some(Blocked::submit(kind, arguments));
            return Ok(None);
        }
        if self.alias(&name).is_some() {
            return Ok(Some(self.submit_and_answer(place, &name, submission)));
        }
        let queue = self.create_queue(&name);
        self.keep_queue(&queue);
        Ok(Some(match self.joinable(&queue, &submission) {
            Some(id) => {
                self.join(place, id, is_foreground);
                packet(kind::JOB_CREATED, &[&handle(id)], self.jobs[&id].need)
            }
            None if self.is_queue_full(&queue, submission.pri)
                && !self.is_duplicate(&queue, Offer::of(&submission)) =>
            {
                queue_full()
            }
            None => self.submit_and_answer(place, &name, submission),
        }))
    }

    fn submit_and_answer(&mut self, place: Place, name: &str, submission: Submission) -> Expected {
        match self.submit_new(place, name, submission) {
            Ok((id, need)) => packet(kind::JOB_CREATED, &[&handle(id)], need),
            Err(Refused::Duplicate) => error("QUEUE_ERROR", "Job exists already", 0),
            Err(Refused::QueueFull | Refused::TooBig) => queue_full(),
        }
    }

    pub(super) fn get_status(&self, handle: &[u8]) -> Answer {
        if handle.len() > HANDLE_BYTES_MAX {
            return None;
        }
        let id = named(handle);
        let need = id.map_or(0, |id| self.denial(id));
        let (figures, need) = self.figures(id, self.kept_progress(id), need);
        let [known, running, numerator, denominator, _] = &figures;
        let arguments = [handle, known, running, numerator, denominator];
        Some(packet(kind::STATUS_RES, &arguments, need))
    }

    pub(super) fn get_status_unique(&self, unique: &[u8]) -> Answer {
        if unique.len() >= UNIQUE_BYTES_MAX {
            return None;
        }
        let kept = self.kept_progress(self.ended_with_key(unique));
        let (figures, need) =
            self.figures(self.find_key(unique), kept, self.history.key_need(unique));
        let [known, running, numerator, denominator, clients] = &figures;
        let arguments = [unique, known, running, numerator, denominator, clients];
        Some(packet(kind::STATUS_RES_UNIQUE, &arguments, need))
    }

    /// The numbers in the status of a job. If the job is unknown, the reply depends on `denial`, and has
    /// the progress that is kept.
    fn figures(&self, id: Option<u64>, kept: (u32, u32), denial: Need) -> ([Vec<u8>; 5], Need) {
        let text = |number: u64| number.to_string().into_bytes();
        match id.and_then(|id| self.jobs.get(&id)) {
            Some(job) => {
                let running = matches!(job.state, State::Leased(_));
                let (numerator, denominator) = job.progress;
                let watchers = job.watchers.len() as u64;
                let numbers =
                    [1, u64::from(running), numerator.into(), denominator.into(), watchers];
                (numbers.map(text), 0)
            }
            None => ([0, 0, kept.0.into(), kept.1.into(), 0].map(text), denial),
        }
    }
}
