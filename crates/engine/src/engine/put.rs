//! Putting: a job enters a queue, and all queues that this queue feeds.

mod route;
mod submit;

pub use route::Refused;
pub use submit::Submit;

use super::Engine;
use crate::effects::{Effects, Record};
use crate::ids::{JobId, JobSlot, Millis, QueueId, SessionId};
use crate::jobs::{Body, Draft, Job, JobKind, NewJob, State};
use crate::limits::{PUT_ENDS_MAX, UNIT_BODY_BYTES};
use crate::policy::QueueSync;
use crate::queues::Extension;
use crate::wall::When;
use route::Routed;

/// The priority of an item: a producer of items does not give one.
const PRIORITY: u32 = 1024;

impl Engine {
    /// Puts a job into the queue that this session uses, and into all queues that this queue feeds.
    /// Returns the job's number.
    pub fn put(
        &mut self,
        session: SessionId,
        job: NewJob,
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
            expires: None,
            reducer: None,
            foreground: false,
            body,
        };
        self.put_into(queue, draft, effects)
    }

    /// Adds an item to the queue of this name, and to all queues that it feeds. Makes, marks and
    /// keeps the queue. The caller must check [`Engine::admits_child`] first.
    pub fn add(
        &mut self,
        name: &[u8],
        body: Body,
        expires: Option<When>,
        effects: &mut Effects,
    ) -> Result<(), Refused> {
        self.meter.begin_request();
        let draft = Draft {
            priority: PRIORITY,
            due: When::At(Millis(0)),
            delay_s: 0,
            ttr_s: 0,
            expires,
            reducer: None,
            foreground: false,
            body,
        };
        if self.alias(name).is_none() {
            let queue = self.item_queue(name, effects);
            if self.queues[queue].extension().is_some_and(Extension::is_single) {
                return self.put_into(queue, draft, effects).map(|_| ());
            }
        }
        let route = self.route_to(name, true, effects);
        let routed = self.put_along(route, &draft, effects);
        routed.refused.map_or(Ok(()), Err)
    }

    /// Skips a number: no job gets it.
    pub fn skip_id(&mut self) {
        self.jobs.deal_id();
    }

    /// Puts a job into a queue, and into all queues that it feeds. Returns the job's number.
    #[inline]
    fn put_into(
        &mut self,
        queue: QueueId,
        draft: Draft,
        effects: &mut Effects,
    ) -> Result<JobId, Refused> {
        match self.queues[queue].extension().map(Extension::is_single) {
            None => Ok(self.put_one(queue, draft, JobKind::Logged, effects)),
            Some(true) => {
                self.admit(queue, draft.body.len(), effects)?;
                Ok(self.put_one(queue, draft, self.kind_in(queue), effects))
            }
            Some(false) => {
                let name = self.queues[queue].owned_name();
                let route = self.route_to(&name, false, effects);
                let routed = self.put_along(route, &draft, effects);
                self.answer(&routed)
            }
        }
    }

    /// Puts a job into one queue, which has room for it. Returns the job's number.
    #[inline]
    fn put_one(
        &mut self,
        queue: QueueId,
        draft: Draft,
        kind: JobKind,
        effects: &mut Effects,
    ) -> JobId {
        // The number that the job will get. Cheaper than a look at the job.
        let id = JobId(self.jobs.next_id());
        let slot = self.insert_job(queue, draft, kind);
        self.note(Record::Put, slot, effects);
        self.list_new_job(slot, effects);
        id
    }

    /// The number for the reply. It is the number of the job in the requested queue, or else of a
    /// job in a queue that this one fed. If the put was accepted but no queue kept it, the number
    /// belongs to no job.
    pub(super) fn answer(&mut self, routed: &Routed) -> Result<JobId, Refused> {
        match (routed.refused, routed.requested.or(routed.first)) {
            (Some(refused), _) => Err(refused),
            (None, Some(slot)) => Ok(self.jobs[slot].id()),
            (None, None) => Ok(self.jobs.deal_id()),
        }
    }

    /// Adds a new job to the tables and counts it. The job is in no list yet.
    #[inline]
    pub(super) fn insert_job(&mut self, queue: QueueId, draft: Draft, kind: JobKind) -> JobSlot {
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

    /// Adds a new job to the tables, but not to a list of its queue.
    pub(super) fn add_job(&mut self, job: Job) -> JobSlot {
        self.meter.count(1 + job.body().len() / UNIT_BODY_BYTES);
        self.queues[job.queue()].count_in(job.counted());
        self.jobs.insert(job)
    }

    /// Delivers or lists a new job, or delays it until it is due. If a new item has already expired
    /// and is the head of its queue, this call removes it.
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

    /// The kind of the jobs that are put into this queue: how long they live.
    pub(super) fn kind_in(&self, queue: QueueId) -> JobKind {
        match self.policy_of(queue).and_then(|policy| policy.sync) {
            Some(QueueSync::Memory) => JobKind::Memory,
            Some(QueueSync::Always | QueueSync::Every(_) | QueueSync::Never) | None => {
                JobKind::Logged
            }
        }
    }
}
