//! Unique jobs: a put into a queue with the policy `unique` looks for a job with the same key.
//!
//! Every queue on the route of a put looks for itself. The check and the put are one step, so of two
//! puts at the same time one makes the job. Who has the key is no state of its own. It follows from
//! the jobs: each job has the key that it got when it was put, as a fact. So a restart and a
//! follower need nothing else.

use crate::effects::{Effects, Record};
use crate::engine::Engine;
use crate::engine::put::{Refused, Submit};
use crate::ids::{JobId, JobSlot, QueueId};
use crate::jobs::{Body, Draft, JobKind, Stage, State};
use crate::limits::{SAME_UNIQUE_MAX, UNIT_BODY_BYTES};
use crate::policy::{KeyHash, KeySource, OnDuplicate, UniqueWindow};
use crate::queues::Extension;

/// A put into one queue, as the check for an equal job sees it.
#[derive(Copy, Clone, Debug)]
pub(in crate::engine) struct Offer<'a> {
    pub(in crate::engine) body: &'a Body,
    /// The key of a submit: see [`crate::Submit::unique`].
    pub(in crate::engine) unique: &'a [u8],
    /// The job would exist only for its watchers.
    pub(in crate::engine) is_watched: bool,
    /// The put goes to no other queue.
    pub(in crate::engine) is_alone: bool,
}

impl<'a> Offer<'a> {
    /// A put that goes to one queue.
    pub(in crate::engine) fn alone(draft: &'a Draft) -> Self {
        Self { body: &draft.body, unique: b"", is_watched: false, is_alone: true }
    }

    /// A submit into one queue.
    pub(in crate::engine) fn of(submit: &'a Submit<'_>) -> Self {
        let Submit { body, unique, foreground, .. } = submit;
        Self { body, unique, is_watched: *foreground, is_alone: true }
    }
}

/// How a queue takes a put.
#[derive(Copy, Clone, Debug)]
pub(in crate::engine) enum Admitted {
    /// As a new job, with this key.
    New(Option<KeyHash>),
    /// This job has its key, so the queue stores nothing.
    Same(JobSlot),
}

impl Engine {
    /// The key that a put into this queue gets. `None`: the policy of the queue does not ask for
    /// one, or the put has none.
    pub(super) fn key_for(&self, queue: QueueId, body: &Body, unique: &[u8]) -> Option<KeyHash> {
        let by = self.policy_of(queue)?.unique.by.as_ref()?;
        let source = KeySource { body, gearman_unique: unique, client: "" };
        self.meter.count(by.bytes_read(source) / UNIT_BODY_BYTES);
        let value = by.compute(source);
        (!value.is_empty()).then_some(value.hash)
    }

    /// Looks for the job that has the key of a put.
    pub(super) fn check_unique(
        &mut self,
        queue: QueueId,
        key: KeyHash,
        offer: Offer<'_>,
        effects: &mut Effects,
    ) -> Result<Admitted, Refused> {
        let found = self.key_holder(queue, key, None, |slot| self.can_stand_in(slot, queue, offer));
        let Some(slot) = found else { return Ok(Admitted::New(Some(key))) };
        let on_duplicate = self.policy_of(queue).map(|policy| policy.unique.on_duplicate);
        if on_duplicate == Some(OnDuplicate::Refuse) {
            return Err(Refused::Duplicate);
        }
        self.tally.duplicates_joined += 1;
        if !offer.is_watched {
            self.outlive_watchers(slot, effects);
        }
        effects.records.push(Record::Known(slot, self.jobs[slot].id()));
        Ok(Admitted::Same(slot))
    }

    /// Whether a put into this queue would find a job with its key.
    pub(super) fn is_duplicate(&self, queue: QueueId, offer: Offer<'_>) -> bool {
        let key = self.key_for(queue, offer.body, offer.unique);
        let find =
            |key| self.key_holder(queue, key, None, |slot| self.can_stand_in(slot, queue, offer));
        key.and_then(find).is_some()
    }

    /// Whether another job of this queue has the key of this job.
    pub(in crate::engine) fn key_is_taken(&self, slot: JobSlot, queue: &[u8]) -> bool {
        let id = self.jobs[slot].id();
        let (Some(key), Some(queue)) = (self.jobs.unique_key(id), self.queue_id(queue)) else {
            return false;
        };
        self.key_holder(queue, key, Some(id), |_| true).is_some()
    }

    /// The job that has a key in a queue, as the policy of the queue says. Does not look at the job
    /// `except`. The search looks at no more than [`SAME_UNIQUE_MAX`] jobs of each stage.
    fn key_holder(
        &self,
        queue: QueueId,
        key: KeyHash,
        except: Option<JobId>,
        is_possible: impl Fn(JobSlot) -> bool,
    ) -> Option<JobSlot> {
        let unique = &self.policy_of(queue)?.unique;
        unique.by.as_ref()?;
        let stages: &[Stage] = match (unique.window, unique.ignore_buried) {
            (UniqueWindow::UntilStart, _) => &[Stage::Waits],
            (UniqueWindow::UntilDone, true) => &[Stage::Waits, Stage::Held],
            (UniqueWindow::UntilDone, false) => &[Stage::Waits, Stage::Held, Stage::Buried],
        };
        let found = stages.iter().flat_map(|stage| {
            self.meter.count(1);
            self.jobs.with_unique_key(queue, key, *stage).take(SAME_UNIQUE_MAX)
        });
        let mut others = found.filter(|slot| Some(self.jobs[*slot].id()) != except);
        others.find(|slot| self.is_lasting(*slot, queue) && is_possible(*slot))
    }

    /// Whether a job still exists for its clients. A request or a timer ends an expired job later, and
    /// the removal of a queue ends the queue's jobs in slices.
    fn is_lasting(&self, slot: JobSlot, queue: QueueId) -> bool {
        let job = &self.jobs[slot];
        let removal_end = self.queues[queue].extension().map(Extension::removal_end);
        let is_removed =
            self.queues[queue].removals() > 0 && removal_end.is_some_and(|end| job.id() < end);
        let is_expired = job.state() == State::Ready && self.is_expired(slot);
        !is_removed && !is_expired
    }

    /// Whether a job can stand in for a put. A job that only its watchers keep, or that only the
    /// memory has, must first last as long as the put would. The log gets its body then. So this body
    /// must not be larger than the one that the log has room for.
    fn can_stand_in(&self, slot: JobSlot, queue: QueueId, offer: Offer<'_>) -> bool {
        let job = &self.jobs[slot];
        let is_written = !job.is_logged() && self.kind_in(queue) == JobKind::Logged;
        offer.is_watched || !is_written || offer.is_alone && job.body_len() <= offer.body.len()
    }
}
