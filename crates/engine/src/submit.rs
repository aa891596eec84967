//! Submitting as Gearman does: by the name of the queue, with a key that joins equal jobs, in the
//! foreground (watched) or in the background (durable).

use crate::effects::{Effects, News, Record};
use crate::engine::{Engine, NotFound};
use crate::ids::{JobId, JobSlot, Millis, QueueId, SessionId};
use crate::job::{Body, Job, State};
use crate::queue::Band;

/// The key that stands for the whole body (spec gearman 4.6).
const KEY_IS_BODY: &[u8] = b"-";

/// A job to submit.
#[derive(Clone, Debug)]
pub struct Submit<'a> {
    /// 0 is the most urgent.
    pub priority: u32,
    /// Not before this moment.
    pub due: Option<Millis>,
    /// Joins an unfinished job of the same queue and key. Empty: never; `-`: the body is the key.
    pub unique: &'a [u8],
    /// A name that only some workers see.
    pub reducer: &'a [u8],
    /// The bytes.
    pub body: Body,
    /// The session watches the job; otherwise the job is durable.
    pub foreground: bool,
}

/// What became of a submit.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct Submitted {
    /// The new job, or the one that was joined.
    pub id: JobId,
    /// Its place.
    pub job: JobSlot,
}

/// The queue has as many unfinished jobs as it may have of this urgency.
#[derive(Copy, Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the queue is full")]
pub struct QueueFull;

impl Engine {
    /// Submits a job.
    pub fn submit(
        &mut self,
        session: SessionId,
        name: &[u8],
        submit: Submit<'_>,
        effects: &mut Effects,
    ) -> Result<Submitted, QueueFull> {
        let queue = self.queue_or_create(name);
        self.keep(queue, effects);
        if let Some(slot) = self.find_unique(queue, submit.unique, &submit.body) {
            self.join(slot, session, submit.foreground, effects);
            return Ok(Submitted { id: self.job(slot).id, job: slot });
        }
        let band = Band::of(submit.priority);
        let full = self.queue(queue);
        let limit = full.limits[band as usize];
        if limit > 0 && full.counts.total() >= u64::from(limit) {
            return Err(QueueFull);
        }
        Ok(self.submit_new(session, queue, submit, effects))
    }

    fn submit_new(
        &mut self,
        session: SessionId,
        queue: QueueId,
        submit: Submit<'_>,
        effects: &mut Effects,
    ) -> Submitted {
        let id = self.deal_id();
        let due = submit.due.filter(|due| *due > self.now);
        let mut job = Job {
            id,
            created: self.now,
            due: due.unwrap_or_default(),
            body: submit.body,
            aside: None,
            queue,
            priority: submit.priority,
            ttr_s: 0,
            state: if due.is_some() { State::Delayed } else { State::Ready },
            durable: !submit.foreground,
        };
        let outcome = job.outcome_mut();
        outcome.submitted = true;
        outcome.unique = submit.unique.into();
        outcome.reducer = submit.reducer.into();
        let slot = self.add_job(job);
        self.add_unique(slot);
        self.queue_mut(queue).puts += 1;
        self.puts += 1;
        if submit.foreground {
            self.attach(slot, session);
        }
        self.note(Record::Put(slot), effects);
        match due {
            None => self.offer(slot, effects),
            Some(_) => self.enlist(slot),
        }
        Submitted { id, job: slot }
    }

    fn join(&mut self, slot: JobSlot, session: SessionId, foreground: bool, effects: &mut Effects) {
        if foreground {
            self.attach(slot, session);
        } else if !self.job(slot).durable {
            self.job_mut(slot).durable = true;
            self.note(Record::Put(slot), effects);
        }
    }

    /// Ends a job on an operator's request, wherever it is; its watchers hear that it failed.
    pub fn cancel(&mut self, id: JobId, effects: &mut Effects) -> Result<QueueId, NotFound> {
        let slot = self.slot(id)?;
        let queue = self.job(slot).queue;
        self.end_job(slot, &News::Fail, effects);
        Ok(queue)
    }

    /// The unfinished job with this key, in any queue: the oldest one.
    pub fn find_key(&self, unique: &[u8]) -> Option<JobId> {
        let found = self.uniques.iter_hash(crate::engine::hash(unique)).map(|slot| JobSlot(*slot));
        let same = found.filter(|slot| self.job(*slot).unique() == unique && unique != KEY_IS_BODY);
        same.map(|slot| self.job(slot).id).min()
    }

    fn find_unique(&self, queue: QueueId, unique: &[u8], body: &[u8]) -> Option<JobSlot> {
        let key = key(unique, body)?;
        let found = self.uniques.find(crate::engine::hash(key), |slot| {
            let job = self.job(JobSlot(*slot));
            job.queue == queue && job.unique() == unique && key == self.key_of(JobSlot(*slot))
        });
        found.copied().map(JobSlot)
    }

    /// The bytes that a job with a key is found by.
    fn key_of(&self, slot: JobSlot) -> &[u8] {
        let job = self.job(slot);
        key(job.unique(), &job.body).unwrap_or_default()
    }

    /// From now on the job is found by its key.
    pub(crate) fn add_unique(&mut self, slot: JobSlot) {
        let job = self.job(slot);
        if key(job.unique(), &job.body).is_none() {
            return;
        }
        let hash = crate::engine::hash(self.key_of(slot));
        let mut uniques = std::mem::take(&mut self.uniques);
        uniques
            .insert_unique(hash, slot.0, |slot| crate::engine::hash(self.key_of(JobSlot(*slot))));
        self.uniques = uniques;
    }

    /// The key of a job that ends or is set aside is free again.
    pub(crate) fn remove_unique(&mut self, slot: JobSlot) {
        if self.job(slot).unique().is_empty() {
            return;
        }
        let hash = crate::engine::hash(self.key_of(slot));
        if let Ok(entry) = self.uniques.find_entry(hash, |named| *named == slot.0) {
            entry.remove();
        }
    }
}

/// What equal jobs have in common; `None` for a job that equals no other.
fn key<'a>(unique: &'a [u8], body: &'a [u8]) -> Option<&'a [u8]> {
    let key = if unique == KEY_IS_BODY { body } else { unique };
    (!key.is_empty()).then_some(key)
}
