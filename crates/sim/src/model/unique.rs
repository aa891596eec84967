//! Unique jobs in the model. It looks at all jobs for each put, and has no index.

use broker::limits::SAME_UNIQUE_MAX;
use broker::policy::{KeyHash, KeySource, OnDuplicate, UniqueWindow, Unsent};
use broker::{Claim, ClaimKey, JobId, Millis};

use super::record::Record;

use super::routes::Refused;
use super::submit::Submission;
use super::{Job, JobKind, Model, Name, Need, Place, State};

/// A put into one queue.
#[derive(Copy, Clone, Debug)]
pub(super) struct Offer<'a> {
    /// The job of the put, and what its client did not send.
    pub(super) job: Option<(&'a Job, Unsent)>,
    pub(super) body: &'a [u8],
    pub(super) unique: &'a [u8],
    /// The connection that puts the job. `None`: nobody needs it.
    pub(super) client: Option<Place>,
    pub(super) is_watched: bool,
    pub(super) is_alone: bool,
}

impl<'a> Offer<'a> {
    /// A submit into one queue.
    pub(super) fn of(submission: &'a Submission) -> Self {
        let Submission { unique, body, is_foreground, .. } = submission;
        Self { job: None, body, unique, client: None, is_watched: *is_foreground, is_alone: true }
    }
}

/// How a queue takes a put: as a new job with these keys, as a job that it has, or as a job that has
/// ended. Then the reply depends on a record.
#[derive(Copy, Clone, Debug)]
pub(super) enum Admitted {
    New(Option<KeyHash>, Option<KeyHash>),
    Same(u64),
    Ended(u64, Need),
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
        let Some(key) = self.key_for(queue, offer) else { return Ok(Admitted::New(None, None)) };
        let found = self.equal_job(queue, key, |job| self.can_stand_in(job, queue, offer));
        let claim = self.claim_on(queue, key);
        if found.is_none() && claim.is_none() {
            return Ok(Admitted::New(Some(key), None));
        }
        self.tally.duplicates += 1;
        let on_duplicate = self.queues[queue].policy.unique.on_duplicate;
        if on_duplicate == OnDuplicate::Refuse {
            return Err(Refused::Duplicate);
        }
        let Some(id) = found else {
            self.tally.claimed += 1;
            let (claim, need) = claim.expect("one of them was found");
            return Ok(Admitted::Ended(claim.id.0, need));
        };
        if on_duplicate == OnDuplicate::ReplaceBody && self.can_replace(id) {
            if self.jobs[&id].state == State::Ready
                && !self.make_room_to_grow(queue, id, offer.body.len())?
            {
                let own = &self.jobs[&id];
                let other = self.equal_job(queue, key, |job| !std::ptr::eq(job, own));
                let is_taken = other.is_some() || claim.is_some_and(|(claim, _)| claim.id.0 != id);
                let new = Admitted::New(Some(key), None);
                return if is_taken { Err(Refused::QueueFull) } else { Ok(new) };
            }
            self.replace_body(id, offer.body);
        }
        if !offer.is_watched {
            self.outlive_watchers(id);
        }
        if on_duplicate == OnDuplicate::Bump
            && let Some((job, unsent)) = offer.job
        {
            self.bump(id, job, unsent);
        }
        Ok(Admitted::Same(id))
    }

    /// True if no worker has the job, and its body is not its key for Gearman.
    fn can_replace(&self, id: u64) -> bool {
        let own = &self.jobs[&id];
        let is_key = own.tags.as_ref().is_some_and(|tags| *tags.unique == *b"-");
        !matches!(own.state, State::Leased(_)) && !is_key
    }

    /// Gives a job the body of a put.
    fn replace_body(&mut self, id: u64, body: &[u8]) {
        self.job_mut(id).body = body.into();
        self.record(id, Record::Update);
    }

    /// Makes a ready or delayed job as urgent as a put, and due as early.
    fn bump(&mut self, id: u64, job: &Job, unsent: Unsent) {
        let own = &self.jobs[&id];
        let (queue, kind, own_pri, now) = (own.queue.clone(), own.kind, own.pri, self.now);
        let mut job = job.clone();
        self.fill_in(&queue, &mut job, unsent, kind);
        let due = match job.state {
            State::Delayed { due } => due,
            State::Ready | State::Leased(_) | State::Buried { .. } => now,
        };
        let (is_earlier, is_ready) = match self.jobs[&id].state {
            State::Ready => (false, true),
            State::Delayed { due: own_due } => (due < own_due, false),
            State::Leased(_) | State::Buried { .. } => return,
        };
        if job.pri >= own_pri && !is_earlier {
            return;
        }
        self.tally.bumps += 1;
        let own = self.job_mut(id);
        own.pri = own_pri.min(job.pri);
        match (is_earlier, due <= now) {
            (true, true) => (own.state, own.since) = (State::Ready, now),
            (true, false) => own.state = State::Delayed { due },
            (false, _) => {}
        }
        self.record(id, Record::Moved);
        if is_ready {
            self.reenter_lane(&queue, id);
        } else if is_earlier && due <= now {
            self.offer(id);
        }
    }

    /// The claim on a key, if the policy counts it, and the record that a reply depends on.
    fn claim_on(&self, queue: &str, key: KeyHash) -> Option<(Claim, Need)> {
        let unique = &self.policy(queue).unique;
        if unique.by.is_none() || !matches!(unique.window, UniqueWindow::For(_)) {
            return None;
        }
        let key = ClaimKey::new(queue.as_bytes(), key);
        let claim = self.claims.get(&key).filter(|claim| claim.until.0 > self.now)?;
        let need = self.history.claim_need(key).max(self.history.end_of(claim.id.0));
        Some((*claim, need))
    }

    /// Before a job that is done ends: keeps its key, if its window goes on.
    pub(super) fn keep_claim(&mut self, id: u64) {
        let job = &self.jobs[&id];
        let (queue, created) = (job.queue.clone(), job.created);
        let unique = &self.queues[&queue].policy.unique;
        let (Some(key), None, Some(_), UniqueWindow::For(millis)) =
            (job.key, &job.death, &unique.by, unique.window)
        else {
            return;
        };
        let until = created + millis;
        if until <= self.now {
            return;
        }
        let key = ClaimKey::new(queue.as_bytes(), key);
        let is_logged = self.kind_in(&queue) == JobKind::Logged;
        let claim = Claim { id: JobId(id), until: Millis(until), is_logged };
        self.claims.insert(key, claim);
        if is_logged {
            self.history.note(Record::Claim(key, claim), self.setting.is_strict);
        }
    }

    pub(super) fn is_duplicate(&self, queue: &Name, offer: Offer<'_>) -> bool {
        self.key_for(queue, offer).is_some_and(|key| {
            let found = self.equal_job(queue, key, |job| self.can_stand_in(job, queue, offer));
            found.is_some() || self.claim_on(queue, key).is_some()
        })
    }

    /// True if another job of this queue has the key of this job.
    pub(super) fn key_is_taken(&self, id: u64, queue: &str) -> bool {
        let Some(key) = self.jobs[&id].key else { return false };
        // The window of a key can outlast its queue.
        if self.claim_on(&self.real_name(queue), key).is_some_and(|(claim, _)| claim.id.0 != id) {
            return true;
        }
        let own = &self.jobs[&id];
        let queue = self.queue_named(queue);
        queue.is_some_and(|queue| {
            self.equal_job(&queue, key, |job| !std::ptr::eq(job, own)).is_some()
        })
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
            UniqueWindow::UntilDone | UniqueWindow::For(_) if unique.ignore_buried => 0..2,
            UniqueWindow::UntilDone | UniqueWindow::For(_) => 0..3,
        };
        let is_in_window = |job: &Job| match unique.window {
            UniqueWindow::For(millis) => job.created + millis > self.now,
            UniqueWindow::UntilDone | UniqueWindow::UntilStart => true,
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
                .find(|(id, job)| is_in_window(job) && is_there(**id, job) && is_possible(job))
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
