//! Requests and replies of Gearman workers.

use std::collections::BTreeSet;
use std::rc::Rc;

use super::super::outcome::News;
use super::super::session::{Expected, Observed};
use super::super::{Model, Place};
use super::wire::{integer, kind};
use super::{
    Answer, HANDLE_BYTES_MAX, JOB_NOT_FOUND, error, handle, named, packet, queue_error, text,
};

/// The server ignores a registration if the text of its time limit is longer than this.
const LIMIT_BYTES_MAX: usize = 20;

/// The server reads at most this number of bytes of a denominator.
const DENOMINATOR_BYTES_READ: usize = 10;

/// The result of C's `atoi`, cut to 32 bits.
fn wrapped(text: &[u8]) -> u32 {
    integer(text).clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as u32
}

impl Model {
    pub(super) fn answer_worker(&mut self, place: Place, kind: u32, arguments: &[&[u8]]) -> Answer {
        match kind {
            kind::CAN_DO => self.register(place, &text(arguments[0]), None),
            kind::CAN_DO_TIMEOUT => {
                let limit = u64::try_from(integer(arguments[1]).max(0));
                if let (Ok(limit), true) = (limit, arguments[1].len() <= LIMIT_BYTES_MAX) {
                    let limit = Some(limit).filter(|limit| *limit > 0);
                    self.register(place, &text(arguments[0]), limit);
                }
            }
            kind::CANT_DO => {
                // A worker that is not registered can still hold jobs: those that wait to be given
                // back since an earlier request.
                let forgotten = self.conn(place).worker.forget_name(&text(arguments[0]));
                if let Some(queue) = forgotten {
                    self.unregister(place, &BTreeSet::from([queue.clone()]));
                    self.lose_those_of(place, |lost| *lost == queue);
                }
            }
            kind::RESET_ABILITIES => {
                let queues = self.conn(place).worker.queues();
                self.unregister(place, &queues);
                self.lose_those_of(place, |_| true);
            }
            kind::PRE_SLEEP => return (!self.fall_asleep(place)).then(Self::noop),
            _ => return Some(self.answer_grab(place, kind)),
        }
        None
    }

    fn answer_grab(&mut self, place: Place, kind: u32) -> Expected {
        let Some(id) = self.grab(place) else { return packet(kind::NO_JOB, &[], 0) };
        let job = &self.jobs[&id];
        let tags = job.tags.clone().unwrap_or_default();
        let function = self.conns[&place].worker.name_of(&job.queue).unwrap_or(&job.queue);
        let (handle, function) = (handle(id), function.as_bytes());
        match kind {
            kind::GRAB_JOB_ALL if !tags.reducer.is_empty() => packet(
                kind::JOB_ASSIGN_ALL,
                &[&handle, function, &tags.unique, &tags.reducer, &job.body],
                job.need,
            ),
            kind::GRAB_JOB => packet(kind::JOB_ASSIGN, &[&handle, function, &job.body], job.need),
            _ => packet(
                kind::JOB_ASSIGN_UNIQ,
                &[&handle, function, &tags.unique, &job.body],
                job.need,
            ),
        }
    }

    pub(super) fn answer_result(
        &mut self,
        place: Place,
        kind: u32,
        arguments: &[&[u8]],
        observed: &mut Observed<'_>,
    ) -> Result<Answer, String> {
        let words = JOB_NOT_FOUND[match kind {
            kind::WORK_DATA | kind::WORK_WARNING => 0,
            kind::WORK_EXCEPTION => 2,
            _ => 1,
        }];
        if kind == kind::WORK_FAIL && arguments[0].len() > HANDLE_BYTES_MAX {
            let words =
                "Error occurred due to GEARMAND_JOB_HANDLE_SIZE being too small from snprintf";
            return Ok(Some(error("ARGUMENT_TOO_LARGE", words, 0)));
        }
        let Some(id) = named(arguments[0]) else {
            return Ok(Some(error("JOB_NOT_FOUND", words, 0)));
        };
        let fails = matches!(kind, kind::WORK_FAIL | kind::WORK_EXCEPTION);
        let is_submitted = self.jobs.get(&id).is_some_and(|job| job.tags.is_some());
        if !self.is_holder(place, id) {
            return Ok(Some(error("JOB_NOT_FOUND", words, self.denial(id))));
        }
        // The server buries a failed job of another dialect. If the log has no room, it refuses the
        // request instead. The next reply can be a refusal of this request or of a later request.
        // So this code also checks whether the job was buried.
        let is_dead = self.jobs[&id].death.is_some();
        let may_refuse = fails && (!is_submitted || is_dead) && self.may_refuse;
        if may_refuse
            && !observed.was_buried(id, self.jobs[&id].counts.buries)
            && self.is_refused(&queue_error(), observed)?
        {
            return Ok(None);
        }
        let data: Rc<[u8]> = arguments.get(1).copied().unwrap_or_default().into();
        match kind {
            kind::WORK_DATA => self.report(id, &News::Data(data)),
            kind::WORK_WARNING => self.report(id, &News::Warning(data)),
            kind::WORK_STATUS => {
                let denominator = arguments[2];
                let read = &denominator[..denominator.len().min(DENOMINATOR_BYTES_READ)];
                let words = [arguments[1], denominator].join(&0);
                self.progress(id, (wrapped(arguments[1]), wrapped(read)), words.into());
            }
            kind::WORK_COMPLETE => self.finish_held(id, &News::Complete(data)),
            _ => {
                let news = if kind == kind::WORK_FAIL { News::Fail } else { News::Exception(data) };
                if self.retries(id) {
                    self.fail_reported(id, &news);
                } else if !is_submitted || is_dead {
                    let buried = self.bury_with(place, id, self.jobs[&id].pri, &news);
                    buried.map_err(|_| "a held job could not be buried")?;
                } else {
                    self.finish_held(id, &news);
                }
            }
        }
        Ok(None)
    }

    /// Ends a job that its worker has finished, as a success or as a failure.
    fn finish_held(&mut self, id: u64, news: &News) {
        let queue = self.jobs[&id].queue.clone();
        self.queue_mut(&queue).deletes += 1;
        self.keep_claim(id);
        self.end_job(id, news);
    }
}
