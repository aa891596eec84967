//! Requests that only read: facts of jobs and queues, and statistics.

use super::{Engine, NotFound};
use crate::claims::CLAIM_BYTES;
use crate::ids::{JobId, JobSlot, Millis, QueueId, SessionId};
use crate::jobs::{Job, JobBody, JobFacts, JobStatus, State, Tags};
use crate::limits::KEY_HEADS_MAX;
use crate::policy::QueueSync;
use crate::queues::{Extension, Lanes, PauseReason, Queue, QueueFacts};
use crate::sessions::NEVER;
use crate::tally::JobTimes;

/// Statistics of one queue.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub struct QueueStats {
    /// Ready jobs with a priority below 1024.
    pub urgent: u64,
    /// Ready jobs.
    pub ready: u64,
    /// Leased jobs.
    pub leased: u64,
    /// Delayed jobs.
    pub delayed: u64,
    /// Buried jobs.
    pub buried: u64,
    /// Dead letters that no session holds. Most of them are ready or buried.
    pub dead: u64,
    /// Jobs put into this queue since the process made the queue.
    pub puts: u64,
    /// Sessions that use the queue.
    pub users: u64,
    /// Sessions that watch the queue.
    pub watchers: u64,
    /// Sessions that wait for jobs of the queue.
    pub waiters: u64,
    /// Jobs that clients finished, or whose workers reported the end.
    pub finishes: u64,
    /// Ready and delayed jobs, one number for each [`crate::Band`].
    pub bands: [u64; 3],
    /// Registrations of workers for the queue.
    pub workers: u64,
    /// Pauses of the queue that clients requested.
    pub pauses: u64,
    /// The requested length of the present pause in seconds. 0 if the queue is not paused.
    pub pause_s: u32,
    /// Milliseconds until the present pause ends. 0 if the queue is not paused.
    pub pause_left_ms: u64,
    /// Whether the policy pauses the queue. The other numbers are about the pause of a client.
    pub paused_by_policy: bool,
    /// Milliseconds until this pause can end. 0 if the policy does not pause the queue now, or
    /// pauses it until the policy changes.
    pub policy_pause_left_ms: u64,
    /// Milliseconds since the put of the next ready job. 0 if no job is ready.
    pub head_age_ms: u64,
    /// Bytes of the bodies of ready jobs.
    pub ready_bytes: u64,
}

/// Statistics over all queues.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub struct Totals {
    /// Ready jobs with a priority below 1024.
    pub urgent: u64,
    /// Ready jobs.
    pub ready: u64,
    /// Leased jobs.
    pub leased: u64,
    /// Delayed jobs.
    pub delayed: u64,
    /// Buried jobs.
    pub buried: u64,
    /// Queues that exist.
    pub queues: u64,
    /// Sessions that are open.
    pub sessions: u64,
    /// Sessions that wait for a job.
    pub waiting_sessions: u64,
    /// Unfinished jobs that are only in memory. Buried jobs do not count.
    pub unlogged: u64,
    /// Jobs put since the process started.
    pub puts: u64,
    /// Hand-outs of jobs since the process started.
    pub takes: u64,
    /// Jobs that their holders gave back on purpose, since the process started.
    pub releases: u64,
    /// Jobs that their holders buried, since the process started.
    pub buries: u64,
    /// Jobs that ended since the process started, for any reason.
    pub ends: u64,
    /// Bytes of the bodies of ready jobs.
    pub ready_bytes: u64,
    /// Queues of items that the process has made.
    pub item_queue_creates: u64,
    /// Queues of items that the process has removed, including idle queues.
    pub item_queue_deletes: u64,
    /// Queues that the process has removed because they were idle.
    pub idle_queue_deletes: u64,
    /// Leases that ended at their deadline, since the process started.
    pub timeouts: u64,
    /// Puts that stored nothing because another job had their key, since the process started. Without
    /// those that were refused.
    pub duplicates: u64,
    /// Jobs that the policy `unique` could not give a key, since the process started.
    pub keyless: u64,
}

impl Totals {
    /// Jobs in all states.
    pub fn jobs(&self) -> u64 {
        self.ready + self.leased + self.delayed + self.buried
    }
}

impl Engine {
    /// The facts of a job, as the log stores them.
    pub fn facts(&self, slot: JobSlot) -> JobFacts {
        let job = &self.jobs[slot];
        let keys = self.jobs.keys_of(job.id());
        job.facts(self.jobs.wall_time(slot), keys, self.firing_of(job.id()))
    }

    /// The tags of a job that was made by a submit, as the log stores them. Other jobs have no
    /// tags.
    pub fn tags(&self, slot: JobSlot) -> Option<Tags<'_>> {
        self.jobs[slot].tags()
    }

    /// Whether the log stores a job.
    pub fn is_durable(&self, slot: JobSlot) -> bool {
        self.jobs[slot].is_logged()
    }

    /// The facts of a queue, apart from its jobs, as the log stores them.
    pub fn queue_facts(&self, queue: QueueId) -> QueueFacts {
        let queue = &self.queues[queue];
        let extension = queue.extension();
        let items = extension.is_some_and(Extension::items);
        QueueFacts {
            kept: queue.is_kept(),
            limits: queue.limits(),
            items,
            child: extension.is_some_and(Extension::child),
            created: extension
                .filter(|_| items)
                .map(|extension| extension.created)
                .unwrap_or_default(),
        }
    }

    /// All jobs that were made by a submit, in the order of their places. Only tests and the
    /// simulator use this function. These jobs have an index of their own, because there can be
    /// millions of other jobs.
    pub fn submitted_jobs(&self) -> impl Iterator<Item = JobSlot> {
        self.jobs.submitted_from(JobSlot(0))
    }

    /// All leased jobs, for tests and the simulator.
    pub fn leased_jobs(&self) -> impl Iterator<Item = JobSlot> {
        let jobs = self.jobs.iter();
        jobs.filter(|(_, job)| job.state() == State::Leased).map(|(slot, _)| slot)
    }

    /// No job has this number or a higher one.
    pub fn next_job_id(&self) -> JobId {
        JobId(self.jobs.next_id())
    }

    /// The queue of a job.
    pub fn queue_of(&self, slot: JobSlot) -> QueueId {
        self.jobs[slot].queue()
    }

    /// The body of a job.
    pub fn body(&self, slot: JobSlot) -> JobBody {
        self.jobs[slot].body()
    }

    /// The length of a job's body.
    pub fn body_len(&self, slot: JobSlot) -> usize {
        self.jobs[slot].body_len()
    }

    /// The number of the job at this place, if the place has a job.
    pub fn id_at(&self, slot: JobSlot) -> Option<JobId> {
        self.jobs.get(slot).map(Job::id)
    }

    /// The `sync` setting of a queue's policy. `None`: the policy does not set it.
    pub fn queue_sync(&self, queue: QueueId) -> Option<QueueSync> {
        self.queues.get(queue)?.extension()?.policy().sync
    }

    /// The number of a job.
    pub fn id_of(&self, slot: JobSlot) -> JobId {
        self.jobs[slot].id()
    }

    /// The present facts and the queue of a job.
    pub fn job_status(&self, id: JobId) -> Result<JobStatus, NotFound> {
        let slot = self.slot(id)?;
        let job = &self.jobs[slot];
        let timed = matches!(job.state(), State::Delayed | State::Leased) && job.due() != NEVER;
        Ok(JobStatus {
            facts: JobFacts { state: job.state(), ..self.facts(slot) },
            queue: job.queue(),
            time_left_ms: if timed { job.due().since(self.now) } else { 0 },
            body_len: job.body_len(),
        })
    }

    /// The first job of this state in the queue that the session uses. For ready jobs it is the
    /// next job, even if the queue is paused. For delayed jobs it is the job with the earliest due
    /// time. For buried jobs it is the job that was buried first. Leased jobs have no order, so the
    /// result is an error.
    pub fn first_used(&self, session: SessionId, state: State) -> Result<JobSlot, NotFound> {
        let queue = &self.queues[self.used(session)];
        let first = match state {
            State::Ready => queue.ready().first().map(|(_, slot)| slot),
            State::Delayed => queue.delayed().first().map(|(_, slot)| slot),
            State::Buried => queue.buried().first().map(|(_, slot)| slot),
            State::Leased => None,
        };
        first.map(JobSlot).ok_or(NotFound)
    }

    /// When the next ready job of a queue was put.
    pub(super) fn head_created(&self, queue: &Queue) -> Option<Millis> {
        let cold = queue.first_cold(State::Ready).filter(|_| queue.is_first_cold(State::Ready));
        let cold = cold.and_then(|(_, id)| self.jobs.blocks().get(id));
        let resident = || queue.first_ready().map(|slot| self.jobs[slot].created());
        cold.map(|block| block.facts.created).or_else(resident)
    }

    /// The name of a queue.
    pub fn queue_name(&self, queue: QueueId) -> &[u8] {
        self.queues[queue].name()
    }

    /// All queues, oldest first. A loop over all of them takes time in proportion to their number.
    /// So only an operation on all queues may use this function.
    pub fn queue_ids(&self) -> impl Iterator<Item = QueueId> {
        self.queues.ids()
    }

    /// How long the first jobs of the keys of a queue have been ready, in milliseconds, if the keys
    /// share its hand-outs. These are the keys that have waited longest, at most [`KEY_HEADS_MAX`].
    pub fn oldest_key_heads_ms(&self, id: QueueId) -> Vec<u64> {
        let lanes = self.queues[id].extension().and_then(Extension::lanes);
        let heads = lanes.into_iter().flat_map(Lanes::oldest_heads);
        heads.take(KEY_HEADS_MAX).map(|since| self.now.since(since)).collect()
    }

    /// Statistics of one queue.
    pub fn queue_stats(&self, id: QueueId) -> QueueStats {
        let queue = &self.queues[id];
        let paused_by_policy = self.is_paused_by_policy(queue);
        let turns = queue.extension().filter(|_| paused_by_policy);
        let turns = turns.and_then(|extension| self.pause_turns(extension));
        let pause = queue.pause().filter(|pause| pause.until > self.now);
        let pause = pause.and_then(|pause| match pause.reason {
            PauseReason::Requested { seconds } => Some((seconds, pause.until)),
            PauseReason::Serving => None,
        });
        let head = self.head_created(queue);
        QueueStats {
            urgent: u64::from(queue.counts().urgent),
            ready: u64::from(queue.counts().ready),
            leased: u64::from(queue.counts().leased),
            delayed: u64::from(queue.counts().delayed),
            buried: u64::from(queue.counts().buried),
            dead: self.jobs.dead_count(id),
            puts: queue.puts(),
            // A put that waits for room also holds the queue, but its session is no second user.
            users: u64::from(queue.users()) - self.room.waiting(id),
            watchers: u64::from(queue.watchers()),
            waiters: queue.waiters().len() as u64,
            finishes: queue.finishes(),
            bands: queue.counts().bands.map(u64::from),
            workers: u64::from(queue.workers()),
            pauses: queue.pauses(),
            pause_s: pause.map_or(0, |(seconds, _)| seconds),
            pause_left_ms: pause.map_or(0, |(_, until)| until.since(self.now)),
            paused_by_policy,
            policy_pause_left_ms: turns.map_or(0, |moment| moment.since(self.now)),
            head_age_ms: head.map_or(0, |created| self.now.since(created)),
            ready_bytes: queue.counts().bytes,
        }
    }

    /// Bytes of memory that jobs, queues, sessions, claims, warnings and what observers keep use. A
    /// claim counts from the put of its job on, so that no end of a job needs memory.
    pub fn memory_bytes(&self) -> u64 {
        let tables = self.jobs.bytes() + self.queues.bytes() + self.sessions.bytes();
        let claims = self.claims.bytes() + self.jobs.outlasting_keys() * CLAIM_BYTES;
        let tables = tables + claims + self.room.bytes() + self.warnings.bytes();
        if self.is_observed { tables + self.observed_bytes() } else { tables }
    }

    /// How long jobs waited and were leased.
    pub fn job_times(&self) -> &JobTimes {
        &self.tally.times
    }

    /// The number of jobs in all queues and states.
    pub fn job_count(&self) -> u64 {
        self.jobs.counts().total()
    }

    /// Statistics over all queues.
    pub fn totals(&self) -> Totals {
        Totals {
            urgent: u64::from(self.jobs.counts().urgent),
            ready: u64::from(self.jobs.counts().ready),
            leased: u64::from(self.jobs.counts().leased),
            delayed: u64::from(self.jobs.counts().delayed),
            buried: u64::from(self.jobs.counts().buried),
            unlogged: self.jobs.unlogged(),
            queues: self.queues.len() as u64,
            sessions: self.sessions.len() as u64,
            waiting_sessions: self.sessions.waiting(),
            puts: self.tally.puts,
            takes: self.tally.takes,
            releases: self.tally.releases,
            buries: self.tally.buries,
            ends: self.tally.ends,
            ready_bytes: self.jobs.counts().bytes,
            item_queue_creates: self.tally.item_queue_creates,
            item_queue_deletes: self.tally.item_queue_deletes,
            idle_queue_deletes: self.tally.idle_queue_deletes,
            timeouts: self.tally.timeouts,
            duplicates: self.tally.duplicates_joined,
            keyless: self.tally.keyless,
        }
    }
}
