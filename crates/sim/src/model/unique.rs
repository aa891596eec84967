//! Unique jobs in the model. It looks at all jobs for each put, and has no index.

use broker::limits::SAME_UNIQUE_MAX;
use broker::policy::{KeyHash, KeySource, OnDuplicate, UniqueWindow};

use super::routes::Refused;
use super::submit::Submission;
use super::{Job, JobKind, Model, Name, State};

/// A put into one queue.
#[derive(Copy, Clone, Debug)]
pub(super) struct Offer<'a> {
    pub(super) body: &'a [u8],
    pub(super) unique: &'a [u8],
    pub(super) is_watched: bool,
    pub(super) is_alone: bool,
}

impl<'a> Offer<'a> {
    /// A submit into one queue.
    pub(super) fn of(submission: &'a Submission) -> Self {
        let Submission { unique, body, is_foreground, .. } = submission;
        Self { body, unique, is_watched: *is_foreground, is_alone: true }
    }
}

/// How a queue takes a put: as a new job with this key, or as a job that it has.
#[derive(Copy, Clone, Debug)]
pub(super) enum Admitted {
    New(Option<KeyHash>),
    Same(u64),
}

impl Model {
    pub(super) fn key_for(&self, queue: &Name, offer: Offer<'_>) -> Option<KeyHash> {
        let by = self.queues[queue].policy.unique.by.as_ref()?;
        let source = KeySource { body: offer.body, gearman_unique: offer.unique, client: "" };
        let value = by.compute(source);
        (!value.is_empty()).then_some(value.hash)
    }

    pub(super) fn check_unique(
        &mut self,
        queue: &Name,
        offer: Offer<'_>,
    ) -> Result<Admitted, Refused> {
        let Some(key) = self.key_for(queue, offer) else { return Ok(Admitted::New(None)) };
        let Some(id) = self.equal_job(queue, key, |job| self.can_stand_in(job, queue, offer))
        else {
            return Ok(Admitted::New(Some(key)));
        };
        self.tally.duplicates += 1;
        if self.queues[queue].policy.unique.on_duplicate == OnDuplicate::Refuse {
            return Err(Refused::Duplicate);
        }
        if !offer.is_watched {
            self.outlive_watchers(id);
        }
        Ok(Admitted::Same(id))
    }

    pub(super) fn is_duplicate(&self, queue: &Name, offer: Offer<'_>) -> bool {
        let key = self.key_for(queue, offer);
        key.and_then(|key| self.equal_job(queue, key, |job| self.can_stand_in(job, queue, offer)))
            .is_some()
    }

    /// True if another job of this queue has the key of this job.
    pub(super) fn key_is_taken(&self, id: u64, queue: &str) -> bool {
        let Some(key) = self.jobs[&id].key else { return false };
        let Some((queue, _)) = self.queues.get_key_value(queue) else { return false };
        let queue = queue.clone();
        let own = &self.jobs[&id];
        self.equal_job(&queue, key, |job| !std::ptr::eq(job, own)).is_some()
    }

    /// The job that has a key in a queue.
    fn equal_job(
        &self,
        queue: &Name,
        key: KeyHash,
        is_possible: impl Fn(&Job) -> bool,
    ) -> Option<u64> {
        let unique = &self.queues[queue].policy.unique;
        unique.by.as_ref()?;
        let stages = match unique.window {
            UniqueWindow::UntilStart => 0..1,
            UniqueWindow::UntilDone if unique.ignore_buried => 0..2,
            UniqueWindow::UntilDone => 0..3,
        };
        stages.into_iter().find_map(|stage| {
            let has_key = |job: &Job| {
                job.queue == *queue
                    && job.key == Some(key)
                    && job.death.is_none()
                    && stage_of(job.state) == stage
            };
            let newest = self.jobs.iter().rev().filter(|(_, job)| has_key(job));
            let is_there = |id: u64, job: &Job| job.state != State::Ready || !self.is_expired(id);
            newest
                .take(SAME_UNIQUE_MAX)
                .find(|(id, job)| is_there(**id, job) && is_possible(job))
                .map(|(id, _)| *id)
        })
    }

    fn can_stand_in(&self, job: &Job, queue: &Name, offer: Offer<'_>) -> bool {
        let is_written = job.kind != JobKind::Logged && self.kind_in(queue) == JobKind::Logged;
        let fits = offer.is_alone && job.body.len() <= offer.body.len();
        offer.is_watched || !is_written || fits
    }
}

fn stage_of(state: State) -> u8 {
    match state {
        State::Ready | State::Delayed { .. } => 0,
        State::Leased(_) => 1,
        State::Buried { .. } => 2,
    }
}
