//! Unique jobs: a put into a queue with the policy `unique` looks for a job with the same key.
//!
//! Every queue on the route of a put looks for itself. The check and the put are one step, so of two
//! puts at the same time one makes the job. Who has the key is no state of its own. It follows from
//! the jobs: each job has the key that it got when it was put, as a fact. Only if the window of the
//! policy goes on after the end of a job, the end of the job makes a *claim* on its key.

use std::collections::BTreeSet;

use crate::claims::{Claim, ClaimKey};
use crate::effects::{Effects, Record};
use crate::engine::Engine;
use crate::engine::put::{KnownKeys, Refused, Submit};
use crate::ids::{JobId, JobSlot, Millis, QueueId, SessionId};
use crate::jobs::{Body, Draft, JobKind, PutKeys, Stage, State, is_body_key};
use crate::limits::{SAME_UNIQUE_MAX, UNIT_BODY_BYTES};
use crate::policy::{KeyHash, Name, OnDuplicate, Policy, Unique, UniqueWindow};
use crate::queues::Extension;

/// A put into one queue, as the check for an equal job sees it.
#[derive(Copy, Clone, Debug)]
pub(in crate::engine) struct Offer<'a> {
    /// The job that the put would make. `None`: nobody needs it.
    pub(in crate::engine) draft: Option<&'a Draft>,
    pub(in crate::engine) body: &'a Body,
    /// The key of a submit: see [`crate::Submit::unique`].
    pub(in crate::engine) unique: &'a [u8],
    /// The session whose client puts the job. `None`: there is no client, or nobody needs it.
    pub(in crate::engine) client: Option<SessionId>,
    /// The job would exist only for its watchers.
    pub(in crate::engine) is_watched: bool,
    /// The put goes to no other queue.
    pub(in crate::engine) is_alone: bool,
    /// The put names this queue. If not, the queue gets a copy.
    pub(in crate::engine) is_requested: bool,
    pub(in crate::engine) keys: &'a KnownKeys,
}

impl<'a> Offer<'a> {
    /// A put that goes to one queue.
    pub(in crate::engine) fn alone(
        draft: &'a Draft,
        client: Option<SessionId>,
        keys: &'a KnownKeys,
    ) -> Self {
        Self { draft: Some(draft), client, ..Self::of_key(&draft.body, b"", keys) }
    }

    /// A submit into one queue.
    pub(in crate::engine) fn of(submit: &'a Submit<'_>, keys: &'a KnownKeys) -> Self {
        let Submit { body, unique, foreground, .. } = submit;
        Self { is_watched: *foreground, ..Self::of_key(body, unique, keys) }
    }

    /// What counts for a put's unique key, in one queue.
    pub(in crate::engine) fn of_key(body: &'a Body, unique: &'a [u8], keys: &'a KnownKeys) -> Self {
        Self {
            draft: None,
            body,
            unique,
            client: None,
            is_watched: false,
            is_alone: true,
            is_requested: true,
            keys,
        }
    }
}

/// How a queue takes a put.
#[derive(Copy, Clone, Debug)]
pub(in crate::engine) enum Admitted {
    /// As a new job, with these keys.
    New(PutKeys),
    /// This job has its unique key, so the queue stores nothing.
    Same(JobSlot),
    /// This job has ended, but its key is still taken. So the queue stores nothing.
    Ended(JobId),
}

impl Engine {
    /// Looks for the job that has the key of a put.
    pub(super) fn check_unique(
        &mut self,
        queue: QueueId,
        key: KeyHash,
        offer: Offer<'_>,
        effects: &mut Effects,
    ) -> Result<Admitted, Refused> {
        let new = Admitted::New(PutKeys { unique: Some(key), group: None });
        let found = self.key_holder(queue, key, None, |slot| self.can_stand_in(slot, queue, offer));
        let claim = if found.is_none() { self.claim_on(queue, key) } else { None };
        if found.is_none() && claim.is_none() {
            return Ok(new);
        }
        let on_duplicate = self.policy_of(queue).map(|policy| policy.unique.on_duplicate);
        if on_duplicate == Some(OnDuplicate::Refuse) {
            return Err(Refused::Duplicate);
        }
        let Some(slot) = found else {
            self.tally.duplicates_joined += u64::from(!offer.is_watched);
            effects.records.push(Record::KnownEnded);
            return Ok(claim.map_or(new, |claim| Admitted::Ended(claim.id)));
        };
        let replaces = on_duplicate == Some(OnDuplicate::ReplaceBody) && self.can_replace(slot);
        if replaces
            && self.jobs[slot].state() == State::Ready
            && !self.make_room_to_grow(slot, offer.body.len(), effects)?
        {
            // The new job takes the place of this one, unless another one has the same key.
            let is_taken = self.is_taken(queue, key, Some(self.jobs[slot].id()));
            return if is_taken { Err(Refused::QueueFull) } else { Ok(new) };
        }
        self.tally.duplicates_joined += 1;
        if replaces {
            self.replace_body(slot, offer.body, effects);
        }
        if !offer.is_watched {
            self.outlive_watchers(slot, effects);
        }
        let id = self.jobs[slot].id();
        if on_duplicate == Some(OnDuplicate::Bump)
            && let Some(draft) = offer.draft
        {
            self.bump(slot, draft, effects);
        }
        effects.records.push(Record::Known(slot, id));
        Ok(Admitted::Same(slot))
    }

    /// Whether a job can get another body: no worker has the old one, and the body is not the job's key
    /// for Gearman.
    fn can_replace(&self, slot: JobSlot) -> bool {
        let job = &self.jobs[slot];
        job.state() != State::Leased && !is_body_key(job.unique())
    }

    /// Gives a job the body of a put.
    fn replace_body(&mut self, slot: JobSlot, body: &Body, effects: &mut Effects) {
        let job = &self.jobs[slot];
        self.meter.count(1 + (job.body_len() + body.len()) / UNIT_BODY_BYTES);
        self.with_body(slot, |jobs| jobs.replace_body(slot, body.clone()));
        self.note(Record::Replaced, slot, effects);
    }

    /// Whether a put can replace the bodies of several jobs: see [`Engine::bodies_of_put`].
    pub fn replaces_bodies(&self) -> bool {
        self.rules.replace_bodies()
    }

    /// An upper bound for the number of bodies that a put under this name adds to the log. All new jobs
    /// of a put share one body, but each queue that gives the body to a job that it has writes it again.
    pub fn bodies_of_put(&self, name: &[u8]) -> usize {
        if !self.replaces_bodies() || !self.feeds_others(name) {
            return 1;
        }
        1 + self.replacing_queues(name, &mut BTreeSet::new())
    }

    /// The number of queues on the route of a put under this name that replace bodies. `seen`: the
    /// queues and aliases that are counted already.
    fn replacing_queues(&self, name: &[u8], seen: &mut BTreeSet<Name>) -> usize {
        let name = &*self.real_name(name);
        if !seen.insert(name.into()) {
            return 0;
        }
        self.meter.count(1);
        let mut count = 0;
        if let Some(destinations) = self.alias(name) {
            for destination in destinations {
                count += self.replacing_queues(&destination, seen);
            }
            return count;
        }
        let policy = self.look_up_policy(name);
        let Policy { unique, copy_to, .. } = &*policy;
        count +=
            usize::from(unique.by.is_some() && unique.on_duplicate == OnDuplicate::ReplaceBody);
        for child in self.queues.children(name).into_iter().flatten() {
            count += self.replacing_queues(self.queues[*child].name(), seen);
        }
        for copy in copy_to {
            count += self.replacing_queues(copy, seen);
        }
        count
    }

    /// Makes a ready or delayed job as urgent as a put, and due as early.
    fn bump(&mut self, slot: JobSlot, draft: &Draft, effects: &mut Effects) {
        let job = &self.jobs[slot];
        let (queue, state) = (job.queue(), job.state());
        let is_delayed = match state {
            State::Ready => false,
            State::Delayed => true,
            State::Leased | State::Buried => return,
        };
        let mut draft = draft.clone();
        self.fill_in(queue, &mut draft, job.kind());
        let (old_priority, old_due) = (job.priority(), job.due());
        let priority = old_priority.min(draft.priority);
        let due = self.wall.moment_of(draft.due);
        let is_earlier = is_delayed && due < old_due;
        if priority == old_priority && !is_earlier {
            return;
        }
        let becomes_ready = is_earlier && due <= self.now;
        let wall = if is_earlier { draft.due.wall() } else { self.jobs.wall_time(slot) };
        let due = match (becomes_ready, is_earlier) {
            (true, _) => self.now,
            (false, true) => due,
            (false, false) => old_due,
        };
        self.remove_from_list(slot);
        self.set_urgency(slot, (priority, due), wall);
        if becomes_ready {
            self.change_state(slot, State::Ready);
        }
        self.note(Record::Moved, slot, effects);
        if becomes_ready {
            self.deliver_or_list(slot, effects);
        } else {
            self.add_to_list(slot);
        }
    }

    /// The claim on a key in a queue, if the policy of the queue counts it.
    fn claim_on(&self, queue: QueueId, key: KeyHash) -> Option<Claim> {
        self.claim_of(self.queues[queue].name(), &self.policy_of(queue)?.unique, key)
    }

    /// The claim on a key in the queue of this name, which has this policy.
    pub(super) fn claim_of(&self, name: &[u8], unique: &Unique, key: KeyHash) -> Option<Claim> {
        if self.claims.is_empty() || !unique.outlasts_jobs() {
            return None;
        }
        let claim = self.claims.get(ClaimKey::new(name, key));
        claim.filter(|claim| claim.until > self.now)
    }

    /// Before the end of a job that is done: if the window of its key goes on, keeps the key. A dead
    /// letter has given it up.
    #[cold]
    pub(in crate::engine) fn keep_claim(&mut self, slot: JobSlot, effects: &mut Effects) {
        let job = &self.jobs[slot];
        let (id, queue) = (job.id(), job.queue());
        let Some(key) = self.jobs.unique_key(id).filter(|_| job.death().is_none()) else { return };
        let Some(until) = self.window_end(slot, queue).filter(|until| *until > self.now) else {
            return;
        };
        self.meter.count(1);
        let key = ClaimKey::new(self.queues[queue].name(), key);
        let is_logged = self.kind_in(queue) == JobKind::Logged;
        self.claims.insert(key, Claim { id, until, is_logged }, &mut self.timers);
        if is_logged {
            effects.records.push(Record::Claim(key));
        }
    }

    /// When the window of a job's key ends, if the policy of the queue says a time.
    fn window_end(&self, slot: JobSlot, queue: QueueId) -> Option<Millis> {
        let unique = &self.policy_of(queue)?.unique;
        match (unique.by.is_some(), unique.window) {
            (true, UniqueWindow::For(millis)) => {
                Some(Millis(self.jobs[slot].created().0.saturating_add(millis)))
            }
            (false, _) | (true, UniqueWindow::UntilDone | UniqueWindow::UntilStart) => None,
        }
    }

    /// Ends the claims whose moment has come, as many as the slice allows.
    pub(in crate::engine) fn end_claims(&mut self, effects: &mut Effects) {
        self.claims.take_timer();
        while !self.meter.request_is_spent()
            && let Some((key, claim)) = self.claims.pop_ended(self.now)
        {
            self.meter.count(1);
            if claim.is_logged {
                effects.records.push(Record::Claim(key));
            }
        }
        self.claims.arm(&mut self.timers);
    }

    /// The claim on a key. `None`: there is none.
    pub fn claim(&self, key: ClaimKey) -> Option<Claim> {
        self.claims.get(key)
    }

    /// All claims: keys of jobs that have ended. Takes time in proportion to their number.
    pub fn claims(&self) -> impl Iterator<Item = (ClaimKey, Claim)> {
        self.claims.iter()
    }

    /// Whether a put into this queue would find a job with its key.
    pub(super) fn is_duplicate(&self, queue: QueueId, offer: Offer<'_>) -> bool {
        let key = self.key_for(queue, offer);
        let find =
            |key| self.key_holder(queue, key, None, |slot| self.can_stand_in(slot, queue, offer));
        key.is_some_and(|key| find(key).is_some() || self.claim_on(queue, key).is_some())
    }

    /// Whether another job has the key of this job in the queue of this name. The queue need not exist:
    /// the window of a key can outlast it.
    pub(in crate::engine) fn key_is_taken(&self, slot: JobSlot, queue: &[u8]) -> bool {
        let id = self.jobs[slot].id();
        let Some(key) = self.jobs.unique_key(id) else { return false };
        if let Some(queue) = self.queue_id(queue) {
            return self.is_taken(queue, key, Some(id));
        }
        let claim = self.claim_of(&self.real_name(queue), &self.look_up_policy(queue).unique, key);
        claim.is_some_and(|claim| claim.id != id)
    }

    /// Whether a job has a key in a queue. Does not look at the job `except`.
    pub(super) fn is_taken(&self, queue: QueueId, key: KeyHash, except: Option<JobId>) -> bool {
        let claim = self.claim_on(queue, key);
        claim.is_some_and(|claim| Some(claim.id) != except)
            || self.key_holder(queue, key, except, |_| true).is_some()
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
            (UniqueWindow::UntilDone | UniqueWindow::For(_), true) => &[Stage::Waits, Stage::Held],
            (UniqueWindow::UntilDone | UniqueWindow::For(_), false) => {
                &[Stage::Waits, Stage::Held, Stage::Buried]
            }
        };
        let is_in_window = |slot| self.window_end(slot, queue).is_none_or(|until| until > self.now);
        let found = stages.iter().flat_map(|stage| {
            self.meter.count(1);
            self.jobs.with_unique_key(queue, key, *stage).take(SAME_UNIQUE_MAX)
        });
        let mut others = found.filter(|slot| Some(self.jobs[*slot].id()) != except);
        others
            .find(|slot| is_in_window(*slot) && self.is_lasting(*slot, queue) && is_possible(*slot))
    }

    /// Whether a job still exists for its clients. A request or a timer ends an expired job later, and
    /// the removal of a queue ends the queue's jobs in slices.
    fn is_lasting(&self, slot: JobSlot, queue: QueueId) -> bool {
        let job = &self.jobs[slot];
        let removal_end = self.queues[queue].extension().map(Extension::removal_end);
        let is_removed =
            self.queues[queue].removals() > 0 && removal_end.is_some_and(|end| job.order() < end);
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
