//! A job in the engine's table.

use std::num::NonZeroU64;

use super::body::{JobBody, Kept};
use super::counts::CountedJob;
use super::dead::Death;
use super::draft::Draft;
use super::facts::{Body, Counters, JobFacts, JobKind, PutKeys, State, Tags};
use super::keys::Unique;
use crate::crons::Fired;
use crate::ids::{JobId, LeaseId, Millis, QueueId, SessionId};

/// A job in the engine's table. The type is small, because there can be a hundred million jobs.
///
/// Only [`super::Jobs`] changes the fields that counts and indexes depend on.
#[derive(Debug)]
pub(crate) struct Job {
    id: JobId,
    created: Millis,
    /// The meaning depends on the state. Delayed: when the job becomes ready. Leased: the deadline.
    /// Ready: when the job became ready after a delay or by a request of a client, or else 0.
    /// Buried: no meaning.
    due: Millis,
    body: Kept,
    pub(super) extension: Option<Box<JobExtension>>,
    queue: QueueId,
    priority: u32,
    ttr_s: u32,
    state: State,
    /// What keeps the job in existence: its watchers, the process or the log. A watched job can
    /// later become a job of another kind.
    kind: JobKind,
    /// The memory of the job's optional parts, in units of [`super::bytes`].
    pub(super) extra_units: u16,
}

/// The optional parts of a job. Most jobs of a long queue were put and never taken. They need no
/// optional parts.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct JobExtension {
    delay_s: u32,
    /// The moment of the last hand-out, in milliseconds, without its upper 32 bits.
    taken: u32,
    counters: Counters,
    /// The order number, if it differs from the job's id.
    order: Option<NonZeroU64>,
    buried_order: u64,
    /// The job expires after this moment, in milliseconds. The type cannot store moment 0, so
    /// moment 0 becomes moment 1.
    expires: Option<NonZeroU64>,
    lease: Option<Lease>,
    pub(super) outcome: Option<Box<Outcome>>,
}

/// Further optional parts. Only these jobs have them: jobs with watchers, submitted jobs, and jobs
/// whose worker has reported progress.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Outcome {
    /// The job was made by a submit. If not, its key and its reducer have no meaning.
    submitted: bool,
    /// See [`JobFacts::attempts`].
    attempts: u32,
    pub(super) death: Option<Box<Death>>,
    pub(super) unique: Unique,
    pub(super) reducer: Box<[u8]>,
    /// Sessions that wait for the outcome. A session is in the list once per attachment.
    watchers: Vec<SessionId>,
    numerator: u32,
    denominator: u32,
}

impl Outcome {
    /// Whether the log has all of it, the job's body need not be in memory, and the job is in no index
    /// of dead letters.
    pub(super) fn is_bare(&self) -> bool {
        let has_progress = (self.numerator, self.denominator) != (0, 0);
        let stays = self.death.is_some() || matches!(self.unique, Unique::Body(_));
        self.watchers.is_empty() && !has_progress && !stays
    }
}

/// The lease of a job: its number, the holder, and the holder's limit.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) struct Lease {
    pub(crate) id: LeaseId,
    pub(crate) holder: SessionId,
    /// The lease ends at this moment at the latest. A touch does not change it.
    pub(crate) until: Millis,
}

/// A moment of expiry, as a [`JobExtension`] stores it.
fn expiry(moment: Millis) -> NonZeroU64 {
    NonZeroU64::new(moment.0).unwrap_or(NonZeroU64::MIN)
}

/// Makes jobs.
impl Job {
    /// Makes a job for a put.
    #[inline]
    pub(crate) fn new(
        (id, queue, kind): (JobId, QueueId, JobKind),
        now: Millis,
        (due, expires): (Millis, Option<Millis>),
        draft: Draft,
    ) -> Self {
        let mut job = Self {
            id,
            created: now,
            due,
            body: Kept::Resident(draft.body),
            extension: None,
            queue,
            priority: draft.priority,
            ttr_s: draft.ttr_s,
            state: if due > now { State::Delayed } else { State::Ready },
            kind,
            extra_units: 0,
        };
        if draft.delay_s > 0 {
            job.extension().delay_s = draft.delay_s;
        }
        if let Some(expires) = expires {
            job.set_expires(expires);
        }
        if let Some(reducer) = draft.reducer {
            let outcome = job.outcome_mut();
            outcome.submitted = true;
            outcome.reducer = reducer;
        }
        job
    }

    /// Makes a job from the log. The caller chooses the state, because a delayed job of the log can
    /// be due by now.
    pub(crate) fn restored(
        queue: QueueId,
        facts: &JobFacts,
        state: State,
        (due, expires): (Millis, Option<Millis>),
        tags: Option<Tags<'_>>,
        body: JobBody,
    ) -> Self {
        let mut outcome = tags.map(|Tags { unique, reducer }| {
            let (unique, reducer) = (Unique::new(unique), reducer.into());
            Box::new(Outcome { submitted: true, unique, reducer, ..Outcome::default() })
        });
        if facts.attempts > 0 {
            outcome.get_or_insert_default().attempts = facts.attempts;
        }
        if facts.death.is_some() {
            outcome.get_or_insert_default().death.clone_from(&facts.death);
        }
        let extension = JobExtension {
            delay_s: facts.delay_s,
            taken: 0,
            counters: facts.counters,
            order: NonZeroU64::new(facts.order).filter(|order| order.get() != facts.id.0),
            buried_order: facts.buried_order,
            expires: expires.map(expiry),
            lease: None,
            outcome,
        };
        Self {
            id: facts.id,
            created: facts.created,
            due,
            body: match body {
                JobBody::Resident(body) => Kept::Resident(body),
                stored => Kept::Stored(stored.len() as u64),
            },
            extension: (extension != JobExtension::default()).then(|| Box::new(extension)),
            queue,
            priority: facts.priority,
            ttr_s: facts.ttr_s,
            state,
            kind: JobKind::Logged,
            extra_units: 0,
        }
    }
}

/// Reads jobs.
impl Job {
    pub(crate) fn id(&self) -> JobId {
        self.id
    }

    pub(crate) fn queue(&self) -> QueueId {
        self.queue
    }

    pub(crate) fn state(&self) -> State {
        self.state
    }

    pub(crate) fn kind(&self) -> JobKind {
        self.kind
    }

    pub(crate) fn is_logged(&self) -> bool {
        self.kind == JobKind::Logged
    }

    pub(crate) fn priority(&self) -> u32 {
        self.priority
    }

    pub(crate) fn body(&self) -> JobBody {
        self.body.to_job_body()
    }

    /// The body, if it is in memory.
    pub(crate) fn resident_body(&self) -> Option<&Body> {
        self.body.resident()
    }

    pub(crate) fn body_len(&self) -> usize {
        self.body.len()
    }

    pub(crate) fn created(&self) -> Millis {
        self.created
    }

    pub(crate) fn due(&self) -> Millis {
        self.due
    }

    pub(crate) fn ttr_s(&self) -> u32 {
        self.ttr_s
    }

    pub(crate) fn counted(&self) -> CountedJob {
        CountedJob {
            state: self.state,
            priority: self.priority,
            body_bytes: self.body_len(),
            is_stored: self.resident_body().is_none(),
        }
    }

    pub(crate) fn lease(&self) -> Option<Lease> {
        self.extension.as_ref().and_then(|extension| extension.lease)
    }

    /// The time since the last hand-out of a leased job. It is exact up to 49 days.
    pub(crate) fn leased_for_ms(&self, now: Millis) -> u64 {
        let taken = self.extension.as_ref().map_or(0, |extension| extension.taken);
        u64::from((now.0 as u32).wrapping_sub(taken))
    }

    pub(crate) fn expires(&self) -> Option<Millis> {
        let expires = self.extension.as_ref().and_then(|extension| extension.expires);
        expires.map(|moment| Millis(moment.get()))
    }

    /// The moment from which the age of a ready job counts. If the job became ready after its put,
    /// the age counts from the moment when it became ready. So a job that was just kicked is not
    /// old.
    pub(crate) fn ready_since(&self) -> Millis {
        self.created.max(self.due)
    }

    /// Whether the job can have a time of the wall clock at which it is due or expires. If not, the
    /// engine does not search the table of these times.
    #[inline]
    pub(crate) fn may_go_by_wall(&self) -> bool {
        self.state == State::Delayed || self.expires().is_some()
    }

    pub(crate) fn order(&self) -> u64 {
        let order = self.extension.as_ref().and_then(|extension| extension.order);
        order.map_or(self.id.0, NonZeroU64::get)
    }

    /// The key of the job among the ready jobs of its queue.
    pub(crate) fn ready_key(&self) -> (u32, u64) {
        (self.priority, self.order())
    }

    /// The key of the job among the delayed jobs of its queue.
    pub(crate) fn delayed_key(&self) -> (Millis, u64) {
        (self.due, self.id.0)
    }

    /// The key of the job among the buried jobs of its queue.
    pub(crate) fn buried_order(&self) -> u64 {
        self.extension.as_ref().map_or(0, |extension| extension.buried_order)
    }

    pub(crate) fn counters(&self) -> Counters {
        self.extension.as_ref().map_or_else(Counters::default, |extension| extension.counters)
    }

    /// See [`JobFacts::attempts`].
    pub(crate) fn attempts(&self) -> u32 {
        self.outcome().map_or(0, |outcome| outcome.attempts)
    }

    /// Why the job is a dead letter. `None`: it is not.
    pub(crate) fn death(&self) -> Option<&Death> {
        self.outcome().and_then(|outcome| outcome.death.as_deref())
    }

    fn outcome(&self) -> Option<&Outcome> {
        self.extension.as_ref().and_then(|extension| extension.outcome.as_deref())
    }

    pub(crate) fn tags(&self) -> Option<Tags<'_>> {
        let outcome = self.outcome().filter(|outcome| outcome.submitted)?;
        Some(Tags { unique: outcome.unique.as_bytes(), reducer: &outcome.reducer })
    }

    pub(crate) fn is_submitted(&self) -> bool {
        self.outcome().is_some_and(|outcome| outcome.submitted)
    }

    /// Whether the job is only in memory and not buried. If the process ends, the work of such a
    /// job is lost.
    pub(crate) fn is_unlogged(&self) -> bool {
        self.kind != JobKind::Logged && self.state != State::Buried
    }

    pub(crate) fn unique(&self) -> &[u8] {
        self.outcome().map_or(&[], |outcome| outcome.unique.as_bytes())
    }

    /// The hash of the body. `None`: the body is not the job's key.
    pub(super) fn body_hash(&self) -> Option<u64> {
        match &self.outcome()?.unique {
            Unique::Bytes(_) => None,
            Unique::Body(hash) => Some(*hash),
        }
    }

    pub(crate) fn watchers(&self) -> &[SessionId] {
        self.outcome().map_or(&[], |outcome| &outcome.watchers)
    }

    /// Whether the job exists only for its watchers, and no watcher is left.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.kind == JobKind::Watched && self.watchers().is_empty()
    }

    /// The last progress that the worker reported, as numerator and denominator.
    pub(crate) fn progress(&self) -> (u32, u32) {
        self.outcome().map_or((0, 0), |outcome| (outcome.numerator, outcome.denominator))
    }

    /// The facts of the job for the log. `keys` are the keys that it got when it was put. `wall` is
    /// the time of the wall clock at which the job expires or is due. `None`: the job has no such
    /// time. `fired` is the firing that put the job.
    #[inline]
    pub(crate) fn facts(
        &self,
        wall: Option<Millis>,
        keys: PutKeys,
        fired: Option<Fired>,
    ) -> JobFacts {
        let due = match self.state {
            State::Delayed => self.due,
            State::Ready if self.due > self.created => self.due,
            State::Ready | State::Leased | State::Buried => Millis(0),
        };
        JobFacts {
            id: self.id,
            priority: self.priority,
            order: self.order(),
            state: if self.state == State::Leased { State::Ready } else { self.state },
            created: self.created,
            due,
            buried_order: if self.state == State::Buried { self.buried_order() } else { 0 },
            ttr_s: self.ttr_s,
            delay_s: self.extension.as_ref().map_or(0, |extension| extension.delay_s),
            counters: self.counters(),
            attempts: self.attempts(),
            death: self.outcome().and_then(|outcome| outcome.death.clone()),
            expires: self.expires(),
            wall,
            key: keys.unique,
            group: keys.group,
            fired,
        }
    }
}

/// Changes to fields that no table of [`super::Jobs`] depends on. But a queue's lists are sorted by
/// the due time, the priority and the order number. If one of these three changes, the job must be
/// in no list.
impl Job {
    fn extension(&mut self) -> &mut JobExtension {
        self.extension.get_or_insert_default()
    }

    fn outcome_mut(&mut self) -> &mut Outcome {
        self.extension().outcome.get_or_insert_default()
    }

    /// Sets the field `due`, whose meaning depends on the state.
    pub(crate) fn set_due(&mut self, due: Millis) {
        self.due = due;
    }

    pub(crate) fn set_delay_s(&mut self, delay_s: u32) {
        self.extension().delay_s = delay_s;
    }

    pub(crate) fn set_expires(&mut self, expires: Millis) {
        self.extension().expires = Some(expiry(expires));
    }

    /// Gives the job a new order number, and so the last place among the jobs of its priority.
    pub(crate) fn set_order(&mut self, order: JobId) {
        self.extension().order = NonZeroU64::new(order.0);
    }

    /// Notes that a session gets the job now.
    pub(crate) fn set_taken(&mut self, now: Millis) {
        self.extension().taken = now.0 as u32;
    }

    pub(crate) fn set_lease(&mut self, lease: Option<Lease>) {
        self.extension().lease = lease;
    }

    /// Sets the priority of a leased job. A ready job would also have to move in the list of its
    /// queue.
    pub(crate) fn set_priority(&mut self, priority: u32) {
        assert!(self.state == State::Leased, "only leased jobs change their priority");
        self.priority = priority;
    }

    /// Sets the priority and the due time of a job that is in no list, and that no session holds.
    pub(super) fn set_urgency(&mut self, priority: u32, due: Millis) {
        assert!(self.state != State::Leased, "the due time of a leased job is its deadline");
        (self.priority, self.due) = (priority, due);
    }

    pub(super) fn set_counters(&mut self, counters: Counters) {
        self.extension().counters = counters;
    }

    /// Increments one of the job's counters.
    pub(crate) fn count(&mut self, counter: impl FnOnce(&mut Counters) -> &mut u32) {
        let counter = counter(&mut self.extension().counters);
        *counter = counter.saturating_add(1);
    }

    /// Counts a failed attempt. Returns the new number.
    pub(crate) fn count_attempt(&mut self) -> u32 {
        let attempts = &mut self.outcome_mut().attempts;
        *attempts = attempts.saturating_add(1);
        *attempts
    }

    /// The job can fail as often as a new job.
    pub(crate) fn forget_attempts(&mut self) {
        if let Some(outcome) =
            self.extension.as_mut().and_then(|extension| extension.outcome.as_mut())
        {
            outcome.attempts = 0;
        }
    }

    pub(crate) fn add_watcher(&mut self, watcher: SessionId) {
        self.outcome_mut().watchers.push(watcher);
    }

    /// Removes all attachments of a watcher. Returns the number of entries that it compared.
    pub(crate) fn remove_watcher(&mut self, watcher: SessionId) -> usize {
        let watchers = &mut self.outcome_mut().watchers;
        let compared = watchers.len();
        watchers.retain(|other| *other != watcher);
        compared
    }

    pub(crate) fn take_watchers(&mut self) -> Vec<SessionId> {
        std::mem::take(&mut self.outcome_mut().watchers)
    }

    pub(crate) fn set_progress(&mut self, numerator: u32, denominator: u32) {
        let outcome = self.outcome_mut();
        (outcome.numerator, outcome.denominator) = (numerator, denominator);
    }

    /// Resets the progress, because the next holder starts from the beginning.
    pub(crate) fn forget_progress(&mut self) {
        if let Some(outcome) =
            self.extension.as_mut().and_then(|extension| extension.outcome.as_mut())
        {
            (outcome.numerator, outcome.denominator) = (0, 0);
        }
    }
}

/// Changes that only [`super::Jobs`] makes, because its tables depend on them.
impl Job {
    /// Sets the state to another one. The table at [`State`] shows why a state changes.
    pub(super) fn set_state(&mut self, next: State) {
        let state = self.state;
        assert!(next != state, "a job went from {state:?} to {next:?}");
        self.state = next;
    }

    /// Removes the body from memory. The log must have the body.
    pub(super) fn store_body(&mut self) {
        self.body = Kept::Stored(self.body.len() as u64);
    }

    /// Loads a stored body: `body` has the bytes that the caller read from the log.
    pub(super) fn load_body(&mut self, body: Body) {
        assert_eq!(body.len(), self.body.len(), "the body of job {}", self.id);
        self.body = Kept::Resident(body);
    }

    pub(super) fn replace_body(&mut self, body: Body) {
        self.body = Kept::Resident(body);
    }

    pub(super) fn set_kind(&mut self, kind: JobKind) {
        self.kind = kind;
    }

    pub(super) fn set_unique(&mut self, unique: &[u8]) {
        self.outcome_mut().unique = Unique::new(unique);
    }

    /// Sets the hash of the body, which is the job's key.
    pub(super) fn set_body_hash(&mut self, hash: u64) {
        self.outcome_mut().unique = Unique::Body(hash);
    }

    pub(super) fn death_mut(&mut self) -> Option<&mut Death> {
        self.extension.as_mut()?.outcome.as_mut()?.death.as_deref_mut()
    }

    pub(super) fn set_death(&mut self, death: Option<Box<Death>>) {
        self.outcome_mut().death = death;
    }

    pub(super) fn forget_expiry(&mut self) {
        self.extension().expires = None;
    }

    pub(super) fn set_buried_order(&mut self, order: u64) {
        self.extension().buried_order = order;
    }

    /// Moves the job to another queue, as if a client put it there at the moment `created`.
    pub(super) fn set_queue(&mut self, queue: QueueId, created: Millis, order: JobId) {
        self.queue = queue;
        self.created = created;
        self.set_order(order);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_small() {
        assert_eq!(std::mem::size_of::<Job>(), 64);
        // The allocator hands out blocks of 96 bytes. The next larger block has 16 bytes more.
        assert_eq!(std::mem::size_of::<JobExtension>(), 96);
        // A block of 80 bytes.
        assert_eq!(std::mem::size_of::<Outcome>(), 80);
    }
}
