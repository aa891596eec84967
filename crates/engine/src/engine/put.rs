//! Putting: a job enters a queue, and all other queues on the route of the put.

mod keys;
mod no_job;
mod room;
mod route;
mod submit;
mod unique;

pub use route::Refused;
pub use submit::Submit;

use super::Engine;
use crate::effects::{Effects, Record};
use crate::ids::{JobId, JobSlot, Millis, QueueId, SessionId};
use crate::jobs::{Body, Draft, Job, JobKind, NewJob, PutKeys, State};
use crate::limits::{PUT_ENDS_MAX, UNIT_BODY_BYTES};
use crate::policy::{PRIORITY_DEFAULT, QueueSync, Unsent};
use crate::queues::Extension;
use crate::wall::When;
use keys::KnownKeys;
use route::Routed;
pub(super) use unique::{Admitted, Offer};

impl Engine {
    /// Puts a job into the queue that this session uses, and into all other queues on the route.
    /// Returns the job's number.
    pub fn put(
        &mut self,
        session: SessionId,
        job: NewJob,
        body: Body,
        effects: &mut Effects,
    ) -> Result<JobId, Refused> {
        self.put_partly(session, job, Unsent::NOTHING, body, effects)
    }

    /// Puts a job of which the client did not send everything. If the policy of a queue has the
    /// values that are missing, they replace the values of `job`.
    #[inline]
    pub fn put_partly(
        &mut self,
        session: SessionId,
        job: NewJob,
        unsent: Unsent,
        body: Body,
        effects: &mut Effects,
    ) -> Result<JobId, Refused> {
        self.meter.begin_request();
        let queue = self.sessions[session].used();
        let draft = Draft {
            priority: job.priority,
            due: When::At(self.now.plus_seconds(job.delay_s)),
            delay_s: job.delay_s,
            ttr_s: job.ttr_s,
            unsent,
            expires: None,
            reducer: None,
            foreground: false,
            body,
        };
        self.put_into(queue, draft, Some(session), effects)
    }

    /// Adds an item to the queue of this name, and to all other queues on the route. If necessary,
    /// makes the queue, marks it as a queue of items and keeps it in existence. The caller must
    /// check [`Engine::admits_child`] first. `client`: the session whose client adds the item.
    pub fn add(
        &mut self,
        client: Option<SessionId>,
        name: &[u8],
        body: Body,
        expires: Option<When>,
        effects: &mut Effects,
    ) -> Result<(), Refused> {
        self.meter.begin_request();
        let draft = Draft {
            priority: PRIORITY_DEFAULT,
            due: When::At(Millis(0)),
            delay_s: 0,
            ttr_s: 0,
            unsent: Unsent::ALL,
            expires,
            reducer: None,
            foreground: false,
            body,
        };
        if self.alias(name).is_none() {
            let queue = self.item_queue(name, effects);
            if self.queues[queue].extension().is_some_and(Extension::is_single) {
                return self.put_into(queue, draft, client, effects).map(|_| ());
            }
        }
        let route = self.route_to(name, true, effects);
        let routed = self.put_along(route, &draft, (b"", client), effects);
        routed.refused.map_or(Ok(()), Err)
    }

    /// Skips one job number, so that no new job gets it. Returns the number.
    pub fn skip_id(&mut self) -> JobId {
        self.jobs.deal_id()
    }

    /// Puts a job into a queue, and into all other queues on the route. Returns the job's number.
    /// `client`: the session whose client puts the job.
    #[inline]
    pub(super) fn put_into(
        &mut self,
        queue: QueueId,
        draft: Draft,
        client: Option<SessionId>,
        effects: &mut Effects,
    ) -> Result<JobId, Refused> {
        match self.queues[queue].extension().map(Extension::is_single) {
            None => Ok(self.put_one(queue, draft, JobKind::Logged, PutKeys::default(), effects)),
            Some(true) => {
                let known = KnownKeys::default();
                match self.admit(queue, Offer::alone(&draft, client, &known), effects)? {
                    Admitted::New(keys) => {
                        let kind = self.kind_in(queue);
                        Ok(self.put_one(queue, draft, kind, keys, effects))
                    }
                    Admitted::Same(slot) => Ok(self.jobs[slot].id()),
                    Admitted::Ended(id) => Ok(id),
                }
            }
            Some(false) => {
                let name = self.queues[queue].owned_name();
                let route = self.route_to(&name, false, effects);
                let routed = self.put_along(route, &draft, (b"", client), effects);
                self.answer(&routed)
            }
        }
    }

    /// Puts a job into one queue. The caller has checked that the queue has room. Returns the job's
    /// number.
    #[inline]
    fn put_one(
        &mut self,
        queue: QueueId,
        draft: Draft,
        kind: JobKind,
        keys: PutKeys,
        effects: &mut Effects,
    ) -> JobId {
        // The job will get this number. Reading the number from the job would cost another memory
        // access.
        let id = JobId(self.jobs.next_id());
        let slot = self.insert_job(queue, draft, kind);
        if keys.are_given() {
            self.set_keys(slot, keys);
        }
        self.note(Record::Put, slot, effects);
        self.list_new_job(slot, effects);
        id
    }

    /// Gives a new job its keys.
    #[cold]
    fn set_keys(&mut self, slot: JobSlot, keys: PutKeys) {
        if let Some(key) = keys.unique {
            self.jobs.set_unique_key(slot, key);
        }
        self.jobs.set_group_key(slot, keys.group);
    }

    /// The job number for the reply to a put along a route. Usually it is the number of the job in
    /// the requested queue, or of the job that has the key of the put there. If the requested queue
    /// stored no job, it is the number of the first job on the route. A put can be accepted although
    /// no queue stores a job. Then the reply gets a new number, and no job gets this number.
    pub(super) fn answer(&mut self, routed: &Routed) -> Result<JobId, Refused> {
        if let Some(refused) = routed.refused {
            return Err(refused);
        }
        let made = |slot: JobSlot| self.jobs[slot].id();
        let id = routed.requested.map(made).or(routed.same).or(routed.ended);
        let id = id.or_else(|| routed.first.map(made));
        Ok(id.unwrap_or_else(|| self.jobs.deal_id()))
    }

    /// Makes a job, adds it to the tables, and counts the put. The job is in no list yet.
    #[inline]
    pub(super) fn insert_job(
        &mut self,
        queue: QueueId,
        mut draft: Draft,
        kind: JobKind,
    ) -> JobSlot {
        if draft.unsent != Unsent::NOTHING {
            self.fill_in(queue, &mut draft, kind);
        }
        let body_bytes = draft.body.len();
        let due = self.wall.moment_of(draft.due);
        let expires = draft.expires.map(|expires| self.wall.moment_of(expires));
        let goes_by = draft.expires.unwrap_or(draft.due).wall();
        let id = self.jobs.deal_id();
        let slot = self.add_job(Job::new((id, queue, kind), self.now, (due, expires), draft));
        if let Some(wall) = goes_by {
            self.jobs.set_wall_time(slot, wall);
        }
        self.tally.puts += 1;
        self.queues[queue].count_put(body_bytes);
        slot
    }

    /// Replaces what the client did not send by the defaults of the queue's policy. A foreground job
    /// is never delayed, because its client waits.
    fn fill_in(&self, queue: QueueId, draft: &mut Draft, kind: JobKind) {
        let Some(policy) = self.policy_of(queue) else { return };
        let (defaults, unsent) = (policy.defaults, draft.unsent);
        if unsent.priority {
            draft.priority = defaults.priority;
        }
        if unsent.ttr {
            draft.ttr_s = defaults.ttr_s.unwrap_or(draft.ttr_s);
        }
        if unsent.delay && kind != JobKind::Watched {
            draft.delay_s = defaults.delay_s;
            draft.due = When::At(self.now.plus_seconds(defaults.delay_s));
        }
    }

    /// Adds a job to the tables, but not to a list of its queue.
    pub(super) fn add_job(&mut self, job: Job) -> JobSlot {
        self.meter.count(1 + job.body_len() / UNIT_BODY_BYTES);
        self.queues[job.queue()].count_in(job.counted());
        self.jobs.insert(job)
    }

    /// Hands a new job to a waiter, or adds it to a list of its queue. If a new item has already
    /// expired and is the head of its queue, the item ends at once.
    pub(super) fn list_new_job(&mut self, slot: JobSlot, effects: &mut Effects) {
        let job = &self.jobs[slot];
        match job.state() {
            State::Ready if job.expires().is_some() && self.is_expired(slot) => {
                let queue = job.queue();
                self.deliver_or_list(slot, effects);
                self.sweep(queue, PUT_ENDS_MAX, effects);
            }
            State::Ready => self.deliver_or_list(slot, effects),
            State::Delayed | State::Leased | State::Buried => self.add_to_list(slot),
        }
    }

    /// The kind of a new job in this queue, as the queue's policy says.
    pub(super) fn kind_in(&self, queue: QueueId) -> JobKind {
        match self.policy_of(queue).and_then(|policy| policy.sync) {
            Some(QueueSync::Memory) => JobKind::Memory,
            Some(QueueSync::Always | QueueSync::Every(_) | QueueSync::Never) | None => {
                JobKind::Logged
            }
        }
    }
}
